# SPDX-License-Identifier: Apache-2.0
"""Attacks on the network from a sandbox that has egress, in the style of test_probes.py: each probe
answers "did it hold?", must hold on the release build, must not hold with the layers of `red` off, and
must still hold with those of `elsewhere` off.

Canaries: a listener on every address of the host (port 443, the one that the gateway dials, and
another), and peers on public addresses that note the first bytes they see. Rows of the catalogue's
network group that are not here:

  164 166 (routes, listeners)   test_probes.py
  170 173 178 179 181 182 184 185 187 193 194 196 203   test/system/test_egress_faults.py
  168  no SOCKS is offered                196  TLS is not opened, plain HTTP is not relayed
  202  test/system/test_egress_faults.py  205  test/system/test_egress_tools.py
  190  stays, and is said in docs/egress.md
"""

import collections
import contextlib
import socket
import threading
import time

import pytest

import egress
import awake
import harness
import internet
import reach
from egress import forbidden_name
from harness import KEYS
from nameserver import NameServer

LIAR = "93.184.216.59"
# Addresses of the host that are public in the world, and names for them.
OWN, OWN6 = "93.184.219.7", "2606:2800:220:1::77"
OWN_NAME, OWN6_NAME = "own.here.good.test", "own6.here.good.test"
CANARY_PORT = 9443

Probe = collections.namedtuple("Probe", "number name function red elsewhere why")
PROBES = []


def probe(number, name, red=(), elsewhere=(), why=None):
    assert bool(red) != bool(why)

    def add(function):
        PROBES.append(Probe(number, name, function, tuple(red), tuple(elsewhere), why))
        return function

    return add


class Canary:
    """Listens on every address of the host and counts who comes."""

    def __init__(self, port):
        self.hits = 0
        self._stream = socket.socket(socket.AF_INET6)
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._stream.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self._stream.bind(("::", port))
        self._stream.listen(128)
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self):
        while True:
            try:
                connection, _ = self._stream.accept()
            except OSError:
                return
            self.hits += 1
            connection.close()


@pytest.fixture(scope="module")
def world():
    why = egress.missing()
    if why:
        pytest.skip(why)
    names = egress.NAMES + [
        (OWN_NAME, OWN), (OWN6_NAME, OWN6), ("outside.test", egress.WWW), ("lo.good.test", "127.0.0.1")
    ]
    with egress.World(names=names, start=False) as opened:
        internet._ip("addr", "add", OWN + "/32", "dev", "wan")
        internet._ip("addr", "add", OWN6 + "/128", "dev", "wan", "nodad")
        opened.canary, opened.other_canary = Canary(443), Canary(CANARY_PORT)
        opened.liar = NameServer(opened.net, LIAR)
        yield opened
        opened.liar.close()


class Here:
    """One server, and what a probe does with it."""

    def __init__(self, world, off):
        self.world = world
        self.off = off or ""
        # A sandbox in the host's network namespace cannot have egress.
        self.rules = [] if "net" in self.off.split(",") else egress.RULES

    def session(self, key=KEYS["a"]):
        return self.world.session(egress=self.rules, key=key)

    @contextlib.contextmanager
    def box(self, key=KEYS["a"]):
        made = self.session(key)
        yield made
        self.world.server.delete("/v1/sessions/" + made, key=key)

    def reach(self, *attempts):
        with self.box() as session:
            return self.world.reach(session, *attempts)

    def quiet(self, *attempts):
        """Makes attempts; whether no canary of the host has heard of any."""
        before = self.world.canary.hits, self.world.other_canary.hits
        self.results = self.reach(*attempts)
        # An accepted connection is counted before its client sees the end.
        return (self.world.canary.hits, self.world.other_canary.hits) == before


def both(name):
    """The proxy and the direct way to a name."""
    return [
        ["proxy", {"authority": name + ":443"}],
        ["direct", {"address": "198.51.100.9", "name": name}],
        ["direct", {"address": "2001:db8::9", "name": name}],
    ]


# ---- The host ----


@probe(199, "the host is not reached by a name that points to one of its addresses",
       red=["egress_address"], elsewhere=["egress_rules", "egress_sni"])
def _(here):
    kinds = ["loopback", "loopback-six", "own", "own-six"]
    names = [OWN_NAME, OWN6_NAME, "lo.good.test"] + [forbidden_name(kind) for kind in kinds]
    return here.quiet(*[attempt for name in names for attempt in both(name)])


HOST = [internet.HOST4, internet.HOST6, OWN, OWN6, "127.0.0.1", "::1", "0.0.0.0", "::"]


@probe(199, "the host is not reached by an address, at the proxy or directly",
       red=["egress_rules,egress_address", "net"], elsewhere=["egress_rules", "egress_address"])
def _(here):
    attempts = []
    for at in HOST:
        shown = "[%s]" % at if ":" in at else at
        for port in (443, CANARY_PORT, here.world.server.port):
            if here.rules:
                attempts.append(["proxy", {"authority": "%s:%d" % (shown, port)}])
            attempts.append(["direct", {"address": at, "port": port, "name": at}])
    return here.quiet(*attempts)


@probe(199, "the API is not reached through the gateway, on any port it may listen on", red=["net"])
def _(here):
    port = here.world.server.port
    raw = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".hex()
    attempts = [["direct", {"address": at, "port": port, "first": raw, "line": ""}] for at in HOST[:5]]
    if here.rules:
        attempts += [["proxy", {"authority": "%s:%d" % (name, port)}] for name in
                     (OWN_NAME, "lo.good.test", "127.0.0.1")]
    results = here.reach(*attempts)
    return not any(result.get("got") or result.get("status") == 200 for result in results)


@probe(199, "an address that the host gets later is its own at once", red=["egress_address"])
def _(here):
    later = "93.184.219.8"
    here.world.net.add_names(("later.good.test", later))
    internet._ip("addr", "add", later + "/32", "dev", "wan")
    try:
        return here.quiet(*both("later.good.test"))
    finally:
        internet._ip("addr", "del", later + "/32", "dev", "wan")


# ---- Other sandboxes ----


@probe(197, "a server in another sandbox is not reached", red=["net"])
def _(here):
    world = here.world
    serve = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_INET6); s.setsockopt(41, 26, 0); s.bind(('::', 8123)); s.listen()\n"
        "open('up', 'w').close()\n"
        "s.settimeout(0.05)\n"
        "import os\n"
        "while not os.path.exists('go'):\n"
        "    try: c, _ = s.accept(); c.sendall(b'reached'); c.close()\n"
        "    except OSError: pass\n"
    )

    def run(session):
        return world.server.exec(session, "python3 -", 30, key=KEYS["b"], stdin=serve)

    with here.box(KEYS["b"]) as other:
        path = "/v1/sessions/%s/" % other
        with harness.in_background(run, other):
            harness.wait_until(
                lambda: world.server.get(path + "read?path=up", key=KEYS["b"]).json["content"] == "",
                "it serves",
            )
            addresses = ["127.0.0.1", "::1", internet.HOST4, internet.HOST6]
            # Of the host's network nobody answers for these.
            addresses += ["198.18.0.1", "10.0.0.1"] if here.rules else []
            results = here.reach(
                *[["direct", {"address": at, "port": 8123, "first": "", "line": ""}] for at in addresses]
            )
            world.server.post(path + "write", {"path": "go", "content": ""}, key=KEYS["b"])
    return not any(result.get("got") for result in results)


@probe(197, "a session reaches by its own rules, whatever another one may", red=["egress_rules"])
def _(here):
    made = here.world.session(egress=["exact.test"])
    with here.box():
        results = here.world.reach(made, *both("www.good.test"))
        good = here.world.reach(made, ["proxy", {"authority": "exact.test:443"}])
    here.world.server.delete("/v1/sessions/" + made)
    assert good[0]["got"] == 100
    return not any(result["got"] for result in results if "got" in result)


# ---- Names ----


@probe(169, "a name that is not allowed has no address and is asked of nobody", red=["egress_rules"],
       elsewhere=["egress_address", "egress_sni"])
def _(here):
    results = here.reach(
        *[["dns", {"name": "secret-%d.test" % i, "server": at, "tcp": tcp}]
          for i in range(5) for at in ("9.9.9.9", "8.8.8.8", "2620:fe::fe") for tcp in (False, True)]
    )
    asked = [name for name in here.world.net.questions() if name.startswith("secret-")]
    assert not asked
    return {result["rcode"] for result in results} == {3}


@probe(170, "other kinds of questions are answered with nothing", red=["egress_rules"])
def _(here):
    kinds = [2, 5, 6, 10, 12, 15, 16, 33, 35, 64, 65, 252, 255, 65535]
    results = here.reach(
        *[["dns", {"name": name, "kind": kind, "server": "8.8.8.8"}]
          for kind in kinds for name in ("www.good.test", "outside.test")]
    )
    assert {(r["rcode"], r["answers"]) for r in results[::2]} == {(0, 0)}
    return {(r["rcode"], r["answers"]) for r in results[1::2]} == {(3, 0)}


@probe(172, "no literal is dialled, in no spelling", red=["egress_rules"])
def _(here):
    names = ["93.184.216.34", "[2606:2800:220:1::20]", "1572395042", "0x5db8d822"]
    results = here.reach(
        *[["proxy", {"authority": name + ":443", "name": "www.good.test"}] for name in names],
        ["direct", {"address": "93.184.216.34", "name": "93.184.216.34"}],
    )
    return not any(result.get("got") or result.get("status") == 200 for result in results)


@probe(175, "a name is not dialled when its addresses are not public", red=["egress_address"],
       elsewhere=["egress_rules", "egress_sni"])
def _(here):
    kinds = ["loopback", "loopback-six", "own", "own-six"]
    results = here.reach(*[["proxy", {"authority": forbidden_name(kind) + ":443"}] for kind in kinds])
    return {result["status"] for result in results} == {403}


@probe(176, "a name whose second answer is this host is not dialled the second time",
       red=["egress_address"])
def _(here):
    with here.world.beside({"SANDBOX_EGRESS_DNS": LIAR}, knobs=here.off or None) as other:
        del here.world.liar.asked[:]
        there = Here(other, here.off)
        held = there.quiet(*both("rebind.good.test"))
        assert there.results[0]["status"] == 200
        return held


# ---- What goes through ----


@probe(188, "a tunnel to an allowed name carries no TLS for another", red=["egress_sni"],
       elsewhere=["egress_rules", "egress_address"])
def _(here):
    before = len(here.world.peer.hellos)
    here.reach(*[
        ["proxy", {"authority": "www.good.test:443", "first": first.hex()}]
        for first in (reach.hello("other.test"), reach.hello("exact.test"), reach.hello(None))
    ])
    return len(here.world.peer.hellos) == before


@probe(191, "a tunnel to an allowed name carries nothing but TLS", red=["egress_sni"])
def _(here):
    before = len(here.world.peer.hellos)
    # Looks like a record to the peer of these tests, and like no ClientHello to anybody.
    record = b"\x17\x03\x03\x00\x05hello"
    here.reach(["proxy", {"authority": "www.good.test:443", "first": record.hex()}])
    return len(here.world.peer.hellos) == before


@probe(206, "connections leave no trace in the host's tables",
       why="they never touch the host's stack: what could be taken out is the design")
def _(here):
    def sockets():
        with open("/proc/thread-self/net/sockstat") as file:
            return int(file.read().split("TCP: inuse ")[1].split()[0])

    before = sockets()
    with here.box() as session:
        here.world.code(
            session,
            "for i in range(2000):\n"
            "    s = socket.socket(); s.setblocking(False)\n"
            "    s.connect_ex(('198.51.%d.%d' % (i >> 8, i & 255), 443)); s.close()\n"
            "show(0)\n",
        )
        return sockets() <= before + 16


@probe(200, "the tunnels of a session that ends are closed within a second",
       why="no layer stands before it; test/system/test_egress.py sees its log")
def _(here):
    # The machine may keep one process from running, which awake does not see: any of three may be in time.
    return any(seconds_to_the_end(here) < 1 for _ in range(3))


def seconds_to_the_end(here):
    """Of a tunnel, as its peer sees it, from the order to end its session."""
    world = here.world
    made = here.session()
    opened = threading.Event()
    peers = len(world.peer.taken)
    code = (
        "s = open_tunnel('www.good.test:443', line=b'hold 1\\n')\ns.recv(1)\n"
        "print('open', flush=True)\ns.recv(1)\n"
    )

    def run():
        with contextlib.suppress(Exception):
            for _ in world.server.stream(made, "python3 -", 30, stdin="from reach import *\n" + code):
                opened.set()

    with harness.in_background(run):
        assert opened.wait(60)
        began = awake.seconds()
        world.server.delete("/v1/sessions/" + made)
        harness.wait_until(lambda: len(world.peer.taken) > peers, "the peer sees its end")
        return awake.seconds() - began


# ---- Running them ----


@pytest.fixture(scope="module")
def held(world):
    with world.beside() as other:
        yield Here(other, None)


class Knobs:
    """One server at a time, by the layers that are off."""

    def __init__(self, world):
        self._world = world
        self._stack = contextlib.ExitStack()
        self._off = None

    def get(self, off):
        if off != self._off:
            self._stack.close()
            self._off = off
            self._here = Here(self._stack.enter_context(self._world.beside(knobs=off)), off)
        return self._here

    def close(self):
        self._stack.close()


@pytest.fixture(scope="module")
def knobs(world):
    why = harness.runnable(harness.KNOBS_BUILD)
    if why:
        (pytest.fail if harness.CI else pytest.skip)(why)
    running = Knobs(world)
    yield running
    running.close()


def name_of(entry):
    return "%d %s" % (entry.number, entry.name)


RED = sorted([(p, off) for p in PROBES for off in p.red], key=lambda pair: pair[1])
ELSEWHERE = sorted([(p, off) for p in PROBES for off in p.elsewhere], key=lambda pair: pair[1])
# In the order of the layers, so that each server is started once.
BOTH = sorted(
    [(p, off, True) for p, off in RED] + [(p, off, False) for p, off in ELSEWHERE],
    key=lambda row: row[1],
)


@pytest.mark.parametrize("entry", PROBES, ids=name_of)
def test_held(entry, held):
    assert entry.function(held)


@pytest.mark.parametrize(
    "entry, off, red", BOTH,
    ids=["%s: %s off, %s" % (name_of(p), off, "red" if red else "held") for p, off, red in BOTH],
)
def test_without_layers(entry, off, red, knobs):
    holds = entry.function(knobs.get(off))
    if red:
        assert not holds, "it holds although the layer is off: it tests nothing"
    else:
        assert holds, "one layer alone stood between the attack and its aim"
