# SPDX-License-Identifier: Apache-2.0
"""The acceptance cases of snapshots, by their numbers in the contract (4.8 to 4.14), and of forks.

Through the published client that knows snapshots and ours; what clients cannot send is asked for by
hand. Texts are exact.
"""

import json
import re
import sqlite3
import time

import pytest

import clients
import harness
from harness import KEYS

SNAPSHOT = re.compile(r"snap_[0-9a-f]{16}\Z")
UNKNOWN = "snap_0123456789abcdef"
NOT_FOUND = (404, "snapshot_not_found", "Snapshot not found")
DAY = 86400


@pytest.fixture(params=("0.9.0", "ours"))
def sdk(request):
    """Clients that know snapshots."""
    try:
        return clients.client(request.param)
    except clients.MissingWheel as missing:
        (pytest.fail if harness.CI else pytest.skip)(str(missing))


def limits(**fields):
    return {"SANDBOX_TENANT_LIMITS": json.dumps({"*": fields})}


def said(answer):
    return answer.status, answer.code, answer.detail


def call(server, session, what, body=None, key=KEYS["a"]):
    return server.post("/v1/sessions/%s/%s" % (session, what), body, key=key)


def take(server, session, **body):
    answer = call(server, session, "snapshots", body)
    assert answer.status == 200, answer
    return answer.json


def sh(server, session, command, timeout=15):
    result = server.exec(session, command, timeout)
    assert result["exit_code"] == 0, result
    return result["stdout"]


@pytest.fixture
def box(server):
    session = server.create()
    yield session
    server.delete("/v1/sessions/" + session)


@pytest.fixture(autouse=True)
def none_left(request):
    """Snapshots outlive their sessions, so each test takes its own away again."""
    server = request.getfixturevalue("server") if "server" in request.fixturenames else None
    yield
    for key in KEYS.values() if server else ():
        for record in server.get("/v1/snapshots", key=key).json["snapshots"]:
            server.delete("/v1/snapshots/" + record["id"], key=key)


# ---- 4.8: a snapshot outlives its session ----


def test_4_08_the_next_sandbox_has_the_same_files(server, sdk):
    with sdk.sandbox(server) as first:
        first.run(
            "mkdir -p bin .local/lib/python3.11/site-packages 'a b' && echo 'echo hi' > bin/hi &&"
            " chmod 0750 bin/hi && ln -s bin/hi link && ln -s /etc/passwd out &&"
            " echo 'value = 7' > .local/lib/python3.11/site-packages/kept.py &&"
            " touch -d @1600000000 'a b/old' && echo x > .airlock-hidden && touch .plain"
        ).check()
        record = first.snapshot("tools")
        before = first.run("find . -mindepth 1 -printf '%p %m %y %T@ %l\\n' | grep -v ^./.airlock- | sort").stdout
    assert SNAPSHOT.match(record["id"]) and record["name"] == "tools"
    assert record["session_id"].startswith("sbx_") and record["size_bytes"] > 0
    assert record["expires_at"] == pytest.approx(record["created_at"] + 30 * DAY, abs=1)
    with sdk.sandbox(server, snapshot=record["id"]) as second:
        after = second.run("find . -mindepth 1 -printf '%p %m %y %T@ %l\\n' | sort").stdout
        assert after == before
        assert second.run("PYTHONPATH=.local/lib/python3.11/site-packages python -c"
                          " 'import kept; print(kept.value)'").stdout == "7\n"
        assert second.run("./link").stdout == "hi\n"
        # It is a workspace of its own.
        second.run("echo changed > bin/hi").check()
        with sdk.sandbox(server, snapshot=record["id"]) as third:
            assert third.run("./link").stdout == "hi\n"


def test_4_08_packages_of_the_user_come_along(server, box):
    sh(
        server,
        box,
        "python - <<'E'\nimport os, site\np = site.getusersitepackages()\n"
        "os.makedirs(p, exist_ok=True)\nopen(p + '/kept_user.py', 'w').write('value = 8')\nE",
    )
    second = server.create(snapshot_id=take(server, box)["id"])
    assert sh(server, second, "python -c 'import kept_user; print(kept_user.value)'") == "8\n"
    server.delete("/v1/sessions/" + second)


def test_4_08_the_answer_says_what_it_began_with(server, box):
    record = take(server, box, name="  spaced  ")
    assert record["name"] == "spaced" and record["path"] == "."
    assert record["session_id"] == box and record["template"] == "sandbox-base:latest"
    answer = server.post("/v1/sessions", {"snapshot_id": record["id"]})
    assert answer.status == 201 and answer.json["snapshot_id"] == record["id"]
    server.delete("/v1/sessions/" + answer.json["session_id"])


def test_4_08_it_is_one_instant_while_commands_run_on(server, box):
    """Two files that are always written in the same order never come back the wrong way round."""
    with harness.in_background(
        server.exec,
        box,
        "i=0; until [ -e stop ]; do i=$((i+1)); for f in first second; do echo $i > t; mv t $f; done;"
        " done; echo done",
        60,
    ) as slow:
        try:
            harness.wait_until(lambda: "1" in read(server, box, "second"), "it writes")
            record = take(server, box)
        finally:
            server.post("/v1/sessions/%s/write" % box, {"path": "stop", "content": ""})
    assert slow[0]["stdout"] == "done\n"
    second = server.create(snapshot_id=record["id"])
    one, two = sh(server, second, "cat first; echo; cat second").split()[:2]
    assert 0 <= int(one) - int(two) <= 1
    server.delete("/v1/sessions/" + second)


def read(server, session, path):
    return server.get("/v1/sessions/%s/read?path=%s" % (session, path)).json["content"]


# ---- 4.9: a folder, and where it goes ----


def test_4_09_a_folder_is_its_contents(server, sdk):
    with sdk.sandbox(server) as box:
        box.run("mkdir -p out/deep && echo 1 > out/deep/a && echo 2 > top").check()
        record = box.snapshot("out", path="out")
        assert record.get("path", "out") == "out"
        back = box.restore(record["id"])
        assert back["path"] == "/workspace" and back["restored"]["id"] == record["id"]
        assert box.run("cat deep/a top").stdout == "1\n2\n"
        back = box.restore(record["id"], path="x/y")
        assert back["path"] == "/workspace/x/y"
        assert box.run("cd x/y && find . | sort && cat deep/a").stdout == ".\n./deep\n./deep/a\n1\n"
    with sdk.sandbox(server, snapshot=record["id"]) as fresh:
        assert fresh.run("find . -mindepth 1 | sort").stdout == "./deep\n./deep/a\n"


@pytest.mark.parametrize(
    "path, status, code, text",
    [
        ("none", 404, "file_not_found", "Folder 'none' does not exist."),
        ("file", 400, "not_folder", "'file' is not a folder."),
        ("..", 403, "path_outside",
         "Access denied: symlink/path traversal outside workspace for '..'"),
        ("/workspace", 403, "path_outside",
         "Access denied: symlink/path traversal outside workspace for '/workspace'"),
        ("out", 403, "path_outside",
         "Access denied: symlink/path traversal outside workspace for 'out'"),
    ],
)
def test_4_09_what_is_no_folder_is_refused(server, box, path, status, code, text):
    sh(server, box, "touch file; ln -s /etc out")
    assert said(call(server, box, "snapshots", {"path": path})) == (status, code, text)
    assert server.get("/v1/snapshots").json["snapshots"] == []


def test_4_09_nothing_is_restored_to_the_outside(server, box):
    record = take(server, box)
    sh(server, box, "ln -s /tmp out; touch file")
    for path in ("../x", "/tmp", "out", "out/x"):
        answer = call(server, box, "restore", {"snapshot_id": record["id"], "path": path})
        assert said(answer) == (
            403,
            "path_outside",
            "Access denied: symlink/path traversal outside workspace for '%s'" % path,
        )


# ---- 4.10: merging ----


def test_4_10_same_names_are_replaced_and_others_stay(server, sdk):
    with sdk.sandbox(server) as box:
        box.run("mkdir d && echo old > d/a && chmod 0640 d/a && ln -s /etc/passwd d/link").check()
        record = box.snapshot()
        box.run("echo new > d/a && chmod 0600 d/a && echo mine > d/b && rm d/link").check()
        box.run("echo target > target && ln -s ../target d/link").check()
        box.restore(record["id"])
        assert box.run("cat d/a d/b; stat -c %a d/a; readlink d/link; cat target").stdout == (
            "old\nmine\n640\n/etc/passwd\ntarget\n"
        )


@pytest.mark.parametrize("is_folder", [True, False])
def test_4_10_a_folder_against_a_file_changes_nothing(server, box, is_folder):
    make = ["mkdir -p a/x && touch a/x/y", "mkdir -p a && echo file > a/x"]
    sh(server, box, "echo old > before; " + make[0 if is_folder else 1])
    record = take(server, box)
    sh(server, box, "rm -r a; echo new > before; " + make[1 if is_folder else 0])
    answer = call(server, box, "restore", {"snapshot_id": record["id"]})
    assert said(answer) == (
        409,
        "restore_conflict",
        "'a/x' is in the way: a folder and a file have the same name.",
    )
    assert sh(server, box, "cat before") == "new\n"


def test_4_10_what_does_not_fit_changes_nothing(servers, sdk):
    server = servers.get({"SANDBOX_WORKSPACE_QUOTA_MB": "20"})
    with sdk.sandbox(server) as box:
        box.run("head -c 12M /dev/urandom > big; echo old > small").check()
        record = box.snapshot("the big one")
        box.run("mv big other; echo new > small").check()
        with pytest.raises(sdk.errors.QuotaExceededError) as caught:
            box.restore(record["id"])
        assert re.search(
            r"Restoring 'the big one' needs 12\.\d MB; the workspace has [78]\.\d MB free\.",
            str(caught.value),
        )
        assert box.run("cat small; ls").stdout == "new\nother\nsmall\n"
        # Replaced files give their room back.
        box.run("mv other big").check()
        box.restore(record["id"])
        assert box.run("cat small").stdout == "old\n"
        box.delete_snapshot(record["id"])


def test_4_10_one_larger_than_the_quota_starts_nothing(servers):
    with harness.Server({"SANDBOX_WORKSPACE_QUOTA_MB": "20"}, keep=True) as server:
        session = server.create()
        sh(server, session, "head -c 12M /dev/urandom > big")
        record = take(server, session)
    with harness.Server(
        {"SANDBOX_WORKSPACE_QUOTA_MB": "10"}, state_dir=server.state_dir, keep=True
    ) as smaller:
        answer = smaller.post("/v1/sessions", {"snapshot_id": record["id"]})
        assert answer.status == 413 and answer.code == "snapshot_too_large"
        assert re.fullmatch(
            r"Snapshot '%s' \(12\.\d MB\) doesn't fit in the workspace's 10 MB disk quota\."
            % record["id"],
            answer.detail,
        )
        assert smaller.get("/v1/usage").json["sessions_open"] == 1


def test_what_snapshots_hold_leaves_the_workspace_its_room(servers):
    """Whatever the file system goes on charging the session for: 5 x 30 MB with a quota of 40."""
    server = servers.get({"SANDBOX_WORKSPACE_QUOTA_MB": "40"})
    session = server.create()
    records = []
    for _ in range(5):
        sh(server, session, "rm -f data; head -c 30M /dev/urandom > data && sync", 60)
        records.append(take(server, session))
    # And no more room than that: the hard limit holds against commands.
    result = server.exec(session, "head -c 200M /dev/zero > more")
    assert result["exit_code"] != 0 and "quota" in result["stderr"].lower() + " ".join(
        result["warnings"]
    ).lower()
    for record in records:
        server.delete("/v1/snapshots/" + record["id"])
    server.delete("/v1/sessions/" + session)


# ---- 4.11: whose it is ----


def test_4_11_nobody_else_knows_it(server, box, sdk):
    record = take(server, box)
    other = server.create(key=KEYS["b"])
    for key, session, id in (
        (KEYS["b"], other, record["id"]),
        (KEYS["a"], box, UNKNOWN),
        (KEYS["a"], box, "nonsense"),
        (KEYS["a"], box, ""),
        (KEYS["a"], box, "x" * 65),
        (KEYS["a"], box, "../" + record["id"]),
    ):
        answer = server.post("/v1/sessions", {"snapshot_id": id}, key=key)
        assert said(answer) == NOT_FOUND, id
        answer = call(server, session, "restore", {"snapshot_id": id}, key=key)
        assert said(answer) == NOT_FOUND, id
        if id and "/" not in id:
            assert said(server.delete("/v1/snapshots/" + id, key=key)) == NOT_FOUND, id
    assert server.get("/v1/snapshots", key=KEYS["b"]).json["snapshots"] == []
    stranger = sdk.sandbox(server, KEYS["b"], max_retries=0, snapshot=record["id"])
    with pytest.raises(sdk.errors.NotFoundError, match="Snapshot not found"):
        stranger.start()
    server.delete("/v1/sessions/" + other, key=KEYS["b"])
    assert [one["id"] for one in server.get("/v1/snapshots").json["snapshots"]] == [record["id"]]


def test_4_11_a_deleted_one_is_unknown(server, sdk):
    with sdk.sandbox(server) as box:
        first = box.snapshot("first")
        second = box.snapshot("second")
        assert [one["id"] for one in box.list_snapshots()] == [second["id"], first["id"]]
        usage = server.get("/v1/usage").json
        assert usage["snapshots_stored"] == 2
        assert usage["snapshot_bytes"] == first["size_bytes"] + second["size_bytes"]
        box.delete_snapshot(first["id"])
        assert [one["id"] for one in box.list_snapshots()] == [second["id"]]
        with pytest.raises(sdk.errors.NotFoundError):
            box.delete_snapshot(first["id"])
        with pytest.raises(sdk.errors.NotFoundError):
            box.restore(first["id"])
    assert said(server.post("/v1/sessions", {"snapshot_id": first["id"]})) == NOT_FOUND


def test_4_11_one_over_its_time_is_unknown(servers):
    with harness.Server({"SANDBOX_SNAPSHOT_RETENTION_DAYS": "1"}, keep=True) as server:
        session = server.create()
        over, other = take(server, session, name="over"), take(server, session, name="not yet")
        assert over["expires_at"] == pytest.approx(over["created_at"] + DAY, abs=1)
        assert server.get("/v1/snapshots").json["retention_days"] == 1
    with sqlite3.connect(server.state_dir + "/state/airlock.db") as database:
        database.execute("UPDATE snapshot SET expires_us = 1 WHERE id = ?", (over["id"],))
    database.close()
    with harness.Server(
        {"SANDBOX_SNAPSHOT_RETENTION_DAYS": "0"}, state_dir=server.state_dir, keep=True
    ) as again:
        listed = again.get("/v1/snapshots").json
        assert [one["id"] for one in listed["snapshots"]] == [other["id"]]
        assert listed["retention_days"] == 0
        assert said(again.post("/v1/sessions", {"snapshot_id": over["id"]})) == NOT_FOUND
        assert said(call(again, session, "restore", {"snapshot_id": over["id"]})) == NOT_FOUND
        assert said(again.delete("/v1/snapshots/" + over["id"])) == NOT_FOUND
        assert take(again, session)["expires_at"] is None


# ---- 4.12, 4.13: limits and names ----


def test_4_12_the_third_of_two(servers, sdk, monkeypatch):
    server = servers.get(limits(max_snapshots=2))
    sdk.slept(monkeypatch)
    with sdk.sandbox(server, max_retries=0) as box:
        records = [box.snapshot() for _ in range(2)]
        answer = call(server, box.session_id, "snapshots")
        assert said(answer) == (
            429,
            "snapshot_limit",
            "Snapshot limit reached: 2 of 2 snapshots are stored. Delete one first.",
        )
        assert "Retry-After" not in answer.headers
        with pytest.raises(sdk.errors.RateLimitError) as caught:
            box.snapshot()
        assert caught.value.retry_after is None
        box.delete_snapshot(records[0]["id"])
        records[0] = box.snapshot()
        for record in records:
            box.delete_snapshot(record["id"])


def test_4_12_so_many_megabytes(servers):
    server = servers.get(limits(max_snapshot_mb=8))
    session = server.create()
    sh(server, session, "head -c 6M /dev/urandom > f")
    record = take(server, session)
    answer = call(server, session, "snapshots")
    assert answer.status == 413 and answer.code == "snapshot_storage"
    assert re.fullmatch(
        r"Snapshots would use 12\.\d MB of this account's 8 MB\. Delete one first\.", answer.detail
    )
    assert [one["id"] for one in server.get("/v1/snapshots").json["snapshots"]] == [record["id"]]
    server.delete("/v1/snapshots/" + record["id"])
    server.delete("/v1/sessions/" + session)


def test_4_13_names(server, sdk):
    with sdk.sandbox(server) as box:
        assert box.snapshot()["name"] == "unnamed"
        assert box.snapshot("  \t ")["name"] == "unnamed"
        assert box.snapshot("ü" * 100)["name"] == "ü" * 100
        with pytest.raises(sdk.errors.ValidationError):
            box.snapshot("x" * 101)
        with pytest.raises(sdk.errors.ValidationError):
            box.snapshot("a\nb")


# ---- 4.14: the cost does not grow with the data ----


def timed(function, *args, **more):
    began = time.monotonic()
    result = function(*args, **more)
    return time.monotonic() - began, result


@pytest.mark.slow
def test_4_14_large_and_small_cost_the_same(servers):
    server = servers.get({"SANDBOX_VOLUME_SIZE_MB": "2048"})
    sizes = (5, 500)
    sessions = {megabytes: server.create() for megabytes in sizes}
    for megabytes, session in sessions.items():
        result = server.exec(session, "head -c %dM /dev/urandom > data; sync" % megabytes, 60)
        assert result["exit_code"] == 0, result
    cost = {megabytes: ([], []) for megabytes in sizes}
    begun, records = list(sessions.values()), []
    # They take turns, so that both see the same machine; what others do in it is in the slowest of each.
    for _ in range(5):
        for megabytes, session in sessions.items():
            snapshot, record = timed(take, server, session)
            start, made = timed(server.create, snapshot_id=record["id"])
            assert sh(server, made, "stat -c %s data").strip() == str(megabytes << 20)
            for seconds, one in zip(cost[megabytes], (snapshot, start)):
                seconds.append(one)
            begun.append(made)
            records.append(record["id"])
    for small, large in zip(cost[5], cost[500]):
        assert min(large) < 10 * min(small), cost
    for one in begun:
        server.delete("/v1/sessions/" + one)
    for one in records:
        server.delete("/v1/snapshots/" + one)


# ---- Forks ----


def test_a_fork_begins_with_the_same_files(server, ours):
    with ours.sandbox(server) as box:
        box.run("mkdir d && echo 1 > d/a").check()
        forks = box.fork(3)
        assert len({fork.session_id for fork in forks} | {box.session_id}) == 4
        for i, fork in enumerate(forks):
            assert fork.run("cat d/a; echo %d > d/a; cat d/a" % (i + 2)).stdout == "1\n%d\n" % (i + 2)
        assert box.run("cat d/a").stdout == "1\n"
        for fork in forks:
            fork.close()
        assert [one["session_id"] for one in server.get("/v1/sessions").json["sessions"]] == [
            box.session_id
        ]


def test_forks_are_all_of_them_or_none(servers):
    server = servers.get(limits(max_sessions=3))
    session = server.create()
    assert said(call(server, session, "fork", {"count": 3})) == (
        429,
        "session_limit",
        "Session limit reached: 1 of 3 sessions are open. Delete one first.",
    )
    assert server.get("/v1/usage").json["sessions_open"] == 1
    answer = call(server, session, "fork", {"count": 2})
    assert answer.status == 201 and len(answer.json["sessions"]) == 2
    for made in answer.json["sessions"]:
        assert made["status"] == "ready" and made["snapshot_id"] is None
        server.delete("/v1/sessions/" + made["session_id"])
    assert call(server, session, "fork", {"count": 17}).status == 422
    server.delete("/v1/sessions/" + session)


# ---- Turned off, killed ----


def test_turned_off_it_is_501(servers):
    server = servers.get({"SANDBOX_SNAPSHOTS": "off"})
    session = server.create()
    text = "Snapshots are not enabled on this server (SANDBOX_SNAPSHOTS)."
    for answer in (
        call(server, session, "snapshots"),
        call(server, session, "restore", {"snapshot_id": UNKNOWN}),
        server.get("/v1/snapshots"),
        server.delete("/v1/snapshots/" + UNKNOWN),
        server.post("/v1/sessions", {"snapshot_id": UNKNOWN}),
    ):
        assert said(answer) == (501, "snapshots_off", text)
    server.delete("/v1/sessions/" + session)


def test_what_was_acknowledged_survives_a_kill():
    if harness.runnable():
        pytest.skip(harness.runnable())
    server = harness.Server(keep=True).start()
    session = server.create()
    sh(server, session, "echo kept > file")
    record = take(server, session)
    gone = take(server, session)
    assert server.delete("/v1/snapshots/" + gone["id"]).status == 200
    server.kill()
    server.settle()
    with harness.Server(state_dir=server.state_dir, keep=True) as again:
        assert [one["id"] for one in again.get("/v1/snapshots").json["snapshots"]] == [record["id"]]
        second = again.create(snapshot_id=record["id"])
        assert sh(again, second, "cat file") == "kept\n"
        assert "lost_volumes" not in again.get("/healthz", key=None).json
