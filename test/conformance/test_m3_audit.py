# SPDX-License-Identifier: Apache-2.0
"""The acceptance cases of the audit log and of usage, by their numbers in the contract (3.8 to 3.13)."""

import json
import os
import re
import sqlite3
import subprocess
import threading
import time

import pytest

import clients
import harness
from harness import KEYS

ADMIN = "operator-0123456789abcdef0123456789"
LOGGED = {"SANDBOX_AUDIT": "sqlite", "SANDBOX_KEYSTORE": "sqlite", "SANDBOX_ADMIN_KEY": ADMIN}
FIELDS = [
    "actor", "command", "detail", "duration_s", "exit_code", "kind", "oom_killed", "session_id",
    "timed_out", "truncated", "ts",
]
CURSOR = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}\Z")


@pytest.fixture(params=("0.9.0", "ours"))
def sdk(request):
    """Clients that know the audit log."""
    try:
        return clients.client(request.param)
    except clients.MissingWheel as missing:
        (pytest.fail if harness.CI else pytest.skip)(str(missing))


@pytest.fixture
def logged(servers):
    return servers.get(LOGGED)


@pytest.fixture
def newcomer(logged):
    """The key of a tenant that nobody else uses."""
    tenant = "t%d" % time.monotonic_ns()
    made = logged.post("/v1/admin/keys", {"tenant": tenant}, key=ADMIN).json
    return made["api_key"]


def entries(server, key, **query):
    path = "/v1/audit" + "".join("%s%s=%s" % ("&" if i else "?", *q) for i, q in enumerate(query.items()))
    answer = server.get(path, key=key)
    assert answer.status == 200, answer
    return answer.json["entries"]


def test_3_8_what_ran_is_on_record_with_who_ran_it(logged, newcomer):
    key_id = newcomer.split("_")[1]
    session = logged.post("/v1/sessions", {}, key=newcomer).json["session_id"]
    before = time.time()
    ended = logged.exec(session, "echo the output; exit 3", key=newcomer)
    late = logged.exec(session, "sleep 9", timeout_seconds=1, key=newcomer)
    hungry = harness.beyond_memory(
        lambda: logged.exec(session, "tail /dev/zero", timeout_seconds=60, key=newcomer)
    )
    memory, *_, timed_out, first = entries(logged, newcomer)
    assert sorted(first) == FIELDS
    assert before <= first["ts"] <= time.time()
    assert (first["session_id"], first["actor"]) == (session, "key " + key_id)
    assert (first["kind"], first["command"]) == ("exec", "echo the output; exit 3")
    assert (first["exit_code"], first["timed_out"], first["detail"]) == (3, False, None)
    assert first["duration_s"] == ended["duration_ms"] / 1000
    assert (timed_out["exit_code"], timed_out["timed_out"]) == (-1, True)
    assert 1 <= timed_out["duration_s"] == late["duration_ms"] / 1000
    assert (memory["exit_code"], memory["oom_killed"]) == (137, True)
    assert "the output\n" not in logged.get("/v1/audit", key=newcomer).body.decode()
    logged.delete("/v1/sessions/" + session, key=newcomer)
    # It outlives the session.
    assert len(entries(logged, newcomer)) == 2 + len(hungry)


def test_3_8_a_static_key_is_called_one(logged):
    session = logged.create()
    logged.exec(session, "echo by a static key")
    (entry,) = entries(logged, KEYS["a"], limit=1)
    assert (entry["actor"], entry["command"]) == ("static key", "echo by a static key")
    logged.delete("/v1/sessions/" + session)


def test_3_8_copies_and_imports_are_on_record(servers):
    # Nobody listens there: the import fails after it was accepted.
    base = "http://127.0.0.1:%d" % harness.free_port()
    server = servers.get(
        dict(LOGGED, SANDBOX_GITHUB_BASE=base, SANDBOX_EGRESS_DNS="192.0.2.53")
    )
    session = server.create()
    path = "/v1/sessions/%s/" % session
    assert server.post(path + "import", {"repo": "o/r", "ref": None, "path": "x"}).status == 502
    assert server.post(path + "import", {"repo": "o/r/z"}).status == 400
    snapshot = server.post(path + "snapshots", {"name": " kept "}).json["id"]
    assert server.post(path + "restore", {"snapshot_id": snapshot, "path": "in"}).status == 200
    assert server.post(path + "restore", {"snapshot_id": "snap_x"}).status == 404
    forks = server.post(path + "fork", {"count": 2}).json["sessions"]
    log = [
        (entry["kind"], entry["command"], entry["exit_code"])
        for entry in entries(server, KEYS["a"])
    ]
    assert log == [
        ("fork", "fork 2", 0),
        ("restore", "restore snap_x into .", None),
        ("restore", "restore %s into in" % snapshot, 0),
        ("snapshot", "snapshot . as kept", 0),
        ("import", "import o/r/z", None),
        ("import", "import o/r into x", None),
    ]
    details = [entry["detail"] for entry in entries(server, KEYS["a"])]
    assert details[0] is None and details[2] is None and details[3] is None
    assert details[1] == "failed (404): Snapshot not found"
    assert details[4].startswith("failed (400): ")
    assert details[5].startswith("failed (502): Couldn't download o/r: ")
    assert all(sorted(entry) == FIELDS for entry in entries(server, KEYS["a"]))
    for made in [session] + [fork["session_id"] for fork in forks]:
        server.delete("/v1/sessions/" + made)
    server.delete("/v1/snapshots/" + snapshot)


def test_3_8_what_is_no_call_is_not_recorded_and_one_that_is_refused_is(logged, newcomer):
    path = "/v1/sessions/%s/exec" % logged.post("/v1/sessions", {}, key=newcomer).json["session_id"]
    for body in ({}, {"command": "\0"}):
        assert logged.post(path, body, key=newcomer).status == 422
    assert entries(logged, newcomer) == []
    body = {"command": "true", "env": {"PATH": "x"}}
    assert logged.post(path, body, key=newcomer).status == 400
    # Nobody waits for the record of what never began.
    harness.wait_until(lambda: entries(logged, newcomer), "the refusal is on record")
    (entry,) = entries(logged, newcomer)
    assert (entry["kind"], entry["command"], entry["exit_code"]) == ("exec", "true", None)
    assert (entry["duration_s"], entry["detail"]) == (None, None)


def test_3_9_pages(logged, newcomer, sdk):
    with sdk.sandbox(logged, key=newcomer) as sandbox:
        for number in range(5):
            sandbox.run("echo %d" % number)
        seen, sizes, cursor = [], [], None
        while True:
            page = sandbox.audit(limit=2, before=cursor)
            sizes.append(len(page["entries"]))
            seen += [entry["command"] for entry in page["entries"]]
            cursor = page["next"]
            if cursor is None:
                break
            # Unescaped in a URL, as old clients send it.
            assert CURSOR.match(cursor)
        assert sizes == [2, 2, 1]
        assert seen == ["echo %d" % number for number in (4, 3, 2, 1, 0)]
        assert page["retention_days"] == 90
    for wrong in ("x", "0", "0" * 65, "g" * 16 + "-00000000"):
        assert logged.get("/v1/audit?before=" + wrong, key=newcomer).status == 422
    assert logged.get("/v1/audit?limit=x", key=newcomer).status == 422
    assert len(entries(logged, newcomer, limit=0)) == 1


def test_3_10_a_long_command_is_cut(logged, newcomer):
    session = logged.post("/v1/sessions", {}, key=newcomer).json["session_id"]
    logged.exec(session, "true #" + "\u00fc" * 3000, key=newcomer)
    logged.exec(session, "true #" + "x" * 1994, key=newcomer)
    short, long = entries(logged, newcomer)
    assert long["command"] == "true #" + "\u00fc" * 1994 and long["truncated"]
    assert len(short["command"]) == 2000 and not short["truncated"]


def test_3_10_what_is_past_its_time_is_not_shown():
    server = harness.Server(
        {"SANDBOX_AUDIT": "sqlite:audit.db", "SANDBOX_AUDIT_RETENTION_DAYS": "2"}, keep=True
    )
    server.start()
    try:
        session = server.create()
        server.exec(session, "echo old")
        server.exec(session, "echo new")
        server.stop()
        path = os.path.join(server.state_dir, "state", "audit.db")
        with sqlite3.connect(path) as database:
            changed = database.execute(
                "UPDATE audit SET at_us=at_us-?1 WHERE command='echo old'", (3 * 86400 * 10**6,)
            ).rowcount
        database.close()
        assert changed == 1
        server.start()
        assert [entry["command"] for entry in entries(server, KEYS["a"])] == ["echo new"]
        assert server.get("/v1/audit").json["retention_days"] == 2
    finally:
        server.stop()
        server.release()


def test_3_11_others_see_nothing(logged, newcomer):
    session = logged.create()
    logged.exec(session, "echo mine alone")
    assert entries(logged, newcomer) == []
    assert not any("mine alone" in entry["command"] for entry in entries(logged, KEYS["b"]))
    (newest,) = entries(logged, KEYS["a"], limit=1)
    cursor = logged.get("/v1/audit?limit=1").json["next"]
    if cursor:
        assert entries(logged, newcomer, before=cursor) == []
    assert newest["command"] == "echo mine alone"
    logged.delete("/v1/sessions/" + session)


@pytest.fixture
def broken():
    """A server whose audit log cannot grow: its disk is full. breaks() makes it so."""
    made = []

    def start(**env):
        folder = "/run/airlock-test-audit-%d" % os.getpid()
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "none", folder], check=True)
        server = harness.Server(dict({"SANDBOX_AUDIT": "sqlite:%s/audit.db" % folder}, **env))
        made.append((server, folder))
        return server.start(), folder

    yield start
    for server, folder in made:
        server.stop()
        server.release()
        subprocess.run(["umount", folder], check=True)
        os.rmdir(folder)


def fill(folder):
    with open(os.path.join(folder, "full"), "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


def grows_until_it_fails(server, session, statuses):
    """Each record takes some of the log's free pages; in the end there is none."""
    for _ in range(400):
        answer = server.post(
            "/v1/sessions/%s/exec" % session, {"command": "true #" + "x" * 1900}
        )
        statuses.add(answer.status)
        health = server.get("/healthz").json
        if health.get("store_errors"):
            return answer, health
    raise AssertionError("the log grows without end")


def test_3_12_a_broken_audit_log_stops_nobody(broken):
    server, folder = broken()
    session = server.create()
    assert server.exec(session, "echo on record")["exit_code"] == 0
    fill(folder)
    statuses = set()
    _, health = grows_until_it_fails(server, session, statuses)
    assert statuses == {200}
    assert health["status"] == "degraded"
    assert health["problems"] == ["a database cannot be written"]
    assert server.exec(session, "echo still")["stdout"] == "still\n"
    os.unlink(os.path.join(folder, "full"))
    server.exec(session, "echo on record again")
    health = server.get("/healthz").json
    assert health["status"] == "healthy" and "problems" not in health
    assert health["store_errors"] > 0
    assert entries(server, KEYS["a"], limit=1)[0]["command"] == "echo on record again"


def test_3_12_strict_runs_nothing_without_a_record(broken):
    server, folder = broken(SANDBOX_AUDIT_STRICT="1")
    session = server.create()
    server.exec(session, "touch before")
    fill(folder)
    answer, _ = grows_until_it_fails(server, session, set())
    if answer.status == 200:
        answer = server.post(
            "/v1/sessions/%s/exec" % session, {"command": "touch unseen #" + "x" * 1900}
        )
    assert (answer.status, answer.code) == (503, "busy")
    assert answer.headers["Retry-After"] == "5"
    os.unlink(os.path.join(folder, "full"))
    assert server.exec(session, "ls")["stdout"] == "before\n"


def test_3_13_counters_are_exact(logged, newcomer):
    session = logged.post("/v1/sessions", {}, key=newcomer).json["session_id"]
    month = logged.get("/v1/usage", key=newcomer).json["month"]["period"]
    failures = []

    def work():
        for _ in range(50):
            if logged.exec(session, "true", key=newcomer)["exit_code"] != 0:
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    usage = logged.get("/v1/usage", key=newcomer).json
    # In a new month they begin anew.
    assert usage["month"]["commands"] == 200 or usage["month"]["period"] != month
    assert len(entries(logged, newcomer, limit=500)) == 200


def test_a_killed_server_has_recorded_what_it_answered_and_what_it_ran():
    server = harness.Server(dict(LOGGED), keep=True).start()
    try:
        session = server.create()
        for number in range(20):
            server.exec(session, "echo %d" % number)

        def run_long():
            try:
                server.exec(session, "sleep 50", timeout_seconds=55)
            except Exception:  # the server is killed meanwhile
                pass

        thread = threading.Thread(target=run_long)
        thread.start()
        harness.wait_until(
            lambda: server.get("/v1/usage").json["commands_running"] == 1, "it runs"
        )
        # That it runs is written while it does; what is answered is on record, and so is all before it.
        server.exec(session, "echo 20")
        (pid,) = server.process_of("airlockd")
        os.kill(pid, 9)
        thread.join()

        def back():
            try:
                return server.get("/healthz").status == 200
            except OSError:
                return False

        harness.wait_until(back, "airlockd is back")
        log = entries(server, KEYS["a"], limit=500)
        cut_off = log[0]
        assert cut_off["command"] == "sleep 50"
        assert (cut_off["exit_code"], cut_off["duration_s"]) == (None, None)
        assert cut_off["detail"] == "failed: the server was restarted while it ran"
        assert [entry["command"] for entry in log[1:]] == [
            "echo %d" % number for number in range(20, -1, -1)
        ]
    finally:
        server.stop()
        server.release()


def test_the_command_line_exports_all_of_it(logged, newcomer):
    session = logged.post("/v1/sessions", {}, key=newcomer).json["session_id"]
    for number in range(7):
        logged.exec(session, "echo %d" % number, key=newcomer)
    env = dict(harness.environment(), SANDBOX_API_URL=logged.url, SANDBOX_API_KEY=newcomer)

    def command(*arguments):
        ran = subprocess.run(
            [os.path.join(harness.BUILD, "airlock"), "audit", *arguments],
            env=env, stdout=subprocess.PIPE, timeout=30, text=True,
        )
        assert ran.returncode == 0
        return ran.stdout.splitlines()

    lines = [json.loads(line) for line in command("--json")]
    assert [entry["command"] for entry in lines] == ["echo %d" % n for n in range(6, -1, -1)]
    assert sorted(lines[0]) == FIELDS
    assert [json.loads(line)["command"] for line in command("--json", "--limit", "2")] == [
        "echo 6", "echo 5",
    ]
    table = command()
    assert table[0].split() == ["ENDED", "SANDBOX", "ACTOR", "KIND", "EXIT", "SECONDS", "COMMAND"]
    assert table[1].endswith("echo 6") and len(table) == 8
