# SPDX-License-Identifier: Apache-2.0
"""What an operator sees of a running server: metrics, health, the log."""

import contextlib
import json
import os
import re
import resource
import socket
import struct
import time

import pytest

import egress
import awake
import harness
import metrics
from harness import KEYS

NAMES = {
    "airlock_build_info": "gauge",
    "airlock_sessions_open": "gauge",
    "airlock_persistent_open": "gauge",
    "airlock_pool_ready": "gauge",
    "airlock_exec": "counter",
    "airlock_exec_seconds": "histogram",
    "airlock_exec_overhead_seconds": "histogram",
    "airlock_http_requests": "counter",
    "airlock_http_request_seconds": "histogram",
    "airlock_egress_events": "counter",
    "airlock_store_errors": "counter",
}


def line_of(server, answer):
    """Of the log, about that answer; it may be there before its line."""
    request = answer.headers["X-Request-Id"]
    (line,) = harness.wait_until(lambda: lines(server, "request", request), "it has a line")
    return line


def runnable():
    why = harness.runnable()
    if why:
        pytest.skip(why)


@pytest.fixture(scope="module")
def measured():
    """A server whose metrics can be read, on measured.metrics_port."""
    runnable()
    port = harness.free_port()
    with harness.Server({"SANDBOX_METRICS_LISTEN": "127.0.0.1:%d" % port}) as server:
        server.metrics_port = port
        yield server


def scraped(server):
    try:
        return metrics.scrape(server.metrics_port)
    except metrics.MissingWheel as missing:
        (pytest.fail if harness.CI else pytest.skip)(str(missing))


def asked(port, request):
    """The bytes that come back for these."""
    with socket.create_connection(("127.0.0.1", port), 60) as s:
        s.sendall(request)
        return harness.read_raw(s)


# ---- Health ------------------------------------------------------------------------------------


def kill_twice(server, name):
    """A process that ended within a second of its start is started a second after that. So whoever comes
    to look within that second sees nothing of it; who was too late does this again."""
    for _ in range(2):
        pid = server.wait_for_child(name)
        os.kill(pid, 9)
        harness.wait_until(lambda: pid not in server.process_of(name), "it is gone")


def test_a_gateway_that_is_down_is_said_and_forgotten():
    why = egress.missing()
    if why:
        pytest.skip(why)
    with egress.World() as world:
        server = world.server
        harness.wait_until(lambda: server.get("/healthz").json["status"] == "healthy", "a gateway")

        def degraded():
            kill_twice(server, "airlock-gateway")
            answer = server.get("/healthz")
            assert answer.status == 200
            return answer if answer.json["status"] == "degraded" else None

        answer = harness.wait_until(degraded, "it is said")
        assert answer.json["problems"] == ["the gateway is down: sandboxes reach nothing"]
        harness.wait_until(lambda: server.get("/healthz").json["status"] == "healthy", "a new one")


def test_sandboxes_that_cannot_be_made_are_said(servers):
    server = servers.get({"SANDBOX_POOL": "0"})
    session = server.create()
    server.exec(session, "true")
    assert server.get("/healthz").json["status"] == "healthy"
    path = "/v1/sessions/%s/exec" % session

    def three_refused():
        kill_twice(server, "airlock-builder")
        answers = [server.post(path, {"command": "true"}) for _ in range(3)]
        assert {answer.status for answer in answers} <= {200, 503}
        return answers if {answer.status for answer in answers} == {503} else None

    for answer in harness.wait_until(three_refused, "commands are refused"):
        line = line_of(server, answer)
        assert (line["level"], line["status"], line["word"]) == ("warn", 503, "no_capacity")
        assert line["route"] == "POST /v1/sessions/{session_id}/exec"
        assert (line["tenant"], line["session"]) == ("a", session)
    answer = server.get("/healthz")
    assert (answer.status, answer.json["status"]) == (200, "degraded")
    assert answer.json["problems"] == ["sandboxes cannot be made: commands fail"]
    harness.wait_until(lambda: server.post(path, {"command": "true"}).status == 200, "a builder")
    assert server.get("/healthz").json["status"] == "healthy"


def test_health_is_answered_within_a_second_whatever_runs(server):
    session = server.create()
    slowest = 0.0
    big = json.dumps({"path": "big", "content": "x" * (40 << 20)}).encode()
    send = {"Content-Type": "application/json"}
    work = [
        lambda: server.exec(session, "yes | head -c 30000000; yes | head -c 30000000 >&2", 30),
        lambda: server.exec(session, "while :; do :; done & while :; do :; done", 3),
        lambda: server.post("/v1/sessions/%s/write" % session, raw=big, headers=send),
        lambda: server.create(),
    ]
    with contextlib.ExitStack() as stack:
        for job in work * 2:
            stack.enter_context(harness.in_background(job))
        for _ in range(40):
            began = awake.seconds()
            assert server.get("/healthz", key=None).status == 200
            slowest = max(slowest, awake.seconds() - began)
            time.sleep(0.05)
    assert slowest < 1
    for made in server.get("/v1/sessions").json["sessions"]:
        server.delete("/v1/sessions/" + made["session_id"])


# ---- The log -----------------------------------------------------------------------------------


def lines(server, event, request):
    """What the log says about this request."""
    return [e for e in server.events() if e["event"] == event and e.get("request") == request]


def test_every_answer_has_one_line_for_those_who_look_closely(servers):
    server = servers.get({"SANDBOX_LOG_LEVEL": "debug"})
    send = {"X-Request-Id": "edge-0123"}
    answers = [
        (server.get("/v1/usage", headers=send), "GET /v1/usage", 200),
        (server.get("/nothing", headers=send), "none", 404),
        (server.post("/v1/sessions", {"template": "x"}, headers=send), "POST /v1/sessions", 400),
        (server.get("/v1/usage", key="wrong", headers=send), "GET /v1/usage", 401),
    ]
    ids = [answer.headers["X-Request-Id"] for answer, _, _ in answers]
    assert len(set(ids)) == len(ids)
    for answer, route, status in answers:
        line = line_of(server, answer)
        assert (line["level"], line["route"], line["status"]) == ("debug", route, status)
        # 127.0.0.1 is a trusted proxy.
        assert line["proxy_request"] == "edge-0123"
        assert line.get("tenant") == ("a" if status in (200, 400) else None)
        assert set(line) <= {
            "time", "level", "process", "event", "request", "proxy_request", "route", "status", "ms",
            "word", "tenant", "session",
        }


def test_no_line_holds_what_is_a_tenants(servers):
    server = servers.get({"SANDBOX_LOG_LEVEL": "debug"})
    session = server.create()
    path = "/v1/sessions/%s" % session
    server.exec(session, "echo mark-command; echo mark-output", env={"A": "mark-env"}, stdin="mark-stdin")
    server.post(path + "/exec", {"command": "true", "cwd": "mark-cwd"})
    server.post(path + "/write", {"path": "mark-path/x", "content": "mark-content"})
    server.get(path + "/read?path=mark-path/x&mark=mark-query")
    server.get(path + "/read?path=mark-path")
    server.get("/mark-target", key="mark-key")
    server.request("PUT", path + "/files?path=mark-upload", raw=b"mark-body")
    line_of(server, server.delete(path))
    log = server.log()
    assert log.count('"event":"request"') > 8
    assert "mark-" not in log and KEYS["a"] not in log


# ---- Metrics -----------------------------------------------------------------------------------


def test_the_metrics_are_those_of_the_contract_and_name_no_tenant(measured):
    session = measured.create()
    measured.exec(session, "true")
    seen = scraped(measured)
    assert {name: family.type for name, family in seen.families.items()} == NAMES
    labels = {name for family in seen.families.values() for s in family.samples for name in s.labels}
    assert labels == {"version", "outcome", "route", "status", "decision", "code", "le"}
    for secret in (session, KEYS["a"], '"a"'):
        assert secret not in seen.text
    (build,) = seen.labels("airlock_build_info")
    assert re.match(r"\d+\.\d+\.\d+$", build["version"])
    measured.delete("/v1/sessions/" + session)


def test_commands_and_answers_are_counted(measured):
    began = time.monotonic()
    before = scraped(measured)
    session = measured.create()
    path = "/v1/sessions/%s/exec" % session
    measured.exec(session, "exit 3")
    measured.exec(session, "sleep 0.3")
    assert measured.exec(session, "sleep 9", timeout_seconds=1)["timed_out"]
    hungry = "python3 -c 'x = bytearray(1 << 30)'"
    *hung, killed = harness.beyond_memory(lambda: measured.exec(session, hungry))
    hung = len(hung)
    assert killed["oom_killed"]
    assert measured.post(path, {"command": "true", "cwd": "nowhere"}).status == 404
    assert measured.post(path, {}).status == 422
    assert measured.get("/v1/no/such/thing").status == 404
    assert measured.request("PUT", "/v1/usage").status == 405
    assert measured.raw(b"GET / HTTP/9.9\r\n\r\n").status == 505
    after = scraped(measured)

    def more(name, **labels):
        return after.value(name, **labels) - before.value(name, **labels)

    outcomes = {o: more("airlock_exec_total", outcome=o) for o in ("ok", "failed", "timeout", "oom")}
    assert outcomes == {"ok": 2, "failed": 1, "timeout": 1 + hung, "oom": 1}
    assert more("airlock_exec_seconds_count") == 4 + hung
    assert 1.3 < more("airlock_exec_seconds_sum") < time.monotonic() - began
    assert more("airlock_exec_seconds_bucket", le="0.1") <= 2
    assert more("airlock_exec_overhead_seconds_count") == 5 + hung
    route = "POST /v1/sessions/{session_id}/exec"
    statuses = {s: more("airlock_http_requests_total", route=route, status=s) for s in ("200", "404", "422")}
    assert statuses == {"200": 4 + hung, "404": 1, "422": 1}
    none = {s: more("airlock_http_requests_total", route="none", status=s) for s in ("404", "405", "505")}
    assert none == {"404": 1, "405": 1, "505": 1}
    assert more("airlock_http_requests_total", route="POST /v1/sessions", status="201") == 1
    # All but the one that was no request have taken time.
    assert more("airlock_http_request_seconds_count") == 9 + hung
    assert more("airlock_sessions_open") == 1
    measured.delete("/v1/sessions/" + session)
    assert scraped(measured).value("airlock_sessions_open") == before.value("airlock_sessions_open")


def test_an_answer_that_nobody_hears_is_counted_as_such(measured):
    session = measured.create()
    route = "POST /v1/sessions/{session_id}/exec"

    def counted(status):
        return scraped(measured).value("airlock_http_requests_total", route=route, status=status)

    heard, unheard = counted("200"), counted("499")
    body = b'{"command": "until [ -e go ]; do sleep 0.1; done", "timeout_seconds": 60}'
    with measured.connect() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.sendall(
            b"POST /v1/sessions/%s/exec HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: %d\r\n\r\n%s"
            % (session.encode(), KEYS["a"].encode(), len(body), body)
        )
        harness.wait_until(
            lambda: measured.get("/v1/usage").json["commands_running"] == 1, "it runs"
        )
    assert measured.post("/v1/sessions/%s/write" % session, {"path": "go", "content": ""}).status == 200
    harness.wait_until(lambda: counted("499") == unheard + 1, "it is over")
    assert counted("200") == heard
    measured.delete("/v1/sessions/" + session)


def test_whatever_is_asked_for_makes_no_new_label(measured):
    measured.get("/v1/sessions")
    before = len(scraped(measured).labels("airlock_http_requests_total"))
    for number in range(50):
        measured.get("/v1/sessions/sbx_%012x" % number)
        measured.get("/%d" % number)
    after = scraped(measured).labels("airlock_http_requests_total")
    assert len(after) <= before + 2
    assert all("sbx_" not in row["route"] for row in after)


def test_blank_sandboxes_are_shown(measured):
    session = measured.create()
    measured.exec(session, "true")
    harness.wait_until(
        lambda: scraped(measured).value("airlock_pool_ready") > 0, "a sandbox waits"
    )
    measured.delete("/v1/sessions/" + session)


def test_only_metrics_are_answered_there_and_nowhere_else(measured):
    port = measured.metrics_port
    for path in (b"/", b"/healthz", b"/v1/usage", b"/metrics/", b"/metricsx", b"//metrics"):
        assert asked(port, b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path).status == 404
    assert asked(port, b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").status == 404
    assert asked(port, b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n").status == 200
    head = asked(port, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (head.status, head.body) == (200, b"")
    assert asked(port, b"GET /metrics HTTP/1.1\r\n\r\n").status == 400
    assert measured.get("/metrics").status == 404


def test_the_socket_outlives_airlockd(measured):
    pid = measured.wait_for_child("airlockd")
    os.kill(pid, 9)
    measured.wait_for_child("airlockd", but=pid)
    # It waits in the listener meanwhile and is refused by nobody.
    assert scraped(measured).value("airlock_exec_total", outcome="ok") == 0


def test_a_port_that_is_taken_stops_the_start():
    runnable()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said = harness.serve_once({"SANDBOX_METRICS_LISTEN": "127.0.0.1:%d" % port})
    assert status == 78
    assert said.startswith("airlock: SANDBOX_METRICS_LISTEN: cannot bind 127.0.0.1 port %d" % port)


def test_without_the_variable_nobody_listens(server):
    pid = server.wait_for_child("airlockd")
    inodes = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        # One that is just closed is none.
        with contextlib.suppress(FileNotFoundError):
            inodes.add(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
    with open("/proc/net/tcp") as table:
        listening = [row.split() for row in table if row.split()[3] == "0A"]
    ours = [row[1] for row in listening if "socket:[%s]" % row[9] in inodes]
    assert [int(address.split(":")[1], 16) for address in ours] == [server.port]


def test_attempts_to_reach_something_are_counted():
    why = egress.missing()
    if why:
        pytest.skip(why)
    port = harness.free_port()
    with egress.World(start=False) as world:
        with world.beside({"SANDBOX_METRICS_LISTEN": "127.0.0.1:%d" % port}) as world:
            world.server.metrics_port = port
            session = world.session()
            attempts = [["proxy", {"authority": "www.good.test:443"}]] * 2
            attempts += [["proxy", {"authority": "evil.test:443"}]] * 3
            world.reach(session, *attempts)

            def counted():
                seen = scraped(world.server)
                total = "airlock_egress_events_total"
                return (
                    seen.value(total, decision="allow", code="ok"),
                    seen.value(total, decision="deny", code="no_rule"),
                )

            harness.wait_until(lambda: counted() == (2, 3), "five attempts are counted")
            # Sums do not begin anew with a new gateway, nor with a new airlockd.
            old = world.gateway
            os.kill(old, 9)
            world.server.wait_for_child("airlock-gateway", but=old)
            assert counted() == (2, 3)
            world.reach(session, ["proxy", {"authority": "evil.test:443"}])
            harness.wait_until(lambda: counted() == (2, 4), "one more is counted")
