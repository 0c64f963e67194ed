# SPDX-License-Identifier: Apache-2.0
"""Downloads that the gateway does for airlockd: the real gateway, asked by hand, in an internet of its
own. Peers are hostile ones: each answers in its own wrong way."""

import contextlib
import os
import socket
import subprocess
import threading

import pytest

import fetch
import harness
import internet
from codehost import TLSHost as Host
from codehost import answer, redirect
from nameserver import NameServer

GITHUB, CODELOAD, EVIL, SIX = "93.184.216.20", "93.184.216.21", "93.184.216.22", "93.184.216.23"
GITHUB6 = "2606:2800:220:1::10"
WRONG, DEAD = "93.184.216.24", "93.184.216.25"
LIAR = "93.184.216.59"
BODY = os.urandom(100000)


class World:
    def __init__(self, net):
        self.net = net
        net.names([
            ("github.com", GITHUB),
            ("six.test", GITHUB6),
            ("codeload.github.com", CODELOAD),
            ("evil.test", EVIL),
            ("private.test", "10.0.0.1"),
            ("loop.test", "127.0.0.1"),
            ("own.test", internet.HOST4),
            ("metadata.test", "169.254.169.254"),
            ("mixed.test", GITHUB, "10.0.0.1"),
            ("wrong.test", WRONG),
            ("dead.test", DEAD),
            # The first one refuses.
            ("second.test", DEAD, GITHUB),
        ])
        self.github, self.codeload, self.evil = Host(), Host(), Host()
        names = ["github.com", "six.test", "second.test", "mixed.test", "rebind.good.test"]
        self.seen = net.tls(GITHUB, names, self.github)
        net.tls(GITHUB6, names, self.github)
        net.tls(CODELOAD, ["codeload.github.com"], self.codeload)
        net.tls(EVIL, ["evil.test"], self.evil)
        net.tls(WRONG, ["other.test"], self.evil)

    def path(self, path, what, host=None):
        (host or self.github).paths[path] = what


@pytest.fixture(scope="module")
def world():
    why = fetch.missing()
    if why:
        pytest.skip(why)
    with internet.Internet() as net:
        yield World(net)


@pytest.fixture(scope="module")
def shared(world):
    with fetch.Gateway(world.net) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    yield shared
    assert shared.process.poll() is None
    shared.cancel_all()
    # The innocent next one; a machine that stands still for ten seconds is no fault of the gateway.
    after = shared.get("https://github.com/")
    if after.text.endswith("it does not answer in time"):
        after = shared.get("https://github.com/")
    assert after.end == "status", after


@pytest.fixture(autouse=True)
def no_paths(world):
    for host in (world.github, world.codeload, world.evil):
        host.paths.clear()
        host.requests.clear()
        host.release.clear()
    yield
    for host in (world.github, world.codeload, world.evil):
        host.release.set()


# ---- What works --------------------------------------------------------------------------------


def test_the_bytes_are_the_bytes(world, gateway):
    world.path("/a.tar.gz", answer(200, BODY, b"Content-Encoding: gzip"))
    got = gateway.get("https://github.com/a.tar.gz")
    assert got[:4] == ("ok", 200, len(BODY), "")
    assert got.body == BODY
    request = world.github.requests[0].decode().lower()
    assert "user-agent: airlock-sandbox\r\n" in request
    for field in ("cookie", "authorization", "accept-encoding", "proxy"):
        assert field not in request


def test_a_chain_of_redirects_is_followed(world, gateway):
    world.path("/a", redirect("/b", 301))
    world.path("/b", redirect("//codeload.github.com/c?token=1", 307))
    world.path("/c?token=1", redirect("d", 308), world.codeload)
    world.path("/d", redirect("https://GITHUB.com:443/e#f", 303), world.codeload)
    world.path("/e", redirect("https://codeload.github.com/f"))
    world.path("/f", answer(200, BODY), world.codeload)
    got = gateway.get("https://github.com/a")
    assert (got.end, got.body) == ("ok", BODY)


def test_chunks_are_put_together(world, gateway):
    chunks = b"".join(b"%x;x=y\r\n%s\r\n" % (len(BODY[i : i + 999]), BODY[i : i + 999])
                      for i in range(0, len(BODY), 999))
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    world.path("/a", head + chunks + b"0\r\nX-Trailer: y\r\n\r\n")
    assert gateway.get("https://github.com/a").body == BODY


def test_by_ipv6_and_by_the_second_address(world, gateway):
    world.path("/a", answer(200, BODY))
    for name in ("six.test", "second.test"):
        got = gateway.get("https://%s/a" % name, [name])
        assert (got.end, got.body) == ("ok", BODY), name


def test_interim_answers_are_passed_over(world, gateway):
    early = b"HTTP/1.1 103 Early Hints\r\nLocation: https://evil.test/\r\n\r\n"
    world.path("/a", early + early + answer(200, BODY))
    assert gateway.get("https://github.com/a").body == BODY


# ---- Where it may not lead ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "location, where",
    [
        ("http://github.com/b", "http://github.com"),
        ("https://evil.test/b", "evil.test"),
        ("https://github.com.evil.test/b", "github.com.evil.test"),
        ("https://github.com@evil.test/b", "evil.test"),
        ("https://x:y@github.com/b", "github.com"),
        ("https://github.com:8443/b", "github.com:8443"),
        ("https://127.0.0.1/b", "127.0.0.1"),
        ("https://169.254.169.254/latest/meta-data", "169.254.169.254"),
        ("https://[::1]/b", "[::1]"),
        ("https://%s/b" % EVIL, EVIL),
        ("file:///etc/passwd", "file://"),
        ("ftp://github.com/b", "ftp://github.com"),
    ],
)
def test_a_redirect_elsewhere_is_refused(world, gateway, location, where):
    world.path("/a", redirect(location))
    world.path("/b", answer(200, b"secret"), world.evil)
    got = gateway.get("https://github.com/a")
    assert got == ("redirect", 302, 0, where, b"")
    assert not world.evil.requests


@pytest.mark.parametrize("location", ["https://github.com/a b", "https://[/", "https://github.com:99999/",
                                      "https://github.com/\xe4", "https://" + "a" * 5000 + "/", ""])
def test_a_malformed_redirect_is_an_answer(world, gateway, location):
    world.path("/a", redirect(location))
    got = gateway.get("https://github.com/a")
    assert got.end in ("failed", "status") and not got.body


def test_two_locations_are_no_answer(world, gateway):
    world.path("/a", answer(302, b"", b"Location: /b", b"Location: https://evil.test/"))
    got = gateway.get("https://github.com/a")
    assert (got.end, got.text) == ("failed", "github.com: its answer is malformed")


def test_five_redirects_and_no_more(world, gateway):
    for i in range(6):
        world.path("/%d" % i, redirect("/%d" % (i + 1)))
    world.path("/6", answer(200, BODY))
    assert gateway.get("https://github.com/1").end == "ok"
    got = gateway.get("https://github.com/0")
    assert (got.end, got.text) == ("failed", "github.com: too many redirects")


@pytest.mark.parametrize("name", ["private.test", "loop.test", "own.test", "metadata.test", "mixed.test"])
def test_a_name_with_an_address_that_is_not_public_is_refused(world, gateway, name):
    world.path("/a", redirect("https://%s/b" % name))
    got = gateway.get("https://github.com/a", ["github.com", name])
    assert (got.end, got.text) == ("failed", name + ": resolves to a private or reserved address")


def test_a_name_that_is_not_there(gateway):
    got = gateway.get("https://nowhere.test/a", ["nowhere.test"])
    assert (got.end, got.text) == ("failed", "nowhere.test: DNS lookup failed")


def test_what_was_judged_is_what_is_dialled(world):
    """A name that answers something else when it is asked again."""
    world.path("/a", redirect("/b"))
    world.path("/b", answer(200, BODY))
    liar = NameServer(world.net, LIAR)
    liar.__class__ = type("Rebinding", (NameServer,), {
        "_rebind": lambda self, q, tcp: self._only(
            q, 1, GITHUB if self.count(q.name) <= 1 else "127.0.0.1")})
    before = len(world.seen)
    with contextlib.closing(liar), fetch.Gateway(world.net, dns=LIAR) as gateway:
        got = gateway.get("https://rebind.good.test/a", ["rebind.good.test"])
        assert got.end == "failed" and "private or reserved" in got.text
    assert len(world.seen) == before + 1


# ---- What is not believed ----------------------------------------------------------------------


def test_the_certificate_must_be_for_that_name_by_a_known_ca(world, gateway):
    got = gateway.get("https://wrong.test/a", ["wrong.test"])
    assert (got.end, got.text) == ("failed", "wrong.test: its certificate is for another name")
    # The CA that Debian trusts knows nothing of the stand-ins.
    with fetch.Gateway(world.net, ca=fetch.TRUST) as strict:
        got = strict.get("https://github.com/a")
        said = "github.com: its certificate is not signed by anybody whom this server trusts"
        assert (got.end, got.text) == ("failed", said)
    assert not world.evil.requests


def test_without_certificates_it_says_so(world, tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("")
    os.chmod(tmp_path, 0o755)
    with fetch.Gateway(world.net, ca=str(empty)) as gateway:
        got = gateway.get("https://github.com/a")
        assert got.end == "failed" and got.text.endswith("install ca-certificates")


def test_no_proxy_and_no_plain_text(world, gateway):
    world.net.serve(DEAD, 443, lambda c: c.sendall(answer(200, BODY)))
    got = gateway.get("https://dead.test/a", ["dead.test"])
    assert (got.end, got.text) == ("failed", "dead.test: no TLS connection can be made to it")


# ---- What is too much --------------------------------------------------------------------------


def test_too_large_as_announced_before_a_byte_is_kept(world, gateway):
    world.path("/a", answer(200, b"x" * 10, length=1001))
    assert gateway.get("https://github.com/a", max_bytes=1000) == ("too_large", 200, 0, "", b"")
    world.path("/b", answer(200, b"x" * 1000))
    assert gateway.get("https://github.com/b", max_bytes=1000).end == "ok"


def test_an_endless_body_ends(world, gateway):
    def endless(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")

    world.path("/a", endless)
    got = gateway.get("https://github.com/a", max_bytes=100000)
    assert got.end == "too_large" and got.bytes == len(got.body) <= 100000


@pytest.mark.parametrize("field", [b"X: %s\r\n" % (b"a" * 200000), b"X: y\r\n" * 20000])
def test_a_huge_head_ends(world, gateway, field):
    world.path("/a", b"HTTP/1.1 200 OK\r\n" + field + b"\r\n" + BODY)
    got = gateway.get("https://github.com/a")
    assert got.end == "failed" and not got.body


def test_endless_interim_answers_and_trailers_end(world, gateway):
    def interim(connection):
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)

    def trailers(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"X: y\r\n" * 100)

    for what in (interim, trailers):
        world.path("/a", what)
        assert gateway.get("https://github.com/a").end == "failed"


@pytest.mark.parametrize(
    "fields",
    [
        [b"Content-Length: 5", b"Content-Length: 6"],
        [b"Content-Length: -5"],
        [b"Content-Length: 5x"],
        [b"Content-Length: 99999999999999999999999"],
        [b"Content-Length: 5", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: gzip, chunked"],
        [b"Transfer-Encoding: gzip"],
    ],
)
def test_a_body_of_two_minds_is_refused(world, gateway, fields):
    world.path("/a", answer(200, b"5\r\nhello\r\n0\r\n\r\n", *fields, length=False))
    assert gateway.get("https://github.com/a").end == "failed"


@pytest.mark.parametrize("noise", [b"", b"\0" * 100, b"hello", b"HTTP/0.9\r\n\r\n", b"HTTP/2 200\r\n\r\n",
                                   b"HTTP/1.1 101 Switch\r\n\r\nx", b"HTTP/1.1 999999 x\r\n\r\n"])
def test_noise_is_a_failure(world, gateway, noise):
    world.path("/a", noise)
    got = gateway.get("https://github.com/a")
    assert got.end in ("failed", "status") and not got.body


def test_a_body_that_is_cut_short_is_a_failure(world, gateway):
    world.path("/a", answer(200, BODY, length=len(BODY) + 1))
    world.path("/b", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nabc")
    for path in "ab":
        got = gateway.get("https://github.com/" + path)
        assert (got.end, got.text) == ("failed", "github.com: the connection has ended early")


@pytest.mark.parametrize("status", [204, 206, 304, 400, 401, 403, 404, 429, 500, 503])
def test_another_status_is_told_and_its_body_not_read(world, gateway, status):
    world.path("/a", answer(status, BODY))
    assert gateway.get("https://github.com/a") == ("status", status, 0, "", b"")


# ---- Time, and many ----------------------------------------------------------------------------


def test_a_slow_body_is_over_when_its_time_is(world, gateway):
    def slow(connection):
        connection.sendall(answer(200, b"x" * 10, length=1000))
        world.github.release.wait(60)

    world.path("/a", slow)
    for ms in (500, 2000, 8000):
        got = gateway.get("https://github.com/a", timeout_ms=ms)
        if got.bytes:
            break  # else its time was over before the body began
    assert (got.end, got.text, got.bytes) == ("failed", "github.com: the time is up", 10)


FLOODS = {
    "bytes": (b"%x\r\n" % (1 << 40), b"x" * (1 << 20)),
    "extension": (b"1;", b"x" * (1 << 20)),
    "tiny chunks": (b"", b"1\r\nx\r\n" * (1 << 17)),
}


def others_come_through(world, gateway, first, then):
    """Whether two did while a peer sent more than anybody takes; it has not for ever what would be kept."""
    began, over = threading.Semaphore(0), threading.Event()

    def flood(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + first)
        with contextlib.suppress(OSError):
            for _ in range(200):
                connection.sendall(then)
                began.release()
            over.set()
            world.github.release.wait(60)

    world.path("/a", flood)
    world.path("/b", answer(200, BODY), world.codeload)
    file = fetch.memory(b"")
    number = gateway.start("https://github.com/a", max_bytes=1 << 28, timeout_ms=200000, file=file)
    for _ in range(3):
        assert began.acquire(timeout=60)
    # The others come through while it goes on, and it can be stopped.
    # On a busy machine one of them may take longer than a connection or a download may.
    for _ in range(2):
        harness.wait_until(
            lambda: gateway.get("https://codeload.github.com/b").body == BODY, "another comes through"
        )
    went_on = not over.is_set()
    gateway.cancel(number)
    os.close(file)
    return went_on


@pytest.mark.parametrize("flood", FLOODS)
def test_a_peer_that_is_faster_than_we_are_keeps_nobody_waiting(world, gateway, flood):
    # The name server of the others may be what they have waited for.
    assert any(others_come_through(world, gateway, *FLOODS[flood]) for _ in range(5))


def test_sixteen_at_once_and_each_stands_alone(world, gateway):
    def held(connection):
        connection.sendall(answer(200, b"x", length=2))
        world.github.release.wait(60)
        connection.sendall(b"y")

    world.path("/a", held)
    world.path("/b", answer(200, BODY), world.codeload)
    numbers = [gateway.start("https://github.com/a") for _ in range(16)]
    got = gateway.get("https://codeload.github.com/b")
    assert (got.end, got.text) == ("failed", "too many downloads at once; try again")
    gateway.cancel(numbers[7])
    assert gateway.get("https://codeload.github.com/b").body == BODY
    world.github.release.set()
    assert [gateway.wait().body for _ in range(15)] == [b"xy"] * 15


def test_cancelled_in_the_middle_nothing_is_said_or_written(world, gateway):
    begun = threading.Event()
    gone = threading.Event()

    def endless(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                begun.set()
        gone.set()

    world.path("/a", endless)
    file = fetch.memory(b"")
    number = gateway.start("https://github.com/a", max_bytes=1 << 40, timeout_ms=200000, file=file)
    assert begun.wait(60)
    gateway.cancel(number)
    assert gone.wait(60)
    size = os.fstat(file).st_size
    # Answers come in order, so nothing of the first one is left to come.
    assert gateway.get("https://github.com/").end == "status"
    assert os.fstat(file).st_size == size
    os.close(file)


def test_a_new_airlockd_hears_nothing_of_the_old_ones_downloads(world):
    def held(connection):
        connection.sendall(answer(200, b"x", length=2))
        world.github.release.wait(60)

    world.path("/a", held)
    with fetch.Gateway(world.net) as gateway:
        for _ in range(16):
            gateway.start("https://github.com/a")
        gateway.daemon.close()
        gateway.connect()
        assert gateway.get("https://github.com/").end == "status"


def test_a_gateway_that_is_asked_to_end_ends_in_the_middle(world):
    def held(connection):
        connection.sendall(answer(200, b"x", length=2))
        world.github.release.wait(60)

    world.path("/a", held)
    with fetch.Gateway(world.net) as gateway:
        gateway.start("https://github.com/a", timeout_ms=200000)
        harness.wait_until(lambda: world.github.requests, "the request comes")


# ---- The file ----------------------------------------------------------------------------------


def test_a_file_that_cannot_be_written_ends_it(world, gateway, tmp_path):
    world.path("/a", answer(200, BODY))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], check=True)
    try:
        file = os.open(tmp_path, os.O_RDWR | os.O_TMPFILE)
        got = gateway.get("https://github.com/a", file=file)
        os.close(file)
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)
    assert got.end == "no_space" and got.bytes <= 65536


@pytest.mark.parametrize("what", ["read-only", "named", "pipe", "append"])
def test_only_an_unnamed_file_is_taken(world, what, tmp_path):
    fds = []
    if what == "read-only":
        fds = [os.open(os.path.join("/proc/self/fd", str(fetch.memory(b""))), os.O_RDONLY)]
    elif what == "named":
        fds = [os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)]
    elif what == "append":
        fds = [os.open(tmp_path, os.O_RDWR | os.O_TMPFILE | os.O_APPEND)]
    else:
        fds = list(os.pipe())
    gateway = fetch.Gateway(world.net)
    gateway.start("https://github.com/a", file=fds[-1])
    try:
        with pytest.raises((EOFError, ConnectionResetError)):
            gateway.wait()
        gateway.process.wait(60)
        assert "message_refused" in gateway.said()
    finally:
        gateway.close(statuses=(1,))


# ---- The base ----------------------------------------------------------------------------------


def test_the_operators_base_alone_may_be_loopback(world):
    port = harness.free_port()
    host = Host()
    host.paths["/ok"] = answer(200, BODY)
    host.paths["/away"] = redirect("https://github.com/back")
    host.paths["/other"] = redirect("http://127.0.0.1:%d/x" % (port + 1))
    here = "http://127.0.0.1:%d" % port
    world.path("/back", redirect(here + "/ok"))
    with socket.create_server(("127.0.0.1", port)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    host(connection)

        threading.Thread(target=serve, daemon=True).start()
        hosts = ["127.0.0.1", "github.com"]
        with fetch.Gateway(world.net, base=here) as gateway:
            got = gateway.get(here + "/ok", hosts)
            assert (got.end, got.body) == ("ok", BODY)
            got = gateway.get(here + "/away", hosts)
            assert (got.end, got.text) == ("redirect", "http://127.0.0.1")
            got = gateway.get(here + "/other", hosts)
            assert (got.end, got.text) == ("redirect", "http://127.0.0.1")
            # It is not even a step that leads nowhere else.
            got = gateway.get(here + "/ok", ["github.com"])
            assert (got.end, got.text) == ("redirect", "127.0.0.1")
        with fetch.Gateway(world.net) as gateway:
            got = gateway.get(here + "/ok", hosts)
            assert (got.end, got.text) == ("redirect", "http://127.0.0.1")
        listener.shutdown(socket.SHUT_RDWR)
    assert len(host.requests) == 3
