# SPDX-License-Identifier: Apache-2.0
"""What a server holds, seen from every side at once: its API, its database, its file system, the host.

A Ledger keeps a server on one state directory over crashes and starts. `problem` compares database and
volumes with each other, `leaks` the quota groups and the host with what there is.
"""

import contextlib
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import time

import awake
import harness

# What airlockd keeps in hand: four batches of ids and two of names for copies. Beside them the journal
# has what was deleted in the last minute.
JOURNAL_MAX = 4 * 32 + 2 * 8
# Bounds for what must happen, also where everything takes 30 times as long.
READY_SECONDS = 60
SETTLE_SECONDS = 60
QUOTA = "trusted.airlock.quota"


def tree(top):
    """What lies below a folder of the host: path -> (kind, mode, content or target)."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            if stat.S_ISLNK(st.st_mode):
                entry = ("link", 0, os.readlink(path))
            elif stat.S_ISDIR(st.st_mode):
                entry = ("folder", stat.S_IMODE(st.st_mode), None)
            else:
                with open(path, "rb") as file:
                    entry = ("file", stat.S_IMODE(st.st_mode), file.read())
            found[os.path.relpath(path, top)] = entry
    return found


class Ledger:
    def __init__(self, name, env=None, quota=None, journal_max=JOURNAL_MAX):
        """quota "full": a volume with full quota groups, whatever this kernel would take.
        journal_max: of names that were never seen as volumes."""
        self.root = os.path.join(harness.state_dirs().root, name)
        self.env = env or {}
        if quota:
            self._make_volume(quota)
        self.journal_max = journal_max
        self._seen = set()
        self.numbers = set()
        self._fsid = None
        self.server = None
        self.start()

    def _make_volume(self, quota):
        os.makedirs(self.root)
        path = os.path.join(self.root, "volumes.img")
        with open(path, "xb") as file:
            os.posix_fallocate(file.fileno(), 0, int(self.env["SANDBOX_VOLUME_SIZE_MB"]) << 20)
        os.chmod(path, 0o600)
        subprocess.run(
            ["mkfs.btrfs", "--quiet", "--nodiscard", "--metadata", "single", path],
            check=True, stdout=subprocess.DEVNULL,
        )
        os.setxattr(path, QUOTA, quota.encode())

    # ---- Life ----

    def start(self):
        self.server = harness.Server(dict(self.env), keep=True, state_dir=self.root).start()
        self.numbers.add(self.server.number)

    def close(self):
        self.server.stop()
        shutil.rmtree(self.root)

    def discard(self):
        """After a test that failed."""
        with contextlib.suppress(AssertionError):
            self.server.stop(clean=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def pid_of(self, process):
        """Of a process of the server by its name, or None (harness.Server.child)."""
        if process == "launcher":
            return self.server.process.pid
        return self.server.child(process if process == "airlockd" else "airlock-" + process)

    def wait_for_pid(self, process):
        return harness.wait_until(lambda: self.pid_of(process), "there is a " + process)

    def ready(self):
        """Whether it answers, and every process of it is there."""
        with contextlib.suppress(OSError, harness.http.client.HTTPException):
            roles = ("sweeper", "builder", "airlockd", *["gateway"] * self.has_gateway)
            return (
                self.server.get("/healthz", key=None, timeout=5).status == 200
                and all(self.pid_of(role) for role in roles)
            )
        return False

    def _launcher_lives(self):
        with contextlib.suppress(OSError):
            return not harness.proc_status(self.server.process.pid)["State"].startswith("Z")
        return False

    def recover(self):
        """Starts it again when its launcher is gone, at once, as a supervisor would."""
        if not self._launcher_lives():
            self.server.process.wait()
            self.start()
        harness.within(self.ready, READY_SECONDS, "it serves:\n" + self.server.log_tail())

    # ---- Asking ----

    def ask(self, method, path, body=None, **more):
        """As a client does: what was refused because the server is busy is asked again."""
        deadline = awake.seconds() + READY_SECONDS
        while True:
            answer = self.server.request(method, path, body, **more)
            if answer.status != 503 or awake.seconds() > deadline:
                return answer
            time.sleep(0.02)

    def sessions(self):
        return {s["session_id"] for s in self.ask("GET", "/v1/sessions").json["sessions"]}

    def snapshots(self):
        return {s["id"] for s in self.ask("GET", "/v1/snapshots").json["snapshots"]}

    def run(self, session, command):
        answer = self.ask(
            "POST", "/v1/sessions/%s/exec" % session, {"command": command, "timeout_seconds": 15}
        )
        assert answer.status == 200 and answer.json["exit_code"] == 0, answer
        return answer.json["stdout"]

    # ---- Database and volumes ----

    @property
    def has_gateway(self):
        return "SANDBOX_GITHUB_BASE" in self.env

    @property
    def is_btrfs(self):
        return os.path.exists(os.path.join(self.root, "volumes.img"))

    @property
    def top(self):
        """The file system of the volumes, through the launcher's mount namespace."""
        path = "/proc/%d/root%s" % (self.server.process.pid, self.root)
        return path + "/mnt" if self.is_btrfs else path

    def volumes(self):
        """One that is renamed meanwhile may be in no listing, but not in two."""
        found, before = None, ()
        while found != before:
            before, found = found, set(os.listdir(os.path.join(self.top, "volumes")))
        return found

    def tree(self, volume):
        return tree(os.path.join(self.top, "volumes", volume))

    def _column(self, query):
        path = os.path.join(self.root, "state", "airlock.db")
        with contextlib.closing(sqlite3.connect("file:%s?mode=ro" % path, uri=True)) as db:
            return {row[0] for row in db.execute(query)}

    def usage(self, tenant):
        """Commands of all months that are counted on the disk; None while nobody can read it."""
        query = "SELECT coalesce(sum(commands), 0) FROM usage WHERE tenant='%s'" % tenant
        with contextlib.suppress(sqlite3.OperationalError):
            (n,) = self._column(query)
            return n
        return None

    def rows(self):
        """The volumes that the database explains."""
        snapshots = self._column("SELECT id FROM snapshot")
        return self._column("SELECT id FROM session") | {volume_of(s) for s in snapshots}

    def problem(self):
        """None when volumes and database say the same and nothing is under way."""
        try:
            volumes, rows = self.volumes(), self.rows()
            journal = self._column("SELECT id FROM volume_journal")
        except (OSError, sqlite3.OperationalError) as error:
            return repr(error)
        if volumes != rows:
            return "volumes without a row %r, rows without a volume %r" % (
                sorted(volumes - rows), sorted(rows - volumes),
            )
        if journal & rows:
            return "still in the journal: %r" % sorted(journal & rows)
        self._seen |= volumes
        kept = len(journal - self._seen)
        return "the journal grows: %d" % kept if kept > self.journal_max else None

    def settle(self):
        try:
            harness.within(lambda: not self.problem(), SETTLE_SECONDS, "nothing is under way")
        except AssertionError as error:
            raise AssertionError(
                "%s: %s\n%s" % (error, self.problem(), self.server.log_tail())
            ) from None

    # ---- What nobody should find ----

    def _btrfs(self, *words):
        ran = subprocess.run(
            ["nsenter", "-t", str(self.server.process.pid), "-m", "btrfs", *words,
             os.path.join(self.root, "mnt")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True,
        )
        return ran.stdout

    def quota(self):
        if self.is_btrfs:
            return os.getxattr(os.path.join(self.root, "volumes.img"), QUOTA).decode()
        return None

    def counted(self, session):
        """What the volume's counter says after a commit, or None: it has none."""
        if self.is_btrfs:
            self._btrfs("filesystem", "sync")
        return self.ask("GET", "/v1/sessions/" + session).json["disk_used_bytes"]

    def is_inconsistent(self):
        """The kernel's mark at full quota groups: then no limit holds."""
        if self.quota() != "full":
            return False
        if not self._fsid:
            self._fsid = re.search(r"uuid: (\S+)", self._btrfs("filesystem", "show")).group(1)
        with open("/sys/fs/btrfs/%s/qgroups/inconsistent" % self._fsid) as file:
            return file.read().strip() != "0"

    def groups(self):
        """Quota groups: {level: ids}. The cleaner is done with what was deleted before."""
        self._btrfs("filesystem", "sync")
        self._btrfs("subvolume", "sync")
        found = {}
        for level, number in re.findall(r"^(\d+)/(\d+) ", self._btrfs("qgroup", "show"), re.M):
            found.setdefault(int(level), set()).add(int(number))
        return found

    def subvolumes(self):
        listed = re.findall(r"^ID (\d+) .* path (\S+)$", self._btrfs("subvolume", "list"), re.M)
        return {int(number): path for number, path in listed}

    def transfers(self):
        """Files of transfers that are under way, with a name or without one."""
        tmp = os.path.join(self.root, "state", "tmp")
        return harness.unnamed_files(self.root) + os.listdir(tmp)

    def check_leaks(self):
        """The kernel takes apart later what a killed server had."""
        try:
            harness.wait_until(lambda: not self.leaks(), "nothing is left")
        except AssertionError as error:
            raise AssertionError("%s: %r" % (error, self.leaks())) from None

    def leaks(self):
        """What of earlier servers on this directory is left beside the one that runs, as a dict."""
        left = {
            "loop": harness.loop_devices(self.root)[1 if self.is_btrfs else 0 :],
            "mounts": harness.mounts(self.root),
        }
        for number in self.numbers - {self.server.number}:
            if harness.is_free(number):
                left["cgroups of %d" % number] = harness.cgroup_dirs(number)
                left["processes of %d" % number] = harness.tenant_processes(number)
        return {name: value for name, value in left.items() if value}


def volume_of(snapshot):
    """The volume of a snapshot: a part of its id."""
    return "snp_" + snapshot[len("snap_") : len("snap_") + 12]
