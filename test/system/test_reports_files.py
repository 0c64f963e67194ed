# SPDX-License-Identifier: Apache-2.0
"""Faults that users of other sandboxes reported: files, snapshots and the life of a sandbox. See
test_reports.py for the rest; the numbers are the report list's.

Each is a test here or in the suite that is named, or has a line saying why not:

   97,98,99,101,102,103,105,106,107,109,110,111,113,115,117,118    here
  101  every route that there is: MCP does not serve files yet
  114  the client has no call that uploads a folder; upload_file takes one name, the caller's own
  118  what eight transfers cost the server is in test_files.py too
  119,121,122,123,126,127,129,131    here
  125  test_life.py (parallel creates and deletes)
  129  persistent sandboxes with names are not served yet: what a dead client holds is its sessions
  130  test_life.py (a process inside is killed from outside)
"""

import concurrent.futures
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import zipfile
from urllib.parse import quote, urlencode

import pytest

import harness
from bounds import in_time
from harness import KEYS

MB = 1 << 20
POOL = 4  # blank sandboxes that a server keeps


@pytest.fixture(autouse=True)
def the_next_command_works(request):
    sandbox = None
    if "sandbox" in request.fixturenames:
        sandbox = request.getfixturevalue("sandbox")
    yield
    if sandbox is not None:

        def works():
            result = sandbox.run("echo ok")
            assert (result.stdout, result.exit_code) == ("ok\n", 0)

        in_time(2, works)


@pytest.fixture(autouse=True)
def no_snapshot_is_left(request):
    server = None
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
    yield
    if server is not None:
        for record in server.get("/v1/snapshots").json["snapshots"]:
            server.delete("/v1/snapshots/" + record["id"])


def at(session, what, **query):
    return "/v1/sessions/%s/%s?%s" % (session, what, urlencode(query))


def rss_of(server):
    (pid,) = server.process_of("airlockd")
    return harness.rss_kib(pid)


def limits(**fields):
    fields["requests_per_minute"] = 1000000
    return {"SANDBOX_TENANT_LIMITS": json.dumps({"*": fields})}


# ---- F. Files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [120000, 131072, 1048577, 50000000])
def test_097_large_files_come_back(sandbox, size):
    data = random.Random(size).randbytes(size)
    text = random.Random(size).randbytes(size // 2).hex()
    for there, back, value in (
        (sandbox.files.upload, sandbox.files.download, data),
        (sandbox.files.write, sandbox.files.read, text),
    ):
        in_time(10, lambda: there("large", value))
        sum_inside = sandbox.run("sha256sum large").stdout.split()[0]
        raw = value if isinstance(value, bytes) else value.encode()
        assert sum_inside == hashlib.sha256(raw).hexdigest()
        assert in_time(10, lambda: back("large")) == value


@pytest.mark.parametrize("size", [18431, 18432, 18433])
def test_098_what_was_said_to_be_written_is_there(server, sandbox, size):
    sandbox.files.write("json", "x" * size)
    assert sandbox.files.upload("put", b"x" * size) == size
    ran = subprocess.run(
        [os.path.join(harness.BUILD, "airlock"), "files", "put", sandbox.session_id, "line"],
        input=b"x" * size,
        env=harness.environment(SANDBOX_API_URL=server.url, SANDBOX_API_KEY=KEYS["a"]),
        capture_output=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert sandbox.run("stat -c %s json put line").stdout == ("%d\n" % size) * 3


def test_099_two_hundred_megabytes_stream(servers, ours, tmp_path):
    server = servers.get({"SANDBOX_UPLOAD_MAX_MB": "256"})
    local, back = tmp_path / "local", tmp_path / "back"
    block = random.Random(1).randbytes(MB)
    with open(local, "wb") as file:
        for _ in range(200):
            file.write(block)
    before = rss_of(server)
    with ours.sandbox(server) as sandbox:
        assert sandbox.files.upload_file(local, "large") == 200 * MB
        assert sandbox.files.download_file("large", back) == 200 * MB
        assert rss_of(server) - before < 100 * 1024
    assert subprocess.run(["cmp", local, back]).returncode == 0


def test_099_above_the_limit_is_said_before_it_is_read(server, session):
    head = (
        "PUT %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: %d\r\n\r\n"
        % (at(session, "files", path="large"), KEYS["a"], 200 * MB)
    )
    answer = server.raw(head.encode())
    assert answer.status == 413 and json.loads(answer.body)["code"] == "upload_too_large"


def test_101_no_route_alters_bytes(server, sandbox):
    blob = io.BytesIO()
    with zipfile.ZipFile(blob, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", random.Random(1).randbytes(5000))
    data = blob.getvalue()
    sandbox.files.upload("a.zip", data)
    assert sandbox.files.download("a.zip") == data
    assert server.get(at(sandbox.session_id, "files", path="a.zip")).body == data
    with pytest.raises(Exception, match="'a.zip' is not UTF-8 text; use download.") as caught:
        sandbox.files.read("a.zip")
    assert caught.value.code == "not_utf8"
    packed = sandbox.files.download_archive(".")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert tar.extractfile("a.zip").read() == data


def test_102_an_empty_file_is_a_file(server, sandbox, tmp_path):
    sandbox.files.write("text", "")
    assert sandbox.files.upload("bytes", b"") == 0
    for path in ("text", "bytes"):
        assert sandbox.files.read(path) == ""
        assert sandbox.files.download(path) == b""
        assert sandbox.files.download_file(path, tmp_path / "back") == 0
        assert (tmp_path / "back").read_bytes() == b""
        answer = server.get(at(sandbox.session_id, "files", path=path))
        assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "0")
        answer = server.get(at(sandbox.session_id, "read", path=path))
        assert answer.json == {"path": path, "content": ""}
    assert [(e["path"], e["size_bytes"]) for e in sandbox.files.list()] == [
        ("bytes", 0), ("text", 0),
    ]


@pytest.mark.parametrize("path", ["/proc/x", "/root/x", "locked/x"])
def test_103_a_refused_write_says_what_and_why(sandbox, ours, path):
    sandbox.run("mkdir -p locked; chmod 555 locked")
    for write in (lambda: sandbox.files.write(path, "1"), lambda: sandbox.files.upload(path, b"1")):
        with pytest.raises(ours.errors.PermissionDeniedError) as caught:
            write()
        assert path in str(caught.value)
        assert ("outside workspace" if path[0] == "/" else "Permission denied") in str(caught.value)


def test_105_any_name_can_be_downloaded(server, sandbox):
    name = '报告 😀 "q" 100%.txt'
    sandbox.files.upload("d/" + name, b"body")
    answer = server.get(at(sandbox.session_id, "files", path="d/" + name))
    assert (answer.status, answer.body) == (200, b"body")
    header = answer.headers["Content-Disposition"]
    assert header.isascii() and header.endswith("filename*=UTF-8''" + quote(name, safe=""))
    assert sandbox.files.download("d/" + name) == b"body"


def test_106_hidden_folders_are_listed(sandbox):
    sandbox.files.write(".cfg/sub/a", "x")
    assert [entry["path"] for entry in sandbox.files.list(".cfg/sub")] == [".cfg/sub/a"]
    assert [entry["path"] for entry in sandbox.files.list(depth=3)] == [
        ".cfg", ".cfg/sub", ".cfg/sub/a",
    ]


def test_107_a_dangling_link_hides_nothing(sandbox):
    sandbox.run(
        "mkdir d other; cd d; echo x > ok.txt; ln -s nowhere dangling; ln -s ok.txt to-file;"
        " ln -s ../other to-folder"
    ).check()
    assert [(e["path"], e["type"], e.get("target")) for e in sandbox.files.list("d")] == [
        ("d/dangling", "link", "nowhere"),
        ("d/ok.txt", "file", None),
        ("d/to-file", "link", "ok.txt"),
        ("d/to-folder", "link", "../other"),
    ]


@pytest.mark.parametrize(
    "text", ["a\\nb\\\\c\\t%s %%", "no end", "one end\n", "a\r\nb\r\n", "\r", "\ufeffx", "a\0b"]
)
def test_109_text_stays_as_it_is(sandbox, text):
    sandbox.files.write("f", text)
    assert sandbox.files.download("f") == text.encode()
    assert sandbox.files.read("f") == text


@pytest.mark.parametrize(
    "path", ["'; import os; os.system('touch /tmp/pwn'); #", "$(touch /tmp/pwn)", "`touch /tmp/pwn`"]
)
def test_110_a_path_is_only_a_path(server, sandbox, path):
    assert not os.path.exists("/tmp/pwn")
    with pytest.raises(FileNotFoundError):
        sandbox.files.read(path)
    for what in ("files", "list", "archive"):
        answer = server.get(at(sandbox.session_id, what, path=path))
        assert (answer.status, answer.code) == (404, "file_not_found")
    assert sandbox.files.delete(path) == 0
    sandbox.files.write(path, "a file")
    assert sandbox.files.read(path) == "a file"
    assert not os.path.exists("/tmp/pwn")
    assert sandbox.run("ls -A /tmp").stdout == ""


def test_111_an_upload_does_not_follow_a_link_out(sandbox, ours, tmp_path):
    target = tmp_path / "target"
    os.chmod(tmp_path, 0o777)
    sandbox.run("ln -s %s up.txt" % target).check()
    for write in (sandbox.files.write, sandbox.files.upload):
        with pytest.raises(ours.errors.PermissionDeniedError) as caught:
            write("up.txt", "x")
        assert caught.value.code == "path_outside"
    assert os.listdir(tmp_path) == []
    assert sandbox.run("readlink up.txt").stdout == "%s\n" % target


def test_113_kinds_of_errors_differ(sandbox, ours):
    sandbox.run("mkdir folder; echo x > locked; chmod 0 locked").check()
    table = (
        ("missing", ours.errors.NotFoundError, "file_not_found"),
        ("folder", ours.errors.ValidationError, "is_folder"),
        ("locked", ours.errors.PermissionDeniedError, "permission_denied"),
    )
    for path, kind, code in table:
        with pytest.raises(kind) as caught:
            sandbox.files.download(path)
        assert caught.value.code == code
        # For text a missing file is what open() would raise, as are the rest.
        with pytest.raises(FileNotFoundError if path == "missing" else kind):
            sandbox.files.read(path)


def test_115_calls_and_commands_see_the_same_paths(server, sandbox):
    sandbox.files.write("data.txt", "x")
    assert sandbox.run("cat /workspace/data.txt").stdout == "x"
    answers = [
        server.post(
            "/v1/sessions/%s/write" % sandbox.session_id, {"path": "/data.txt", "content": "x"}
        ),
        server.get(at(sandbox.session_id, "list", path="/")),
        server.get(at(sandbox.session_id, "read", path="/data.txt")),
    ]
    assert [answer.status for answer in answers] == [403] * 3
    answers.append(server.get(at(sandbox.session_id, "list", path="nowhere")))
    answers.append(server.get(at(sandbox.session_id, "read", path="a" * 300)))
    for answer in answers:
        assert server.state_dir.encode() not in answer.body
    assert sandbox.run("test -e /data.txt").exit_code == 1


def test_117_an_archive_with_links_stays_inside(sandbox):
    blob = io.BytesIO()
    with tarfile.open(fileobj=blob, mode="w:gz") as tar:
        link = tarfile.TarInfo("l")
        link.type, link.linkname = tarfile.SYMTYPE, "../../../etc"
        tar.addfile(link)
        member = tarfile.TarInfo("l/airlock-planted")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))
    sandbox.files.upload("a.tar.gz", blob.getvalue())
    assert sandbox.run("tar -xzf a.tar.gz").exit_code != 0
    assert not os.path.exists("/etc/airlock-planted")
    assert sandbox.run("ls /etc/airlock-planted").exit_code != 0


def test_118_eight_large_uploads_at_one_time(server, session):
    before = rss_of(server)
    data = bytes(100 * MB)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(server.request, "PUT", at(session, "files", path="f%d" % n), raw=data)
            for n in range(8)
        ]
        answers = [call.result() for call in asked]
    assert [answer.code for answer in answers] == ["upload_too_large"] * 8
    assert rss_of(server) - before < 200 * 1024


# ---- G. Snapshots and lifecycle ----------------------------------------------------------------


def test_119_odd_files_do_not_block_a_restore(sandbox):
    sandbox.run("mkdir d; echo one > d/one; echo two > d/two").check()
    record = sandbox.snapshot()
    sandbox.run("rm d/*; mkfifo d/one; ln -s nowhere d/two; mkfifo other").check()
    sandbox.restore(record["id"])
    assert sandbox.run("stat -c %F d/one d/two; cat d/one d/two").stdout == (
        "regular file\nregular file\none\ntwo\n"
    )
    # And the other way round: what is odd in a snapshot is left out.
    sandbox.run("rm -r d other; mkfifo pipe; ln -s nowhere dangling; echo x > f").check()
    odd = sandbox.snapshot()
    sandbox.run("rm *").check()
    sandbox.restore(odd["id"])
    assert sandbox.run("ls").stdout == "dangling\nf\n"


def test_121_a_snapshot_right_after_the_create(server, ours):
    for _ in range(10):
        with ours.sandbox(server) as sandbox:
            record = sandbox.snapshot()
            assert record["size_bytes"] >= 0
            sandbox.delete_snapshot(record["id"])


def test_122_sixty_thousand_files(server, sandbox, ours):
    made = sandbox.run(
        "python3 -c \"import os\nfor n in range(60000):\n"
        "    if n % 1000 == 0: os.mkdir('d%d' % (n // 1000))\n"
        "    os.close(os.open('d%d/f%d' % (n // 1000, n), os.O_CREAT | os.O_WRONLY))\"",
        timeout=60,
    )
    assert made.exit_code == 0, made
    record = sandbox.snapshot()
    with ours.sandbox(server, snapshot=record["id"]) as second:
        assert second.run("find . -type f | wc -l", timeout=60).stdout == "60000\n"
    assert [one["id"] for one in sandbox.list_snapshots()] == [record["id"]]


def test_123_what_a_dead_server_left_does_not_matter(server, ours):
    start = (
        "python3 - <<'E'\nimport os, socket\n"
        "old = int(open('pid').read()) if os.path.exists('pid') else None\n"
        "if os.path.exists('sock'): os.unlink('sock')\n"
        "s = socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen()\n"
        "open('pid', 'w').write(str(os.getpid()))\n"
        "print('started', old is not None)\nE"
    )
    with ours.sandbox(server) as sandbox:
        assert sandbox.run(start).stdout == "started False\n"
        record = sandbox.snapshot()
    with ours.sandbox(server, snapshot=record["id"]) as second:
        assert second.run("ps -e -o comm= | grep -c python").stdout == "0\n"
        assert second.run(start).stdout == "started True\n"
        second.restore(record["id"])
        assert second.run(start).stdout == "started True\n"


def test_126_a_busy_sandbox_is_never_taken_away(servers):
    server = servers.get(limits(max_sessions=1))
    session = server.create()
    command = "until [ -e go ]; do sleep 0.1; done; echo done"
    with harness.in_background(server.exec, session, command, 60) as ran:
        harness.wait_until(
            lambda: server.get("/v1/usage").json["commands_running"] == 1, "it runs"
        )
        answer = server.post("/v1/sessions", {})
        assert (answer.status, answer.code) == (429, "session_limit")
        server.post("/v1/sessions/%s/write" % session, {"path": "go", "content": ""})
    assert ran[0]["stdout"] == "done\n"
    assert server.delete("/v1/sessions/" + session).status == 200


def test_127_three_hundred_sandboxes_one_after_the_other(server):
    seen = set()

    def some(number):
        for _ in range(number):
            session = server.create()
            seen.add(session)
            assert server.delete("/v1/sessions/" + session).status == 200

    some(10)
    before = harness.Inventory(server)
    some(290)
    assert len(seen) == 300
    # Of blank sandboxes there may be some more than at that moment.
    harness.wait_until(
        lambda: len(harness.Inventory(server).slots) <= len(before.slots) + POOL,
        "their places are free",
    )
    harness.wait_until(
        lambda: set(harness.Inventory(server).mounts) <= set(before.mounts), "their mounts are gone"
    )


CRASHES = """
import os, sys
sys.path.insert(0, sys.argv[1])
from airlock_sandbox import Sandbox
sandbox = Sandbox(sys.argv[2], sys.argv[3]).start()
sandbox.files.write("mine", "x")
print(sandbox.session_id, flush=True)
os.kill(os.getpid(), 9)
"""


def test_129_a_crashed_client_does_not_block_the_next(servers, ours):
    # Longer than a client is kept from running between its start and its first call.
    server = servers.get(dict(limits(max_sessions=1), SANDBOX_SESSION_TTL="5"))
    arguments = [os.path.join(harness.ROOT, "sdk", "python"), KEYS["a"], server.url]
    ran = subprocess.run(
        [sys.executable, "-c", CRASHES, *arguments], capture_output=True, text=True
    )
    assert ran.returncode == -9 and ran.stdout.startswith("sbx_"), ran.stderr
    harness.wait_until(
        lambda: server.get("/v1/usage").json["sessions_open"] == 0, "it is removed"
    )
    with ours.sandbox(server) as sandbox:
        assert sandbox.session_id != ran.stdout.strip()
        assert sandbox.files.list() == []


def test_131_a_failure_is_not_remembered(ours):
    if harness.runnable():
        pytest.skip(harness.runnable())
    server = harness.Server()
    sandbox = ours.sandbox(server, max_retries=0)
    with pytest.raises(ours.errors.APIConnectionError):
        sandbox.start()
    with server:
        with sandbox.start():
            assert sandbox.run("echo up").stdout == "up\n"
    with pytest.raises(ours.errors.APIConnectionError):
        sandbox.start()
