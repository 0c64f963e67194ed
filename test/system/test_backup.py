# SPDX-License-Identifier: Apache-2.0
"""Copies of the database: made while the server works, checked, and put back."""

import os
import shutil
import sqlite3
import subprocess
import threading

import pytest

import harness
from harness import KEYS

AIRLOCK = os.path.join(harness.BUILD, "airlock")
LOGGED = {"SANDBOX_AUDIT": "sqlite", "SANDBOX_KEYSTORE": "sqlite:keys.db"}


def airlock(*arguments, **environment):
    ran = subprocess.run(
        [AIRLOCK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, text=True,
        env=harness.environment(**environment),
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.fixture
def kept():
    server = harness.Server(LOGGED, keep=True).start()
    yield server
    if server.process.poll() is None:
        server.stop()
    server.release()


def commands(server):
    return [entry["command"] for entry in server.get("/v1/audit?limit=500").json["entries"]]


def test_a_copy_of_a_busy_server_brings_back_what_was_acknowledged(kept, tmp_path):
    session = kept.create()
    kept.exec(session, "echo first")
    stop, done = threading.Event(), []

    def work():
        while not stop.is_set():
            done.append(kept.exec(session, "echo %d" % len(done))["exit_code"])

    thread = threading.Thread(target=work)
    thread.start()
    copies = [str(tmp_path / ("copy-%d" % n)) for n in range(5)]
    acknowledged = []
    for copy in copies:
        acknowledged.append(len(done))
        status, _, err = airlock("backup", "--state-dir", kept.state_dir, copy)
        assert status == 0, err
    stop.set()
    thread.join()
    assert set(done) == {0}
    for copy, n in zip(copies, acknowledged):
        assert os.stat(copy).st_mode & 0o777 == 0o600
        with sqlite3.connect(copy) as database:
            (found,) = database.execute("SELECT count(*) FROM audit WHERE open=0").fetchone()
        database.close()
        assert found >= n + 1
    # It is never written over, and a running server's database never replaced.
    status, _, err = airlock("backup", "--state-dir", kept.state_dir, copies[0])
    assert status == 1 and "File exists" in err
    status, _, err = airlock("restore", "--state-dir", kept.state_dir, copies[0])
    assert status == 1 and "stop it first" in err
    later = kept.create()
    kept.stop()
    status, out, err = airlock("restore", "--state-dir", kept.state_dir, copies[4])
    path = os.path.join(kept.state_dir, "state", "airlock.db")
    assert (status, out, err) == (
        0, "%s is in its place; what was there is %s.replaced\n" % (path, path), "",
    )
    kept.start()
    assert "echo first" in commands(kept)
    assert kept.get("/v1/sessions/" + session).status == 200
    # A session made since is unknown, and its workspace is kept.
    assert kept.get("/v1/sessions/" + later).status == 404
    assert kept.get("/healthz").json["lost_volumes"] == 1
    kept.stop()
    # And back again: nothing was lost by trying.
    assert airlock("restore", "--state-dir", kept.state_dir, path + ".replaced")[0] == 0
    kept.start()
    assert kept.get("/v1/sessions/" + later).status == 200


def test_what_is_no_database_of_ours_is_refused_and_changes_nothing(kept, tmp_path):
    session = kept.create()
    kept.stop()
    path = os.path.join(kept.state_dir, "state", "airlock.db")
    before = open(path, "rb").read()
    text, foreign, damaged = (str(tmp_path / name) for name in ("text", "foreign", "damaged"))
    with open(text, "w") as file:
        file.write("no database" * 1000)
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE letters(text)")
    database.close()
    shutil.copy(path, damaged)
    with open(damaged, "r+b") as file:
        file.seek(4096)
        file.write(bytes(range(256)) * 48)
    for wrong in (text, foreign, damaged, str(tmp_path / "missing")):
        status, out, err = airlock("restore", "--state-dir", kept.state_dir, wrong)
        assert (status, out) == (1, "") and err.startswith("airlock: "), wrong
    assert open(path, "rb").read() == before
    names = os.listdir(os.path.dirname(path))
    assert not [name for name in names if "restoring" in name or "replaced" in name]
    kept.start()
    assert kept.get("/v1/sessions/" + session).status == 200


def test_a_damaged_database_gives_way_to_a_copy(kept, tmp_path):
    session = kept.create()
    copy = str(tmp_path / "copy")
    assert airlock("backup", "--state-dir", kept.state_dir, copy)[0] == 0
    kept.stop()
    path = os.path.join(kept.state_dir, "state", "airlock.db")
    with open(path, "wb") as file:
        file.write(b"x" * 8192)
    with open(path + "-wal", "wb") as file:
        file.write(b"y" * 8192)
    status, _, err = airlock("restore", "--state-dir", kept.state_dir, copy)
    assert status == 0, err
    assert open(path + ".replaced", "rb").read() == b"x" * 8192
    assert open(path + ".replaced-wal", "rb").read() == b"y" * 8192
    kept.start()
    assert kept.get("/v1/sessions/" + session, key=KEYS["a"]).status == 200


def test_a_database_of_its_own_is_copied_by_its_path(kept, tmp_path):
    copy = str(tmp_path / "keys")
    path = os.path.join(kept.state_dir, "state", "keys.db")
    assert airlock("backup", "--database", path, copy)[0] == 0
    with sqlite3.connect(copy) as database:
        assert database.execute("SELECT count(*) FROM key").fetchone() == (0,)
    database.close()
    assert airlock("backup", "--database", "relative", copy + "2")[0] == 1
    assert airlock("backup")[0] == 2


def test_a_copy_says_what_is_not_in_it(kept, tmp_path):
    state = os.path.join(kept.state_dir, "state")
    path = os.path.join(state, "airlock.db")
    keys = os.path.join(state, "keys.db")
    said = "Copied %s. Not in the copy: workspaces and snapshots.\n" % path
    nor = "Nor %s, which are in %s: airlock backup --database %s FILE\n"
    copies = iter(str(tmp_path / str(n)) for n in range(9))

    def told(*options, **environment):
        status, out, err = airlock("backup", *options, next(copies), **environment)
        assert (status, err) == (0, "")
        return out

    here = ["--state-dir", kept.state_dir]
    assert told(*here) == said
    assert told(*here, SANDBOX_KEYSTORE="sqlite", SANDBOX_AUDIT="sqlite:airlock.db") == said
    assert told(*here, SANDBOX_KEYSTORE="sqlite:keys.db") == said + nor % ("keys", keys, keys)
    both = {"SANDBOX_KEYSTORE": "sqlite:" + keys, "SANDBOX_AUDIT": "sqlite:keys.db"}
    assert told(**both, SANDBOX_STATE_DIR=kept.state_dir) == (
        said + nor % ("keys", keys, keys) + nor % ("audit records", keys, keys)
    )
    # Another server's file may name what this one does not have.
    assert told(*here, SANDBOX_KEYSTORE="sqlite:/nonexistent/keys.db") == said
    assert told("--database", keys, **both) == said.replace(path, keys)
    config = tmp_path / "airlock.conf"
    config.write_text("SANDBOX_STATE_DIR=%s\nSANDBOX_KEYSTORE=sqlite:keys.db\n" % kept.state_dir)
    assert told("--config", str(config)) == said + nor % ("keys", keys, keys)
