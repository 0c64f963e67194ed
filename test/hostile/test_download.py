# SPDX-License-Identifier: Apache-2.0
"""A code host that attacks the gateway's downloads. Each attack must fail on the release build, and must
succeed with the layer off that is named, so that it is seen to be one."""

import os

import pytest

import fetch
import harness
import internet

GITHUB, EVIL, WRONG = "93.184.216.20", "93.184.216.22", "93.184.216.24"
SECRET = b"what nobody may fetch"


class Says:
    def __init__(self, text):
        self.text = text
        self.asked = 0

    def __call__(self, connection):
        self.asked += 1
        connection.recv(65536)
        connection.sendall(self.text)


def secret():
    return Says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(SECRET), SECRET))


class World:
    def __init__(self, net):
        self.net = net
        net.names([
            ("github.com", GITHUB),
            ("evil.test", EVIL),
            ("wrong.test", WRONG),
            ("own.test", internet.HOST4),
        ])
        net.tls(EVIL, ["evil.test"], secret())
        net.tls(WRONG, ["other.test"], secret())
        # On the host of the server itself.
        net.tls_here(internet.HOST4, ["own.test"], secret())
        net.tls(GITHUB, ["github.com"], self.lead)
        self.location = ""

    def lead(self, connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
                           % self.location.encode())


@pytest.fixture(scope="module")
def world():
    why = fetch.missing()
    if why:
        pytest.skip(why)
    with internet.Internet() as net:
        yield World(net)


# Where it leads to, the hosts that airlockd allows, the layer that holds.
ATTACKS = [
    ("https://evil.test/", ["github.com"], "egress_rules"),
    ("https://own.test/", ["github.com", "own.test"], "egress_address"),
    ("https://wrong.test/", ["github.com", "wrong.test"], "fetch_tls"),
]
LAYERS = [layer for _, _, layer in ATTACKS]


def attack(world, location, hosts, **more):
    world.location = location
    with fetch.Gateway(world.net, **more) as gateway:
        return gateway.get("https://github.com/", hosts)


@pytest.mark.parametrize("location, hosts, layer", ATTACKS, ids=LAYERS)
def test_it_holds(world, location, hosts, layer):
    answer = attack(world, location, hosts)
    assert answer.end in ("redirect", "failed") and not answer.body


@pytest.mark.parametrize("location, hosts, layer", ATTACKS, ids=LAYERS)
def test_without_its_layer_it_does_not(world, location, hosts, layer):
    if not os.access(os.path.join(harness.KNOBS_BUILD, "airlock-gateway"), os.X_OK):
        pytest.skip("the build with switches is not there")
    answer = attack(world, location, hosts, build=harness.KNOBS_BUILD, off=[layer])
    assert answer.body == SECRET
    others = [other for other in LAYERS if other != layer]
    answer = attack(world, location, hosts, build=harness.KNOBS_BUILD, off=others)
    assert not answer.body
