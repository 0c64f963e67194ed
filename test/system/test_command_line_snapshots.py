# SPDX-License-Identifier: Apache-2.0
"""airlock snapshots, and airlock sandbox snapshot, restore, fork and import."""

import contextlib
import json
import os
import pty
import re
import subprocess
import threading

import pytest

import harness
from codehost import CodeHost, archive
from commandline import AIRLOCK, airlock, done
from harness import KEYS

SNAPSHOT = re.compile(r"snap_[0-9a-f]{16}\n\Z")


@pytest.fixture
def box(server):
    session = server.create()
    assert server.exec(session, "mkdir out && echo kept > out/file")["exit_code"] == 0
    yield session
    server.delete("/v1/sessions/" + session)


def test_a_snapshot_from_taking_to_rm(server, box):
    assert done(server, "snapshots", "list") == "No snapshots.\n"
    taken = done(server, "sandbox", "snapshot", box, "--path", "out", "--name", "the name")
    assert SNAPSHOT.match(taken)
    taken = taken.strip()
    head, line = done(server, "snapshots", "list").splitlines()
    assert head.split() == ["SNAPSHOT", "SIZE", "CREATED", "EXPIRES", "SANDBOX", "NAME"]
    assert line.startswith(taken + " ") and line.endswith(" %s the name" % box)
    listed = json.loads(done(server, "snapshots", "list", "--json"))
    assert [one["id"] for one in listed["snapshots"]] == [taken]
    assert done(server, "sandbox", "restore", box, taken, "--path=x/y") == "/workspace/x/y\n"
    assert done(server, "sandbox", "exec", box, "--", "cat", "x/y/file") == "kept\n"
    second = done(server, "sandbox", "create", "--snapshot", taken).strip()
    assert done(server, "sandbox", "exec", second, "--", "cat", "file") == "kept\n"
    done(server, "sandbox", "rm", second)
    assert done(server, "snapshots", "rm", taken) == ""
    result = airlock(server, "snapshots", "rm", taken)
    assert result.returncode == 1 and result.stderr == "airlock: %s: Snapshot not found\n" % taken


def test_forks_are_ids_one_a_line(server, box):
    made = done(server, "sandbox", "fork", "--count", "2", box).split()
    assert len(made) == 2
    for session in made:
        assert done(server, "sandbox", "exec", session, "--", "cat", "out/file") == "kept\n"
    done(server, "sandbox", "rm", *made)
    one = json.loads(done(server, "sandbox", "fork", box, "--json"))
    assert len(one["sessions"]) == 1
    done(server, "sandbox", "rm", one["sessions"][0]["session_id"])


def test_errors_have_the_servers_words(server, box):
    for words, text in (
        (("sandbox", "snapshot", box, "--path", "none"), "Folder 'none' does not exist."),
        (("sandbox", "restore", box, "snap_0123456789abcdef"), "Snapshot not found"),
        (("sandbox", "create", "--snapshot", "x"), "Snapshot not found"),
        (("sandbox", "fork", "sbx_0123456789ab"), "Session not found or expired"),
    ):
        result = airlock(server, *words)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr == "airlock: %s\n" % text


@pytest.mark.parametrize(
    "words",
    [
        ["snapshots"],
        ["snapshots", "rm"],
        ["snapshots", "list", "x"],
        ["sandbox", "snapshot"],
        ["sandbox", "snapshot", "a", "b"],
        ["sandbox", "restore", "a"],
        ["sandbox", "fork", "a", "--count", "17"],
        ["sandbox", "fork", "a", "--count", "0"],
        ["sandbox", "snapshot", "--nothing", "a"],
    ],
)
def test_wrong_use_is_status_2_and_shows_the_use(words):
    if not os.access(AIRLOCK, os.X_OK):
        pytest.skip("airlock is not built")
    result = airlock(None, *words)
    assert result.returncode == 2 and "usage: airlock " in result.stderr


@pytest.mark.parametrize("command", ["sandbox", "snapshots", "files", "image", "volume"])
def test_help_names_every_command_there_is(command):
    if not os.access(AIRLOCK, os.X_OK):
        pytest.skip("airlock is not built")
    named = airlock(None, command, "--help").stdout.split()[-1].split("|")
    there_are = re.findall("airlock %s ([a-z]+)" % command, airlock(None, command).stderr)
    assert there_are and sorted(named) == sorted(there_are)


# ---- import ----


def start_import(server, session, path, stderr):
    return subprocess.Popen(
        [AIRLOCK, "sandbox", "import", session, "o/slow", "--path", path],
        env=harness.environment(SANDBOX_API_URL=server.url, SANDBOX_API_KEY=KEYS["a"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def test_a_terminal_sees_that_an_import_goes_on_and_a_pipe_nothing(servers):
    release = threading.Event()
    blob = archive(("f", b"x"))
    host = CodeHost()

    def slow(handler):
        release.wait(60)
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(blob)))
        handler.end_headers()
        handler.wfile.write(blob)

    host.put("slow", slow)
    server = servers.get({"SANDBOX_GITHUB_BASE": host.base})
    session = server.create()
    ours, theirs = pty.openpty()
    silent = start_import(server, session, "silent", subprocess.PIPE)
    shown = start_import(server, session, "shown", theirs)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):
        while True:
            seen += os.read(ours, 4096)
            if seen.count(b"o/slow: ") >= 2:
                release.set()
    release.set()
    os.close(ours)
    assert shown.communicate()[0] == "/workspace/shown\n"
    assert silent.communicate() == ("/workspace/silent\n", "")
    line = rb"\rdownloading and unpacking o/slow: \d+ s"
    assert re.fullmatch(rb"(%s){2,}\r\x1b\[K" % line, seen), seen
    server.delete("/v1/sessions/" + session)
    host.close()
