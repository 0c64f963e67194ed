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
import random
import signal
import threading
import time

import pytest

import egress
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
            event = self.event("www.good.test", code, "proxy", open=False)

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
        asked = world.asked(session)
        for event in asked:
            event.pop("conn", None)
        for event in events:
            event.pop("conn", None)
        assert asked == events
