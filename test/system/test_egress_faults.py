# SPDX-License-Identifier: Apache-2.0
"""Egress under attack and under failure: malformed requests and first bytes, names that lie, floods,
peers that misbehave, and processes, descriptors, disks and name servers that are not there.

After each the server is alive, nothing was reached that is not allowed, and the log is exact. Nothing
here waits for a time-out but on a gateway whose times are 25 times shorter (world `hurried`).
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
import time

import pytest

import egress
import awake
import harness
import nameserver
import reach
from egress import allow, brief, deny
from harness import KEYS
from nameserver import PUBLIC, NameServer

LIAR = "93.184.216.59"
HURRY = 25
# Seconds for which a name server is waited for in any case. c-ares decides; it is six.
PATIENCE = 3
GOOD = "www.good.test:443"


@pytest.fixture(scope="module")
def world():
    why = egress.missing()
    if why:
        pytest.skip(why)
    with egress.World() as opened:
        yield opened


@pytest.fixture(scope="module")
def liar(world):
    server = NameServer(world.net, LIAR)
    yield server
    server.close()


@pytest.fixture(scope="module")
def lied_to(world, liar):
    with world.beside({"SANDBOX_EGRESS_DNS": LIAR}) as other:
        yield other


@pytest.fixture(scope="module")
def hurried(world, liar):
    why = harness.runnable(harness.KNOBS_BUILD)
    if why:
        (pytest.fail if harness.CI else pytest.skip)(why)
    with world.beside({"SANDBOX_EGRESS_DNS": LIAR}, hurry=HURRY) as other:
        yield other


@pytest.fixture(scope="module")
def poolless(world):
    """A server that builds no sandbox but for a command that waits: while one runs, its gateway hears
    of no other."""
    with world.beside({"SANDBOX_POOL": "0"}) as other:
        yield other


@contextlib.contextmanager
def checked(world):
    with world.opened() as made:
        yield made
        # Alive, and as strict as before.
        good, bad = world.reach(
            made, ["proxy", {"authority": GOOD}], ["proxy", {"authority": "never.test:443"}]
        )
        assert (good["status"], good["got"], bad["status"]) == (200, 100, 403)


@pytest.fixture
def session(world):
    with checked(world) as made:
        yield made


@pytest.fixture
def alone(poolless):
    with checked(poolless) as made:
        yield made


def one(world, session, attempt, n=1):
    """The result of one attempt, and its events."""
    before = len(world.logged(session))
    (result,) = world.reach(session, attempt)
    assert "error" not in result, result
    if n:
        events = world.events(session, before + n)
    else:
        events = world.logged(session)
    assert len(events) == before + n, events[before:]
    return result, events[before:]


# ---- The authority of a CONNECT (172, 173, 178, 179, 181, 182) ---------------------------------

LITERALS = [
    "93.184.216.34", "10.0.0.1", "127.0.0.1", "169.254.169.254", "0.0.0.0", "255.255.255.255",
    "[::]", "[::1]", "[fd00:ec2::254]", "[2606:2800:220:1::20]", "[::ffff:93.184.216.34]",
    "[fe80::1%25lo]", "[fe80::1%lo]", "::1", "2130706433", "0x7f000001", "017700000001", "0177.0.0.1",
    "127.1", "127.0.1", "127.0.0.1.", "0x7f.1", "0", "0x7f.0x0.0x0.0x1", "1572395042",
]
BAD_HOSTS = [
    "a..good.test", ".www.good.test", "www.good.test..", "*.good.test", "www.good.test:443",
    "user@www.good.test", "user:secret@www.good.test", "http://www.good.test", "www.good.test/x",
"%77ww.good.test", "www%2egood.test", "w" * 64 + ".good.test",
    ("a" * 61 + ".") * 4 + "good.test", "www.good.test.1", "www.good.test.0x1", "1.2.3.4.5", "256.1.1.1",
    "0xg.0x1", "[www.good.test]", "[::1", "::1]", "[1.2.3.4", "[:::1]", "xn--99999999.good.test",
    "xn--.good.test", "www.good.test,evil.test", "www.good.test;", "good+test.test",
    "",
]
# A name on the list, spelled in ways that mean the same.
SAME = ["WWW.GOOD.TEST", "www.good.test.", "WwW.gOOd.tEsT."]
PORTS = ["", "0", "80", "22", "65536", "0443", "+443", "-443", "443x", "0x1bb", "https", "4430",
         "44_3", "99999999999999999999443"]
# Bytes that no target holds: the head is malformed, whatever the name.
NEVER = ["www.good.test\0.evil.test", "www.good.test\r", "www.good.test\n", "www.good.test ",
         "\twww.good.test",
         "w\xc3\xbcw.good.test", "www\xe3\x80\x82good.test", "\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1",
         "www.good.test#x", "www.good.test\\", "www|good.test", "{www}.good.test",
         "www.good.test\x7f", "www.good.test\x1b[31m"]


def test_address_literals_are_refused_in_every_spelling(world, session):
    results = world.reach(session, *[["proxy", {"authority": x + ":443"}] for x in LITERALS])
    assert [result["status"] for result in results] == [403] * len(LITERALS)
    assert [brief(event) for event in world.events(session, len(LITERALS))] == [
        deny(x, "literal") for x in LITERALS
    ]


def test_names_that_are_no_names_are_refused(world, session):
    results = world.reach(session, *[["proxy", {"authority": x + ":443"}] for x in BAD_HOSTS])
    assert [x for x, result in zip(BAD_HOSTS, results) if result["status"] != 403] == []
    events = world.events(session, len(BAD_HOSTS))
    assert [x for x, e in zip(BAD_HOSTS, events) if brief(e) != deny("", "bad_host")] == []


def test_case_and_one_final_dot_change_nothing(world, session):
    results = world.reach(
        session, *[["proxy", {"authority": x + ":443", "name": y}] for x in SAME for y in SAME]
    )
    assert [result.get("got") for result in results] == [100] * 9
    events = world.events(session, 9)
    assert {brief(event) for event in events} == {allow("www.good.test")}


def test_a_label_of_punycode_that_decodes_is_a_name(world, session):
    result, (event,) = one(world, session, ["proxy", {"authority": "xn--bcher-kva.good.test:443"}])
    assert (result["status"], brief(event)) == (502, deny("xn--bcher-kva.good.test", "dns_fail"))


def test_ports_are_strict(world, session):
    results = world.reach(
        session, *[["proxy", {"authority": "www.good.test:" + port}] for port in PORTS],
        ["proxy", {"authority": "www.good.test"}],
    )
    assert {result["status"] for result in results} == {403}
    events = world.events(session, len(PORTS) + 1)
    numbers = {"80": 80, "22": 22, "4430": 4430}
    for port, event in zip(PORTS + ["none"], events):
        number = numbers.get(port, 0)
        assert brief(event) == deny("www.good.test", "port", port=number)
        assert event["reason"] == "port %d not allowed" % number


@pytest.mark.parametrize("host", NEVER, ids=range(len(NEVER)))
def test_bytes_that_no_target_holds_close_the_connection(world, session, host):
    raw = "CONNECT %s:443 HTTP/1.1\r\nHost: x\r\n\r\n" % host
    result, (event,) = one(world, session, ["proxy", {"authority": "", "raw": raw}])
    assert result["status"] is None and result["rest"] == ""
    assert brief(event) == deny("", "error", port=None)
    assert event["reason"] == "proxy error: malformed request"


# ---- Heads (184, 185, 187, smuggling) ----------------------------------------------------------

LINE = "CONNECT www.good.test:443 HTTP/1.1\r\n"
MALFORMED = {
    "bare LF": "CONNECT www.good.test:443 HTTP/1.1\nHost: x\n\n",
    "bare LF after the line": "CONNECT www.good.test:443 HTTP/1.1\nHost: x\r\n\r\n",
    "bare CR": "CONNECT www.good.test:443 HTTP/1.1\rHost: x\r\n\r\n",
    "two blanks": "CONNECT  www.good.test:443 HTTP/1.1\r\n\r\n",
    "tab": "CONNECT\twww.good.test:443 HTTP/1.1\r\n\r\n",
    "two targets": "CONNECT www.good.test:443 evil.test:443 HTTP/1.1\r\n\r\n",
    "no version": "CONNECT www.good.test:443\r\n\r\n",
    "HTTP/0.9": "CONNECT www.good.test:443 HTTP/0.9\r\n\r\n",
    "HTTP/2.0": "CONNECT www.good.test:443 HTTP/2.0\r\n\r\n",
    "HTTP/1.2": "CONNECT www.good.test:443 HTTP/1.2\r\n\r\n",
    "lower case version": "CONNECT www.good.test:443 http/1.1\r\n\r\n",
    "two hosts": LINE + "Host: www.good.test\r\nHost: evil.test\r\n\r\n",
    "length": LINE + "Host: x\r\nContent-Length: 5\r\n\r\nhello",
    "chunked": LINE + "Host: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding": LINE + "Host: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    "length and chunked": LINE + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "folded field": LINE + "Host: x\r\n evil.test\r\n\r\n",
    "blank before the colon": LINE + "Host : x\r\n\r\n",
    "no colon": LINE + "Host\r\n\r\n",
    "no name": LINE + ": x\r\n\r\n",
    "NUL in a field": LINE + "Host: x\0y\r\n\r\n",
    "CR in a field": LINE + "Host: x\ry\r\n\r\n",
    "not a token": "CONN(ECT www.good.test:443 HTTP/1.1\r\n\r\n",
    "TLS to the proxy": "\x16\x03\x01\x00\x05hello\r\n\r\n",
    "SOCKS5": "\x05\x01\x00\r\n\r\n",
}
FINE = {
    "HTTP/1.0": "CONNECT www.good.test:443 HTTP/1.0\r\n\r\n",
    "no host": LINE + "\r\n",
    "a host that differs": LINE + "Host: evil.test\r\n\r\n",
    "credentials": LINE + "Host: x\r\nProxy-Authorization: Basic c2VjcmV0OnNlY3JldA==\r\n\r\n",
    "expectation": LINE + "Expect: 100-continue\r\n\r\n",
    "forwarded": LINE + "Via: 1.1 relay\r\nForwarded: for=127.0.0.1\r\nX-Forwarded-Host: evil.test\r\n"
    "X-Forwarded-For: 10.0.0.1\r\n\r\n",
    "keep-alive": LINE + "Connection: keep-alive\r\nProxy-Connection: keep-alive\r\n\r\n",
}
OTHER_METHODS = ["GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "TRACE", "PATCH", "PRI", "connect",
                 "CONNECTX", "CONNEC"]


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_head_is_closed_and_logged(world, session, raw):
    result, (event,) = one(world, session, ["proxy", {"authority": "", "raw": raw}])
    assert result["status"] is None and result["rest"] == "" and result["end"] in ("eof", "reset")
    assert event["code"] == "error" and event["reason"] == "proxy error: malformed request"


@pytest.mark.parametrize("raw", FINE.values(), ids=FINE.keys())
def test_nothing_but_the_target_decides(world, session, raw):
    result, (event,) = one(
        world, session, ["proxy", {"authority": GOOD, "raw": raw, "line": "give 10\n"}]
    )
    assert (result["status"], result["got"]) == (200, 10)
    assert brief(event) == allow("www.good.test")
    # The peer sees what comes behind the answer, and no byte of the head.
    assert world.peer.hellos[-1] == reach.hello("www.good.test")
    other = raw.replace("www.good.test", "other.test").replace("evil.test", "www.good.test")
    result, (event,) = one(world, session, ["proxy", {"authority": "", "raw": other}])
    assert (result["status"], brief(event)) == (403, deny("other.test", "no_rule"))


@pytest.mark.parametrize("method", OTHER_METHODS)
def test_other_methods_are_405_whatever_they_ask(world, session, method):
    targets = {
        "www.good.test:443": None, "https://www.good.test/": ("www.good.test", 443),
        "https://other.test:8/x": ("other.test", 8), "http://other.test": ("other.test", 80),
        "HTTP://1.2.3.4:81/": ("1.2.3.4", 81), "/": ("host.test", 80), "*": ("host.test", 80),
    }
    for target, where in targets.items():
        raw = "%s %s HTTP/1.1\r\nHost: host.test\r\n\r\n" % (method, target)
        result, (event,) = one(world, session, ["proxy", {"authority": "", "raw": raw}])
        assert (result["status"], event["code"]) == (405, "not_connect"), (target, result)
        assert event["target"] == target and result["rest"] == ""
        # A form that the method does not have says where to in no way that counts.
        assert where is None or (event["host"], event["port"]) == where


def test_on_port_80_the_port_is_80_whatever_the_request_says(world, session):
    raw = "GET http://a.test:8081/ HTTP/1.1\r\nHost: b.test:99\r\n\r\n"
    result, (event,) = one(world, session, ["port80", {"address": "1.2.3.4", "raw": raw}])
    assert result["status"] == 405
    assert brief(event) == deny("a.test", "not_connect", "direct", 80)


def test_a_target_is_cut_at_200_and_cannot_break_a_line(world, session):
    target = "http://a.test/" + '"\\,;\u0041' * 100
    raw = "GET %s HTTP/1.1\r\n\r\n" % target
    _, (event,) = one(world, session, ["proxy", {"authority": "", "raw": raw}])
    assert event["target"] == target[:200] and len(event["target"]) == 200
    assert all(0x20 <= ord(c) < 0x7F for line in world.lines(session) for c in line)


def test_a_second_request_behind_the_first_is_not_one(world, session):
    """184: what follows 200 is the tunnel's, what follows a refusal is nobody's."""
    shown = world.code(
        session,
        "two = connect_head('www.good.test:443') + connect_head('evil.test:443')\n"
        "status, _, s = ask(two)\n"
        "first = [status, *map(len, [read_end(s)[0]])]\n"
        "status, _, s = ask(connect_head('evil.test:443') + connect_head('www.good.test:443'))\n"
        "show([first, [status, len(read_end(s)[0])]])\n",
    )
    assert shown == [[200, 0], [403, 0]]
    assert [brief(event) for event in world.events(session, 2)] == [
        deny("www.good.test", "not_tls"), deny("evil.test", "no_rule")
    ]


def test_a_hello_may_come_with_the_head(world, session):
    shown = world.code(
        session,
        "status, _, s = ask(connect_head('www.good.test:443') + hello('www.good.test') + b'give 7\\n')\n"
        "show([status, len(read_end(s)[0])])\n",
    )
    assert shown == [200, 7]
    assert brief(world.events(session, 1)[0]) == allow("www.good.test")


def test_a_head_may_come_in_single_bytes_but_not_be_too_long(world, session):
    shown = world.code(
        session,
        "def slowly(data):\n"
        "    s = connect(*PROXY)\n"
        "    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
        "    try:\n"
        "        for i in range(len(data)): s.send(data[i:i+1])\n"
        "    except OSError: pass\n"
        "    return s\n"
        "head = connect_head('evil.test:443', b'X: ' + b'x' * 1000 + b'\\r\\n')\n"
        "first = read_head(slowly(head))[:12].decode()\n"
        "s = connect(*PROXY)\n"
        "send(s, connect_head('evil.test:443', b'X: ' + b'x' * 20000 + b'\\r\\n'))\n"
        "show([first, len(read_end(s)[0])])\n",
    )
    assert shown == ["HTTP/1.1 403", 0]
    # Rung 0 leaves no event.
    assert [brief(event) for event in world.events(session, 1)] == [deny("evil.test", "no_rule")]


# ---- First bytes (188, 191) --------------------------------------------------------------------

NAME = reach.server_name(b"www.good.test")
ECH = reach.extension(0xFE0D, bytes(200))


def message(*extensions):
    return reach.record(reach.hello_message(b"".join(extensions)))


def named(*names):
    return message(reach.server_name(*names))


# What is sent: (code behind CONNECT www.good.test, code on the direct path, host there); None: allowed.
HELLOS = {
    "plain": (message(NAME), None, None, "www.good.test"),
    "upper case and dot": (named(b"WWW.good.Test."), None, None, "www.good.test"),
    "encrypted hello beside it": (message(ECH, NAME), None, None, "www.good.test"),
    "encrypted hello alone": (message(ECH), "no_sni", "no_sni", ""),
    "no extension": (message(), "no_sni", "no_sni", ""),
    "empty name": (named(b""), "no_sni", "no_sni", ""),
    "empty list": (message(reach.extension(0, b"\0\0")), "no_sni", "no_sni", ""),
    "two entries": (named(b"www.good.test", b"evil.test"), "no_sni", "no_sni", ""),
    "two extensions": (message(NAME, reach.server_name(b"evil.test")), "no_sni", "no_sni", ""),
    "another name": (named(b"evil.test"), "sni_mismatch", "no_rule", "evil.test"),
    "another allowed name": (named(b"exact.test"), "sni_mismatch", None, "exact.test"),
    "an address": (named(b"93.184.216.34"), "sni_mismatch", "literal", "93.184.216.34"),
    "a number": (named(b"2130706433"), "sni_mismatch", "literal", "2130706433"),
    "NUL in the name": (named(b"www.good.test\0.evil.test"), "sni_mismatch", "bad_host", ""),
    "line end in the name": (named(b"www.good.test\r\n"), "sni_mismatch", "bad_host", ""),
    "UTF-8 in the name": (named("wüw.good.test".encode()), "sni_mismatch", "bad_host", ""),
    "longer than a name": (named(b"w" * 300), "no_sni", "no_sni", ""),
    "one byte records": (reach.record(reach.hello_message(NAME), 1), None, None, "www.good.test"),
    "a whole 16 KiB": (reach.hello("www.good.test", 16384), None, None, "www.good.test"),
    "more than 16 KiB": (reach.hello("www.good.test", 16385 + 5, 8000), "not_tls", "not_tls", ""),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: www.good.test\r\n\r\n", "not_tls", "not_tls", ""),
    "SSH": (b"SSH-2.0-OpenSSH_9.2\r\n", "not_tls", "not_tls", ""),
    "alert": (b"\x15\x03\x01\x00\x02\x02\x28", "not_tls", "not_tls", ""),
    "SSL 2": (b"\x80\x2e\x01\x03\x01" + bytes(46), "not_tls", "not_tls", ""),
    "SSL 3": (b"\x16\x03\x00" + message(NAME)[3:], "not_tls", "not_tls", ""),
    "server hello": (reach.record(b"\2" + reach.hello_message(NAME)[1:]), "not_tls", "not_tls", ""),
    "empty record": (b"\x16\x03\x01\x00\x00" + message(NAME), "not_tls", "not_tls", ""),
    "lengths that lie": (message(NAME[:-1] + b"t\0\0"), "not_tls", "not_tls", ""),
    "behind another message": (
        reach.record(b"\0\0\0\0" + reach.hello_message(NAME)), "not_tls", "not_tls", ""
    ),
    "before another message": (
        reach.record(reach.hello_message(NAME) + b"\1\0\0\0"), "not_tls", "not_tls", ""
    ),
}


# What the peers of the tests read is one record.
IN_PIECES = {HELLOS["one byte records"][0]}


@pytest.mark.parametrize("row", HELLOS.values(), ids=HELLOS.keys())
def test_first_bytes(world, session, row):
    first, by_proxy, by_name, host = row
    peers = len(world.peer.hellos)
    result, (event,) = one(
        world, session, ["proxy", {"authority": GOOD, "first": first.hex(), "line": "give 9\n"}]
    )
    assert result["status"] == 200
    assert brief(event) == ("www.good.test", 443, "proxy", "deny" if by_proxy else "allow", by_proxy)
    assert result["got"] == (0 if by_proxy or first in IN_PIECES else 9)
    if by_proxy:
        # It was connected to, and has not seen one byte.
        assert len(world.peer.hellos) == peers
    result, (event,) = one(
        world, session, ["direct", {"address": "2001:db8::7", "first": first.hex(), "line": "give 9\n"}]
    )
    assert brief(event) == (host, 443, "direct", "deny" if by_name else "allow", by_name)


@pytest.mark.parametrize("size", [517, 16384])
def test_a_hello_in_single_bytes(world, session, size):
    code = (
        "def slowly(begin, data):\n"
        "    began = time.monotonic()\n"
        "    s = begin()\n"
        "    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
        "    try:\n"
        "        for i in range(len(data)): s.send(data[i:i+1])\n"
        "        s.sendall(b'give 11\\n')\n"
        "    except ConnectionError: pass\n"
        "    took = time.monotonic() - began\n"
        "    return len(read_end(s)[0]), took\n"
        # It has five seconds for it, which a machine that is busy may not give it.
        "def in_time(*what):\n"
        "    late = 0\n"
        "    while True:\n"
        "        got, took = slowly(*what)\n"
        "        if got or took < 5: return got, late\n"
        "        late += 1\n"
        "data = hello('www.good.test', %d)\n"
        "show([len(data), in_time(lambda: ask(connect_head('www.good.test:443'))[2], data),\n"
        "      in_time(lambda: connect('1.2.3.4', 443), data)])\n" % size
    )
    length, (by_proxy, late), (by_name, _) = world.code(session, code)
    assert (length, by_proxy, by_name) == (size, 11, 11)
    # Without a name there is no event of what was late.
    assert [brief(event) for event in world.events(session, 2 + late)] == [
        deny("www.good.test", "not_tls")
    ] * late + [allow("www.good.test"), allow("www.good.test", "direct")]


# ---- Names that lie (170, 175, 176) ------------------------------------------------------------


@pytest.fixture
def lied(lied_to):
    with lied_to.opened() as made:
        yield made


def resolve(world, session, word):
    return one(world, session, ["proxy", {"authority": "%s.good.test:443" % word}])


# What a hurried gateway says of an attempt when somebody else was late: the name server, the sandbox with
# its first bytes, the network.
LATE = {"dns_fail", "not_tls", "connect_fail"}


def resolve_in_a_hurry(world, session, word, code=None):
    """The same where machine and gateway may disagree about who was late: the sandbox with its head and its
    first bytes, a name server of ours and the network have some hundred milliseconds each. Asked again
    until it is not that, but what is wanted."""

    def tried():
        before = len(world.logged(session))
        (result,) = world.reach(session, ["proxy", {"authority": "%s.good.test:443" % word}])
        assert "error" not in result, result
        if result["status"] is None:
            # Rung 0: the head was late.
            assert (result["head"], len(world.logged(session))) == ("", before), result
            return None
        events = world.events(session, before + 1)[before:]
        assert len(events) == 1, events
        got = events[0].get("code")
        return (got == code or got not in LATE) and (result, events)

    return harness.wait_until(tried, "%s is judged, and nobody was late" % word)


# Tunnels through a gateway that may have found somebody late: one of which nothing was sent yet, and one
# whose peer has answered the line with a byte, with the time at which that was sent.
TUNNEL_IN_A_HURRY = (
    "def tunnel_in_a_hurry():\n"
    "    while True:\n"
    "        status, _, s = ask(connect_head('www.good.test:443'))\n"
    "        if status == 200: return s\n"
    "late = 0\n"
    "def talk_in_a_hurry(line):\n"
    "    global late\n"
    "    while True:\n"
    "        s, began = tunnel_in_a_hurry(), time.monotonic()\n"
    "        try:\n"
    "            s.sendall(hello('www.good.test') + line)\n"
    "            if s.recv(1): return s, began\n"
    "        except ConnectionError: pass\n"
    "        late += 1\n"
)


def looked_up(events):
    return [event for event in events if event.get("code") not in LATE - {"not_tls"}]


def test_2_11_a_name_that_turns_private_is_dialled_where_it_was_looked_at(lied_to, liar, lied):
    result, (event,) = resolve(lied_to, lied, "rebind")
    assert (result["status"], result["got"], event["ip"]) == (200, 100, PUBLIC)
    # One question for each connection: there is no second answer between the look and the dial.
    assert liar.count("rebind.good.test") == 1
    result, (event,) = resolve(lied_to, lied, "rebind")
    assert (result["status"], event["code"], event["ips"]) == (403, "addr_class", ["127.0.0.1"])
    assert liar.count("rebind.good.test") == 2


LIES = {
    "split": ("rebind_suspected", 403),
    "cname-private": ("addr_class", 403),
    "cname-public": (None, 200),
    "cname-loop": ("dns_fail", 502),
    "cname-long": ("addr_class", 403),
    "by-tcp": (None, 200),
    "by-tcp-private": ("rebind_suspected", 403),
    # More addresses than anybody has: as if it did not resolve.
    "huge": ("dns_fail", 502),
    "many": ("rebind_suspected", 403),
    "cut": ("dns_fail", 502),
    "servfail": ("dns_fail", 502),
    "refused": ("dns_fail", 502),
    "empty": ("dns_fail", 502),
    "lies-about-count": ("dns_fail", 502),
    "pointer-loop": ("dns_fail", 502),
    "wrong-length": ("dns_fail", 502),
    "wrong-class": ("dns_fail", 502),
}


@pytest.mark.parametrize("word", LIES)
def test_answers_of_a_name_server(lied_to, lied, word):
    code, status = LIES[word]
    result, (event,) = resolve(lied_to, lied, word)
    assert (result["status"], event.get("code")) == (status, code)
    assert len(event.get("ips", [])) <= 4
    assert resolve(lied_to, lied, "www")[0]["status"] == 200


@pytest.mark.parametrize("word", ["never", "short", "other-question", "other-number"])
def test_a_name_server_without_a_fitting_answer_is_waited_for_with_an_end(hurried, word):
    with hurried.opened() as session:
        result, (event,) = resolve_in_a_hurry(hurried, session, word, "dns_fail")
        assert (result["status"], event["code"]) == (502, "dns_fail")


def test_names_are_looked_up_only_when_they_are_connected_to(world, session):
    """No question of a tenant leaves the host: nothing can be carried out in one."""
    names = ["secret-%d.good.test" % i for i in range(50)]
    results = world.reach(
        session, *[["dns", {"name": name, "kind": kind}] for name in names for kind in (1, 28, 16)]
    )
    assert {result["rcode"] for result in results} == {0}
    assert not [name for name in world.net.questions() if name.startswith("secret-")]
    assert world.logged(session) == []


def test_a_name_server_that_is_down_is_a_refusal(hurried, liar):
    with hurried.opened() as session:
        assert resolve_in_a_hurry(hurried, session, "www")[0]["status"] == 200
        liar.dumb = True
        try:
            result, (event,) = resolve_in_a_hurry(hurried, session, "www", "dns_fail")
            assert (result["status"], event["code"]) == (502, "dns_fail")
        finally:
            liar.dumb = False
        assert resolve_in_a_hurry(hurried, session, "www")[0]["status"] == 200


def test_a_slow_name_server_holds_up_nobody_else(lied_to, liar, lied):
    for below in range(3):
        got, answered, took = lied_to.code(
            lied,
            "slow = [connect(*PROXY) for _ in range(60)]\n"
            "began = time.monotonic()\n"
            "for s in slow: s.sendall(connect_head('never.x%d.good.test:443'))\n"
            "got = proxy('www.good.test:443')['got']\n"
            "answered = len(select.select(slow, [], [], 0)[0])\n"
            "show([got, answered, time.monotonic() - began])\n" % below,
        )
        assert got == 100
        if took < PATIENCE:
            break
    # All the others still wait, if it did not take as long as anybody waits for a name server.
    assert took < PATIENCE and answered == 0


# ---- The name server inside (170) --------------------------------------------------------------


def test_questions_may_come_many_at_once_and_answers_need_not_be_read(world, session):
    shown = world.code(
        session,
        "def framed(name, number):\n"
        "    q = question(name, 1, number)\n"
        "    return struct.pack('>H', len(q)) + q\n"
        "s = connect('9.9.9.9', 53)\n"
        "s.sendall(b''.join(framed('n%d.good.test' % i, i) for i in range(100)))\n"
        "numbers = []\n"
        "while len(numbers) < 100:\n"
        "    numbers.append(struct.unpack('>H', read_dns(s)[:2])[0])\n"
        "deaf = connect('9.9.9.9', 53); deaf.setblocking(False)\n"
        "sent = 0\n"
        "try:\n"
        "    while sent < 64 << 20 and select.select([], [deaf], [], 0.5)[1]:\n"
        "        sent += deaf.send(framed('www.good.test', 1) * 1000)\n"
        "except OSError: pass\n"
        # So many are answered in a moment, and no more.
        "while True:\n"
        "    again = dns('www.good.test', tcp=True)\n"
        "    if again['rcode'] is not None: break\n"
        "show([numbers == list(range(100)), sent < 64 << 20, again['answers']])\n",
    )
    assert shown == [True, True, 1]
    assert world.logged(session) == []


MESSAGES = {
    "nothing": b"",
    "short": b"\x12\x34\x01\x00\x00\x01",
    "an answer": reach.question("www.good.test")[:2] + b"\x81\x80" + reach.question("www.good.test")[4:],
    "no question": b"\x12\x34\x01\x00" + bytes(8),
    "two questions": b"\x12\x34\x01\x00\x00\x02" + bytes(6) + reach.question("www.good.test")[12:] * 2,
    "a pointer": b"\x12\x34\x01\x00\x00\x01" + bytes(6) + b"\xc0\x0c\x00\x01\x00\x01",
    "a name without end": b"\x12\x34\x01\x00\x00\x01" + bytes(6) + b"\x3fa" * 200,
    "a transfer": b"\x12\x34\x01\x00\x00\x01" + bytes(6) + reach.question("www.good.test", 252)[12:],
    "an update": b"\x12\x34\x29\x00\x00\x01" + bytes(6) + reach.question("www.good.test")[12:],
    "a name too long": b"\x12\x34\x01\x00\x00\x01" + bytes(6) + (b"\x3f" + b"a" * 63) * 4 + b"\0\0\1\0\1",
    "noise": bytes(range(256)) * 4,
}


def test_messages_that_are_no_questions(world, session):
    code = (
        "def ask_raw(data, tcp):\n"
        "    if tcp:\n"
        "        s = connect('9.9.9.9', 53); s.sendall(struct.pack('>H', len(data)) + data)\n"
        "        s.shutdown(socket.SHUT_WR); return read_end(s)[0][2:]\n"
        "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('9.9.9.9', 53)); s.send(data)\n"
        "    s.send(question('www.good.test', 1, 0x7777)); s.settimeout(SECONDS)\n"
        "    first = s.recv(4096)\n"
        "    return b'' if first[:2] == b'\\x77\\x77' else first\n"
        "show([[ask_raw(bytes.fromhex(m), tcp).hex() for tcp in (False, True)] for m in %r])\n"
        % [message.hex() for message in MESSAGES.values()]
    )
    for name, answers in zip(MESSAGES, world.code(session, code)):
        for answer in map(bytes.fromhex, answers):
            if answer:
                assert answer[2] & 0x80 and len(answer) <= 1232, name
                # It answers nothing: no records.
                assert answer[6:8] == b"\0\0", (name, answer)


# ---- Ends in the middle (200) ------------------------------------------------------------------


@pytest.mark.parametrize("how", ["delete", "time", "exit"])
def test_attempts_in_every_state_end_with_their_sandbox(lied_to, liar, how):
    """Heads, lookups, dials, first bytes and tunnels that are under way, all at once."""
    liar._nowhere = lambda q, tcp: liar._only(q, nameserver.A, egress.NOWHERE)
    code = (
        "kept = []\n"
        "print('asking', time.time(), flush=True)\n"
        "for i in range(8):\n"
        "    for word in ('never', 'nowhere', 'www'):\n"
        "        name = word + BELOW\n"
        "        s = connect(*PROXY); s.sendall(connect_head(name + ':443')); kept.append(s)\n"
        "        s = connect('1.2.3.4', 443); s.sendall(hello(name)); kept.append(s)\n"
        "    for port in (80, 443, 53):\n"
        "        s = connect('1.2.3.4', port); s.sendall(b'\\x16\\x03\\x01'); kept.append(s)\n"
        "    s = connect(*PROXY); s.sendall(b'CONNECT'); kept.append(s)\n"
        "    kept.append(open_tunnel('www.good.test:443', line=b'echo\\n'))\n"
        "print('begun', flush=True)\n"
        + ("" if how == "exit" else "time.sleep(90)\n")
    )
    pid = lied_to.gateway
    for n, seconds in enumerate((2, 3, 4, 5) * 3 if how == "time" else (60,) * 12):
        session = lied_to.session()
        result, said = None, ""
        # A name that was asked for before may still be waited for, and its time be over sooner.
        below = ".%s%d.good.test" % (how, n)
        stdin = "from reach import *\nBELOW = %r\n%s" % (below, code)
        for _, event, data in lied_to.server.stream(session, "python3 -", seconds, stdin=stdin):
            if event == "result":
                result = data
                break
            said += data["text"]
            if how == "delete" and "begun" in said:
                break
        # Tunnels that were established have both lines; what was being looked up or dialled is there
        # too.
        events = lied_to.end(session)
        # Later some names may not be waited for any more.
        if "begun" in said and time.time() - float(said.split()[1]) < PATIENCE:
            break
    else:
        raise AssertionError("it never ended while all of it was under way: %r" % said)
    assert how == "delete" or result["timed_out"] is (how == "time")
    assert {event["host"] for event in events if event["decision"] == "allow"} == {
        "www" + below, "www.good.test"
    }
    for word in ("never", "nowhere"):
        found = [event for event in events if event["host"] == word + below]
        assert {event["reason"] for event in found} == {"proxy error: unfinished"}, events
        assert {event["via"] for event in found} == {"proxy", "direct"} and len(found) == 16
    with lied_to.opened() as other:
        assert one(lied_to, other, ["proxy", {"authority": GOOD}])[0]["got"] == 100
    assert lied_to.gateway == pid


# ---- Time (194), with a gateway that is in a hurry ---------------------------------------------


def test_what_comes_too_slowly_is_closed(hurried):
    code = (
        "def drip(s, data, seconds=0.02):\n"
        "    began = time.monotonic()\n"
        "    try:\n"
        "        for i in range(len(data)):\n"
        "            s.send(data[i:i+1])\n"
        "            if select.select([s], [], [], seconds)[0]: break\n"
        "        else: return 'never'\n"
        "        got = read_end(s)[0]\n"
        "    except OSError: got = b''\n"
        "    return [len(got), time.monotonic() - began]\n"
        "long = b'CONNECT www.good.test:443 HTTP/1.1\\r\\nX: ' + b'x' * 1000\n"
        "h = hello('www.good.test', 2000)\n"
        "show([drip(connect(*PROXY), long), drip(connect('1.2.3.4', 80), long),\n"
        "      drip(tunnel_in_a_hurry(), h), drip(connect('1.2.3.4', 443), h),\n"
        "      drip(connect('1.2.3.4', 53), b'\\1\\0' + bytes(256))])\n"
    )
    with hurried.opened() as session:
        for result in hurried.code(session, TUNNEL_IN_A_HURRY + code):
            assert result != "never" and result[0] == 0 and result[1] < 10, result
        # Rung 0 has no event; behind a 200 there is one to close.
        assert [brief(event) for event in looked_up(hurried.events(session, 1))] == [
            deny("www.good.test", "not_tls")
        ]


def test_what_says_nothing_is_closed(hurried):
    code = (
        "socks = [connect(*PROXY), connect('1.2.3.4', 80), connect('1.2.3.4', 443),\n"
        "         connect('1.2.3.4', 53), tunnel_in_a_hurry()]\n"
        "show([len(read_end(s)[0]) for s in socks])\n"
    )
    with hurried.opened() as session:
        assert hurried.code(session, TUNNEL_IN_A_HURRY + code) == [0] * 5
        assert [brief(event) for event in looked_up(hurried.events(session, 1))] == [
            deny("www.good.test", "not_tls")
        ]


def test_an_address_that_does_not_answer_is_given_up_and_the_next_one_tried(hurried, liar):
    liar._nowhere = lambda q, tcp: liar._only(q, nameserver.A, egress.NOWHERE)
    liar._later = lambda q, tcp: liar._only(q, nameserver.A, egress.NOWHERE, egress.DEAD, PUBLIC)
    with hurried.opened() as session:
        result, (event,) = resolve_in_a_hurry(hurried, session, "nowhere", "connect_fail")
        assert (result["status"], event["code"], event["ips"]) == (502, "connect_fail", [egress.NOWHERE])
        result, (event,) = resolve_in_a_hurry(hurried, session, "later")
        assert (result["status"], result["got"]) == (200, 100)
        assert event["ip"] == PUBLIC


def test_an_idle_tunnel_is_closed_and_a_busy_one_is_not(hurried):
    """120 s without a byte either way."""
    code = (
        "import contextlib\n"
        "quiet, began = talk_in_a_hurry(b'hold 1\\n')\n"
        "busy, _ = talk_in_a_hurry(b'echo\\nz')\n"
        "last, pause, n = began, 0, 0\n"
        "while not select.select([quiet], [], [], 0.2)[0]:\n"
        "    with contextlib.suppress(OSError):\n"
        "        busy.sendall(b'x'); n += len(busy.recv(1))\n"
        "    pause, last = max(pause, time.monotonic() - last), time.monotonic()\n"
        "took = time.monotonic() - began\n"
        # When all stood still, the other one was not busy.
        "if pause > 2: sys.exit(show([late, None]))\n"
        "busy.sendall(b'y')\n"
        "show([late, [took, n, read_end(quiet)[1], busy.recv(1).decode()]])\n"
    )
    late = runs = 0
    with hurried.opened() as session:

        def run():
            nonlocal late, runs
            more, shown = hurried.code(session, TUNNEL_IN_A_HURRY + code)
            late, runs = late + more, runs + 1
            return shown

        took, n, end, last = harness.wait_until(run, "it ran without a pause")
        assert 120 / HURRY - 1 < took < 120 / HURRY + 10 and n > 5
        assert end in ("eof", "reset") and last == "y"
        briefs = [brief(event) for event in looked_up(hurried.events(session, 2 * runs))]
        assert briefs.count(deny("www.good.test", "not_tls")) == late
        assert briefs.count(allow("www.good.test")) == 2 * runs == len(briefs) - late


# ---- Floods (203) ------------------------------------------------------------------------------

FLOOD = 5000


def total(events):
    return sum(event.get("repeat", 1) for event in events)


def flood(world, session, name, n=FLOOD, at_once=1000, hurried=False):
    """By several commands; how many minutes may have begun meanwhile. hurried: heads may be late for the
    gateway, which closes then and tells nobody, and come again."""
    began = time.monotonic()
    for first in range(0, n, at_once):
        last = min(first + at_once, n)
        shown = world.code(
            session,
            "n = 0\n"
            "for i in range(%d, %d):\n"
            "    while True:\n"
            "        status, _, s = ask(connect_head(%s))\n"
            "        s.close()\n"
            "        if status or not %r: break\n"
            "    n += status == 403\n"
            "show(n)\n" % (first, last, name, hurried),
        )
        assert shown == last - first
    return 2 + int((time.monotonic() - began) / 60)


def test_a_flood_of_one_denial_is_counted_exactly(world):
    session = world.session()
    minutes = flood(world, session, "'evil.test:443'")
    assert world.reach(session, ["proxy", {"authority": GOOD}])[0]["got"] == 100
    events = world.end(session)
    denied = [event for event in events if event["decision"] == "deny"]
    assert total(denied) == FLOOD and {brief(e) for e in denied} == {deny("evil.test", "no_rule")}
    assert len(denied) <= minutes * 101 and [e for e in denied if "repeat" in e]
    assert [brief(e) for e in events if e["decision"] == "allow"] == [allow("www.good.test")]


def test_a_flood_of_different_denials_is_counted_exactly(world):
    session = world.session()
    minutes = flood(world, session, "'n%d.evil.test:443' % i")
    assert world.reach(session, ["proxy", {"authority": GOOD}])[0]["got"] == 100
    denied = [event for event in world.end(session) if event["decision"] == "deny"]
    assert total(denied) == FLOOD and {event["code"] for event in denied} == {"no_rule"}
    assert len(denied) <= minutes * 1100
    hosts = [event["host"] for event in denied if "repeat" not in event]
    assert len(hosts) == len(set(hosts)) >= 1000


@pytest.mark.parametrize("name", ["evil.test", "www.good.test", "private.good.test"])
@pytest.mark.parametrize("way", ["direct", "proxy"])
def test_attempts_that_nobody_waits_for_are_counted_too(world, name, way):
    """Sent and forgotten: whatever became of each, it is in the log, or in a count of it."""
    n = 1000
    code = (
        "def fire():\n"
        "    c = connect('1.2.3.4', 443) if WAY == 'direct' else connect(*PROXY)\n"
        "    c.sendall(hello(NAME) if WAY == 'direct' else connect_head(NAME + ':443')); c.close()\n"
        "for i in range(%d): fire()\n"
        "last = direct('1.2.3.4', 443, NAME) if WAY == 'direct' else proxy(NAME + ':443')\n"
        "show(0)\n" % n
    )
    session = world.session()
    world.code(session, "NAME, WAY = %r, %r\n%s" % (name, way, code))
    assert total(world.end(session)) == n + 1


def test_a_counted_flood_is_written_when_the_minute_ends(hurried):
    with hurried.opened() as session:
        flood(hurried, session, "'evil.test:443'", 300, hurried=True)
        harness.wait_until(
            lambda: total([e for e in hurried.logged(session) if e["decision"] == "deny"]) == 300,
            "the rest was written",
        )


def test_connections_that_say_nothing_hold_up_nobody_else(world, session):
    """More than one sandbox may have: the rest waits, and others do not notice."""
    code = (
        "socks = []\n"
        "for i in range(250):\n"
        "    s = socket.socket(); s.setblocking(False); s.connect_ex(PROXY); socks.append(s)\n"
        "    s = socket.socket(); s.setblocking(False); s.connect_ex(('1.2.3.4', 443)); socks.append(s)\n"
        "open('ready', 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "for s in socks: s.close()\n"
        "show(proxy('www.good.test:443')['got'])\n"
    )
    with harness.in_background(world.code, session, code, 60) as result:
        wait_for_file(world, session, "ready")
        with world.opened() as other:
            assert one(world, other, ["proxy", {"authority": GOOD}])[0]["got"] == 100
        assert world.gateway_fds() < 1500
        touch(world, session, "go")
    assert result == [100]
    assert [brief(event) for event in world.events(session, 1)] == [allow("www.good.test")]


def touch(world, session, path):
    world.server.post("/v1/sessions/%s/write" % session, {"path": path, "content": ""})


def wait_for_file(world, session, path):
    query = "/v1/sessions/%s/read?path=%s" % (session, path)
    harness.wait_until(lambda: world.server.get(query).json["content"] == "", path)


def test_the_65th_tunnel_of_a_session_is_refused(world, session):
    shown = world.code(
        session,
        "socks = [open_tunnel('www.good.test:443', line=b'echo\\n') for _ in range(64)]\n"
        "for s in socks: s.sendall(b'x'); s.recv(1)\n"
        "over = [proxy('www.good.test:443')['status'], direct('1.2.3.4', 443, 'www.good.test')['got'],\n"
        "        proxy('evil.test:443')['status']]\n"
        "socks.pop().close()\n"
        "while True:\n"
        "    again = proxy('www.good.test:443')\n"
        "    if again['status'] != 503: break\n"
        "for s in socks: s.sendall(b'y')\n"
        "show([over, again['status'], {s.recv(1).decode() for s in socks} == {'y'}])\n",
    )
    assert shown == [[503, 0, 403], 200, True]
    events = world.events(session, 68)
    assert [brief(event) for event in events[64:67]] == [
        deny("www.good.test", "limit"), deny("www.good.test", "limit", "direct"),
        deny("evil.test", "no_rule"),
    ]
    assert events[64]["reason"] == "too many connections"


# ---- Peers that misbehave (193, 194) -----------------------------------------------------------


def grown(world, before):
    # An instrumented program keeps what it has freed.
    return 0 if os.environ.get("AIRLOCK_SANITIZED") else harness.rss_kib(world.gateway) - before


def test_a_peer_that_never_reads_holds_a_bounded_amount(world, session):
    code = (
        "s = open_tunnel('www.good.test:443', line=b'deaf\\n'); s.setblocking(False)\n"
        "sent = 0\n"
        "while select.select([], [s], [], 0.5)[1]:\n"
        "    sent += s.send(bytes(1 << 16))\n"
        "got = proxy('www.good.test:443')['got']\n"
        "s.close()\n"
        "show([sent, got])\n"
    )
    before = harness.rss_kib(world.gateway)
    sent, got = world.code(session, code)
    assert got == 100 and 0 < sent < 64 << 20
    assert grown(world, before) < 8192
    held, fine = world.events(session, 2)
    assert held["bytes_up"] <= sent + 200 and fine["bytes_down"] == 100


def test_a_client_that_never_reads_holds_a_bounded_amount(world, session):
    code = (
        "socks = [open_tunnel('www.good.test:443', line=b'give 67108864\\n') for _ in range(8)]\n"
        "time.sleep(0.3)\n"
        "got = proxy('www.good.test:443')['got']\n"
        "show(got)\n"
    )
    before = harness.rss_kib(world.gateway)
    assert world.code(session, code) == 100
    assert grown(world, before) < 8192
    events = world.events(session, 9)
    assert all(event["bytes_down"] < 64 << 20 for event in events)


def test_a_storm_of_resets_leaves_nothing(world, session):
    code = (
        "for i in range(300):\n"
        "    s = open_tunnel('www.good.test:443', line=b'echo\\n')\n"
        "    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n"
        "    s.close()\n"
        "for i in range(300):\n"
        "    s = connect(*PROXY)\n"
        "    s.send(b'CONN')\n"
        "    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n"
        "    s.close()\n"
        "show(1)\n"
    )
    before = world.gateway_fds()
    assert world.code(session, code) == 1
    events = world.events(session, 300)
    assert len(events) == 300 and {event["decision"] for event in events} <= {"allow", "deny"}
    # Sooner than the time-out of a head would close them.
    harness.within(lambda: world.gateway_fds() <= before + 64, 8, "descriptors are closed")


# ---- Processes that die (202) ------------------------------------------------------------------


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_gateway_that_is_killed_ends_tunnels_and_nothing_else(world, session):
    code = (
        "def say(word): print(word, flush=True)\n"
        "s = open_tunnel('www.good.test:443', line=b'echo\\n')\n"
        "s.sendall(b'x' * 1000); n = 0\n"
        "while n < 1000: n += len(s.recv(1000))\n"
        "say('open')\n"
        "try: say('end %d' % len(s.recv(1)))\n"
        "except OSError: say('end 0')\n"
        "waiting = [connect(*PROXY) for _ in range(20)]\n"
        "for w in waiting: w.sendall(connect_head('evil.test:443'))\n"
        "by_name = connect('1.2.3.4', 443); by_name.sendall(hello('www.good.test') + b'give 5\\n')\n"
        "say('asked')\n"
        "say('quiet' if not select.select(waiting + [by_name], [], [], 0.3)[0] else 'answered')\n"
        "say('judged')\n"
        "say(','.join(read_head(w)[9:12].decode() for w in waiting))\n"
        "say(len(read_end(by_name)[0]))\n"
        "say(dns('www.good.test')['answers'])\n"
    )
    said = []
    old = world.gateway
    launcher = world.server.process.pid
    with contextlib.ExitStack() as stack:
        for _, event, data in world.server.stream(
            session, "python3 -", 50, stdin="from reach import *\n" + code
        ):
            if event == "result":
                assert data["exit_code"] == 0, (said, data)
                break
            for word in data["text"].split("\n")[:-1]:
                said.append(word)
                if word == "open":
                    # Whoever starts the next one waits, so that it is down for as long as we look.
                    stack.enter_context(stopped(launcher))
                    os.kill(old, signal.SIGKILL)
                if word == "judged":
                    stack.close()
    assert said == ["open", "end 0", "asked", "quiet", "judged", ",".join(["403"] * 20), "5", "1"]
    assert world.gateway != old

    def told():
        events = world.asked(session)
        return len(events) == 22 and not any(event.get("open") for event in events) and events

    # The tunnel that was broken has no second line; it is not shown as open.
    asked = harness.wait_until(told, "22 events, and none is open")
    assert [brief(event) for event in asked[:1]] == [allow("www.good.test")]
    assert sorted(brief(event) for event in asked[1:21]) == [deny("evil.test", "no_rule")] * 20 or (
        sum(brief(event) == deny("evil.test", "no_rule") for event in asked) == 20
    )
    lines = [json.loads(line) for line in world.lines(session)]
    assert lines[0]["open"] is True and len({line.get("conn") for line in lines}) == 3


def test_what_a_new_gateway_finds_waits_for_an_airlockd_that_is_slow(world, session):
    code = (
        "s = open_tunnel('www.good.test:443', line=b'hold 1\\n'); s.recv(1)\n"
        "print('open', flush=True)\n"
        "try: s.recv(1)\n"
        "except OSError: pass\n"
        "show([dns('www.good.test')['answers'], proxy('www.good.test:443')['got'],\n"
        "      direct('1.2.3.4', 443, 'www.good.test')['got']])\n"
    )
    old = world.gateway
    (airlockd,) = world.server.process_of("airlockd")
    stdin = "from reach import *\n" + code
    for _, event, data in world.server.stream(session, "python3 -", 50, stdin=stdin):
        if event == "result":
            assert data["stdout"] == "open\n[1, 100, 100]", data
            break
        if data["text"] == "open\n":
            with stopped(airlockd):
                os.kill(old, signal.SIGKILL)
                harness.wait_until(
                    lambda: world.server.process_of("airlock-gateway") not in ([], [old]), "the next one"
                )
                began = time.monotonic()
                harness.wait_until(lambda: time.monotonic() - began > 1.5, "it had time to refuse")


def test_a_gateway_that_is_killed_again_and_again_comes_back(world, session):
    for _ in range(3):
        os.kill(world.gateway, signal.SIGKILL)
        result, _ = one(world, session, ["proxy", {"authority": GOOD}])
        assert (result["status"], result["got"]) == (200, 100)


def while_it_hangs(world, session):
    """Seconds that each of some commands took meanwhile, and a look at the log."""
    commands = []
    with stopped(world.gateway):
        for _ in range(3):
            began = awake.seconds()
            assert world.server.exec(session, "echo ok")["stdout"] == "ok\n"
            commands.append(awake.seconds() - began)
        began = awake.seconds()
        assert [brief(event) for event in world.asked(session)] == [deny("evil.test", "no_rule")]
        look = awake.seconds() - began
        with world.opened() as other:
            assert world.server.exec(other, "echo ok")["stdout"] == "ok\n"
    return max(commands), look


def test_a_gateway_that_hangs_holds_up_no_command_and_no_answer(world, session):
    one(world, session, ["proxy", {"authority": "evil.test:443"}])
    # The machine may hold up one of those that take part, but not each time.
    for _ in range(4):
        command, look = while_it_hangs(world, session)
        if command < 2 and look < 5:
            break
    assert command < 2 and look < 5
    assert one(world, session, ["proxy", {"authority": GOOD}])[0]["got"] == 100


def test_files_of_the_log_go_when_they_are_old_and_their_session_is_gone(world, session):
    one(world, session, ["proxy", {"authority": "evil.test:443"}])
    gone = world.session()
    one(world, gone, ["proxy", {"authority": "evil.test:443"}])
    fresh = world.session()
    one(world, fresh, ["proxy", {"authority": "evil.test:443"}])
    for ended in (gone, fresh):
        world.close(ended)
    other = os.path.join(world.log_dir, "notes.txt")
    link = os.path.join(world.log_dir, "sbx_link.jsonl")
    target = os.path.join(world.net.folder, "target")
    for path in (other, target):
        open(path, "w").close()
    os.symlink(target, link)
    old = time.time() - 31 * 86400
    files = [os.path.join(world.log_dir, name + ".jsonl") for name in (session, gone)]
    for path in files + [other, target]:
        os.utime(path, (old, old))
    os.utime(link, (old, old), follow_symlinks=False)
    # A new one looks at once.
    os.kill(world.gateway, signal.SIGKILL)
    harness.wait_until(lambda: not os.path.exists(files[1]), "the old file is gone")
    assert os.path.exists(files[0]) and os.path.exists(other) and os.path.exists(target)
    assert os.path.exists(os.path.join(world.log_dir, fresh + ".jsonl"))
    for path in (other, link):
        os.unlink(path)


def test_no_log_is_old_before_it_is_known_whose_it_is(world, session):
    """A gateway that comes while airlockd is slow knows of no session."""
    one(world, session, ["proxy", {"authority": "evil.test:443"}])
    mine, other = [os.path.join(world.log_dir, name + ".jsonl") for name in (session, "sbx_gone")]
    old = time.time() - 31 * 86400
    before = world.gateway
    (airlockd,) = world.server.process_of("airlockd")
    with stopped(airlockd):
        os.kill(before, signal.SIGKILL)
        harness.wait_until(
            lambda: world.server.process_of("airlock-gateway") not in ([], [before]), "the next one"
        )
        # The one before may have been new too, and knew.
        open(other, "w").close()
        for path in (mine, other):
            os.utime(path, (old, old))
        began = time.monotonic()
        harness.wait_until(lambda: time.monotonic() - began > 1.5, "it had time to look")
        assert os.path.exists(mine) and os.path.exists(other)
    harness.wait_until(lambda: not os.path.exists(other), "the old file is gone")
    assert os.path.exists(mine)


def test_a_log_with_lines_that_are_none_is_still_told(world, session):
    one(world, session, ["proxy", {"authority": GOOD}])
    path = os.path.join(world.log_dir, session + ".jsonl")
    with open(path, "ab") as file:
        file.write(b"\n{}\nnull\n\xff\xfe\n{\"ts\": 1}\n" + b"x" * 100000 + b"\n{\"ts\":1.0,\"decision\":")
    (event,) = world.asked(session)
    assert brief(event) == allow("www.good.test")
    assert world.reach(session, ["proxy", {"authority": "evil.test:443"}])[0]["status"] == 403
    world.reach(session, ["proxy", {"authority": "other.test:443"}])
    # The line behind the one that was cut off is lost with it, and no more.
    hosts = [event["host"] for event in world.asked(session)]
    assert hosts[0] == "www.good.test" and hosts[-1] == "other.test"
    os.truncate(path, 0)


def test_the_log_survives_a_restart_of_the_server(world):
    with world.new_server(keep=True) as server:
        session = server.create(egress=["exact.test"])
        command = "curl -s https://evil.test/; curl -s https://no.exact.test/; true"
        server.exec(session, command)
        path = "/v1/sessions/%s/egress" % session
        before = server.get(path).json
        assert [event["host"] for event in before["events"]] == ["evil.test", "no.exact.test"]
        state_dir = server.state_dir
        server.stop()
    with world.new_server(keep=True, state_dir=state_dir) as again:
        assert again.get(path).json == before
        again.exec(session, command)
        assert len(again.get(path).json["events"]) == 4
        again.delete("/v1/sessions/" + session)


def test_an_airlockd_that_is_killed_leaves_a_log_that_is_right(world):
    with world.beside(keep=True) as other:
        session = other.session()
        assert one(other, session, ["proxy", {"authority": GOOD}])[0]["got"] == 100
        ready = threading.Event()

        def run():
            line = (
                "s = open_tunnel('www.good.test:443', line=b'hold 1\\n'); s.recv(1)\n"
                "print('open', flush=True); s.recv(1)"
            )
            with contextlib.suppress(Exception):
                for _, event, _ in other.server.stream(
                    session, "python3 -", 50, stdin="from reach import *\n" + line
                ):
                    ready.set()

        with harness.in_background(run):
            assert ready.wait(60)
            (pid,) = other.server.process_of("airlockd")
            os.kill(pid, signal.SIGKILL)
        harness.wait_until(lambda: healthy(other.server, pid), "airlockd is back")
        events = other.events(session, 2)
        assert [brief(event) for event in events] == [allow("www.good.test")] * 2
        assert without_conn(other.asked(session)) == without_conn(events)
        assert one(other, session, ["proxy", {"authority": GOOD}])[0]["got"] == 100
        assert one(other, session, ["proxy", {"authority": "evil.test:443"}])[0]["status"] == 403
        other.server.delete("/v1/sessions/" + session)


def without_conn(events):
    return [{k: v for k, v in event.items() if k != "conn"} for event in events]


def healthy(server, old):
    if server.process_of("airlockd") in ([], [old]):
        return False
    with contextlib.suppress(OSError, harness.http.client.HTTPException):
        return server.get("/healthz", key=None, timeout=2).status == 200


# ---- What runs out (202, 304) ------------------------------------------------------------------


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def descriptors(pid, more):
    """The process may open so many more, whatever numbers are free between those that it has."""

    def limit(n):
        # As its own user: a root that lacks CAP_SYS_RESOURCE may not.
        subprocess.run(
            ["prlimit", "--pid", str(pid), "--nofile=%s:" % n],
            user="airlock-gw", group="airlock-gw", extra_groups=[], check=True,
        )

    with open("/proc/%d/limits" % pid, encoding="ascii") as file:
        (soft,) = [line.split()[3] for line in file if line.startswith("Max open files")]
    taken = {int(name) for name in os.listdir("/proc/%d/fd" % pid)}
    limit(next(itertools.islice((n for n in itertools.count() if n not in taken), more, None)))
    try:
        yield
    finally:
        limit(soft)


def test_a_gateway_without_descriptors_waits_without_spinning_and_recovers(poolless, alone):
    world, session = poolless, alone
    code = (
        "socks = []\n"
        "open('begun', 'w').close()\n"
        "while not os.path.exists('start'): time.sleep(0.01)\n"
        "for i in range(100):\n"
        "    s = socket.socket(); s.setblocking(False); s.connect_ex(PROXY); socks.append(s)\n"
        "open('ready', 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "for s in socks: s.close()\n"
        "show(proxy('www.good.test:443')['got'])\n"
    )
    pid = world.gateway
    before = world.server.log().count('"cannot_accept"')
    with harness.in_background(world.code, session, code, 60) as result:
        wait_for_file(world, session, "begun")
        with descriptors(pid, 30):
            touch(world, session, "start")
            wait_for_file(world, session, "ready")
            harness.wait_until(
                lambda: world.server.log().count('"cannot_accept"') > before, "it has no more"
            )
            used, began = cpu_seconds(pid), time.monotonic()
            harness.wait_until(lambda: time.monotonic() - began > 0.5, "half a second")
            assert cpu_seconds(pid) - used < 0.25
        touch(world, session, "go")
    assert result == [100]
    assert [brief(event) for event in world.events(session, 1)] == [allow("www.good.test")]
    assert world.gateway == pid
    assert world.server.log().count('"cannot_accept"') - before < 100


@pytest.mark.parametrize("more", [0, 1, 2, 3, 5, 9, 17, 30, 60])
def test_tunnels_for_which_there_are_no_descriptors_are_refused_and_logged(poolless, alone, more):
    world, session = poolless, alone
    code = (
        "open('begun', 'w').close()\n"
        "while not os.path.exists('start'): time.sleep(0.01)\n"
        "socks = []\n"
        "for _ in range(25):\n"
        "    s = connect(*PROXY); s.setblocking(False); socks.append(s)\n"
        "    s.send(connect_head('www.good.test:443'))\n"
        "open('ready', 'w').close()\n"
        "heads = []\n"
        "for s in socks:\n"
        "    s.settimeout(SECONDS)\n"
        "    heads.append(read_head(s)[9:12].decode())\n"
        "    if heads[-1] == '200':\n"
        "        s.sendall(hello('www.good.test') + b'give 3\\n')\n"
        "        if len(read_end(s)[0]) != 3: heads[-1] = 'broken'\n"
        "    else: open('refused', 'w').close()\n"
        "    s.close()\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "show([heads, proxy('www.good.test:443')['got']])\n"
    )
    pid = world.gateway
    with harness.in_background(world.code, session, code, 60) as result:
        wait_for_file(world, session, "begun")
        with descriptors(pid, more):
            touch(world, session, "start")
            wait_for_file(world, session, "ready")
            # Who accepts as many as it can has none left for their other ends. With more than that
            # those that wait may have their turn, and without any all of them do.
            if 1 <= more <= 17:
                wait_for_file(world, session, "refused")
            else:
                began = time.monotonic()
                harness.wait_until(lambda: time.monotonic() - began > 0.3, "it had time to refuse")
        touch(world, session, "go")
    ((heads, after),) = result
    assert after == 100 and world.gateway == pid
    passed = heads.count("200") + heads.count("broken") + 1
    events = world.events(session, passed)
    codes = [event.get("code") for event in events]
    # What passed is there to the last one; of what did not, there may be no line for lack of a file.
    assert codes.count(None) == passed and len(codes) <= 26, (heads, codes)
    assert set(codes) <= {None, "error", "log_unavailable", "dns_fail"}, codes


@contextlib.contextmanager
def disk_for_the_log(world, size):
    """A server whose log lies on a disk of its own."""
    folder = os.path.join(world.net.folder, "disk" + size)
    os.mkdir(folder)
    options = "size=%s,mode=755" % size
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "disk", folder], check=True)
    try:
        with world.beside({"SANDBOX_EGRESS_LOG_DIR": os.path.join(folder, "log")}) as other:
            other.disk = folder
            yield other
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture(scope="module")
def small(world):
    """Of a few pages."""
    with disk_for_the_log(world, "64k") as other:
        yield other


def unavailable(world, session):
    (by_proxy, by_name, refused) = world.reach(
        session,
        ["proxy", {"authority": GOOD}],
        ["direct", {"address": "1.2.3.4", "name": "www.good.test"}],
        ["proxy", {"authority": "evil.test:443"}],
    )
    assert (by_proxy["status"], by_name["got"], refused["status"]) == (503, 0, 403)


def test_without_room_for_the_log_nothing_is_allowed(small):
    with small.opened() as session:
        assert one(small, session, ["proxy", {"authority": GOOD}])[0]["got"] == 100
        peers = len(small.peer.hellos)
        filler = os.path.join(small.disk, "filler")
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        # The last page of the file of events has room for some lines.
        lines = len(small.lines(session))
        for _ in range(100):
            (result,) = small.reach(session, ["proxy", {"authority": GOOD}])
            if result["status"] == 503:
                break
        unavailable(small, session)
        assert len(small.peer.hellos) - peers < 100
        os.unlink(filler)
        assert one_more(small, session)["got"] == 100
        # No line is cut.
        harness.wait_until(lambda: small.text(session).endswith("\n"), "the last one is written")
        for line in small.lines(session):
            json.loads(line)
        assert len(small.lines(session)) > lines
    assert '"log_unavailable"' in small.server.log()


def test_with_little_room_for_the_log_refusals_are_counted_only(world):
    with disk_for_the_log(world, "8m") as other:
        session = other.session()
        one(other, session, ["proxy", {"authority": "early.test:443"}])
        status = os.statvfs(other.disk)
        filler = os.path.join(other.disk, "filler")
        with open(filler, "wb", buffering=0) as file:
            file.write(bytes(status.f_bsize * (status.f_bavail - 90)))
        tried = 1

        def counted():
            nonlocal tried
            flood(other, session, "'late%d.test:443' % i", 10)
            tried += 10
            return '"log_low"' in other.server.log()

        harness.wait_until(counted, "the gateway has looked")
        flood(other, session, "'later%d.test:443' % i", 100)
        assert one_more(other, session)["got"] == 100
        events = other.end(session)
        denied = [event for event in events if event["decision"] == "deny"]
        assert total(denied) == tried + 100 and not [e for e in denied if "later" in e["host"]]
        assert [brief(e) for e in events if e["decision"] == "allow"] == [allow("www.good.test")]
        assert total([event for event in denied if event["host"] == ""]) >= 100


def test_a_tenant_whose_logs_are_large_is_refused_alone(world):
    with world.beside() as other:
        mine, theirs = other.session(), other.session(key=KEYS["b"])
        assert one_more(other, mine)["got"] == 100
        (event,) = other.events(mine)
        large = os.path.join(other.log_dir, "sbx_large.jsonl")
        with open(large, "w", encoding="ascii") as file:
            json.dump(dict(event, session="sbx_large"), file, separators=(",", ":"))
            file.write("\n")
            file.truncate(2**33)
        # A new one counts.
        os.kill(other.gateway, signal.SIGKILL)
        harness.wait_until(lambda: one_more(other, mine).get("status") == 503, "it is refused")
        unavailable(other, mine)
        assert one_more(other, theirs, KEYS["b"])["got"] == 100
        with other.opened() as fresh:
            unavailable(other, fresh)
        other.close(mine)
        for session in (mine, fresh):
            counts = [e for e in other.events(session) if e["decision"] == "deny"]
            assert {e["code"] for e in counts} >= {"no_rule", "log_unavailable"}
            assert all(e["host"] == "" and e["repeat"] for e in counts)
        assert [brief(event) for event in other.events(theirs)] == [allow("www.good.test")]
        assert '"why":"Disk quota exceeded"' in other.server.log()


def one_more(world, session, key=KEYS["a"]):
    return world.reach(session, ["proxy", {"authority": GOOD}], key=key)[0]


def test_a_log_that_cannot_be_written_allows_nothing(small):
    with small.opened() as session:
        subprocess.run(["mount", "-o", "remount,ro", small.disk], check=True)
        try:
            unavailable(small, session)
            assert small.text(session) == ""
        finally:
            subprocess.run(["mount", "-o", "remount,rw", small.disk], check=True)
        assert one(small, session, ["proxy", {"authority": GOOD}])[0]["got"] == 100
