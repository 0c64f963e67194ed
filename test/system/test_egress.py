# SPDX-License-Identifier: Apache-2.0
"""Egress from the inside and from the log: what was tried is what is written, one to one.

The cases of the report list's section E, each a test here, in the suite that is named, or with a line
saying why not:

   82   Node: test_egress_tools.py
   83   test_every_way_to_run_has_the_same_variables; there is no terminal and no snapshot yet
   85   test_addresses_are_no_way_around
   86   test_no_list_is_no_network
   87   there are no deny rules
   89   a session's rules never change, there is no call that updates them; the policy file is here
   90   test_the_target_of_a_plain_request_is_what_is_judged
   91   test_a_fresh_session_is_judged_at_once
   93   there is no plain HTTP: port 80 is refused with 405, test_apt_is_told_at_once
   94   TLS is never opened, so there is no certificate of ours: test_no_certificate_of_ours
   95   test_every_way_to_run_has_the_same_variables
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import threading
import time

import pytest

import egress
import awake
import harness
import internet
import reach
from egress import allow, brief, deny, forbidden_name
from harness import KEYS

MIX = 500
REASONS = {
    "not_connect": "only HTTPS (CONNECT) is supported",
    "no_rule": "host not on allowlist",
    "literal": "host not on allowlist",
    "bad_host": "host not on allowlist",
    "dns_fail": "DNS lookup failed",
    "addr_class": "resolves to a private or reserved address",
    "rebind_suspected": "resolves to a private or reserved address",
    "limit": "too many connections",
    "connect_fail": "upstream connection failed",
    "not_tls": "not TLS",
    "no_sni": "no TLS server name",
    "sni_mismatch": "TLS name does not match the host",
    "error": "proxy error: malformed request",
}
STATUS = {
    "not_connect": 405, "port": 403, "no_rule": 403, "literal": 403, "bad_host": 403,
    "dns_fail": 502, "addr_class": 403, "rebind_suspected": 403, "limit": 503, "connect_fail": 502,
}


@pytest.fixture(scope="module")
def world():
    why = egress.missing()
    if why:
        pytest.skip(why)
    with egress.World() as opened:
        yield opened


@pytest.fixture
def session(world):
    with world.opened() as made:
        yield made


# ---- The mix -----------------------------------------------------------------------------------


def reply(status):
    name = {403: "Forbidden", 405: "Method Not Allowed", 502: "Bad Gateway",
            503: "Service Unavailable"}[status]
    return "HTTP/1.1 %d %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % (status, name)


class Mix:
    """Attempts, what each must answer, and which event it must leave."""

    def __init__(self, seed, all_ports):
        self.random = random.Random(seed)
        self.all_ports = all_ports
        self.rows = []
        self.count = 0

    def fresh(self, below):
        self.count += 1
        return "n%d.%s" % (self.count, below)

    def address(self):
        """What a program that ignores the proxy may dial: anything."""
        r = self.random
        if r.random() < 0.5:
            return "%d.%d.%d.%d" % (r.randrange(1, 127), r.randrange(256), r.randrange(256),
                                    r.randrange(1, 255))
        return "2a00:%x::%x" % (r.randrange(1, 65536), r.randrange(1, 65536))

    def add(self, function, arguments, event, check):
        self.rows.append(((function, arguments), event, check))

    @staticmethod
    def event(host, code, via, port=443, **more):
        event = {"host": host, "via": via, "decision": "deny" if code else "allow", **more}
        if port is not None:
            event["port"] = port
        if code:
            event["code"] = code
            event["reason"] = REASONS.get(code) or "port %d not allowed" % port
        return event

    # ---- Allowed ----

    def allowed(self):
        via = self.random.choice(["proxy", "direct"])
        name, ip = self.random.choice(
            [("www.good.test", egress.WWW), ("exact.test", egress.WWW),
             ("six.good.test", egress.WWW6), ("both.good.test", None)]
        )
        spelled = self.random.choice([name, name.upper(), name + ".", name.title()])
        n = self.random.randrange(0, 200000)
        event = self.event(name, None, via, open=False, ip=ip)
        event["bytes_down"] = n

        def check(result):
            event["bytes_up"] = result["sent"]
            assert (result["got"], result["end"]) == (n, "eof"), result

        line = "give %d\n" % n
        if via == "proxy":
            self.add("proxy", {"authority": spelled + ":443", "name": name, "line": line}, event,
                     check)
        else:
            event["dest"] = self.address()
            self.add("direct", {"address": event["dest"], "name": spelled, "line": line}, event,
                     check)

    # ---- Refused by the name, the addresses, the peer ----

    def refused_name(self, name, code, host=None, **more):
        """The same name by the proxy or by the server name of TLS."""
        host = name if host is None else host
        if self.random.random() < 0.5:
            event = self.event(host, code, "proxy", **more)
            self.add("proxy", {"authority": name + ":443"}, event, self.answered(code))
            return
        event = self.event(host, code, "direct", dest=self.address(), **more)
        self.add("direct", {"address": event["dest"], "name": name}, event, self.closed)

    def no_rule(self):
        name = self.fresh(self.random.choice(["test", "good.test.evil.test", "badgood.test"]))
        self.refused_name(name, "no_rule")

    def literal(self):
        self.refused_name(self.random.choice(
            ["93.184.216.34", "127.0.0.1", "0x7f000001", "2130706433", "0177.1", "127.1"]), "literal")

    def bad_host(self):
        self.refused_name(self.random.choice(
            ["a..good.test", ".good.test", "b%c.good.test", "x.good.test..", "w.123"]), "bad_host", "")

    def dns_fail(self):
        self.refused_name(self.fresh("good.test"), "dns_fail")

    def addr_class(self):
        kind, address = self.random.choice(sorted(egress.FORBIDDEN.items()))
        # An IPv4 address that is written as IPv6 is told as what it is.
        self.refused_name(forbidden_name(kind), "addr_class", ips=[address.removeprefix("::ffff:")])

    def rebind_suspected(self):
        name, ips = self.random.choice(
            [("mixed.good.test", {egress.WWW, "10.0.0.1"}),
             ("mixed-six.good.test", {egress.WWW, "fd00::1"})]
        )
        self.refused_name(name, "rebind_suspected", ips=ips)

    def connect_fail(self):
        name, ip = self.random.choice(
            [("closed.good.test", egress.DEAD),
             ("closed-six.good.test", "2606:2800:220:1::21")]
        )
        self.refused_name(name, "connect_fail", ips=[ip])

    @staticmethod
    def answered(code):
        def check(result):
            assert result["head"] == reply(STATUS[code]), result
            assert (result["rest"], result["end"]) == ("", "eof"), result

        return check

    @staticmethod
    def closed(result):
        assert result["got"] == 0 and result["end"] in ("eof", "reset"), result

    # ---- Refused by the port and the method ----

    def port(self):
        port = self.random.choice([22, 25, 80, 444, 8443, 65535])
        if self.all_ports and self.random.random() < 0.5 and port != 80:
            event = self.event("", "port", "direct", port, dest=self.address())

            def check(result):
                assert result.get("got", 0) == 0, result
                assert result["end"] in ("reset", "ConnectionResetError"), result

            self.add("direct", {"address": event["dest"], "port": port, "name": "x"}, event, check)
            return
        spelled = self.random.choice([str(port), "0%d" % port, "+443", "x", "65536", ""])
        event = self.event("www.good.test", "port", "proxy", port if spelled == str(port) else 0)
        self.add("proxy", {"authority": "www.good.test:" + spelled}, event, self.answered("port"))

    def not_connect(self):
        method = self.random.choice(["GET", "POST", "OPTIONS", "connect"])
        host = self.fresh("test")
        target = "http://%s:8081/a?b" % host
        raw = "%s %s HTTP/1.1\r\nHost: %s:8081\r\n\r\n" % (method, target, host)
        if self.random.random() < 0.5:
            event = self.event(host, "not_connect", "proxy", 8081, target=target)
            self.add("proxy", {"authority": "", "raw": raw}, event, self.answered("not_connect"))
            return
        raw = "%s /a?b HTTP/1.1\r\nHost: %s\r\n\r\n" % (method, host)
        event = self.event(host, "not_connect", "direct", 80, target="/a?b", dest=self.address())

        def check(result):
            assert result["head"] == reply(405) and result["rest"] == 0, result

        self.add("port80", {"address": event["dest"], "raw": raw}, event, check)

    def malformed(self):
        event = self.event("", "error", "proxy", None)
        raw = "CONNECT www.good.test:443 HTTP/1.1\nHost: www.good.test\r\n\r\n"

        def check(result):
            assert result["status"] is None and result["end"] in ("eof", "reset"), result

        self.add("proxy", {"authority": "", "raw": raw}, event, check)

    # ---- Refused by the first bytes ----

    def first_bytes(self):
        code, first = self.random.choice(
            [("not_tls", b"GET / HTTP/1.1\r\n\r\n"), ("not_tls", b"SSH-2.0-x\r\n"),
             ("no_sni", reach.hello(None)), ("sni_mismatch", reach.hello("exact.test"))]
        )
        first = first.hex()
        if code == "sni_mismatch" or self.random.random() < 0.5:
            event = self.event("www.good.test", code, "proxy")

            def check(result):
                assert result["status"] == 200, result
                self.closed(result)

            self.add("proxy", {"authority": "www.good.test:443", "first": first}, event, check)
            return
        event = self.event("", code, "direct", dest=self.address())
        self.add("direct", {"address": event["dest"], "first": first}, event, self.closed)

    # ---- DNS ----

    def question(self, name, code, host=None, labels=None, times=1):
        server = self.random.choice(["9.9.9.9", "8.8.8.8", "2620:fe::fe"])
        arguments = {"name": name, "server": server, "tcp": self.random.random() < 0.5,
                     "kind": self.random.choice([1, 28, 16, 65]), "labels": labels}

        def refused(result):
            assert (result["rcode"], result["answers"]) == (3, 0), result

        def answered(result):
            assert result["rcode"] == 0, result
            assert result["answers"] == (1 if arguments["kind"] == 1 else 0), result

        event = self.event(name if host is None else host, code, "dns", None) if code else None
        for i in range(times):
            self.add("dns", arguments, None if i else event, refused if code else answered)

    def dns(self):
        kind = self.random.randrange(5)
        if kind == 0:
            self.question(self.random.choice(["www.good.test", "EXACT.test"]), None)
        elif kind == 1:
            self.question("10.0.0.%d" % self.count, "literal")
            self.count += 1
        elif kind == 2:
            self.question("x", "bad_host", "", ["b d%d" % self.count, "good", "test"])
            self.count += 1
        else:
            self.question(self.fresh("test").upper(), "no_rule", "n%d.test" % self.count)

    KINDS = ("allowed", "allowed", "no_rule", "literal", "bad_host", "dns_fail", "addr_class",
             "rebind_suspected", "connect_fail", "port", "not_connect", "malformed", "first_bytes",
             "dns")

    def fill(self, n):
        # A name that no rule allows is one event, however often it is asked for in a minute.
        self.question("again.test", "no_rule", times=5)
        while len(self.rows) < n:
            getattr(self, self.random.choice(self.KINDS))()
        return self


VARYING = ("ts", "session", "tenant", "conn", "duration_ms")


def agree(event, want):
    """Compares an event with the one that was expected; what depends on the run is set in it."""
    got = {name: value for name, value in event.items() if name not in VARYING}
    want = dict(want)
    if want.get("decision") == "allow" and want["ip"] is None:
        want["ip"] = got["ip"]
        assert got["ip"] in (egress.WWW, egress.WWW6)
    if isinstance(want.get("ips"), set):
        want["ips"], got["ips"] = want["ips"], set(got["ips"])
    return got == want


def test_the_log_is_what_was_tried_one_to_one(world):
    # DNS denials of names like "bad" labels have no host: one event for all of them in a minute.
    mix = Mix(4, world.catches_all_ports).fill(MIX)
    with world.opened() as session:
        began = time.time()
        results = world.reach(session, *[attempt for attempt, _, _ in mix.rows])
        ended = time.time()
        for (attempt, _, check), result in zip(mix.rows, results):
            assert "error" not in result, (attempt, result)
            check(result)
        expected, nameless = [], set()
        for attempt, event, _ in mix.rows:
            if event is None:
                continue
            if event["via"] == "dns" and not event["host"]:
                if event["code"] in nameless:
                    continue
                nameless.add(event["code"])
            expected.append((attempt, event))
        events = world.events(session, len(expected))
        for event, (attempt, want) in zip(events, expected):
            assert agree(event, want), "\n".join(map(repr, (attempt, event, want)))
        assert len(events) == len(expected)
        times = [event["ts"] for event in events]
        assert times == sorted(times) and began - 1 < times[0] and times[-1] < ended + 1
        assert {event["session"] for event in events} == {session}
        assert {event["tenant"] for event in events} == {"a"}
        reasons = {event["code"] for event in events if "code" in event}
        assert reasons == set(REASONS) - {"limit"} | {"port"}
        assert without(world.asked(session), "conn") == without(events, "conn")


def without(events, *names):
    return [{k: v for k, v in event.items() if k not in names} for event in events]


# ---- Bytes -------------------------------------------------------------------------------------


def test_half_close_in_both_directions_and_bytes_to_the_last_one(world, session):
    n = 3 * 1024 * 1024 + 7
    shown = world.code(
        session,
        "s = open_tunnel('www.good.test:443', line=b'take\\n')\n"
        "s.sendall(bytes(%d)); s.shutdown(socket.SHUT_WR)\n"
        "first = read_end(s)[0].decode()\n"
        "s = open_tunnel('six.good.test:443', line=b'half %d\\n')\n"
        "got, end = read_end(s, %d)\n"
        "got = len(got)\n"
        "while True:\n"
        "    piece = s.recv(1 << 18)\n"
        "    if not piece: break\n"
        "    got += len(piece)\n"
        "s.sendall(bytes(12345)); s.close()\n"
        "show([first, got])\n" % (n, n, n)
    )
    assert shown == ["%d\n" % n, n]
    up, down = world.events(session, 2)
    begins = len(reach.hello("www.good.test"))
    assert (up["bytes_up"], up["bytes_down"]) == (begins + len("take\n") + n, len("%d\n" % n))
    assert (down["bytes_up"], down["bytes_down"]) == (begins + len("half %d\n" % n) + 12345, n)
    harness.wait_until(lambda: 12345 in world.peer.taken, "the peer read what came after its end")


def test_a_peer_that_resets_is_one_closed_event(world, session):
    (result,) = world.reach(session, ["proxy", {"authority": "www.good.test:443", "line": "reset\n"}])
    assert result["status"] == 200 and result["got"] == 0 and result["end"] in ("eof", "reset")
    (event,) = world.events(session, 1)
    assert brief(event) == allow("www.good.test") and event["bytes_down"] == 0


@contextlib.contextmanager
def held(world, session, n=1, name="www.good.test", key=KEYS["a"]):
    """n tunnels that stay open until the end of the block, or of the sandbox."""
    code = (
        "socks = [open_tunnel('%s:443', line=b'echo\\n') for _ in range(%d)]\n"
        "for s in socks: s.sendall(b'x' * 1000)\n"
        "for s in socks:\n"
        "    got = b''\n"
        "    while len(got) < 1000: got += s.recv(1000)\n"
        "open('ready', 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "show([read_end(s)[1] if os.path.exists('look') else 0 for s in socks])\n" % (name, n)
    )

    def run():
        with contextlib.suppress(OSError, AssertionError):
            return world.code(session, code, 55)

    def exists(path):
        query = "/v1/sessions/%s/read?path=%s" % (session, path)
        return world.server.get(query, key=key).json["content"] == ""

    def touch(path):
        world.server.post(
            "/v1/sessions/%s/write" % session, {"path": path, "content": ""}, key=key
        )

    with harness.in_background(run) as result:
        try:
            harness.wait_until(lambda: result or exists("ready"), "the tunnels are open")
            assert not result, result
            yield
        finally:
            touch("go")


def test_an_open_tunnel_is_listed_with_its_bytes_so_far(world, session):
    with held(world, session, 3):

        def told():
            """airlockd does not wait long for the gateway to say how far they are."""
            events = world.asked(session)
            return all(event["bytes_down"] for event in events) and events

        events = harness.wait_until(told, "the gateway says it")
        assert [event["open"] for event in events] == [True] * 3
        sent = len(reach.hello("www.good.test")) + len("echo\n") + 1000
        assert {(event["bytes_up"], event["bytes_down"]) for event in events} == {(sent, 1000)}
        assert {brief(event) for event in events} == {allow("www.good.test")}
        assert all("duration_ms" not in event for event in events)
        lines = [json.loads(line) for line in world.lines(session)]
        assert len(lines) == 3 and len({line["conn"] for line in lines}) == 3
    events = world.events(session, 3)
    assert len(events) == 3 and len(world.lines(session)) == 6
    assert {(event["bytes_up"], event["bytes_down"]) for event in events} == {(sent, 1000)}
    assert all(event["duration_ms"] >= 0 for event in events)
    assert without(world.asked(session), "conn") == without(events, "conn")


# ---- The exec answer ---------------------------------------------------------------------------


def test_the_answer_names_the_distinct_hosts_that_were_refused(world, session):
    tries = [
        ["proxy", {"authority": "b.test:443"}],
        ["proxy", {"authority": "a.test:443"}],
        ["direct", {"address": "1.2.3.4", "name": "b.test"}],
        ["dns", {"name": "c.test"}],
        ["proxy", {"authority": "a.test:443"}],
        ["proxy", {"authority": "169.254.169.254:443"}],
        ["proxy", {"authority": "www.good.test:443"}],
        ["proxy", {"authority": "", "raw": "GET http://plain.test/ HTTP/1.1\r\n\r\n"}],
        ["direct", {"address": "1.2.3.4", "first": b"no name".hex()}],
    ]
    _, result = world.command(session, "python3 reach.py", json.dumps(tries))
    # Where no name is known, it is the address that was dialled.
    assert result["egress_denied"] == [
        "b.test", "a.test", "c.test", "169.254.169.254", "plain.test", "1.2.3.4"
    ]
    # Each command has its own; an event that is older than it is not in it.
    _, result = world.command(session, "python3 reach.py", json.dumps(tries[6:7]))
    assert result["egress_denied"] == []
    _, result = world.command(session, "python3 reach.py", json.dumps(tries[1:2]))
    assert result["egress_denied"] == ["a.test"]


def test_the_answer_names_twenty_hosts_at_most(world, session):
    hosts = ["h%d.test" % i for i in range(25)]
    tries = [["direct", {"address": "1.2.3.4", "first": b"no name".hex()}]]
    tries += [["proxy", {"authority": host + ":443"}] for host in hosts]
    _, result = world.command(session, "python3 reach.py", json.dumps(tries))
    assert result["egress_denied"] == ["1.2.3.4"] + hosts[:19]


def test_the_answer_names_the_longest_names_whole(world, session):
    hosts = [("a" * 63 + ".") * 3 + last * 56 + ".test" for last in "xy"]
    assert {len(host) for host in hosts} == {253}
    tries = [["proxy", {"authority": host + ":443"}] for host in hosts]
    _, result = world.command(session, "python3 reach.py", json.dumps(tries))
    assert result["egress_denied"] == hosts


def test_a_stream_ends_with_the_refused_hosts_too(world, session):
    command = "curl -s https://no.test/; true"
    *_, (_, name, result) = world.server.stream(session, command)
    assert name == "result" and result["egress_denied"] == ["no.test"]


# ---- Reports -----------------------------------------------------------------------------------

PROXY = "http://127.0.0.1:3128"
VARIABLES = {
    "HTTPS_PROXY": PROXY, "https_proxy": PROXY, "HTTP_PROXY": PROXY, "http_proxy": PROXY,
    "NO_PROXY": "localhost,127.0.0.1,[::1],::1", "no_proxy": "localhost,127.0.0.1,[::1],::1",
}


def test_every_way_to_run_has_the_same_variables(world, session):
    """83, 95"""
    command = "env | grep -i proxy | sort"
    want = "".join("%s=%s\n" % pair for pair in sorted(VARIABLES.items()))
    got = world.server.exec(session, command)["stdout"]
    assert sorted(got.splitlines()) == sorted(want.splitlines())
    *_, (_, _, result) = world.server.stream(session, command)
    assert result["stdout"] == got
    with world.opened(egress=[]) as other:
        assert world.server.exec(other, command)["stdout"] == ""


def test_a_local_server_is_reached_without_the_proxy(world, session):
    """95"""
    command = (
        "python3 -m http.server 8000 --bind %s >/dev/null 2>&1 & "
        "until curl -s -o /dev/null http://%s:8000/; do sleep 0.05; done; "
        "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://%s:8000/\").status)'"
    )
    for bind, host in (("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "localhost"), ("::1", "[::1]")):
        result = world.server.exec(session, command % (bind, host, host), 60)
        assert result["stdout"] == "200\n", result
    assert world.logged(session) == []


def test_addresses_are_no_way_around(world, session):
    """85"""
    shown = world.code(
        session,
        "def udp(at, port):\n"
        "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)\n"
        "    s.connect((at, port))\n"
        "    try:\n"
        "        s.send(b'x'); s.recv(1)\n"
        "    except OSError as error: return type(error).__name__\n"
        "    return 'answered'\n"
        "def raw():\n"
        "    try: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)\n"
        "    except OSError as error: return type(error).__name__\n"
        "    return 'opened'\n"
        "show([udp('93.184.216.34', 443), udp('93.184.216.34', 4433), raw(),\n"
        "      direct('93.184.216.34', 443, '93.184.216.34')['got'],\n"
        "      port80('93.184.216.34', 'GET / HTTP/1.1\\r\\nHost: 93.184.216.34\\r\\n\\r\\n')['status'],\n"
        "      dns('anything.test', server='8.8.8.8')['rcode']])\n",
    )
    assert shown[:2] == ["ConnectionRefusedError"] * 2 and shown[2] == "PermissionError"
    assert shown[3:] == [0, 405, 3]
    assert [brief(event) for event in world.events(session, 3)] == [
        deny("93.184.216.34", "literal", "direct"),
        deny("93.184.216.34", "not_connect", "direct", 80),
        deny("anything.test", "no_rule", "dns", None),
    ]


def test_no_list_is_no_network(world):
    """86, and 2.5: nothing is reachable, nothing is logged, nothing is there"""
    for body in ({}, {"egress": []}):
        made = world.server.post("/v1/sessions", body).json
        assert made["egress"] == []
        session = made["session_id"]
        result = world.server.exec(
            session,
            "python3 - <<'E'\n"
            "import socket\n"
            # Nobody listens here, whoever holds the sockets.
            "for name in ('tcp', 'tcp6', 'udp', 'udp6'):\n"
            "    print(len(open('/proc/net/' + name).readlines()))\n"
            "for at in (('127.0.0.1', 3128), ('1.2.3.4', 443), ('1.2.3.4', 80), ('1.2.3.4', 53)):\n"
            "    try: socket.create_connection(at, 5); print('connected')\n"
            "    except OSError as error: print(error.errno)\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "try: s.sendto(b'x', ('9.9.9.9', 53)); print('sent')\n"
            "except OSError as error: print(error.errno)\n"
            "E\n"
            "cat /etc/resolv.conf; env | grep -ci proxy",
        )
        # ECONNREFUSED, ENETUNREACH
        assert result["stdout"].splitlines()[:9] == ["1"] * 4 + ["111", "101", "101", "101", "101"]
        assert result["stdout"].splitlines()[-1] == "0"
        assert "egress_denied" not in result
        assert world.asked(session) == []
        assert not os.path.exists(os.path.join(world.log_dir, session + ".jsonl"))
        world.server.delete("/v1/sessions/" + session)
    assert world.server.post("/v1/sessions", {"egress": None}).status == 422


def test_the_target_of_a_plain_request_is_what_is_judged(world, session):
    """90"""
    raw = "GET http://www.good.test:8081/path HTTP/1.1\r\nHost: other.test\r\n\r\n"
    (result,) = world.reach(session, ["proxy", {"authority": "", "raw": raw}])
    assert result["status"] == 405
    (event,) = world.events(session, 1)
    assert brief(event) == deny("www.good.test", "not_connect", port=8081)
    assert event["target"] == "http://www.good.test:8081/path"


def test_a_fresh_session_is_judged_at_once(world):
    """91"""
    for _ in range(20):
        session = world.server.create(egress=["exact.test"])
        result = world.server.exec(
            session, "curl -s -o /dev/null -w '%{http_connect}' https://no.test/"
        )
        assert result["stdout"] == "403"
        world.server.delete("/v1/sessions/" + session)


def test_apt_is_told_at_once(world, session):
    """93: the mirror is refused by what the proxy says, not by a time-out"""
    took = []
    for _ in range(3):
        began = awake.seconds()
        result = world.server.exec(
            session,
            "curl -s -o /dev/null -w '%{http_code}' http://www.good.test/dists/stable/Release",
        )
        assert result["stdout"] == "405"
        took.append(awake.seconds() - began)
    # The machine may hold up one of those that take part, but not each time.
    assert min(took) < 5


def test_no_certificate_of_ours(world, session):
    """94"""
    result = world.server.exec(
        session,
        "env | grep -c -e SSL_CERT -e CA_BUNDLE -e CA_CERTS; "
        "curl -sS --cacert ca.pem -w '%{ssl_verify_result}' https://tls.good.test/",
    )
    assert result["stdout"] == "0\nhello from tls.good.test\n0"


# ---- Sessions and what they leave --------------------------------------------------------------


def test_a_deleted_session_leaves_its_log_and_nothing_else(world):
    """2.14"""
    session = world.session()
    before = len(namespaces(world))
    with held(world, session, 5):
        assert len(world.asked(session)) == 5
        world.server.delete("/v1/sessions/" + session)
    number = world.server.number
    harness.within(
        lambda: not [name for _, name in harness.tenant_processes(number) if name == "python3"],
        20, "no process is left",
    )
    events = world.events(session, 5)
    assert [event["open"] for event in events] == [False] * 5
    assert {event["decision"] for event in events} == {"allow"}
    # The pool may hold one more for a while.
    harness.wait_until(lambda: len(namespaces(world)) <= before + 1, "no namespace is left")
    assert world.server.get("/v1/sessions/%s/egress" % session).status == 404
    # Read by airlockd's group and by nobody else.
    status = os.stat(os.path.join(world.log_dir, session + ".jsonl"))
    assert status.st_mode & 0o777 == 0o640


def status_of(server, session, name):
    """What the proxy says to a CONNECT, asked with as little as can be."""
    result = server.exec(
        session,
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT %s:443 HTTP/1.1\\r\\n\\r\\n' >&3; "
        "head -n1 <&3" % name,
    )
    assert result["exit_code"] == 0, result
    return int(result["stdout"].split(" ")[1])


def namespaces(world):
    """Of the network, by whose processes live; other servers of this machine have their own."""
    found = set()
    for pid, _, _ in world.server.processes():
        with contextlib.suppress(OSError):
            found.add(os.readlink("/proc/%d/ns/net" % pid))
    return found


def counts(world):
    """Descriptors of each of our processes, and network namespaces, when the pool is full."""
    found = {"namespaces": len(namespaces(world))}
    for pid, name, uid in world.server.processes():
        if uid < harness.ID_FIRST:
            with contextlib.suppress(OSError):
                found[name] = found.get(name, 0) + len(os.listdir("/proc/%d/fd" % pid))
    return found


@pytest.mark.slow
def test_nothing_leaks_over_2000_sessions(world):
    total, at_once = 2000, 4

    def many(n):
        for i in range(n):
            session = world.server.create(egress=["exact.test"])
            made.append(session)
            assert status_of(world.server, session, "no.test") == 403
            world.server.delete("/v1/sessions/" + session)

    def run(n):
        with contextlib.ExitStack() as stack:
            results = [stack.enter_context(harness.in_background(many, n // at_once))
                       for _ in range(at_once)]
        assert results == [[None]] * at_once, results

    made = []
    run(100)
    before = harness.wait_until(lambda: settled(world), "the pool is full")
    run(total - 100)

    def same():
        after = settled(world)
        # A pool follows its demand by a sandbox or two. Somebody may have been there for a moment only.
        return after and all(after[k] <= before.get(k, 0) + 16 for k in after)

    harness.wait_until(same, "nothing has grown: %s" % before)
    assert len(made) == total
    files = {name for name in os.listdir(world.log_dir)}
    assert {session + ".jsonl" for session in made} <= files
    assert all(len(world.lines(session)) == 1 for session in made[::50])
    assert files == {name for name in files if name.endswith(".jsonl")}


def settled(world):
    """Counts when two looks agree."""
    first = counts(world)
    time.sleep(0.05)
    return first == counts(world) and first


# ---- The policy file ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_file(world):
    # Readable for the user that airlockd runs as.
    path = pathlib.Path(world.net.folder, "policy.json")
    path.write_text(json.dumps({"*": ["exact.test"], "b": []}))
    server = world.new_server({"SANDBOX_EGRESS_POLICY": None, "SANDBOX_EGRESS_POLICY_FILE": str(path)})
    with server:
        yield server, path


def allowed(server, key=KEYS["a"]):
    return server.get("/v1/egress/policy", key=key).json["allowed"]


def reload(server, word):
    seen = server.log().count('"%s"' % word)
    server.process.send_signal(signal.SIGHUP)
    harness.wait_until(lambda: server.log().count('"%s"' % word) > seen, word)


def test_a_policy_file_is_read_anew_and_a_running_session_keeps_its_own(by_file):
    server, path = by_file
    assert (allowed(server), allowed(server, KEYS["b"])) == (["exact.test"], [])
    session = server.create(egress=["exact.test"])
    assert status_of(server, session, "exact.test") == 200
    path.write_text(json.dumps({"*": ["pypi"], "b": ["six.good.test"]}))
    reload(server, "policy_loaded")
    assert allowed(server) == ["pypi.org", "files.pythonhosted" ".org"]
    assert allowed(server, KEYS["b"]) == ["six.good.test"]
    assert server.post("/v1/sessions", {"egress": ["exact.test"]}).status == 403
    assert status_of(server, session, "exact.test") == 200
    server.delete("/v1/sessions/" + session)
    path.write_text(json.dumps({"*": ["exact.test"], "b": []}))
    reload(server, "policy_loaded")


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"*": "pypi"}', '{"*": [1]}', '{"*": ["10.0.0.1"]}', '{"*": ["*.com"]}',
     '{"a": [], "a": ["pypi"]}', '{"*": ["pypi"]} x', '{"*": ["py\\u0000pi"]}'],
)
def test_a_broken_policy_file_changes_nothing_and_says_so(by_file, content):
    server, path = by_file
    before = allowed(server)
    path.write_text(content)
    reload(server, "policy_refused")
    assert allowed(server) == before == ["exact.test"]
    session = server.create(egress=["exact.test"])
    assert status_of(server, session, "exact.test") == 200
    server.delete("/v1/sessions/" + session)


def test_a_policy_file_that_is_gone_changes_nothing_even_for_the_next_airlockd(by_file):
    server, path = by_file
    path.write_text(json.dumps({"*": ["www.good.test"]}))
    reload(server, "policy_loaded")
    path.unlink()
    reload(server, "policy_refused")
    assert allowed(server) == ["www.good.test"]
    (pid,) = server.process_of("airlockd")
    os.kill(pid, signal.SIGKILL)
    harness.wait_until(lambda: back(server, pid), "airlockd is back")
    harness.wait_until(lambda: allowed(server) == ["www.good.test"], "the policy that was taken")
    path.write_text(json.dumps({"*": ["exact.test"], "b": []}))
    reload(server, "policy_loaded")


def back(server, pid):
    if server.process_of("airlockd") in ([], [pid]):
        return False
    with contextlib.suppress(OSError, harness.http.client.HTTPException):
        return server.get("/healthz", key=None, timeout=2).status == 200
