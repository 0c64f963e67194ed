# SPDX-License-Identifier: Apache-2.0
"""Snapshots against each other, and every file call on a disk that is full. The numbers are those of the
attack catalogue. What holds each row, and which switch makes it red, is in HELD below. Rows of its
snapshot group that are not here:

  266            test_trees.py (odd kinds), test_races.py (links)
  268 269 271    a snapshot is a read-only subvolume that no process of a tenant reaches; there is no
                 archive of one to be damaged
  275            conformance 4.10
  277            conformance (forks); ids and tokens are new, what lies in the workspace is the same
"""

import concurrent.futures
import contextlib
import json
import os
import re
import subprocess
import tempfile
import threading

import pytest

import harness
from harness import KEYS

MB = 1 << 20
AIRLOCK = os.path.join(harness.BUILD, "airlock")


def call(server, session, what, **body):
    return server.post("/v1/sessions/%s/%s" % (session, what), body)


def put(server, session, path, data, **more):
    return server.request("PUT", "/v1/sessions/%s/files?path=%s" % (session, path), raw=data, **more)


def stored(server):
    """Workspaces and snapshots, as the volume's operator sees them."""
    ran = subprocess.run(
        [AIRLOCK, "volume", "show", "--json", "--state-dir", server.state_dir],
        env=harness.environment(),
        stdout=subprocess.PIPE,
        check=True,
    )
    shown = json.loads(ran.stdout)
    return shown["workspaces"], shown["snapshots"]


def sh(server, session, command, timeout=60):
    result = server.exec(session, command, timeout)
    assert result["exit_code"] == 0, result
    return result["stdout"]


# ---- At the same time ----


@pytest.fixture
def own(servers):
    """A server whose volume nobody else uses."""
    server = servers.get({"SANDBOX_WORKSPACE_QUOTA_MB": "64"})
    before = stored(server)
    yield server
    for record in server.get("/v1/snapshots").json["snapshots"]:
        server.delete("/v1/snapshots/" + record["id"])
    for one in server.get("/v1/sessions").json["sessions"]:
        server.delete("/v1/sessions/" + one["session_id"])
    harness.wait_until(lambda: stored(server) == before, "nothing of it is left on the volume")


def at_once(*calls):
    """All of them together; their answers."""
    barrier = threading.Barrier(len(calls))

    def one(function):
        barrier.wait()
        return function()

    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(one, function) for function in calls]]


def test_274_a_snapshot_that_is_deleted_while_it_is_restored(own):
    source = own.create()
    sh(own, source, "mkdir d; for i in $(seq 500); do echo $i > d/$i; done")
    for _ in range(20):
        target = own.create()
        record = call(own, source, "snapshots").json
        restored, deleted, again, started = at_once(
            lambda: call(own, target, "restore", snapshot_id=record["id"]),
            lambda: own.delete("/v1/snapshots/" + record["id"]),
            lambda: own.delete("/v1/snapshots/" + record["id"]),
            lambda: own.post("/v1/sessions", {"snapshot_id": record["id"]}),
        )
        assert sorted((deleted.status, again.status)) == [200, 404]
        assert restored.status in (200, 404) and started.status in (201, 404)
        # The whole or nothing.
        expected = "500\n" if restored.status == 200 else "0\n"
        assert sh(own, target, "ls d 2>/dev/null | wc -l") == expected
        if started.status == 201:
            assert sh(own, started.json["session_id"], "ls d | wc -l") == "500\n"
            own.delete("/v1/sessions/" + started.json["session_id"])
        own.delete("/v1/sessions/" + target)


def test_274_a_session_that_is_deleted_while_it_is_captured(own):
    for _ in range(20):
        session = own.create()
        sh(own, session, "mkdir d; echo x > d/f")
        taken, forked, deleted = at_once(
            lambda: call(own, session, "snapshots", path="d"),
            lambda: call(own, session, "fork"),
            lambda: own.delete("/v1/sessions/" + session),
        )
        assert deleted.status == 200
        assert taken.status in (200, 404) and forked.status in (201, 404), (taken, forked)
        listed = own.get("/v1/snapshots").json["snapshots"]
        assert [one["id"] for one in listed] == ([taken.json["id"]] if taken.status == 200 else [])
        for record in listed:
            second = own.create(snapshot_id=record["id"])
            assert sh(own, second, "cat f") == "x\n"
            own.delete("/v1/sessions/" + second)
            assert own.delete("/v1/snapshots/" + record["id"]).status == 200
        if forked.status == 201:
            own.delete("/v1/sessions/" + forked.json["sessions"][0]["session_id"])


def test_274_two_restores_into_one_workspace(own):
    records = []
    for word in ("one", "two"):
        session = own.create()
        sh(own, session, "for i in $(seq 200); do echo %s > f$i; done" % word)
        records.append(call(own, session, "snapshots").json["id"])
    target = own.create()
    for _ in range(5):
        answers = at_once(
            *[lambda r=r: call(own, target, "restore", snapshot_id=r) for r in records * 2]
        )
        assert [answer.status for answer in answers] == [200] * 4
        # One after the other: the last one's files, all of them.
        assert sh(own, target, "cat f* | sort | uniq -c | wc -l") == "1\n"


def test_forks_that_are_gone_take_nothing_from_others(servers):
    """Their data may stay charged to where it came from; that must not add up to a claim on the volume."""
    server = servers.get({"SANDBOX_WORKSPACE_QUOTA_MB": "64", "SANDBOX_VOLUME_OVERCOMMIT": "2"})
    session = server.create()
    sh(server, session, "head -c 60000000 /dev/urandom > data; sync")
    claims = 2 * int(harness.VOLUME_MB) // 60 + 5
    for _ in range(claims):
        answer = call(server, session, "fork", count=1)
        assert answer.status == 201, answer
        server.delete("/v1/sessions/" + answer.json["sessions"][0]["session_id"])
    assert "volume" not in server.get("/healthz", key=None).json
    other = server.create(KEYS["b"])
    written = server.exec(session, "rm data && head -c 400000000 /dev/zero > more")
    assert written["exit_code"] != 0 and "Disk quota exceeded" in written["stderr"]
    for key, made in ((KEYS["a"], session), (KEYS["b"], other)):
        server.delete("/v1/sessions/" + made, key=key)


def test_278_files_belong_to_whoever_restores_them(own):
    source = own.create()
    sh(own, source, "mkdir d; echo x > d/f; chmod 4750 d/f")
    record = call(own, source, "snapshots").json
    other = own.create()
    assert call(own, other, "restore", snapshot_id=record["id"], path="r").status == 200
    fresh = own.create(snapshot_id=record["id"])
    for session, path in ((other, "r/d"), (fresh, "d")):
        assert sh(own, session, "stat -c '%%u %%g' %s %s/f | sort -u" % (path, path)) == (
            sh(own, session, "echo $(id -u) $(id -g)")
        )
        # The bit is there and does nothing: the workspace is mounted nosuid.
        flags = sh(own, session, "grep ' /workspace ' /proc/self/mounts").split()[3].split(",")
        assert "nosuid" in flags and "nodev" in flags


# ---- Full ----

# Until the disk says no, whose errors differ, and which may say it with room to spare.
FILL = (
    "for n in 1 2 3; do head -c 2G /dev/zero >> fill; sync fill; done; head -c 64K /dev/zero > fill2; true"
)

FULL = {
    "quota": {"SANDBOX_WORKSPACE_QUOTA_MB": "32", "SANDBOX_VOLUME_SIZE_MB": "1024"},
    "volume": {"SANDBOX_WORKSPACE_QUOTA_MB": "700", "SANDBOX_VOLUME_SIZE_MB": "512"},
}


def chunked(server, session, path, data):
    with server.connect(60) as s:
        s.sendall(
            (
                "PUT /v1/sessions/%s/files?path=%s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n"
                "Transfer-Encoding: chunked\r\n\r\n" % (session, path, KEYS["a"])
            ).encode()
            + b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)
        )
        raw = harness.read_raw(s)
    return harness.Answer(raw.status, {}, raw.body)


def refused(server):
    """The answer to a create, when it is none; a session that was made goes again."""
    answer = server.post("/v1/sessions", {})
    if answer.status != 201:
        assert answer.status == 503, answer
        return answer
    server.delete("/v1/sessions/" + answer.json["session_id"])
    return None


def switched(env, off):
    """A server, without some layers when there are any to be off."""
    why = harness.runnable(harness.KNOBS_BUILD if off else None)
    if why:
        pytest.skip(why)
    return harness.Server(env, build=harness.KNOBS_BUILD if off else None, knobs=off)


# Either of two holds the quota, the worker's sum and the volume's limit; the end of the volume is the
# kernel's.
@pytest.mark.parametrize("what, off", [
    ("quota", None), ("volume", None), ("quota", "quota_count"), ("quota", "quota"),
])
def test_52_272_a_full_disk_changes_nothing(what, off):
    with switched(FULL[what], off) as server:
        other = server.create()
        sh(server, other, "head -c 8M /dev/urandom > data")
        record = call(server, other, "snapshots").json
        session = server.create()
        sh(server, session, "head -c 1M /dev/zero > old; mkdir d")
        ran = server.exec(session, FILL, 60)
        assert "quota" in ran["stderr"].lower() or "space" in ran["stderr"].lower(), ran
        before = sh(server, session, "ls -AR; md5sum old")
        data = os.urandom(24 * MB)
        for path in ("old", "d/new", "n1/n2/new"):
            for answer in (
                call(server, session, "write", path=path, content="x" * (24 * MB)),
                put(server, session, path, data),
                chunked(server, session, path, data),
            ):
                assert (answer.status, answer.code) == (413, "quota"), answer
                assert path in answer.detail and " MB disk quota" in answer.detail
        answer = call(server, session, "restore", snapshot_id=record["id"], path="d/r")
        if answer.status != 200:
            assert (answer.status, answer.code) == (413, "snapshot_too_large"), answer
        else:
            # Shared with the snapshot, it needs no room.
            assert server.delete(
                "/v1/sessions/%s/files?path=d/r&recursive=1" % session
            ).status == 200
        assert sh(server, session, "ls -AR; md5sum old") == before
        # Copies share what is there; they are made, or nothing of them is left.
        snapshots = {record["id"]}
        answer = call(server, session, "snapshots")
        if answer.status == 200:
            snapshots.add(answer.json["id"])
        else:
            assert (answer.status, answer.code) == (503, "snapshot_space"), answer
        listed = server.get("/v1/snapshots").json["snapshots"]
        assert {one["id"] for one in listed} == snapshots
        answer = call(server, session, "fork")
        forks = [one["session_id"] for one in answer.json["sessions"]] if answer.status == 201 else []
        assert answer.status in (201, 503), answer
        answer = server.post("/v1/sessions", {})
        if answer.status == 201:
            forks.append(answer.json["session_id"])
        if what == "volume":
            # What is free is asked for every two seconds. Now and then the kernel says that there is no
            # room with more than that to spare.
            def more_or_refused():
                server.exec(session, "head -c 64M /dev/zero >> fill; true", 60)
                return refused(server)

            answer = harness.wait_until(more_or_refused, "no new session is taken")
            assert answer.code == "no_capacity"
        open_now = {one["session_id"] for one in server.get("/v1/sessions").json["sessions"]}
        assert open_now == {session, other, *forks}
        for one in forks:
            assert server.delete("/v1/sessions/" + one).status == 200
        for one in snapshots:
            assert server.delete("/v1/snapshots/" + one).status == 200
        # What is full can be emptied, and then it works again.
        for name in ("fill", "fill2"):
            answer = server.delete("/v1/sessions/%s/files?path=%s" % (session, name))
            assert answer.status == 200, answer
        assert server.delete("/v1/sessions/" + other).status == 200
        harness.wait_until(
            lambda: put(server, session, "old", data).status == 200, "there is room again"
        )
        assert server.get("/v1/sessions/%s/files?path=old" % session).body == data


def test_without_both_quotas_nothing_holds():
    with switched(FULL["quota"], "quota_count,quota") as server:
        session = server.create()
        data = os.urandom(24 * MB)
        for write in (
            lambda: server.exec(session, "head -c 64M /dev/zero > fill", 60),
            lambda: call(server, session, "write", path="a", content="x" * (24 * MB)),
            lambda: put(server, session, "b", data),
            lambda: chunked(server, session, "c", data),
        ):
            # A file system with room may still say now and then that it has none.
            harness.wait_until(lambda w=write: written(w()), "it is written")


def written(answer):
    if isinstance(answer, dict):
        return answer["exit_code"] == 0
    return answer.status == 200


@pytest.fixture
def small_host():
    """A state directory on a file system of its own, which a test can fill."""
    if harness.runnable():
        pytest.skip(harness.runnable())
    top = tempfile.mkdtemp(prefix="airlock-small-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=560m,mode=755", "none", top], check=True)
    os.mkdir(os.path.join(top, "state"), 0o755)
    yield top
    # The kernel lets the volume's file go a little later than the loop device that it was in.
    harness.wait_until(lambda: subprocess.run(["umount", top]).returncode == 0, "it is not busy")
    os.rmdir(top)


def test_52_272_a_full_host_stops_what_must_be_remembered(small_host):
    # Room for so many sessions that the database has to grow.
    env = {"SANDBOX_VOLUME_SIZE_MB": "512", "SANDBOX_WORKSPACE_QUOTA_MB": "64",
           "SANDBOX_MAX_SESSIONS": "5000"}
    with harness.Server(env, state_dir=os.path.join(small_host, "state"), keep=True) as server:
        session = server.create()
        assert put(server, session, "old", b"old").status == 200
        fill = os.path.join(small_host, "fill")
        with contextlib.suppress(OSError), open(fill, "wb", buffering=0) as file:
            while True:
                file.write(bytes(65536))
        # The volume was allocated in full: files and commands go on.
        data = os.urandom(16 * MB)
        assert put(server, session, "new", data).status == 200
        assert server.get("/v1/sessions/%s/files?path=new" % session).body == data
        assert sh(server, session, "cat old; head -c 8M /dev/zero > more; sync") == "old"
        # What needs a row in the database is refused, in the end, and leaves nothing.
        made, refused = [], None
        for _ in range(4000):
            answer = server.post("/v1/sessions", {})
            if answer.status != 201:
                refused = answer
                break
            made.append(answer.json["session_id"])
        if refused is None:
            pytest.fail("the host did not become full")
        assert (refused.status, refused.code) == (503, "busy"), refused
        answer = call(server, session, "snapshots")
        assert (answer.status, answer.code) == (503, "busy"), answer
        assert call(server, session, "fork").status == 503
        assert server.get("/v1/snapshots").json["snapshots"] == []
        listed = {one["session_id"] for one in server.get("/v1/sessions").json["sessions"]}
        assert listed == {session, *made}
        assert server.get("/healthz", key=None).status == 200
        os.unlink(fill)
        again = harness.wait_until(
            lambda: server.post("/v1/sessions", {}).json.get("session_id"), "it works again"
        )
        record = call(server, again, "snapshots")
        assert record.status == 200
        assert server.delete("/v1/snapshots/" + record.json["id"]).status == 200
        for one in [session, again, *made]:
            assert server.delete("/v1/sessions/" + one).status == 200
        harness.wait_until(lambda: stored(server) == (0, 0), "nothing of it is left")


# ---- What holds ----

# Of each row, or the switches that make it red. Nothing of ours stands behind the kernel's; what is no
# layer is a promise of the code that is named, and is seen red where that is broken by hand.
HELD = {
    "test_274_a_snapshot_that_is_deleted_while_it_is_restored": "airlockd's order of steps, no layer",
    "test_274_a_session_that_is_deleted_while_it_is_captured": "airlockd's order of steps, no layer",
    "test_274_two_restores_into_one_workspace": "one file job of a workspace at a time, no layer",
    "test_278_files_belong_to_whoever_restores_them": "the kernel: idmapped mounts; nosuid is of the volume's mount and of each session's",
    "test_52_272_a_full_disk_changes_nothing": "quota_count or quota: test_without_both_quotas_nothing_holds",
    "test_52_272_a_full_host_stops_what_must_be_remembered": "the kernel, and what SQLite makes of it",
}


def test_every_row_says_what_holds_it():
    assert set(HELD) == {name for name in globals() if re.match(r"test_\d", name)}
