# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the state: damaged, held by another program, full, of the wrong owner, read-only.

At the start it is refused with one sentence that says what to do, and nothing is changed. While a server
runs it fails what it meets, and what was refused is not there afterwards.
"""

import contextlib
import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

import awake
import harness
from harness import KEYS

ADMIN = "operator-0123456789abcdef0123456789"
PLAIN = {"SANDBOX_VOLUMES": "plain", "SANDBOX_MODE": "single"}
ENV = dict(
    PLAIN, SANDBOX_KEYSTORE="sqlite", SANDBOX_AUDIT="sqlite", SANDBOX_ADMIN_KEY=ADMIN, SANDBOX_POOL="0"
)
DAMAGED = (
    "is damaged; put a backup in its place (airlock restore), or move it and its -wal away to begin "
    "without sessions: "
)
HELD = "another program holds it"
FRAME = 24 + 4096


@pytest.fixture(scope="module", autouse=True)
def needs_server():
    why = harness.runnable()
    if why:
        pytest.skip(why)


@pytest.fixture(scope="module")
def states(needs_server):
    """Two states of one state directory: of a server that was stopped, and of one that was killed."""
    root = os.path.join(harness.state_dirs().root, "states")
    os.mkdir(root, 0o755)
    folder = harness.state_dirs().take("plain")
    server = harness.Server(ENV, keep=True, state_dir=folder).start()
    for _ in range(5):
        server.exec(server.create(), "true")
    # As a kill would leave it: nobody writes while it is copied.
    pid = server.wait_for_child("airlockd")
    os.kill(pid, signal.SIGSTOP)
    harness.wait_until(lambda: harness.proc_status(pid)["State"][0] in "tT", "it stands still")
    subprocess.run(["cp", "-a", folder + "/state", root + "/killed"], check=True)
    os.kill(pid, signal.SIGCONT)
    server.stop()
    os.rename(folder + "/state", root + "/stopped")
    yield root, folder
    for session in os.listdir(folder + "/volumes"):
        shutil.rmtree(os.path.join(folder, "volumes", session))
    os.rename(root + "/stopped", folder + "/state")
    harness.state_dirs().give_back("plain", folder)
    shutil.rmtree(root)


@pytest.fixture
def state(states):
    """The state directory in one of the two states; its images are always the same."""
    root, folder = states

    def copy(name="stopped"):
        subprocess.run(["cp", "-a", os.path.join(root, name), folder + "/state"], check=True)
        return folder

    yield copy
    os.chown(folder, 0, 0)
    os.chmod(folder, 0o755)
    for name in os.listdir(folder):
        if name not in ("images", "volumes"):
            path = os.path.join(folder, name)
            (os.unlink if os.path.islink(path) else shutil.rmtree)(path)


def database(folder, end=""):
    return os.path.join(folder, "state", "airlock.db" + end)


def refused(folder, variable="SANDBOX_STATE_DIR", **env):
    """The sentence; what the log says before that is not it."""
    status, stderr = harness.serve_once(dict(ENV, SANDBOX_STATE_DIR=folder, **env))
    assert status == 78, stderr
    lines = [line for line in stderr.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, stderr
    (line,) = lines
    assert line.startswith("airlock: %s: " % variable), line
    return line


def write_at(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def contents(folder):
    found = {}
    for name in os.listdir(os.path.join(folder, "state")):
        path = os.path.join(folder, "state", name)
        if os.path.isfile(path) and not name.endswith("-shm"):
            with open(path, "rb") as file:
                found[name] = file.read()
    return found


# ---- Damaged -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, harm",
    [
        ("stopped", lambda path: write_at(path, 0, b"a letter" * 8)),
        ("stopped", lambda path: write_at(path, 4096 * 2, os.urandom(4096))),
        ("stopped", lambda path: os.truncate(path, os.path.getsize(path) // 2)),
        ("stopped", lambda path: os.truncate(path, 5000)),
        ("killed", lambda path: write_at(path + "-wal", 0, os.urandom(32))),
        ("killed", lambda path: write_at(path + "-wal", 32 + FRAME + 1000, b"\xff\x00\xff")),
    ],
    ids=["header", "page", "half", "cut", "log-header", "log-page"],
)
def test_a_damaged_database_is_refused_and_kept_as_it_is(state, name, harm):
    folder = state(name)
    harm(database(folder))
    before = contents(folder)
    assert database(folder) + " " + DAMAGED in refused(folder)
    assert contents(folder) == before


def test_an_empty_database_is_refused_as_long_as_there_are_workspaces(state):
    folder = state()
    os.truncate(database(folder), 0)
    for _ in range(2):
        line = refused(folder)
        assert "the database was there and empty, and 5 workspaces and snapshots are" in line
        assert "airlock restore" in line and "--accept-lost" in line
    with harness.Server(ENV, keep=True, state_dir=folder, arguments=["--accept-lost"]) as server:
        assert server.get("/healthz", key=None).json["lost_volumes"] == 5
    with harness.Server(ENV, keep=True, state_dir=folder) as server:
        assert server.get("/healthz", key=None).json["lost_volumes"] == 5


def test_an_empty_database_beside_its_log_is_damaged(state):
    folder = state("killed")
    os.truncate(database(folder), 0)
    before = contents(folder)
    assert database(folder) + " " + DAMAGED + "it is empty and its log" in refused(folder)
    assert contents(folder) == before


def test_a_newer_database_is_refused(state):
    folder = state()
    with contextlib.closing(sqlite3.connect(database(folder))) as db:
        db.execute("UPDATE schema SET version=99")
        db.commit()
    assert "version 99 and this program knows version 3; use the program that" in refused(folder)


def test_a_database_of_its_own_is_named(state):
    folder = state()
    shutil.copy(database(folder), os.path.join(folder, "state", "keys.db"))
    shutil.chown(os.path.join(folder, "state", "keys.db"), "airlock")
    write_at(os.path.join(folder, "state", "keys.db"), 0, b"a letter" * 8)
    assert "keys.db " + DAMAGED in refused(folder, "SANDBOX_KEYSTORE", SANDBOX_KEYSTORE="sqlite:keys.db")


# ---- Held --------------------------------------------------------------------------------------


@contextlib.contextmanager
def holder(folder, how="BEGIN IMMEDIATE"):
    """What somebody with an sqlite3 shell does."""
    db = sqlite3.connect(database(folder), timeout=60, isolation_level=None)
    db.execute(how)
    yield
    db.execute("ROLLBACK")
    db.close()


def test_a_database_that_is_held_is_refused(state):
    folder = state()
    with holder(folder):
        assert database(folder) + ": " + HELD in refused(folder)


def kill_airlockd(server):
    pid = server.wait_for_child("airlockd")
    os.kill(pid, signal.SIGKILL)
    harness.wait_until(lambda: server.child("airlockd") != pid, "it is dead")


def sentences(server):
    """Why airlockd did not start: what it says of its database, be it opened or already read."""
    return [
        line for line in server.log().splitlines()
        if line.startswith("airlock: ") and "/airlock.db" in line
    ]


def is_healthy(server):
    with contextlib.suppress(OSError, harness.http.client.HTTPException):
        return server.get("/healthz", key=None, timeout=2).status == 200
    return False


def test_a_running_server_waits_out_whoever_holds_its_database(state):
    server = harness.Server(ENV, keep=True, state_dir=state()).start()
    try:
        session = server.create()
        with holder(server.state_dir):
            began = awake.seconds()
            statuses = []
            threads = [
                threading.Thread(target=lambda: statuses.append(server.exec(session, "true")["exit_code"]))
                for _ in range(12)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            # Nobody waits for the records of all the others.
            assert awake.seconds() - began < 10
            assert statuses == [0] * 12
            answer = server.post("/v1/sessions", {})
            assert (answer.status, answer.code) == (503, "busy")
            kill_airlockd(server)
            harness.wait_until(lambda: len(sentences(server)) > 1, "it cannot come back")
            assert HELD in sentences(server)[0] and server.process.poll() is None
        harness.wait_until(lambda: is_healthy(server), "airlockd is back")
        assert server.exec(session, "true")["exit_code"] == 0
        assert server.post("/v1/sessions", {}).status == 201
        assert server.get("/v1/audit?limit=1").json["entries"][0]["session_id"] == session
    finally:
        server.stop()


# ---- Full --------------------------------------------------------------------------------------


@pytest.fixture
def full(states):
    """A server whose state directory is on a small disk, and the file that fills it."""
    _, folder = states
    os.mkdir(os.path.join(folder, "state"))
    user = pwd.getpwnam("airlock")
    place = os.path.join(folder, "state")
    options = "size=2m,mode=700,uid=%d,gid=%d" % (user.pw_uid, user.pw_gid)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", place], check=True)
    server = harness.Server(ENV, keep=True, state_dir=folder)
    try:
        server.start()
        yield server, os.path.join(place, "filler")
    finally:
        # It has its own of each mount; that of this test is no leftover.
        subprocess.run(["umount", "--lazy", place], check=True)
        os.rmdir(place)
        server.stop()


def fill(path):
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_full_disk_refuses_what_must_be_kept_and_nothing_else(full):
    server, filler = full
    session, other = server.create(), server.create()
    made = [server.post("/v1/admin/keys", {"tenant": "acme"}, key=ADMIN).json for _ in range(2)]
    commands, month = 0, server.get("/v1/usage").json["month"]["period"]

    def run():
        nonlocal commands
        assert server.exec(session, "true #" + "x" * 1900)["exit_code"] == 0
        commands += 1

    def errors():
        return server.get("/healthz").json.get("store_errors", 0)

    def works(key):
        return server.get("/v1/usage", key=key["api_key"]).status == 200

    def keys():
        return server.get("/v1/admin/keys?tenant=acme", key=ADMIN).json["keys"]

    began = time.monotonic()
    fill(filler)
    while not errors():
        run()
    run()
    # A key that cannot be kept is not told; one whose revoking cannot be kept is not called revoked.
    answer = server.post("/v1/admin/keys", {"tenant": "acme"}, key=ADMIN)
    assert (answer.status, answer.code) == (500, "internal")
    answer = server.delete("/v1/admin/keys/" + made[1]["key_id"], key=ADMIN)
    assert (answer.status, answer.code) == (500, "internal")
    assert [key["active"] for key in keys()] == [True, True] and works(made[1])
    answer = server.post("/v1/sessions", {})
    assert (answer.status, answer.code) == (503, "busy")
    assert {s["session_id"] for s in server.get("/v1/sessions").json["sessions"]} == {session, other}
    for _ in range(20):
        run()
    # One line a minute.
    seen = len([e for e in server.events() if e["event"] == "store_write_failed"])
    assert errors() > 20 and 1 <= seen <= 1 + (time.monotonic() - began) // 60, (errors(), seen)
    os.unlink(filler)
    assert server.delete("/v1/admin/keys/" + made[1]["key_id"], key=ADMIN).json["active"] is False
    assert works(made[0]) and not works(made[1])
    assert server.post("/v1/admin/keys", {"tenant": "acme"}, key=ADMIN).status == 201
    assert server.delete("/v1/sessions/" + other).status == 200
    assert server.post("/v1/sessions", {}).status == 201
    run()
    kill_airlockd(server)
    harness.wait_until(lambda: is_healthy(server), "airlockd is back")
    # What was counted while nothing could be written is there.
    counted = server.get("/v1/usage").json["month"]
    # In a new month they begin anew.
    assert counted["commands"] == commands or counted["period"] != month
    assert server.get("/v1/sessions/" + other).status == 404
    assert len(keys()) == 3 and not works(made[1])


def test_airlockd_comes_back_to_a_full_disk_or_when_there_is_room(full):
    server, filler = full
    session = server.create()
    assert server.exec(session, "echo kept >a")["exit_code"] == 0
    fill(filler)
    while not server.get("/healthz").json.get("store_errors"):
        server.exec(session, "true #" + "x" * 1900)
    kill_airlockd(server)
    harness.wait_until(lambda: is_healthy(server) or sentences(server), "one or the other")
    assert server.process.poll() is None
    os.unlink(filler)
    harness.wait_until(lambda: is_healthy(server), "airlockd is back")
    assert server.exec(session, "cat a")["stdout"] == "kept\n"
    assert server.post("/v1/sessions", {}).status == 201


# ---- Owners, modes, links ----------------------------------------------------------------------

OPEN = "must belong to root and be writable for nobody else"
CLOSED = "state in it must belong to airlock and be closed to others (mode 0700)"


@pytest.mark.parametrize(
    "place, mode, owner, sentence",
    [
        ("", 0o777, None, OPEN),
        ("", 0o775, None, OPEN),
        ("", None, "airlock", OPEN),
        ("state", 0o755, None, CLOSED),
        ("state", None, "root", CLOSED),
        ("state/tmp", 0o770, None, "tmp in it must belong to airlock"),
        ("state/airlock.db", None, "root", "airlock.db: Permission denied"),
        ("state/airlock.db-wal", 0o600, "root", "airlock.db-wal: Permission denied"),
        ("state/airlock.db-shm", 0o600, "root", "unable to open database file: Permission denied"),
    ],
)
def test_what_others_own_or_may_write_to_is_refused(state, place, mode, owner, sentence):
    folder = state("killed")
    path = os.path.join(folder, place)
    if mode is not None:
        os.chmod(path, mode)
    if owner:
        shutil.chown(path, owner)
    assert sentence in refused(folder)


def test_an_image_of_all_workspaces_that_others_can_read_is_refused(states):
    folder = os.path.join(states[0], "image")
    os.mkdir(folder, 0o755)
    with open(os.path.join(folder, "volumes.img"), "wb") as file:
        os.fchmod(file.fileno(), 0o644)
    status, stderr = harness.serve_once({"SANDBOX_STATE_DIR": folder})
    assert status == 78
    assert "airlock: volumes.img is not a file of root's, closed to others (mode 0600)" in stderr


def test_a_database_that_others_could_read_is_closed(state):
    folder = state()
    os.chmod(database(folder), 0o666)
    with harness.Server(ENV, keep=True, state_dir=folder):
        assert os.stat(database(folder)).st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("link", ["itself", "parent", "state", "database", "keys"])
def test_a_link_is_refused(states, state, link):
    folder = state()
    away = os.path.join(states[0], "link")
    named = {"itself": away, "parent": os.path.join(away, os.path.basename(folder))}.get(link, folder)
    keys = os.path.join(folder, "state", "keys.db")
    if link == "itself":
        os.symlink(folder, away)
    elif link == "parent":
        os.symlink(os.path.dirname(folder), away)
    elif link == "keys":
        os.symlink(os.path.join(folder, "state"), away)
        keys = os.path.join(away, "keys.db")
    else:
        away = os.path.join(folder, "state") if link == "state" else database(folder)
        os.rename(away, away + "-moved")
        os.symlink(away + "-moved", away)
    variable = "SANDBOX_KEYSTORE" if link == "keys" else "SANDBOX_STATE_DIR"
    line = refused(named, variable, SANDBOX_KEYSTORE="sqlite:" + keys)
    os.unlink(away)
    wanted = {
        "state": "Not a directory", "database": "Too many levels of symbolic links",
        "keys": "a symbolic link is on its path; name the real one",
    }
    assert wanted.get(link, "a symbolic link is on the path %s; name the real one" % named) in line


@pytest.mark.parametrize("fresh", [False, True])
def test_a_read_only_disk_is_refused(states, state, fresh):
    folder = os.path.join(states[0], "read-only") if fresh else state()
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        line = refused(folder)
    finally:
        subprocess.run(["umount", folder], check=True)
    assert line == "airlock: SANDBOX_STATE_DIR: cannot write to %s: Read-only file system" % folder


@pytest.mark.parametrize("variable", ["SANDBOX_TENANT_LIMITS_FILE", "SANDBOX_EGRESS_POLICY_FILE", None])
def test_a_file_that_everybody_can_write_is_refused(variable):
    path = os.path.join(harness.state_dirs().root, "settings")
    with open(path, "w") as file:
        file.write("{}" if variable else "# nothing\n")
    arguments = ("serve", "--check") if variable else ("serve", "--check", "--config", path)
    for mode, wanted in ((0o644, 0), (0o664, 0), (0o666, 78), (0o646, 78)):
        os.chmod(path, mode)
        status, stderr = harness.serve_once({variable: path} if variable else {}, arguments)
        assert status == wanted, stderr
    assert "can be written by everybody; chmod o-w" in stderr and path in stderr
    os.unlink(path)


def test_restoring_over_a_damaged_log_keeps_it_and_from_one_is_refused(states, tmp_path):
    root, folder = states
    shutil.copytree(root + "/killed", tmp_path / "state")
    database = str(tmp_path / "state" / "airlock.db")
    write_at(database + "-wal", 32 + FRAME + 1000, b"\xff\x00\xff")
    with open(database + "-wal", "rb") as file:
        damaged = file.read()

    def restore(copy):
        return subprocess.run(
            [os.path.join(harness.BUILD, "airlock"), "restore", "--database", database, copy],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.environment(),
        )

    bad = str(tmp_path / "bad")
    shutil.copyfile(database, bad)
    shutil.copyfile(database + "-wal", bad + "-wal")
    ran = restore(bad)
    assert ran.returncode == 1 and "has lost what was committed" in ran.stderr
    ran = restore(root + "/stopped/airlock.db")
    assert ran.returncode == 0, ran.stderr
    with open(database + ".replaced-wal", "rb") as file:
        assert file.read() == damaged
