# SPDX-License-Identifier: Apache-2.0
"""An import that does not come to its end: whoever asked, its session, the gateway or who unpacks goes
meanwhile."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading

import pytest

import harness
from codehost import CodeHost, archive

GOOD = archive(("README", b"hello\n"), ("src/a.py", b"pass\n"), ("link", tarfile.SYMTYPE, "README"))
SIZE = 1 << 20
PIECE = b"x" * 65536


class Held:
    """A download that stays in the middle until whoever asked for it is gone."""

    def __init__(self):
        self.begun, self.ended = threading.Event(), threading.Event()

    def __call__(self, handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(SIZE))
        handler.end_headers()
        handler.wfile.write(PIECE)
        self.begun.set()
        handler.close_connection = True
        handler.connection.settimeout(60)
        try:
            if not handler.connection.recv(1):
                self.ended.set()
        except ConnectionError:
            self.ended.set()


@pytest.fixture(scope="module")
def host():
    made = CodeHost()
    made.put("good", GOOD)
    yield made
    made.close()


@pytest.fixture(scope="module")
def near(servers, host):
    return servers.get({"SANDBOX_GITHUB_BASE": host.base, "SANDBOX_MEMORY_MB": "64"})


@pytest.fixture
def held(host):
    made = Held()
    host.put("held", made)
    return made


@pytest.fixture
def box(near):
    made = near.create()
    yield made
    near.delete("/v1/sessions/" + made)


def ask(near, session, repo):
    return near.post("/v1/sessions/%s/import" % session, {"repo": repo})


def archives(near):
    """Those that the server holds: files without a name."""
    return harness.unnamed_files(near.state_dir)


def check_over(near, held):
    # After 30 s it ends whoever wants it.
    harness.within(held.ended.is_set, 20, "the download ends")
    harness.wait_until(lambda: not archives(near), "the archive is gone")
    assert os.listdir(os.path.join(near.state_dir, "state", "tmp")) == []
    assert near.get("/v1/usage").json["commands_running"] == 0


def check_works(near, session):
    """The workspace is empty, and each of the tenant's two places free."""
    assert near.exec(session, "find . -mindepth 1")["stdout"] == ""
    answer = ask(near, session, "o/good")
    assert (answer.status, answer.json["files"]) == (200, 2), answer
    assert near.exec(session, "ls -A")["stdout"] == "good\n"


def hang_up(near, session, held):
    body = json.dumps({"repo": "o/held"}).encode()
    with near.connect() as s:
        s.sendall(
            b"POST /v1/sessions/%s/import HTTP/1.1\r\nHost: a\r\nX-API-Key: %s\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (session.encode(), harness.KEYS["a"].encode(), len(body), body)
        )
        assert held.begun.wait(60)
        harness.wait_until(lambda: archives(near), "there is an archive")


def test_who_hangs_up_ends_the_download(near, box, host):
    # More often than there are places.
    for _ in range(3):
        held = Held()
        host.put("held", held)
        hang_up(near, box, held)
        check_over(near, held)
    check_works(near, box)


def test_a_deleted_session_ends_the_download(near, box, held):
    gone = near.create()
    with harness.in_background(ask, near, gone, "o/held") as answers:
        assert held.begun.wait(60)
        assert archives(near)
        assert near.delete("/v1/sessions/" + gone).status == 200
        check_over(near, held)
    said = answers[0]
    assert (said.status, said.detail) == (404, "Session not found or expired"), said
    harness.wait_until(
        lambda: not os.path.exists(os.path.join(near.state_dir, "volumes", gone)), "it is gone"
    )
    check_works(near, box)


def test_a_killed_gateway_ends_the_download_and_the_next_one_works(near, box, held):
    with harness.in_background(ask, near, box, "o/held") as answers:
        assert held.begun.wait(60)
        (gateway,) = near.process_of("airlock-gateway")
        os.kill(gateway, signal.SIGKILL)
        check_over(near, held)
    said = answers[0]
    assert (said.status, said.code) == (502, "github_failed"), said
    assert said.detail == "Couldn't download o/held: the gateway has ended; try again", said
    harness.wait_until(
        lambda: ask(near, box, "o/good").status != 502, "the next gateway downloads"
    )
    assert near.exec(box, "ls -A; rm -r good")["stdout"] == "good\n"
    check_works(near, box)


# ---- Whoever unpacks ----

# Long enough to be met.
MANY = archive(*[("d%d/f%d" % (n % 100, n), b"") for n in range(20000)])

# Fills a sandbox until its limit has ended somebody. Where the memory of the first is not enough,
# that of a child is: nobody else is ended.
EATER = """
import os, sys
def kills():
    for name in ("memory.oom_control", "memory.events"):
        if os.path.exists(os.path.join(sys.argv[1], name)):
            with open(os.path.join(sys.argv[1], name)) as file:
                return [line for line in file if line.startswith("oom_kill ")]
before = kills()
wait, go_on = os.pipe()
ready, is_ready = os.pipe()
with open(os.path.join(sys.argv[1], "cgroup.procs"), "w") as file:
    file.write(str(os.getpid()))
if os.fork() == 0:
    os.close(go_on)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")
    held = b"x" * (16 << 20)
    os.write(is_ready, b"!")
    os.read(wait, 1)
    os._exit(0)
os.read(ready, 1)
memory = os.memfd_create("memory")
while kills() == before:
    os.write(memory, bytes(4096))
"""


def unpacker(near):
    """The process that the file worker, a tenant's process, has forked; it is stopped."""
    status = {}
    for pid, _ in harness.tenant_processes(near.number):
        try:
            status[str(pid)] = harness.proc_status(pid)
        except OSError:
            pass
    for pid, found in status.items():
        if status.get(found["PPid"], {}).get("Uid") == found["Uid"]:
            os.kill(int(pid), signal.SIGSTOP)
            return pid
    return None


def killed(pid):
    os.kill(int(pid), signal.SIGKILL)


def out_of_memory(pid):
    """The limit of its sandbox. It is the first to go."""
    with open("/proc/%s/cgroup" % pid) as file:
        lines = [line.strip().split(":") for line in file]
    (path,) = [path for _, kinds, path in lines if "memory" in kinds.split(",") or len(lines) == 1]
    (group,) = [top + path for top in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory") if os.path.isdir(top + path)]
    with open("/proc/%s/oom_score_adj" % pid, "w") as file:
        file.write("1000")
    try:
        subprocess.run([sys.executable, "-c", EATER, group], check=True, timeout=15)
    except subprocess.TimeoutExpired:
        # About once in a hundred the kernel goes on looking for memory instead.
        with contextlib.suppress(ProcessLookupError):
            killed(pid)
        return False
    harness.wait_until(lambda: not os.path.exists("/proc/" + pid), "it has been ended")
    return True


@pytest.mark.parametrize(
    "end, why",
    [(killed, "what unpacked it was killed."), (out_of_memory, "it took more memory than a sandbox has.")],
    ids=["killed", "out-of-memory"],
)
def test_an_archive_is_not_called_damaged_when_its_reader_is_ended(near, box, host, end, why):
    host.put("many", MANY)
    for _ in range(3):
        with harness.in_background(ask, near, box, "o/many") as answers:
            met = harness.wait_until(lambda: unpacker(near) or answers, "it is being unpacked")
            ended = met is not answers and end(met)
        if ended is not False:
            break
        near.exec(box, "rm -rf many")
    said = answers[0]
    assert (said.status, said.code) == (422, "unpack_failed"), said
    assert said.detail == "Unpacking o/many failed: " + why
    check_works(near, box)
