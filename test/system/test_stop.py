# SPDX-License-Identifier: Apache-2.0
"""The clean stop: what runs may end, nothing new begins, and the log says what is waited for."""

import contextlib
import fcntl
import http.client
import json
import os
import signal
import subprocess
import termios
import threading
import time

import pytest

import awake
import harness
from harness import KEYS


@contextlib.contextmanager
def stopping(**env):
    """A server that is stopped inside, by the test."""
    why = harness.runnable()
    if why:
        pytest.skip(why)
    # So long that no stop ends only because it is over.
    env.setdefault("SANDBOX_STOP_SECONDS", "600")
    server = harness.Server(env).start()
    try:
        yield server
        assert server.process.wait(60) == 0
        server.settle()
        assert not server.left_over()
        server.release()
    finally:
        server.stop(clean=False)


# What a stop takes beyond SANDBOX_STOP_SECONDS (docs/operate.md).
STOP_SECONDS = 6

# Until it is told from outside, for nobody may ask the API any more when it stops.
WAITS = "trap 'echo done; exit' USR1; sleep 50 & wait"


def running(server, commands):
    harness.wait_until(
        lambda: server.get("/v1/usage").json["commands_running"] == commands, "they run"
    )


def events(server, name):
    return [e for e in server.events() if (e["event"], e["process"]) == (name, "airlockd")]


def term(server, number=signal.SIGTERM):
    """Tells it to stop, and waits until it has heard."""
    server.process.send_signal(number)
    harness.wait_until(lambda: events(server, "stopping"), "it stops")


def test_with_nothing_to_wait_for_a_stop_is_quick():
    with stopping(SANDBOX_STOP_SECONDS=None) as server:
        server.exec(server.create(), "true")
        began = awake.seconds()
        term(server)
        server.process.wait(60)
        assert awake.seconds() - began < STOP_SECONDS
        (event,) = events(server, "stopping")
        assert (event["commands"], event["transfers"], event["requests"]) == (0, 0, 0)
        assert event["seconds_left"] == 30


def test_a_command_ends_while_everybody_else_is_sent_away():
    with stopping() as server:
        session = server.create()
        with harness.in_background(server.exec, session, WAITS, 55) as result:
            shell = harness.wait_until(lambda: waiting_shell(server), "it waits")
            held = server.connect()
            term(server)
            assert server.get("/healthz", key=None).status == 503
            health = server.get("/healthz", key=None).json
            assert health == {"status": "stopping", "active_sessions": 1}
            assert command_line(server, "health") == (1, "airlock: the server is stopping\n")
            for refused in (
                server.post("/v1/sessions/%s/exec" % session, {"command": "true"}),
                server.post("/v1/sessions", {}),
                server.get("/v1/sessions/%s/read?path=go" % session),
                server.get("/v1/usage"),
            ):
                assert (refused.status, refused.code) == (503, "stopping")
                assert refused.headers["Retry-After"] == "1"
                assert refused.headers["Connection"] == "close"
            # The ladder is the same as ever.
            assert server.get("/v1/usage", key="wrong").status == 401
            # A connection of before is told, too.
            held.sendall(b"GET /v1/usage HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n\r\n" % KEYS["a"].encode())
            assert harness.read_raw(held).status == 503
            held.close()
            assert server.process.poll() is None
            (event,) = events(server, "stopping")
            assert (event["commands"], event["requests"]) == (1, 1)
            os.kill(shell, signal.SIGUSR1)
        assert result[0]["stdout"] == "done\n"
        assert not events(server, "stop_ends_work")


def command_line(server, *words):
    ran = subprocess.run(
        [os.path.join(harness.BUILD, "airlock"), *words],
        env=harness.environment(SANDBOX_API_URL=server.url),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=60,
        text=True,
    )
    return ran.returncode, ran.stderr


def waiting_shells(server):
    """The pids of the shells of WAITS that wait. Not what becomes their sleep, which heeds the signal, too,
    until it has forgotten that it was a shell."""
    found = {}
    for pid, name in harness.tenant_processes(server.number):
        with contextlib.suppress(OSError):
            status = harness.proc_status(pid)
            if name == "bash" and int(status["SigCgt"], 16) & 1 << (signal.SIGUSR1 - 1):
                found[pid] = int(status["PPid"])
    return [pid for pid, parent in found.items() if parent not in found]


def waiting_shell(server):
    return next(iter(waiting_shells(server)), None)


# More than any host has: one command at a time.
ONE_AT_A_TIME = {"SANDBOX_POOL": "0", "SANDBOX_MEMORY_MB": "1048576"}


def test_commands_that_wait_in_line_run_before_the_stop():
    with stopping(**ONE_AT_A_TIME) as server:
        session = server.create()
        results = []

        def work():
            results.append(server.exec(session, WAITS, 55)["stdout"])

        threads = [threading.Thread(target=work) for _ in range(24)]
        for thread in threads:
            thread.start()
        running(server, 24)
        harness.wait_until(lambda: waiting_shell(server), "one of them waits")
        term(server)
        while any(thread.is_alive() for thread in threads):
            for shell in waiting_shells(server):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(shell, signal.SIGUSR1)
            time.sleep(0.005)
        assert results == ["done\n"] * 24


HELPERS = {"airlock-builder", "airlock-sweeper", "airlock-gateway"}
# Asks the proxy for a name that is not allowed: only a gateway can answer.
ASKS = """trap 'kill %1' USR1; sleep 50 & wait
proxy=${HTTPS_PROXY#http://}; exec 3<>/dev/tcp/${proxy%:*}/${proxy#*:}
printf 'CONNECT never.test:443 HTTP/1.1\\r\\nHost: never.test:443\\r\\n\\r\\n' >&3
read -r line <&3; echo "$line" """


def helpers(server):
    """Pid and name of each that the launcher has now."""
    found = {}
    for pid, name, _ in server.processes():
        with contextlib.suppress(OSError):
            if name in HELPERS and harness.proc_status(pid)["PPid"] == str(server.process.pid):
                found[pid] = name
    return found


def all_helpers(server):
    found = helpers(server)
    return found if set(found.values()) == HELPERS else None


def test_helpers_that_end_while_commands_are_waited_for_come_back():
    policy = json.dumps({"*": ["www.good.test"]})
    with stopping(SANDBOX_EGRESS_POLICY=policy, **ONE_AT_A_TIME) as server:
        asking = server.create(egress=["www.good.test"])
        other = server.create(key=KEYS["b"])
        with harness.in_background(server.exec, asking, ASKS, 55) as asked:
            shell = harness.wait_until(lambda: waiting_shell(server), "it waits")
            in_line = (server.exec, other, "echo built", 30, KEYS["b"])
            with harness.in_background(*in_line) as built:
                harness.wait_until(
                    lambda: server.get("/v1/usage", key=KEYS["b"]).json["commands_running"] == 1,
                    "it waits for its turn",
                )
                term(server)
                old = harness.wait_until(lambda: all_helpers(server), "there is one of each")
                for pid in old:
                    os.kill(pid, signal.SIGKILL)
                harness.wait_until(
                    lambda: {
                        name for pid, name in helpers(server).items() if pid not in old
                    } == HELPERS,
                    "there are new ones",
                )
                os.kill(shell, signal.SIGUSR1)
        assert asked[0]["stdout"].startswith("HTTP/1.1 403 ")
        assert built[0]["stdout"] == "built\n"
        assert not events(server, "stop_ends_work")


def test_an_airlockd_that_ends_while_it_stops_does_not_come_back():
    with stopping() as server:
        session = server.create()
        with harness.in_background(server.exec, session, WAITS, 55) as result:
            harness.wait_until(lambda: waiting_shell(server), "it waits")
            term(server)
            os.kill(server.wait_for_child("airlockd"), signal.SIGKILL)
            server.process.wait(60)
        assert isinstance(result[0], (OSError, http.client.HTTPException))
        assert len(events(server, "serving")) == 1
        assert '"restarting"' not in server.log()


def test_an_upload_that_has_begun_is_taken():
    with stopping() as server:
        session = server.create()
        server.exec(session, "true")
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.putrequest("PUT", "/v1/sessions/%s/files?path=a" % session)
        connection.putheader("X-API-Key", KEYS["a"])
        connection.putheader("Content-Length", "8")
        connection.endheaders(b"half")
        # It is known as a transfer once the worker has the job.
        harness.wait_until(lambda: worker_has_draft(server), "the upload has begun")
        term(server)
        (event,) = events(server, "stopping")
        assert (event["transfers"], event["requests"]) == (1, 1)
        # A server that does not wait would be gone by now.
        time.sleep(1.5)
        connection.send(b"done")
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["size_bytes"]) == (200, 8)


def test_a_request_that_is_still_on_its_way_in_holds_nothing_up():
    with stopping() as server:
        session = server.create()
        half_a_head, half_a_body = server.connect(), server.connect()
        half_a_head.sendall(b"GET /v1/usage HTTP/1.1\r\n")
        half_a_body.sendall(
            b"POST /v1/sessions/%s/exec HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n"
            b"Content-Length: 20\r\nExpect: 100-continue\r\n\r\n"
            % (session.encode(), KEYS["a"].encode())
        )
        # The server reads from here on.
        assert half_a_body.recv(64).startswith(b"HTTP/1.1 100 ")
        half_a_body.sendall(b"{")
        began = awake.seconds()
        term(server)
        refused = harness.read_raw(half_a_body)
        assert (refused.status, json.loads(refused.body)["code"]) == (503, "stopping")
        server.process.wait(60)
        assert awake.seconds() - began < 5
        (event,) = events(server, "stopping")
        assert event["requests"] == 0
        half_a_head.close()
        half_a_body.close()


def worker_has_draft(server):
    """Whether some file of 4 bytes without a name, or hidden, is being written inside."""
    for pid, _ in harness.tenant_processes(server.number):
        with contextlib.suppress(OSError):
            for fd in os.listdir("/proc/%d/fd" % pid):
                with contextlib.suppress(OSError):
                    path = "/proc/%d/fd/%s" % (pid, fd)
                    if os.readlink(path).startswith("/workspace") and os.stat(path).st_size == 4:
                        return True
    return False


def is_asleep(server):
    return "sleep" in [name for _, name in harness.tenant_processes(server.number)]


def test_what_takes_too_long_is_ended_and_on_record():
    with stopping(SANDBOX_STOP_SECONDS="1", SANDBOX_AUDIT="sqlite", SANDBOX_SESSION_STATE=None) as server:
        session = server.create()
        began, awake_began = time.monotonic(), awake.seconds()
        with harness.in_background(server.exec, session, "echo begun; sleep 50", 55) as result:
            harness.wait_until(lambda: is_asleep(server), "it runs")
            term(server)
        took = time.monotonic() - began
        assert took >= 1 and awake.seconds() - awake_began < 10
        assert (result[0]["exit_code"], result[0]["timed_out"]) == (137, False)
        assert result[0]["stdout"] == "begun\n"
        assert result[0]["warnings"] == ["The server was stopped before the command had ended."]
        (event,) = events(server, "stop_ends_work")
        assert event["commands"] == 1
        server.process.wait(60)
        with harness.Server(
            {"SANDBOX_AUDIT": "sqlite"}, state_dir=server.state_dir
        ) as again:
            (entry,) = again.get("/v1/audit").json["entries"]
            assert (entry["command"], entry["exit_code"]) == ("echo begun; sleep 50", None)
            assert entry["detail"] == "failed: the server was stopped while it ran"
            assert 0 < entry["duration_s"] <= took


def test_a_second_signal_ends_the_waiting():
    with stopping() as server:
        session = server.create()
        with harness.in_background(server.exec, session, WAITS, 55) as result:
            harness.wait_until(lambda: waiting_shell(server), "it waits")
            term(server)
            began = awake.seconds()
            server.process.send_signal(signal.SIGTERM)
        assert result[0]["exit_code"] == 137
        server.process.wait(60)
        assert awake.seconds() - began < 5


class AtTerminal(harness.Server):
    """In the foreground of a terminal that stops whoever writes to it from the background."""

    def popen(self, **_):
        self.terminal, theirs = os.openpty()
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.OPOST
        modes[3] = modes[3] & ~termios.ECHO | termios.TOSTOP
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        try:
            return super().popen(
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        finally:
            os.close(theirs)
            threading.Thread(target=self._write_log).start()

    def _write_log(self):
        # EIO once nobody has the other side any more.
        with open(self.log_path, "ab", buffering=0) as log, contextlib.suppress(OSError):
            while True:
                log.write(os.read(self.terminal, 65536))
        os.close(self.terminal)


ROLES = ("airlockd", "airlock-builder", "airlock-sweeper")


def test_ctrl_c_of_a_terminal_lets_commands_end_too():
    """The terminal signals every process of its foreground group."""
    why = harness.runnable()
    if why:
        pytest.skip(why)
    with AtTerminal({"SANDBOX_STOP_SECONDS": "600"}) as server:
        session = server.create()
        with harness.in_background(server.exec, session, WAITS, 55) as result:
            shell = harness.wait_until(lambda: waiting_shell(server), "it waits")
            roles = {name: server.wait_for_child(name) for name in ROLES}
            os.write(server.terminal, b"\x03")
            harness.wait_until(lambda: events(server, "stopping"), "it stops")
            assert server.get("/healthz", key=None).status == 503
            assert {name: server.wait_for_child(name) for name in ROLES} == roles
            os.kill(shell, signal.SIGUSR1)
        assert result[0]["stdout"] == "done\n"
        assert server.process.wait(60) == 0
