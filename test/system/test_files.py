# SPDX-License-Identifier: Apache-2.0
"""What transfers cost the server, and the command line's side of them."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import pty
import random
import subprocess
import tarfile
import time
from urllib.parse import urlencode

import pytest

import harness
from harness import KEYS

MB = 1 << 20
RESIDENT_MAX_KIB = 40 << 10
# A sanitizer needs more memory than what it looks at.
SANITIZED = bool(os.environ.get("AIRLOCK_SANITIZED"))


def at(session, what, **query):
    return "/v1/sessions/%s/%s?%s" % (session, what, urlencode(query))


def slowly(server, session, data):
    """An upload whose client stops in the middle of it, twice."""
    with server.connect(120) as s:
        s.sendall(
            (
                "PUT %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: %d\r\n\r\n"
                % (at(session, "files", path="slow"), KEYS["a"], len(data))
            ).encode()
        )
        for start in range(0, len(data), len(data) // 3 + 1):
            s.sendall(data[start : start + len(data) // 3 + 1])
            time.sleep(0.2)
        return harness.read_raw(s).status


def wait_for_room(server, megabytes):
    """What earlier tests deleted is still being taken apart by the file system."""

    def is_there():
        ran = subprocess.run(
            [os.path.join(harness.BUILD, "airlock"), "volume", "show", "--json",
             "--state-dir", server.state_dir],
            env=harness.environment(), stdout=subprocess.PIPE, check=True,
        )
        return json.loads(ran.stdout)["free_bytes"] > megabytes * MB

    harness.within(is_there, 120, "%d MB are free" % megabytes)


def test_eight_transfers_of_fifty_megabytes_stay_below_40_mib(servers):
    server = servers.get({"SANDBOX_WORKSPACE_QUOTA_MB": "256"})
    wait_for_room(server, 650)
    (pid,) = server.process_of("airlockd")
    data = random.Random(1).randbytes(50 * MB)
    sessions = [server.create() for _ in range(4)]
    for session in sessions:
        answer = server.request("PUT", at(session, "files", path="there"), raw=data)
        assert answer.status == 200

    def up(session):
        return server.request("PUT", at(session, "files", path="f"), raw=data).status

    def down(session):
        answer = server.get(at(session, "files", path="there"))
        return answer.status if answer.body == data else 0

    with harness.Peak(pid) as peak, concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(call, session) for session in sessions for call in (up, down)]
        assert [call.result() for call in asked] == [200] * 8
    assert SANITIZED or peak.kib <= RESIDENT_MAX_KIB, "%d KiB" % peak.kib
    with harness.Peak(pid) as peak, concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(slowly, server, session, data) for session in sessions]
        asked += [
            pool.submit(lambda s: server.get(at(s, "archive", path=".")).status, session)
            for session in sessions
        ]
        assert [call.result() for call in asked] == [200] * 8
    assert SANITIZED or peak.kib <= RESIDENT_MAX_KIB, "%d KiB" % peak.kib
    for session in sessions:
        server.delete("/v1/sessions/" + session)


def test_eight_uploads_of_fifty_megabytes_to_one_session_are_all_there(servers, ours):
    server = servers.get({"SANDBOX_WORKSPACE_QUOTA_MB": "450"})
    wait_for_room(server, 450)
    with ours.sandbox(server) as sandbox:
        data = [random.Random(n).randbytes(50 * MB) for n in range(8)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            sizes = pool.map(lambda n: sandbox.files.upload("f%d" % n, data[n]), range(8))
            assert list(sizes) == [50 * MB] * 8
        summed = sandbox.run("sha256sum f?").stdout.split()
        assert summed[::2] == [hashlib.sha256(piece).hexdigest() for piece in data]
    # Also for whoever comes next: the space is back.
    wait_for_room(server, 450)


def test_uploads_of_one_session_go_in_the_order_they_came(server, session):
    """Each is told to go on when its turn has come."""
    head = (
        "PUT %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: 5\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    clients = []
    for n in range(12):
        clients.append(server.connect())
        clients[n].sendall((head % (at(session, "files", path="f%d" % n), KEYS["a"])).encode())
        server.get("/healthz", key=None)  # the server has read it
    for n, client in enumerate(clients):
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for later in clients[n + 1 :]:
            later.setblocking(False)
            with pytest.raises(BlockingIOError):
                later.recv(1)
            later.setblocking(True)
        client.sendall(b"hello")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        client.close()


def test_a_client_that_reads_nothing_costs_no_memory(server, session):
    (pid,) = server.process_of("airlockd")
    server.exec(session, "truncate -s 200M f")
    before = harness.rss_kib(pid)
    with server.connect() as s:
        s.sendall(
            (
                "GET %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n\r\n"
                % (at(session, "files", path="f"), KEYS["a"])
            ).encode()
        )
        assert s.recv(1000)
        time.sleep(0.5)
        assert harness.rss_kib(pid) - before < 2048
    # Its place is free soon.
    assert server.request("PUT", at(session, "files", path="g"), raw=b"x").status == 200


def test_nothing_is_left_of_transfers_that_break(server, session):
    before = harness.Inventory(server)
    server.exec(session, "truncate -s 100M f")
    for _ in range(5):
        with server.connect() as s:
            s.sendall(
                (
                    "GET %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n\r\n"
                    % (at(session, "files", path="f"), KEYS["a"])
                ).encode()
            )
            s.recv(1000)
        with server.connect() as s:
            s.sendall(
                (
                    "PUT %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: 999999\r\n\r\nx"
                    % (at(session, "files", path="u"), KEYS["a"])
                ).encode()
            )
    assert server.exec(session, "ls -A")["stdout"] == "f\n"
    server.get(at(session, "files", path="none"))

    def closed():
        (now,) = harness.Inventory(server).fds["airlockd"]
        return now <= before.fds["airlockd"][0] + 16

    harness.wait_until(closed, "their descriptors are closed")


# ---- The command line ----


@pytest.fixture
def airlock(server):
    program = os.path.join(harness.BUILD, "airlock")
    env = harness.environment(SANDBOX_API_URL=server.url, SANDBOX_API_KEY=KEYS["a"])

    def run(*words, **options):
        return subprocess.run([program, *words], env=env, capture_output=True, **options)

    run.program, run.env = program, env
    return run


def test_files_go_there_and_back(airlock, session, tmp_path):
    data = random.Random(2).randbytes(3 * MB + 1)
    local, back = tmp_path / "local", tmp_path / "back"
    local.write_bytes(data)
    for words in (("put", session, "a/b", str(local)), ("get", session, "a/b", str(back))):
        ran = airlock("files", *words)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    assert back.read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["back", "local"]
    # Through pipes, where the length is not known.
    ran = airlock("files", "put", session, "c", input=data)
    assert (ran.returncode, ran.stderr) == (0, b"")
    ran = airlock("files", "get", session, "c")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, data, b"")
    # read and write take what is no text too.
    assert airlock("files", "write", session, "d", input=data).returncode == 0
    assert airlock("files", "read", session, "d").stdout == data


def test_a_folder_becomes_an_archive(airlock, server, session, tmp_path):
    server.exec(session, "mkdir -p out/sub; echo x > out/sub/f")
    ran = airlock("files", "archive", session, "out", str(tmp_path / "o.tar.gz"))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    with tarfile.open(tmp_path / "o.tar.gz") as tar:
        assert tar.getnames() == ["out", "out/sub", "out/sub/f"]


def test_a_failure_leaves_the_old_local_file(airlock, session, tmp_path):
    local = tmp_path / "local"
    local.write_bytes(b"old")
    for what, text in (("get", "File"), ("archive", "Folder")):
        ran = airlock("files", what, session, "none", str(local))
        assert ran.returncode == 1
        assert ran.stderr.decode() == "airlock: %s 'none' does not exist.\n" % text
    assert local.read_bytes() == b"old" and os.listdir(tmp_path) == ["local"]
    ran = airlock("files", "put", session, "f", str(tmp_path))
    assert ran.returncode == 1 and ran.stderr.endswith(b"is a folder\n")


def test_a_terminal_sees_how_far_it_is(airlock, session, tmp_path):
    local = tmp_path / "local"
    local.write_bytes(b"x" * (20 * MB))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [airlock.program, "files", "put", session, "f", str(local)], env=airlock.env, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    try:
        while True:
            piece = os.read(ours, 4096)
            if not piece:
                break
            seen += piece
    except OSError:
        pass
    assert process.wait() == 0
    os.close(ours)
    assert b"20.0 MB" in seen


def test_transfers_that_wait_keep_no_other_session_from_its_turn(server, session):
    """More uploads of one session than its tenant has places, none of which ends."""
    other = server.create()
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(server.connect(60)) for _ in range(9)]
        for n, s in enumerate(held):
            s.sendall(
                (
                    "PUT %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: 100\r\n\r\nbegun"
                    % (at(session, "files", path="held%d" % n), KEYS["a"])
                ).encode()
            )
        answer = server.request("PUT", at(other, "files", path="f"), raw=b"x", timeout=30)
        assert answer.status == 200, answer
        assert server.get(at(other, "files", path="f")).body == b"x"
    server.delete("/v1/sessions/" + other)
