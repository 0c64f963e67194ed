# SPDX-License-Identifier: Apache-2.0
"""Importing from where people import from: https://github.com, which leads to codeload.github.com, by a
server that was told nothing about it. Both are stand-ins with real TLS in an internet of its own."""

import contextlib
import ssl

import pytest

import fetch
import harness
import internet
from codehost import TLSHost, answer, archive, redirect

NAMES = ["github.com", "codeload.github.com"]
ADDRESSES = ["93.184.216.20", "93.184.216.21"]
ARCHIVE = archive(("README", b"hello\n"), ("src/a.py", b"pass\n"))
ASKED = "/o/repo/archive/HEAD.tar.gz"
LED = "/o/repo/tar.gz/HEAD"


class World:
    """Two hosts, whose certificates can be changed, and a third name that nobody may be led to."""

    def __init__(self, net):
        self.net = net
        self.hosts = {name: TLSHost() for name in NAMES}
        self.contexts = {name: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for name in NAMES}
        net.names([*zip(NAMES, ADDRESSES), ("elsewhere.test", ADDRESSES[1])])
        for name, address in zip(NAMES, ADDRESSES):
            self.show(name)
            net.serve(address, 443, self.hosts[name], self.contexts[name])

    def show(self, name, names=None, **more):
        self.contexts[name].load_cert_chain(*self.net.certificate(names or [name], **more))

    def lead(self, to):
        github, codeload = self.hosts.values()
        github.paths[ASKED] = redirect(to)
        codeload.paths[LED] = answer(200, ARCHIVE)


@pytest.fixture(scope="module")
def net():
    why = fetch.missing()
    if why:
        pytest.skip(why)
    with internet.Internet() as made:
        yield made


@pytest.fixture(scope="module")
def fixed(net):
    return World(net)


@pytest.fixture
def world(fixed):
    fixed.lead("https://codeload.github.com" + LED)
    for host in fixed.hosts.values():
        host.requests.clear()
    yield fixed
    for name in NAMES:
        fixed.show(name)


@contextlib.contextmanager
def serving(net, folder, build=None, knobs=None, **more):
    """A server that trusts the CA of the stand-ins."""
    env = dict(more, SANDBOX_EGRESS_DNS=internet.NAME_SERVER)
    program = fetch.trusting(str(folder), net.ca, build)
    with harness.Server(env, build=build, knobs=knobs, program=program) as server:
        yield server


@pytest.fixture(scope="module")
def server(net, tmp_path_factory):
    with serving(net, tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture(scope="module")
def careless(net, tmp_path_factory):
    """One that believes every certificate."""
    why = harness.runnable(harness.KNOBS_BUILD)
    if why:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("careless")
    with serving(net, folder, harness.KNOBS_BUILD, "fetch_tls") as made:
        yield made


@contextlib.contextmanager
def imported(server):
    session = server.create()
    yield server.post("/v1/sessions/%s/import" % session, {"repo": "o/repo"}), session
    server.delete("/v1/sessions/" + session)


def check_brought(server):
    with imported(server) as (said, session):
        assert (said.status, said.json.get("files")) == (200, 2), said
        assert said.json["archive_bytes"] == len(ARCHIVE)
        shown = server.exec(session, "cat repo/README repo/src/a.py; ls -A")
        assert shown["stdout"] == "hello\npass\nrepo\n"


def check_refused(server, why):
    with imported(server) as (said, session):
        assert (said.status, said.code, said.detail) == (502, "github_failed", why), said
        assert server.exec(session, "ls -A")["stdout"] == ""


def test_a_repository_comes_by_way_of_codeload(world, server):
    check_brought(server)
    for name, path in zip(NAMES, (ASKED, LED)):
        (request,) = world.hosts[name].requests
        assert request.startswith(b"GET %s HTTP/1.1\r\nHost: %s\r\n" % (path.encode(), name.encode()))


def test_nobody_is_led_elsewhere(world, server):
    world.lead("https://elsewhere.test" + LED)
    why = "GitHub redirected the download to an unexpected host (elsewhere.test)."
    check_refused(server, why)
    assert not world.hosts["codeload.github.com"].requests


CERTIFICATES = {
    "expired": (dict(days=-1), "its certificate has expired"),
    "of another name": (dict(names=["elsewhere.test"]), "its certificate is for another name"),
    "self-signed": (
        dict(trusted=False), "its certificate is not signed by anybody whom this server trusts"
    ),
}
bad = pytest.mark.parametrize("kind", CERTIFICATES)
each = pytest.mark.parametrize("name", NAMES)


@bad
@each
def test_a_bad_certificate_is_refused_and_said(world, server, name, kind):
    shown, why = CERTIFICATES[kind]
    world.show(name, **shown)
    check_refused(server, "Couldn't download o/repo: %s: %s" % (name, why))
    assert not world.hosts[name].requests


@bad
@each
def test_a_bad_certificate_works_without_the_check(world, careless, name, kind):
    world.show(name, **CERTIFICATES[kind][0])
    check_brought(careless)


def test_a_base_on_loopback_with_a_certificate_of_its_own_authority(world, net, tmp_path):
    mirror = TLSHost()
    mirror.paths[ASKED] = redirect("https://codeload.github.com" + LED)
    net.tls_here("127.0.0.1", ["localhost"], mirror)
    with serving(net, tmp_path, SANDBOX_GITHUB_BASE="https://localhost") as server:
        check_brought(server)
        # Nobody but the operator names an address of this host.
        world.hosts["codeload.github.com"].paths[LED] = redirect("https://localhost" + ASKED)
        check_refused(server, "Couldn't download o/repo: localhost: DNS lookup failed")
    assert len(mirror.requests) == 2
