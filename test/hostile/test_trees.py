# SPDX-License-Identifier: Apache-2.0
"""Trees that are made to break what works on them: depth, size, number, kinds, names, and disks that
are full. The numbers are those of the attack catalogue; what holds each row, and which switch makes it
red, is in HELD at the end; races are in test_races.py, archives that
come in are in test_archives.py, src/worker/test-archive.c and the fuzzer of the same name.

Done by hand, because it takes minutes: AIRLOCK_BY_HAND=1 makes a million files (acceptance 4.18), and
deletes a deep tree, whose worker is tested in src/worker/test-folder.c.
"""

import contextlib
import gzip
import http.client
import io
import json
import os
import re
import socket
import subprocess
import tarfile
import time
import zlib
from urllib.parse import urlencode

import pytest

import awake
import harness
from bounds import in_time
from box import Box
from harness import KEYS

MB = 1 << 20
BY_HAND = bool(os.environ.get("AIRLOCK_BY_HAND"))
by_hand = pytest.mark.skipif(not BY_HAND, reason="takes minutes: AIRLOCK_BY_HAND=1 runs it")


def at(session, what, **query):
    return "/v1/sessions/%s/%s?%s" % (session, what, urlencode(query))


def post(server, session, what, **body):
    return server.post("/v1/sessions/%s/%s" % (session, what), body)


@pytest.fixture(autouse=True)
def no_snapshot_is_left(request):
    server = None
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
    yield
    if server is not None:
        for record in server.get("/v1/snapshots").json["snapshots"]:
            server.delete("/v1/snapshots/" + record["id"])


# ---- Deep ----

# More than a walk goes down. Each level costs the kernel a walk to the top (landlock), so the cost of
# all grows with the square; without a tenth of them it is half a minute less.
LEVELS = 10000 if BY_HAND else 8300
DEEP = """
import os, time
os.makedirs('deep', exist_ok=True); os.chdir('deep')
levels, made, end = %d, 0, time.monotonic() + 20
while made < levels and time.monotonic() < end:
    tries(os.mkdir, 'd'); os.chdir('d')
    made += 1
if made == levels: open('bottom', 'w').write('x')
show(made)
"""


@pytest.fixture(scope="module")
def deep(shared_server):
    box = Box(shared_server)
    # A slow machine needs several commands for it.
    assert any(box.py(DEEP % LEVELS, 60) == LEVELS for _ in range(20))
    yield box.session
    answer = post(shared_server, box.session, "fork", count=4)
    assert answer.status == 201, answer
    doomed = [box.session] + [made["session_id"] for made in answer.json["sessions"]]

    def delete(session):
        assert shared_server.delete("/v1/sessions/" + session).status == 200

    in_time(2, delete, before=lambda: doomed.pop(0))
    for session in doomed:
        delete(session)
    assert shared_server.get(box.path).status == 404


def test_a_deep_tree_is_listed(server, deep):
    answer = server.get(at(deep, "list", path="deep", depth=16))
    assert answer.status == 200 and len(answer.json["entries"]) == 16
    path = "/".join(["deep"] + ["d"] * 2000)
    answer = server.get(at(deep, "list", path=path))
    assert [entry["path"] for entry in answer.json["entries"]] == [path + "/d"]


def test_what_is_too_deep_is_said(server, deep):
    answer = post(server, deep, "snapshots")
    assert (answer.status, answer.code) == (413, "too_deep")
    assert server.get("/v1/snapshots").json["snapshots"] == []


LONG = """
import os
part = 'p' * 250
for _ in range(%d):
    os.makedirs(part, exist_ok=True); os.chdir(part)
%s
show(True)
"""


# Longer than a path, and longer than what a walk remembers of it.
@pytest.mark.parametrize("levels", [20, 300])
def test_a_conflict_below_a_long_path_is_said(server, levels):
    box = Box(server)
    assert box.py(LONG % (levels, "open('x', 'w').write('old')"))
    record = post(server, box.session, "snapshots").json
    assert box.py(LONG % (levels, "os.unlink('x'); os.mkdir('x')"))
    answer = post(server, box.session, "restore", snapshot_id=record["id"])
    assert (answer.status, answer.code, answer.detail) == (
        409,
        "restore_conflict",
        "'%s' is in the way: a folder and a file have the same name." % ("p" * 200),
    )
    assert box.py(LONG % (levels, "os.rmdir('x')"))
    assert post(server, box.session, "restore", snapshot_id=record["id"]).status == 200
    assert box.py(LONG % (levels, "assert open('x').read() == 'old'"))
    box.close()


def breaks(server, session, path):
    """Whether an archive begins and does not end properly."""
    with server.connect(100) as s:
        s.sendall(
            (
                "GET %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n\r\n"
                % (at(session, "archive", path=path), KEYS["a"])
            ).encode()
        )
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while not got.endswith(b"\r\n0\r\n\r\n"):
                piece = s.recv(MB)
                if not piece:
                    break
                got += piece
    assert got.startswith(b"HTTP/1.1 200 ")
    return not got.endswith(b"\r\n0\r\n\r\n")


def test_an_archive_without_the_deepest_breaks(server, deep):
    assert breaks(server, deep, "deep")


def test_an_archive_without_what_is_locked_breaks(server, session):
    check_locked(server, session)


def check_locked(server, session):
    server.exec(session, "mkdir -p d/locked e; echo x | tee d/locked/f e/f; chmod 0 d/locked e/f")
    assert breaks(server, session, "d") and breaks(server, session, "e")
    server.exec(session, "chmod 700 d/locked e/f")
    assert not breaks(server, session, ".")


@by_hand
def test_a_fork_of_a_deep_tree_costs_nothing_and_is_deleted(server, deep):
    answer = post(server, deep, "fork", count=1)
    assert answer.status == 201
    (fork,) = [made["session_id"] for made in answer.json["sessions"]]
    assert server.exec(fork, "cd deep/d/d/d && ls")["stdout"] == "d\n"
    assert post(server, fork, "move", **{"from": "deep", "to": "a/b"}).status == 200
    answer = server.delete(at(fork, "files", path="a", recursive="true"))
    assert (answer.status, answer.json) == (200, {"path": "a", "deleted": LEVELS + 3})
    assert server.exec(fork, "ls -A")["stdout"] == ""
    began = awake.seconds()
    assert server.delete("/v1/sessions/" + fork).status == 200
    assert awake.seconds() - began < 2


# ---- Large, or so it seems ----


def test_20_a_sparse_terabyte_costs_what_it_has(server, session):
    server.exec(session, "truncate -s 1T sparse; echo x > small")
    used = server.get("/v1/sessions/" + session).json["disk_used_bytes"]
    assert used < MB
    for what in ("read", "files"):
        answer = server.get(at(session, what, path="sparse"))
        assert (answer.status, answer.code) == (413, "file_too_large")
    (sparse, _) = sorted(
        server.get(at(session, "list")).json["entries"], key=lambda e: -e["size_bytes"]
    )
    assert sparse["size_bytes"] == 1 << 40

    def copy():
        record = post(server, session, "snapshots").json
        assert record["size_bytes"] < MB
        assert post(server, session, "restore", snapshot_id=record["id"]).status == 200
        assert post(server, session, "restore", snapshot_id=record["id"], path="copy").status == 200
        server.delete("/v1/snapshots/" + record["id"])

    in_time(2, copy)
    blocks = server.exec(session, "stat -c '%s %b' sparse copy/sparse")["stdout"].split()
    assert blocks[0] == blocks[2] == str(1 << 40) and int(blocks[1]) < 64 and int(blocks[3]) < 64


def test_20_the_archive_of_a_sparse_terabyte_is_bounded(server):
    """It would be a gigabyte of compressed zeros: the client goes, and the work ends."""
    session = server.create()
    server.exec(session, "truncate -s 1T sparse")

    def go_away():
        with server.connect() as s:
            s.sendall(
                (
                    "GET %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n\r\n"
                    % (at(session, "archive"), KEYS["a"])
                ).encode()
            )
            assert s.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
            assert server.get(at(session, "read", path="none")).status == 200

    def put(_):
        assert server.request("PUT", at(session, "files", path="next"), raw=b"x").status == 200

    in_time(5, put, before=go_away)
    server.delete("/v1/sessions/" + session)


def test_418_hard_links_count_once_and_follow_no_path(server, session):
    server.exec(
        session, "head -c 1M /dev/urandom > f; for i in $(seq 500); do ln f l$i; done; mkdir d; mv l1 d"
    )
    # All names, and one of them, which is the whole file in a snapshot that lacks the others.
    for path in (".", "d"):
        record = post(server, session, "snapshots", path=path).json
        assert MB <= record["size_bytes"] < 2 * MB
    # Writing to one name is a new file; the others keep the old one.
    assert post(server, session, "write", path="d/l1", content="new").status == 200
    assert server.exec(session, "stat -c '%h %s' f l2 d/l1")["stdout"] == (
        "500 1048576\n500 1048576\n1 3\n"
    )


def test_13_files_of_the_image_cannot_be_linked(server, session):
    """A hard link to what the tenant may not write would give it another owner's file to chmod."""
    result = server.exec(session, "ln /etc/passwd p; ln /bin/true t; ln -P /proc/1/exe e")
    assert result["exit_code"] != 0 and server.exec(session, "ls -A")["stdout"] == ""


def test_43_extended_attributes_do_not_leave(server, session):
    check_attributes(server, session)


def check_attributes(server, session):
    server.exec(session, "echo x > f")
    box = Box.__new__(Box)
    box.server, box.key, box.canaries, box.session = server, KEYS["a"], (), session
    box.path = "/v1/sessions/" + session
    assert box.py(
        "import struct\n"
        "acl = struct.pack('<I', 2) + struct.pack('<HHI', 1, 6, 0xffffffff)"
        " + struct.pack('<HHI', 2, 7, 1) + struct.pack('<HHI', 4, 4, 0xffffffff)"
        " + struct.pack('<HHI', 16, 7, 0xffffffff) + struct.pack('<HHI', 32, 4, 0xffffffff)\n"
        "show([tries(os.setxattr, 'f', 'user.a', b'x' * 3000),"
        " tries(os.setxattr, 'f', 'security.capability', struct.pack('<5I', 0x2000001, 1, 0, 0, 0)),"
        " tries(os.setxattr, 'f', 'trusted.a', b'x'),"
        " tries(os.setxattr, 'f', 'system.posix_acl_access', acl)])"
    )[1:3] == ["EPERM", "EPERM"]
    blob = gzip.decompress(server.get(at(session, "archive")).body)
    with tarfile.open(fileobj=io.BytesIO(blob)) as tar:
        (member,) = tar.getmembers()
        assert not member.pax_headers and member.name == "f"


# ---- Many ----


def processor_seconds(server):
    """What everything in sandboxes has computed: a busy machine takes longer, and no more of this."""
    for path in harness.cgroup_dirs(server.number, "tenants"):
        if not path.endswith("/tenants"):
            continue
        with contextlib.suppress(FileNotFoundError), open(path + "/cpuacct.usage") as file:
            return int(file.read()) / 1e9
        with contextlib.suppress(FileNotFoundError), open(path + "/cpu.stat") as file:
            found = re.search(r"^usage_usec (\d+)$", file.read(), re.M)
            if found:
                return int(found.group(1)) / 1e6
    raise AssertionError("no control group counts it")


MANY = """
import time
os.makedirs('d', exist_ok=True); os.chdir('d')
n, end = %d, time.monotonic() + 20
while n < 60000 and time.monotonic() < end:
    os.close(os.open('f' + str(n), os.O_CREAT | os.O_WRONLY))
    n += 1
show(n)
"""


def test_22_many_names_in_one_folder(server):
    """More than a batch of the listing, so that it is read again and again."""
    box = Box(server)
    made = 0
    # A slow machine needs several commands for it.
    for _ in range(20):
        if made < 60000:
            made = box.py(MANY % made, 60)
    assert made == 60000
    (pid,) = server.process_of("airlockd")
    before = harness.rss_kib(pid)
    began = processor_seconds(server)
    first = server.get(at(box.session, "list", path="d"))
    assert len(first.json["entries"]) == 1000
    assert first.json["entries"][0]["path"] == "d/f0"
    after, names = first.json["next"], 1000
    while after:
        page = server.get(at(box.session, "list", path="d", after=after)).json
        after, names = page["next"], names + len(page["entries"])
    assert names == 60000
    assert processor_seconds(server) - began < 5
    # A sanitizer needs more memory than what it looks at.
    assert os.environ.get("AIRLOCK_SANITIZED") or harness.rss_kib(pid) - before < 4096
    answer = server.delete(at(box.session, "files", path="d", recursive="true"), timeout=100)
    assert answer.json["deleted"] == 60001
    box.close()


@by_hand
def test_418_a_million_empty_files(servers):
    server = servers.get({"SANDBOX_VOLUME_SIZE_MB": "4096"})
    box = Box(server)
    made, error = 0, "ok"
    while error == "ok" and made < 1100000:
        made, error = box.py(
            "error, n = 'ok', %d\n"
            "for folder in range(100):\n"
            "    tries(os.mkdir, 'd%%d' %% (n // 1000))\n"
            "    for _ in range(1000):\n"
            "        error = tries(lambda: os.close(os.open('d%%d/f%%d' %% (n // 1000, n),"
            " os.O_CREAT | os.O_WRONLY)))\n"
            "        if error != 'ok': break\n"
            "        n += 1\n"
            "    if error != 'ok': break\n"
            "show([n, error])" % made,
            60,
        )
    print("%d files, then %s" % (made, error))
    for write in (
        lambda: box.write("one more", "x"),
        lambda: server.request("PUT", at(box.session, "files", path="one more"), raw=b"x"),
    ):
        began = time.monotonic()
        answer = write()
        print("refused after %.1f s: %r" % (time.monotonic() - began, answer))
        assert (answer.status, answer.code) in ((413, "too_many_files"), (413, "quota"))
    box.close()
    began = time.monotonic()

    def deleted():
        shown = subprocess.run(
            [os.path.join(harness.BUILD, "airlock"), "volume", "show", "--json", "--state-dir",
             server.state_dir],
            env=harness.environment(),
            stdout=subprocess.PIPE,
            check=True,
        )
        shown = json.loads(shown.stdout)
        return shown["workspaces"] == 0 and not shown["being_deleted"]

    harness.within(deleted, 120, "it is deleted")
    print("deleted after %.1f s" % (time.monotonic() - began))


# ---- Odd kinds and names ----

KINDS = """
import socket
os.mkdir('d'); os.chdir('d')
os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket')
os.symlink('/etc/passwd', 'link'); os.symlink('self', 'self'); open('setid', 'w').write('x')
os.chmod('setid', 0o6755)
os.mkdir('setgid'); os.chmod('setgid', 0o2775)
made = [tries(os.mknod, 'n%d' % n, kind | 0o666, os.makedev(1, 1)) for n, kind in enumerate((0o20000, 0o60000))]
show(made)
"""


def test_14_16_17_266_odd_kinds_hold_nothing_up(server):
    check_kinds(server)


def check_kinds(server, _session=None):
    box = Box(server)
    assert set(box.py(KINDS)) == {"EPERM"}
    kinds = {e["path"][2:]: e["type"] for e in server.get(at(box.session, "list", path="d")).json["entries"]}
    assert kinds == {
        "fifo": "other", "socket": "other", "link": "link", "self": "link", "setid": "file",
        "setgid": "folder",
    }

    def each():
        for name, status in (("fifo", 400), ("socket", 400), ("link", 403), ("self", 403)):
            assert server.get(at(box.session, "files", path="d/" + name)).status == status
            assert server.get(at(box.session, "read", path="d/" + name)).status == status
            answer = server.request("PUT", at(box.session, "files", path="d/" + name), raw=b"x")
            assert answer.status == status, name
            assert server.get(at(box.session, "list", path="d/" + name)).status == status
        blob = gzip.decompress(server.get(at(box.session, "archive", path="d")).body)
        with tarfile.open(fileobj=io.BytesIO(blob)) as tar:
            names = {member.name: member.mode for member in tar.getmembers()}
        assert sorted(names) == ["d", "d/link", "d/self", "d/setgid", "d/setid"]
        assert names["d/setid"] == 0o755
        record = post(server, box.session, "snapshots", path="d").json
        assert post(server, box.session, "restore", snapshot_id=record["id"], path="new").status == 200
        assert box.sh("cd new && stat -c '%n %F' * | sort")["stdout"] == (
            "link symbolic link\nself symbolic link\nsetgid directory\nsetid regular file\n"
        )

    in_time(5, each)
    assert server.delete(at(box.session, "files", path="d", recursive="1")).json["deleted"] == 7
    box.close()


NAMES = [
    b"a\nb", b"\x1b[31m", b"\xff" * 255, b"n" * 255, b"-rf", b" lead", b"trail ", b"\\x41", b"q\"'",
    b"e\xcc\x81", b"\xc3\xa9", b"CASE", b"case", b"\xf0\x9f\x98\x80" * 63, b"--checkpoint-action=x",
    b"\xed\xa0\x80", b"\xc0\xaf", b"a\x01\x7f",
]


def test_23_49_names_are_bytes_everywhere(server):
    box = Box(server)
    assert box.py(
        "os.mkdir('d'); os.chdir('d')\n"
        "for name in %r: open(name, 'wb').write(name)\nshow(len(os.listdir('.')))" % NAMES
    ) == len(NAMES)
    entries = server.get(at(box.session, "list", path="d")).json["entries"]
    shown = [entry["path"] for entry in entries]
    assert len(set(shown)) == len(NAMES)
    for entry in entries:
        if not entry.get("raw"):
            answer = server.get(at(box.session, "files", path=entry["path"]))
            assert answer.body == entry["path"][2:].encode()
            assert "\n" not in str(answer.headers["Content-Disposition"])
    assert sum(1 for entry in entries if entry.get("raw")) == 3
    # As an archive and as a snapshot each comes back.
    blob = gzip.decompress(server.get(at(box.session, "archive", path="d")).body)
    with tarfile.open(fileobj=io.BytesIO(blob), errors="surrogateescape") as tar:
        found = {m.name.encode("utf-8", "surrogateescape")[2:] for m in tar.getmembers() if m.isreg()}
    assert found == set(NAMES)
    record = post(server, box.session, "snapshots").json
    assert post(server, box.session, "restore", snapshot_id=record["id"], path="r").status == 200
    assert box.sh("diff -r d r/d")["exit_code"] == 0
    # The last one may just be written.
    for line in server.log().split("\n")[:-1]:
        json.loads(line)
    assert server.delete(at(box.session, "files", path="d", recursive="1")).json["deleted"] == 1 + len(NAMES)
    box.close()


# ---- Changing while it is read ----


CHANGES = """
import time
os.mkdir('d')
data = b'x' * 200000
open('d/grows', 'wb').write(data); open('d/shrinks', 'wb').write(data); os.mkdir('d/sub')
open('ready', 'w')
while not os.path.exists('stop'):
    with open('d/grows', 'ab') as file: file.write(b'y' * 5000)
    if os.path.getsize('d/grows') > 4000000: os.truncate('d/grows', 0)
    os.truncate('d/shrinks', 10)
    open('d/shrinks', 'wb').write(data)
    os.rename('d/sub', 'd/bus'); os.rename('d/bus', 'd/sub')
    os.rename('d', 'e'); os.rename('e', 'd')
show('done')
"""


def test_26_29_what_changes_while_it_is_packed_is_whole_or_breaks(server):
    box = Box(server)
    seen = {"whole": 0, "broken": 0}
    with harness.in_background(box.py, CHANGES, 60) as ran:
        try:
            harness.wait_until(
                lambda: server.get(at(box.session, "read", path="ready")).json["content"] == "", "it runs"
            )
            began = awake.seconds()
            while awake.seconds() - began < (3 if seen["whole"] else 40):
                try:
                    answer = server.get(at(box.session, "archive", path="d"))
                except http.client.IncompleteRead:
                    seen["broken"] += 1
                    continue
                assert answer.status in (200, 404), answer
                if answer.status == 200:
                    seen["whole"] += 1
                    blob = zlib.decompress(answer.body, 31)
                    with tarfile.open(fileobj=io.BytesIO(blob)) as tar:
                        for member in tar.getmembers():
                            if member.isreg():
                                assert len(tar.extractfile(member).read()) == member.size
                answer = server.get(at(box.session, "list", path="d", depth=4))
                assert answer.status in (200, 404, 409), answer
        finally:
            box.write("stop", "")
    assert ran == ["done"], ran
    assert seen["whole"], seen
    box.close()


# ---- What holds ----

# Of each row, or the switches that make it red. Nothing of ours stands behind the kernel's; what is no
# layer is a promise of the code that is named, and is seen red where that is broken by hand.
HELD = {
    "test_a_deep_tree_is_listed": "no layer: a path is opened by parts (worker/file-path.c)",
    "test_what_is_too_deep_is_said": "no layer: the end of an array (worker/tree.c)",
    "test_a_conflict_below_a_long_path_is_said": "no layer: as much is said as a path has (worker/merge.c)",
    "test_an_archive_without_the_deepest_breaks": "pack_whole, as the next",
    "test_an_archive_without_what_is_locked_breaks": {"pack_whole": check_locked},
    "test_a_fork_of_a_deep_tree_costs_nothing_and_is_deleted": "no layer: the sweeper, and the kernel",
    "test_20_a_sparse_terabyte_costs_what_it_has": "the kernel counts blocks; no layer: sizes are compared",
    "test_20_the_archive_of_a_sparse_terabyte_is_bounded": "no layer: whose client goes is ended",
    "test_418_hard_links_count_once_and_follow_no_path": "no layer: inodes are compared (worker/file-usage.c)",
    "test_13_files_of_the_image_cannot_be_linked": "the kernel: another file system, and protected_hardlinks",
    "test_43_extended_attributes_do_not_leave": {"capabilities,tenant_id": check_attributes},
    "test_22_many_names_in_one_folder": "no layer: a page has 1,000 entries",
    "test_418_a_million_empty_files": "no layer: a number (FILE_INODES_MAX), and the volume's quota",
    "test_14_16_17_266_odd_kinds_hold_nothing_up": {"beneath": check_kinds},
    "test_23_49_names_are_bytes_everywhere": "no layer: nobody reads a name as text",
    "test_26_29_what_changes_while_it_is_packed_is_whole_or_breaks": "pack_whole, as above",
}


# What is seen then.
RED = {
    "pack_whole": "breaks",
    "capabilities,tenant_id": "'ok', 'EPERM'",
    "beneath": "200 == 403",
}


def test_every_row_says_what_holds_it():
    others = {"test_every_row_says_what_holds_it", "test_a_row_without_its_layer"}
    assert set(HELD) == {name for name in globals() if name.startswith("test_")} - others


@pytest.mark.parametrize(
    "off, row", [(off, row) for held in HELD.values() if isinstance(held, dict) for off, row in held.items()]
)
def test_a_row_without_its_layer(off, row, knob_servers):
    server = knob_servers.get(off)
    session = server.create()
    with pytest.raises(AssertionError, match=RED[off]):
        row(server, session)
    for one in server.get("/v1/sessions").json["sessions"]:
        server.delete("/v1/sessions/" + one["session_id"])
