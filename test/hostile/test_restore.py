# SPDX-License-Identifier: Apache-2.0
"""`airlock restore` works as root in a folder that belongs to the server's user. A process of that user, left
by a server that was taken over, puts links where root is about to write."""

import os
import pwd
import subprocess
import sys

import pytest

import harness

TRIES, PATIENCE = 30, 1000

# Waits for the file to be there ("made") or for the database to be closed again ("adopted"), and puts a link
# to somebody else's file in its place.
SWAP = """
import contextlib, os, sys
when, made, victim = sys.argv[1:]
print(flush=True)
while True:
    if when == "made":
        while not os.path.lexists(made): pass
    else:
        while not os.path.lexists(made + "-wal"): pass
        while os.path.lexists(made + "-wal"): pass
    with contextlib.suppress(OSError):
        os.rename(made, made + ".taken")
        os.symlink(victim, made)
        print("swapped", flush=True)
        sys.stdin.readline()
"""


@pytest.fixture
def stopped():
    server = harness.Server(keep=True).start()
    server.stop()
    yield server
    server.release()


@pytest.mark.parametrize("when", ["made", "adopted"])
def test_a_link_leads_root_to_nobody_elses_file(stopped, tmp_path, when):
    folder = os.path.join(stopped.state_dir, "state")
    made = os.path.join(folder, "airlock.db.restoring")
    copy, victim = str(tmp_path / "copy"), tmp_path / "victim"
    victim.touch(0o644)
    os.chmod(tmp_path, 0o755)
    environment = harness.environment()
    airlock = [stopped.program, "backup", "--state-dir", stopped.state_dir, copy]
    subprocess.run(airlock, env=environment, check=True, timeout=60)
    user = pwd.getpwnam("airlock")
    attacker = subprocess.Popen(
        [sys.executable, "-c", SWAP, when, made, str(victim)],
        user=user.pw_uid, group=user.pw_gid, extra_groups=[], cwd="/",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )
    try:
        attacker.stdout.readline()
        os.set_blocking(attacker.stdout.fileno(), False)
        swapped = tries = 0
        while tries < TRIES or (not swapped and tries < PATIENCE):
            tries += 1
            airlock = [stopped.program, "restore", "--state-dir", stopped.state_dir, copy]
            subprocess.run(
                airlock, env=environment, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            if attacker.stdout.readline():
                swapped += 1
                for name in (made, made + ".taken"):
                    if os.path.lexists(name):
                        os.unlink(name)
                attacker.stdin.write(b"\n")
                attacker.stdin.flush()
            found = victim.stat()
            assert (found.st_uid, found.st_mode & 0o7777, found.st_size) == (0, 0o644, 0)
    finally:
        attacker.kill()
        attacker.wait()
    assert swapped, "the attacker never came in time"
