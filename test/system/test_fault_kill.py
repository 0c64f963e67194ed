# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each process at each step of whatever makes, copies, fills or removes a volume.

The steps are the system calls of the process, and of what it forks meanwhile, while one request is under
way and until nothing of it is: before the n-th of them it dies (test/fault/inject.c). Then it is started
again where nobody else does that, and:

  what was acknowledged is there, to the byte; what was refused is not; what was not answered is there as
  a whole or not at all (a restore: each file the old or the new one); database and volumes explain each
  other; nothing else is left; everything works.

All n of all processes are more than a thousand rounds; injection.points says which are taken.
"""

import contextlib
import os
import random
import re
import tarfile

import pytest

import harness
from codehost import CodeHost, archive
from injection import NEVER, POINTS, Injection, is_alive, missing, points
from ledger import SETTLE_SECONDS, Ledger, volume_of

COUNTER_SLACK = 96 << 10
OWN = re.compile(r"\.airlock-[0-9a-f]{16}")

SOURCE = (
    "mkdir -p d/e g; head -c 70000 /dev/urandom >a; echo b >d/b; echo f >d/e/f; ln -s a link;"
    " chmod 640 d/b; chmod 750 g; head -c 300000 /dev/urandom >g/h; touch .hidden"
)
DESTINATION = "mkdir -p d/e; echo old >a; echo old >d/e/f; echo own >own; echo own >d/own"


FILES = {"README": b"hello\n", "src/a.py": b"pass\n", "src/data": random.Random(1).randbytes(200000)}
ARCHIVE = archive(*FILES.items(), ("link", tarfile.SYMTYPE, "src/a.py"))
REPOSITORY = {
    **{name: ("file", 0o644, content) for name, content in FILES.items()},
    "src": ("folder", 0o755, None),
    "link": ("link", 0, "src/a.py"),
}


class Ground:
    """A server with a session and a snapshot of it, which every operation finds and leaves as it is."""

    def __init__(self, name, env):
        self.ledger = Ledger(name, env, quota="full" if name == "full" else None)
        self.session = self.ledger.server.create()
        self.ledger.run(self.session, SOURCE)
        self.snapshot = self.take(self.session)
        self.content = self.ledger.tree(self.session)
        assert len(self.content) == 9
        self.check_kept()

    def take(self, session):
        answer = self.ledger.ask("POST", "/v1/sessions/%s/snapshots" % session, {"name": "x"})
        assert answer.status == 200, answer
        return answer.json["id"]

    def check_kept(self):
        assert not self.ledger.is_inconsistent()
        harness.wait_until(lambda: not self.ledger.transfers(), "no file of a transfer is left")
        assert self.ledger.tree(self.session) == self.content
        assert self.ledger.tree(volume_of(self.snapshot)) == self.content

    def new(self):
        """(sessions, snapshots) beside those that are always there."""
        return (
            self.ledger.sessions() - {self.session}, self.ledger.snapshots() - {self.snapshot}
        )

    def clear(self):
        sessions, snapshots = self.new()
        for session in sessions:
            assert self.ledger.ask("DELETE", "/v1/sessions/" + session).status == 200
        for snapshot in snapshots:
            assert self.ledger.ask("DELETE", "/v1/snapshots/" + snapshot).status == 200
        self.ledger.settle()
        assert self.ledger.volumes() == {self.session, volume_of(self.snapshot)}
        assert self.ledger.ask("GET", "/v1/usage").json["sessions_open"] == 1


def is_folder(path, content):
    return content[path][0] == "folder"


# ---- The operations ----------------------------------------------------------------------------------


class Operation:
    """prepare makes what it needs; request asks for it; judge looks at what came of it. said: True when
    it was acknowledged, False when it was refused, None when no answer came."""

    def __init__(self, ground):
        self.ground = ground
        self.ledger = ground.ledger

    sandboxes = ()  # the back ends that need one for it
    refusals = (404, 500, 503)

    @classmethod
    def has_no(cls, process, back_end):
        """Whether that process takes no part in it."""
        return process == "init" and back_end not in cls.sandboxes

    def prepare(self):
        pass

    def _all_or_none(self, said, found, count, content):
        assert len(found) in ({True: (count,), False: (0,), None: (0, count)}[said])
        for volume in found:
            assert self.ledger.tree(volume) == content


class Create(Operation):
    content, body = {}, {}

    def request(self):
        return "POST", "/v1/sessions", self.body

    def judge(self, said, answer, sessions, snapshots):
        self._all_or_none(said, sessions, 1, self.content)
        assert not said or sessions == {answer.json["session_id"]}
        assert not snapshots


class CreateFrom(Create):
    sandboxes = ("plain",)

    def prepare(self):
        self.content = self.ground.content
        self.body = {"snapshot_id": self.ground.snapshot}


class Snapshot(Operation):
    """Of a folder, so that the copy is cut down before it is sealed."""

    sandboxes = ("btrfs", "full", "plain")

    def request(self):
        return "POST", "/v1/sessions/%s/snapshots" % self.ground.session, {"path": "d"}

    def judge(self, said, answer, sessions, snapshots):
        below = {
            path[2:]: entry for path, entry in self.ground.content.items() if path.startswith("d/")
        }
        self._all_or_none(said, {volume_of(s) for s in snapshots}, 1, below)
        assert not said or snapshots == {answer.json["id"]}
        assert not sessions


class Fork(Operation):
    sandboxes = ("plain",)

    def request(self):
        return "POST", "/v1/sessions/%s/fork" % self.ground.session, {"count": 3}

    def judge(self, said, answer, sessions, snapshots):
        self._all_or_none(said, sessions, 3, self.ground.content)
        assert not said or sessions == {s["session_id"] for s in answer.json["sessions"]}
        assert not snapshots


class Restore(Operation):
    sandboxes = ("btrfs", "full", "plain")

    @classmethod
    def has_no(cls, process, back_end):
        return process == "sweeper"

    def prepare(self):
        self.session = self.ledger.server.create()
        self.ledger.run(self.session, DESTINATION)
        self.before = self.ledger.tree(self.session)

    def request(self):
        return (
            "POST",
            "/v1/sessions/%s/restore" % self.session,
            {"snapshot_id": self.ground.snapshot},
        )

    def judge(self, said, answer, sessions, snapshots):
        assert (sessions, snapshots) == ({self.session}, set())
        now, new = self.ledger.tree(self.session), self.ground.content
        merged = {**self.before, **new}
        if said:
            # Folders that were there keep their mode.
            assert {**merged, **{p: self.before[p] for p in self.before if is_folder(p, merged)}} == now
            return
        # What was about to take the place of something, under a name of ours.
        now = {path: entry for path, entry in now.items() if not OWN.fullmatch(path)}
        assert set(self.before) <= set(now) <= set(merged)
        for path in now:
            # The mode of a folder that is made comes last.
            allowed = [merged[path], self.before.get(path)] + [
                ("folder", 0o700, None)
            ] * is_folder(path, merged)
            assert now[path] in allowed, (path, now[path][:2])


class DeleteSession(Operation):
    def prepare(self):
        self.session = self.ledger.server.create()
        self.ledger.run(self.session, SOURCE)
        self.content = self.ledger.tree(self.session)

    def request(self):
        return "DELETE", "/v1/sessions/" + self.session, None

    def judge(self, said, answer, sessions, snapshots):
        assert sessions == set() or (not said and sessions == {self.session})
        for session in sessions:
            assert self.ledger.tree(session) == self.content
        assert not snapshots


class DeleteSnapshot(Operation):
    def prepare(self):
        self.snapshot = self.ground.take(self.ground.session)

    def request(self):
        return "DELETE", "/v1/snapshots/" + self.snapshot, None

    def judge(self, said, answer, sessions, snapshots):
        assert snapshots == set() or (not said and snapshots == {self.snapshot})
        for snapshot in snapshots:
            assert self.ledger.tree(volume_of(snapshot)) == self.ground.content
        assert not sessions


class Import(Operation):
    """Into a folder of a folder that is not there yet."""

    sandboxes = ("btrfs", "full", "plain")
    # The gateway is gone; what unpacked is.
    refusals = (404, 422, 500, 502, 503)

    @classmethod
    def has_no(cls, process, back_end):
        return process == "sweeper"

    def prepare(self):
        self.session = self.ledger.server.create()
        self.ledger.run(self.session, DESTINATION)
        self.before = self.ledger.tree(self.session)

    def request(self):
        return (
            "POST",
            "/v1/sessions/%s/import" % self.session,
            {"repo": "o/repo", "path": "new/repo"},
        )

    def _with(self, folder):
        made = {folder + "/" + path: entry for path, entry in REPOSITORY.items()}
        return {folder: ("folder", 0o755, None), **made}

    def _again(self, folder):
        """As whoever is told that the gateway is being started does, or comes into the sandbox whose
        worker was just killed before that is known."""
        answers = []

        def has_answer():
            answers.append(
                self.ledger.ask("POST", self.request()[1], {"repo": "o/repo", "path": folder})
            )
            return answers[-1].status not in (500, 502)

        harness.wait_until(has_answer, "it downloads: %r" % answers)
        return answers[-1]

    def judge(self, said, answer, sessions, snapshots):
        assert (sessions, snapshots) == ({self.session}, set())
        now = self.ledger.tree(self.session)
        # What was being unpacked, under a name of ours, until the workspace is measured.
        now = {path: now[path] for path in now if not OWN.fullmatch(path.split("/")[0])}
        new = ("folder", 0o755, None)
        whole = {**self.before, "new": new, **self._with("new/repo")}
        if said is False and (answer.status == 500 or "was killed" in answer.detail):
            # Whoever put it there died before it could say so.
            said = None
        allowed = {True: [whole], False: [self.before]}.get(said, [self.before, whole])
        # Its folder may be made before it comes there.
        if not said:
            allowed.append({**self.before, "new": new})
        assert now in allowed, {path: now[path][:2] for path in now}
        # The next import looks, and no other.
        is_there = now == whole
        again = self._again("new/other" if is_there else "new/repo")
        assert again.status == 200 and again.json["files"] == len(FILES), again
        now = self.ledger.tree(self.session)
        if is_there:
            whole.update(self._with("new/other"))
        assert now == whole, {path: now[path][:2] for path in now}
        assert self._again("new/repo").status == 409
        assert self.ledger.ask("GET", "/v1/usage").json["commands_running"] == 0
        self._check_counter()

    def _check_counter(self):
        """A back end without one says so."""
        counted = self.ledger.counted(self.session)
        if not self.ledger.is_btrfs:
            assert counted is None
            return
        # Nodes of the tree count, and files that lie in them are not blocks.
        on_disk = self._on_disk()
        assert abs(counted - on_disk) <= COUNTER_SLACK, (counted, on_disk)

    def _on_disk(self):
        top = os.path.join(self.ledger.top, "volumes", self.session)
        return sum(
            os.lstat(os.path.join(folder, name)).st_blocks * 512
            for folder, folders, files in os.walk(top) for name in folders + files
        )


OPERATIONS = (Create, CreateFrom, Snapshot, Fork, Restore, DeleteSession, DeleteSnapshot, Import)
# init: that of whatever sandbox is built meanwhile, and the file worker in it.
PROCESSES = ("launcher", "sweeper", "airlockd", "init")
PAIRS = [(kind, process) for kind in OPERATIONS for process in PROCESSES] + [(Import, "gateway")]
BACK_ENDS = {  # full: with full quota groups
    "btrfs": {},
    "full": {},
    "plain": {"SANDBOX_VOLUMES": "plain", "SANDBOX_MODE": "single"},
}
# airlockd may ask for the free space meanwhile.
STATUS_CALLS = 8


# ---- One round ---------------------------------------------------------------------------------------


def inject(ledger, process, n):
    if process == "init":
        return Injection(ledger.wait_for_pid("builder"), n, "kill", "exec")
    return Injection(ledger.wait_for_pid(process), n, "kill")


def one_round(ground, kind, process, n):
    """(what was hit or None, calls in all) of one operation, and what came of it is looked at."""
    ledger, operation = ground.ledger, kind(ground)
    operation.prepare()
    ledger.settle()
    answer = None
    injection = inject(ledger, process, n)
    with contextlib.suppress(OSError, harness.http.client.HTTPException):
        answer = ledger.server.request(*operation.request())
    # Some of it is done behind the answer.
    harness.within(
        lambda: injection.has_hit() or not ledger.problem(), SETTLE_SECONDS, "it comes to an end"
    )
    hit = injection.finish()
    if hit:
        harness.wait_until(lambda: not is_alive(int(hit.split()[1])), "it is dead")
    said = None if answer is None else answer.status < 300
    where = "%s, %s, n=%d: %s, %r" % (kind.__name__, process, n, hit, answer)
    try:
        assert hit or said
        assert said is not False or answer.status in kind.refusals and answer.code
        ledger.recover()
        ledger.settle()
        operation.judge(said, answer, *ground.new())
        ground.check_kept()
        assert ledger.run(ground.session, "cat d/b") == "b\n"
        ground.clear()
    except AssertionError as error:
        raise AssertionError("%s\n%s" % (where, error)) from error
    return hit, injection.total


class Grounds:
    """One ground after the other; a test that failed leaves none that others could go on with."""

    def __init__(self, back_end):
        self.back_end, self.ground = back_end, None
        self.host = CodeHost()
        self.host.put("repo", ARCHIVE)

    def get(self):
        if not self.ground:
            env = dict(
                BACK_ENDS[self.back_end], SANDBOX_POOL="0", SANDBOX_VOLUME_SIZE_MB="768",
                SANDBOX_GITHUB_BASE=self.host.base,
            )
            self.ground = Ground(self.back_end, env)
        return self.ground

    def drop(self, failed=False):
        ground, self.ground = self.ground, None
        if ground:
            (ground.ledger.discard if failed else ground.ledger.close)()


@pytest.fixture(scope="module", params=BACK_ENDS)
def grounds(request):
    why = harness.runnable() or missing()
    if why:
        pytest.skip(why)
    running = Grounds(request.param)
    yield running
    running.drop()
    running.host.close()


@pytest.fixture
def ground(grounds, request):
    failed = request.session.testsfailed
    yield grounds.get()
    if request.session.testsfailed > failed:
        grounds.drop(failed=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind, process", PAIRS)
def test_killed_before_a_call(grounds, ground, kind, process):
    if kind.has_no(process, grounds.back_end):
        # The sweeper also looks for empty quota groups, every ten seconds.
        assert any(one_round(ground, kind, process, NEVER)[1] <= STATUS_CALLS for _ in range(4))
        return
    turn = PAIRS.index((kind, process))
    _, total = one_round(ground, kind, process, NEVER)
    assert total
    hits = 0
    for n in points(total, turn):
        hit, _ = one_round(ground, kind, process, n)
        # A round may need fewer calls than the one that was counted.
        while not hit and POINTS != "all":
            n = n * 3 // 4
            hit, _ = one_round(ground, kind, process, n)
        hits += hit is not None
    assert hits
    ground.ledger.check_leaks()
    print("%s, %s, %s: %d calls, %d kills" % (
        grounds.back_end, kind.__name__, process, total, hits))


@pytest.mark.slow
def test_after_all_of_it_no_quota_group_is_left(grounds, ground):
    ledger = ground.ledger
    if not ledger.is_btrfs:
        assert grounds.back_end == "plain"
        return
    # A start sweeps the groups of what the kernel's cleaner is done with.
    ledger.groups()
    ledger.server.stop()
    ledger.start()
    kept = {ground.session, volume_of(ground.snapshot)}
    subvolumes = ledger.subvolumes()
    assert {"volumes/" + volume for volume in kept} == {
        path for path in subvolumes.values() if path.startswith("volumes/")
    }

    def swept():
        groups = ledger.groups()
        return groups if groups[0] - {5} == set(subvolumes) else None

    # The sweeper comes to it when it serves already.
    groups = harness.wait_until(swept, "no group of a volume that is gone is left")
    del groups[0]
    if ledger.quota() == "simple":
        assert groups.pop(1) == {int(ground.session[4:], 16)}
        assert len(groups.pop(2)) == 1
    assert not groups
    ground.check_kept()
