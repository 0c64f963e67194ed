# SPDX-License-Identifier: Apache-2.0
"""Limits of tenants in a file that is read anew on SIGHUP."""

import contextlib
import json
import os
import signal

import pytest

import harness
from harness import KEYS


@pytest.fixture(scope="module")
def by_file(tmp_path_factory):
    # Readable for the user that airlockd runs as.
    folder = "/run/airlock-test-limits-%d" % os.getpid()
    os.mkdir(folder, 0o755)
    path = os.path.join(folder, "limits.json")
    write(path, {"*": {"max_sessions": 3}, "b": {"max_sessions": 5}})
    server = harness.Server({"SANDBOX_TENANT_LIMITS": "", "SANDBOX_TENANT_LIMITS_FILE": path})
    with server:
        yield server, path
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.rmdir(folder)


def write(path, content):
    with open(path, "w") as file:
        file.write(content if isinstance(content, str) else json.dumps(content))


def limit(server, key=KEYS["a"], field="max_sessions"):
    return server.get("/v1/usage", key=key).json["limits"][field]


def reload(server, word):
    """What the log said about it."""

    def said():
        return [e for e in server.events() if e["event"] == word]

    seen = len(said())
    server.process.send_signal(signal.SIGHUP)
    return harness.wait_until(lambda: said()[seen:], word)


def test_limits_change_without_a_restart(by_file):
    server, path = by_file
    assert (limit(server), limit(server, KEYS["b"])) == (3, 5)
    sessions = [server.create() for _ in range(3)]
    assert server.post("/v1/sessions", {}).status == 429
    write(path, {"*": {"max_sessions": 4}})
    reload(server, "limits_loaded")
    # An entry that is gone is forgotten.
    assert (limit(server), limit(server, KEYS["b"])) == (4, 4)
    sessions.append(server.create())
    write(path, {"a": {"max_sessions": 1}})
    reload(server, "limits_loaded")
    assert (limit(server), limit(server, KEYS["b"])) == (1, 10)
    answer = server.post("/v1/sessions", {})
    assert answer.detail == "Session limit reached: 4 of 1 sessions are open. Delete one first."
    # What is beyond a limit that fell goes on.
    for session in sessions:
        assert server.exec(session, "true")["exit_code"] == 0
        server.delete("/v1/sessions/" + session)
    write(path, "")
    reload(server, "limits_loaded")
    assert limit(server) == 10


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"*": 1}', '{"*": {"max_sessions": 0}}', '{"*": {"nonsense": 1}}']
)
def test_a_broken_file_changes_nothing_and_says_so(by_file, content):
    server, path = by_file
    write(path, {"*": {"max_sessions": 7}})
    reload(server, "limits_loaded")
    write(path, content)
    reload(server, "limits_refused")
    assert limit(server) == 7
    pid = server.wait_for_child("airlockd")
    os.kill(pid, signal.SIGKILL)

    def back():
        with contextlib.suppress(OSError, harness.http.client.HTTPException):
            return server.child("airlockd") not in (None, pid) and limit(server) == 7

    harness.wait_until(back, "airlockd is back with the limits that were taken")


def test_a_file_that_everybody_can_write_changes_nothing(by_file):
    server, path = by_file
    write(path, {"*": {"max_sessions": 8}})
    reload(server, "limits_loaded")
    write(path, {"*": {"max_sessions": 800}})
    os.chmod(path, 0o646)
    (refused,) = reload(server, "limits_refused")
    os.chmod(path, 0o644)
    assert limit(server) == 8
    assert "everybody can write to it" in refused["why"]


def test_a_file_that_is_gone_changes_nothing(by_file):
    server, path = by_file
    write(path, {"*": {"max_sessions": 6}})
    reload(server, "limits_loaded")
    os.unlink(path)
    reload(server, "limits_refused")
    assert limit(server) == 6
