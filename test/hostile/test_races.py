# SPDX-License-Identifier: Apache-2.0
"""Links swapped in while the server works: one race for each file operation.

A command of the tenant exchanges a folder with links to the outside, and a file with a link, as fast
as it can, while the API is asked for the same paths. Outside are:

  the worker's own /tmp  a tree with a canary, planted from the host into every file sandbox of the
                         session; the tenant may write there, so only the guard keeps a file job out
  the host               a folder that everybody may write to, by its path; and /, and /proc

Two guards are in the worker (src/worker/file-path.c), and each race is seen red without those that
it tests: "beneath" (openat2 beneath the workspace), for a path whose middle is swapped, and
"nofollow" (what was seen as a folder or file is not opened through a link), for what is swapped
inside a folder that is being walked; there beneath stands behind, so both go.

Behind both stands the sandbox: the worker runs as the tenant, in a mount namespace where the host's
folder has no path, whatever it follows. Every run, also without the guards, ends with a look at
that folder.

AIRLOCK_RACE_SECONDS says how long a race lasts; without it 3 s. The numbers are those of the attack
catalogue.
"""

import collections
import contextlib
import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
import zlib
from urllib.parse import urlencode

import pytest

import awake
import harness
from box import Box
from harness import KEYS

SECONDS = float(os.environ.get("AIRLOCK_RACE_SECONDS") or 3)
MB = 1 << 20
Race = collections.namedtuple("Race", "number name function red elsewhere env kept")
RACES = []


def race(number, name, red, elsewhere=(), env=None, kept=True):
    """red: the guards without which it fails, None: there are none; elsewhere: those without which
    it holds. kept: one file sandbox does it all, so what was planted there stays outside of each
    turn."""

    def add(function):
        RACES.append(Race(number, name, function, red, tuple(elsewhere), env, kept))
        return function

    return add


# Runs in the sandbox, after inside.py. The folder w/d and the file w/a change places with links; a
# race that removes them gets them back.
SWAPPER = """
import time

LINKS = %r

def exchange(a, b):
    _libc.syscall(316, -100, a, -100, b, 2)

def make():
    for path in (b"w", b"w/d", b"w/d/s", b"w/d/k"):
        tries(os.mkdir, path)
    for path in (b"w/d/f", b"w/d/v0", b"w/a"):
        tries(lambda: os.close(os.open(path, os.O_CREAT | os.O_EXCL)))
    for n, target in enumerate(LINKS):
        tries(os.symlink, target, b"w/e%%d" %% n)
    tries(os.symlink, LINKS[0] + b"/f", b"w/b")

count = 0
while not os.path.exists("stop"):
    if count > 1000:
        tries(lambda: os.close(os.open("swapping", os.O_CREAT)))
    make()
    for n in range(len(LINKS)):
        link = b"w/e%%d" %% n
        for _ in range(4):
            exchange(b"w/d", link)
            exchange(b"w/d", link)
        exchange(b"w/a", b"w/b")
        count += 9
    while len(LINKS) == 1 and count %% 64:
        exchange(b"w/d", b"w/e0")
        count += 1
show(count)
"""


# A file sandbox without a job is given back after 5 s (BOX_KEEP_MS); not all of them are seen here.
KEPT_SECONDS = 4.5


def idle(since):
    return time.monotonic() - since


def tree_of(top):
    """Every name below a folder, with its mode, and the content or target."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            # Not when the sandbox that it is in ends meanwhile.
            with contextlib.suppress(FileNotFoundError):
                found[os.path.relpath(path, top)] = look_at(path)
    return found


def look_at(path):
    mode = os.lstat(path).st_mode
    content = None
    if os.path.islink(path):
        content = os.readlink(path)
    elif os.path.isfile(path):
        with open(path, "rb") as file:
            content = zlib.crc32(file.read())
    return mode, content


class HostFolder:
    """Open to everybody on the host, so that nothing but the sandbox keeps a tenant out."""

    def __init__(self):
        self.canary = "canary-host-" + os.urandom(16).hex()
        self.path = tempfile.mkdtemp(prefix="airlock-canary-")
        os.chmod(self.path, 0o777)
        for name in ("s", "k"):
            os.mkdir(os.path.join(self.path, name))
            os.chmod(os.path.join(self.path, name), 0o777)
        for name in ("f", "s/f", "k/f", "v0"):
            with open(os.path.join(self.path, name), "w") as file:
                file.write(self.canary)
            os.chmod(os.path.join(self.path, name), 0o666)
        self.before = tree_of(self.path)

    def check(self):
        assert tree_of(self.path) == self.before, "the host was changed"

    def remove(self):
        subprocess.run(["rm", "-r", self.path], check=True)


@pytest.fixture(scope="module")
def host_folder():
    folder = HostFolder()
    yield folder
    folder.check()
    folder.remove()


# In a sandbox's /tmp, as its user.
PLANT = """
import os, sys
os.umask(0)
for folder in ("out", "out/s", "out/k"):
    os.mkdir(folder)
for name in ("f", "s/f", "k/f", "v0"):
    with open("out/" + name, "w") as file:
        file.write(sys.argv[1])
with open("out/s/large", "wb") as file:
    file.write(bytes(4 << 20))
"""


class Place:
    """A session whose files are swapped, and what lies outside of it."""

    def __init__(self, server, host):
        self.server, self.host = server, host
        self.box = Box(server)
        self.canary = "canary-outside-" + os.urandom(16).hex()
        self.marker = "marker-" + os.urandom(8).hex()
        self.statuses = collections.Counter()
        self.bad = []
        self._workers = []
        self._woken = 0
        self._number = 0

    # ---- Inside ----

    def links(self):
        return [
            b"/tmp/out",
            b"../../tmp/out",
            b"/tmp",
            b"/proc/self/root/tmp/out",
            self.host.path.encode(),
            b"../.." + self.host.path.encode(),
            b"/",
        ]

    def prepare(self):
        made = self.box.sh(
            "mkdir -p w/d/s w/d/k && echo inside | tee w/a w/d/f w/d/s/f w/d/k/f > w/d/v0 &&"
            " head -c 1M /dev/urandom > w/d/big && touch %s" % self.marker
        )
        assert made["exit_code"] == 0, made

    # ---- Outside ----

    def _sandboxes(self):
        """Processes whose /workspace is this session's, one for each sandbox that serves files."""
        found, commands = {}, set()
        for pid, name in harness.tenant_processes(self.server.number):
            with contextlib.suppress(OSError):
                if os.path.exists("/proc/%d/root/workspace/%s" % (pid, self.marker)):
                    place = os.readlink("/proc/%d/ns/mnt" % pid)
                    found.setdefault(place, pid)
                    if name.startswith(("bash", "python")):
                        commands.add(place)
        return [pid for place, pid in found.items() if place not in commands]

    def wake(self):
        """Keeps both file sandboxes: the one for quick calls, and the one for transfers."""
        began = time.monotonic()
        for what in ("read", "files"):
            assert self.server.get(self.path(what, path=self.marker)).status == 200
        # Neither was idle before.
        self._woken = began

    def keep_awake(self):
        """While the machine, or a process, stood still they may have been given back; others took
        their places then."""
        before = self._woken
        if idle(before) > 2:
            self.wake()
        if idle(before) > KEPT_SECONDS and self._workers:
            harness.wait_until(self._both_planted, "both file sandboxes are planted")

    def plant(self):
        """Into the sandboxes that serve files."""
        harness.wait_until(self._both_planted, "both file sandboxes are planted")
        harness.wait_until(self._folder_is_open, "the folder is open")

    def _folder_is_open(self):
        """The folder itself, wherever it stands: what is acknowledged must be in it."""
        self.wake()
        for pid in self._sandboxes():
            with contextlib.suppress(FileNotFoundError):
                self.real = os.open(
                    "/proc/%d/root/workspace/w/d" % pid,
                    os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW,
                )
                return True
        return False

    def _both_planted(self):
        self.wake()
        self._workers = [worker for worker in self._workers if os.path.isdir(worker[1])]
        # One may just be ending.
        with contextlib.suppress(FileNotFoundError, subprocess.CalledProcessError):
            self._plant_new()
        return len(self._workers) == 2 and idle(self._woken) < KEPT_SECONDS

    def _plant_new(self):
        for pid in self._sandboxes():
            top = "/proc/%d/root/tmp/out" % pid
            if os.path.exists(top):
                continue
            ids = os.stat("/proc/%d" % pid)
            subprocess.run(
                [sys.executable, "-c", PLANT, self.canary],
                cwd="/proc/%d/root/tmp" % pid,
                user=ids.st_uid,
                group=ids.st_gid,
                extra_groups=[],
                check=True,
            )
            self._workers.append((pid, top, tree_of(top)))

    def outside_changed(self):
        for pid, top, before in self._workers:
            after = tree_of(top)
            if os.path.isdir("/proc/%d/root/tmp" % pid):
                if after != before:
                    return True
            else:
                assert idle(self._woken) > KEPT_SECONDS, "a file sandbox ended during the race"
        return False

    def has(self, name):
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=self.real, follow_symlinks=False)
            return True
        return False

    # ---- Asking ----

    def path(self, what, **query):
        return "%s/%s?%s" % (self.box.path, what, urlencode(query))

    def _request(self, method, what, body=None, raw=None, query=None):
        try:
            answer = self.server.request(
                method, self.path(what, **(query or {})), body, key=KEYS["a"], raw=raw
            )
        except (http.client.HTTPException, ConnectionError) as broken:
            # After the head nothing else can be said.
            partial = getattr(broken, "partial", b"")
            answer = harness.Answer(0, {}, partial)
        self.statuses[answer.status] += 1
        for canary in (self.canary, self.host.canary):
            if canary.encode() in answer.body:
                self.bad.append("%s %s: %s came out" % (method, what, canary[:14]))
        assert self.host.canary.encode() not in answer.body, "the host was read"
        if answer.status >= 500:
            self.bad.append("%s %s: %r" % (method, what, answer))
        return answer

    def get(self, what, **query):
        return self._request("GET", what, query=query)

    def post(self, what, **body):
        return self._request("POST", what, body)

    def put(self, data, **query):
        return self._request("PUT", "files", raw=data, query=query)

    def delete(self, **query):
        return self._request("DELETE", "files", query=query)

    def number(self):
        self._number += 1
        return self._number

    def acknowledged(self, answer, name):
        """What was said to be done is in the folder."""
        if answer.status == 200 and not self.has(name):
            self.bad.append("%s was acknowledged and is not there" % name)

    # ---- The race ----

    def _stop_swapping(self):
        stop = {"path": "stop", "content": ""}
        return self.server.post(self.box.path + "/write", stop, key=KEYS["a"]).status == 200

    def _is_swapping(self):
        self.keep_awake()
        answer = self.server.get(self.path("read", path="swapping"))
        return answer.status == 200 and answer.json["content"] == ""

    def _raced(self, entry, turns):
        """Both sides of the swap were met, or it was no race. A walk passes over what is in the way."""
        return turns > 10 and self.statuses[200] and (entry.elsewhere or len(self.statuses) > 1)

    def run(self, entry, seconds, until_red=False):
        """Whether the guards held. For a walk without guards one link is swapped all the time."""
        function = entry.function
        self.prepare()
        self.plant()
        if not entry.kept:
            self._workers = []
        links = self.links()
        if until_red and entry.elsewhere:
            links = [b"/tmp/out" if entry.kept else b"/tmp"]
        with harness.in_background(self.box.py, SWAPPER % links, 60) as swapped:
            try:
                harness.wait_until(self._is_swapping, "links are swapped")
                state = function(self, None)
                began = awake.seconds()
                turns = passed = 0
                while not (until_red and self.bad) and (
                    passed < seconds or (passed < 30 and not self._raced(entry, turns))
                ):
                    function(self, state)
                    turns += 1
                    passed = awake.seconds() - began
                    self.keep_awake()
                    if turns % 16 == 0 and self.outside_changed():
                        self.bad.append("the outside was changed")
            finally:
                # Without guards this, too, may find what is outside counted.
                harness.wait_until(self._stop_swapping, "the swapping was told to end")
        self.keep_awake()
        if self.outside_changed():
            self.bad.append("the outside was changed")
        self.host.check()
        assert isinstance(swapped[0], int), swapped
        # Shown by pytest -rP.
        print("%d swaps, %d turns, %s" % (swapped[0], turns, dict(self.statuses)))
        assert self.bad or (swapped[0] > 1000 and self._raced(entry, turns)), (
            swapped, turns, self.statuses
        )
        return not self.bad

    def close(self):
        with contextlib.suppress(AttributeError):
            os.close(self.real)
        self.box.close()


# ---- The operations: called with None once, then again and again with what that returned ----------


@race(8, "read", red="beneath")
def _(place, _state):
    place.get("read", path=("w/d/f", "w/a")[place.number() % 2])


@race(8, "download", red="beneath")
def _(place, _state):
    place.get("files", path=("w/d/f", "w/a")[place.number() % 2])


@race(8, "list", red="beneath")
def _(place, _state):
    answer = place.get("list", path="w/d", depth=3)
    if answer.status == 200 and "s/large" in answer.body.decode():
        place.bad.append("the outside was listed")


@race(8, "list of a folder around it", red="beneath,nofollow", elsewhere=["beneath", "nofollow"])
def _(place, _state):
    answer = place.get("list", path="w", depth=4)
    if answer.status == 200 and "s/large" in answer.body.decode():
        place.bad.append("the outside was listed")


def look_into(place, answer):
    """An archive, or as much of one as came."""
    stream = zlib.decompressobj(31)
    if place.canary.encode() in stream.decompress(answer.body):
        place.bad.append("the outside was packed")


@race(8, "archive", red="beneath")
def _(place, _state):
    answer = place.get("archive", path="w/d/s")
    if answer.status in (0, 200):
        look_into(place, answer)


@race(8, "archive of a folder around it", red="beneath,nofollow", elsewhere=["beneath", "nofollow"])
def _(place, state):
    if state is None:
        # Cheap to pack, so that many are tried.
        os.unlink("big", dir_fd=place.real)
    answer = place.get("archive", path="w")
    if answer.status in (0, 200):
        look_into(place, answer)
    return True


@race(8, "write", red="beneath")
def _(place, _state):
    name = "w%d" % (place.number() % 200)
    place.acknowledged(place.post("write", path="w/d/" + name, content="x"), name)


# Without the guard, too, nothing outside is replaced: what takes a file's place is named at the top of
# the workspace first, which is another file system. "write" is the one that makes new names.
@race(4, "write to a file that is a link at times", red=None, elsewhere=["beneath"])
def _(place, _state):
    place.post("write", path="w/d/f", content="written")


@race(8, "upload", red="beneath")
def _(place, _state):
    name = "u%d" % (place.number() % 200)
    place.acknowledged(place.put(b"x", path="w/d/" + name), name)


@race(8, "mkdir", red="beneath")
def _(place, _state):
    name = "m%d" % place.number()
    place.acknowledged(place.post("mkdir", path="w/d/" + name), name)


@race(11, "move", red="beneath")
def _(place, _state):
    with contextlib.suppress(FileNotFoundError):
        os.unlink("v1", dir_fd=place.real)
    place.acknowledged(place.post("move", **{"from": "w/d/v0", "to": "w/d/v1"}), "v1")


@race(10, "delete", red="beneath")
def _(place, _state):
    place.delete(path="w/d/k", recursive="true")


@race(10, "delete of the folder around it", red="beneath,nofollow",
      elsewhere=["beneath", "nofollow"])
def _(place, _state):
    place.delete(path="w", recursive="true")


@race(8, "the quota's walk", red="beneath,nofollow", elsewhere=["beneath", "nofollow"],
      env={"SANDBOX_WORKSPACE_QUOTA_MB": "8"})
def _(place, state):
    if state is None:
        # So near to the quota that the tree is walked for every few writes. A folder that changes
        # its name under a walk may be counted twice, so there is nothing large in it.
        os.unlink("big", dir_fd=place.real)
        harness.wait_until(
            lambda: written(place, bytes(7 * MB + MB // 2), "most"), "most of it is used"
        )
    written(place, bytes(MB // 4), "more")
    return True


def written(place, data, path):
    """4 MB are outside. The file system may also say no, when it has not yet given back what the earlier
    writes took."""
    answer = place.put(data, path=path)
    if answer.status == 413 and float(re.search("use ([0-9.]+) MB", answer.detail).group(1)) > 10:
        place.bad.append("the outside was counted: " + answer.detail)
    return answer.status == 200


# ---- Snapshots ----


def taken(place):
    """A snapshot with one name that the folder lacks."""
    source = place.server.create()
    made = place.server.exec(source, "mkdir d && echo inside | tee mark > d/mark")
    assert made["exit_code"] == 0
    answer = place.server.post("/v1/sessions/%s/snapshots" % source, {})
    assert answer.status == 200, answer
    place.server.delete("/v1/sessions/" + source)
    return answer.json["id"]


def restored(place, snapshot, path):
    """Each has a file sandbox of its own, so nothing was planted there; but it has a /tmp."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink("mark", dir_fd=place.real)
    answer = place.post("restore", snapshot_id=snapshot, path=path)
    place.acknowledged(answer, "mark")


@race(274, "restore", red="beneath", kept=False)
def _(place, state):
    state = state or taken(place)
    restored(place, state, "w/d")
    return state


@race(274, "restore of the folder around it", red="beneath,nofollow",
      elsewhere=["beneath", "nofollow"], kept=False)
def _(place, state):
    state = state or taken(place)
    restored(place, state, "w")
    return state


@race(266, "snapshot", red="beneath")
def _(place, _state):
    # Taken of /tmp it would be empty; the folder has 1 MB.
    answer = place.post("snapshots", path="w/d")
    if answer.status == 200:
        if answer.json["size_bytes"] < MB:
            place.bad.append("a snapshot of the outside: %r" % answer.json)
        place.server.delete("/v1/snapshots/" + answer.json["id"])


# ---- Running them ------------------------------------------------------------------------------


def name_of(entry):
    return "%d %s" % (entry.number, entry.name)


def away(server):
    for record in server.get("/v1/snapshots").json["snapshots"]:
        server.delete("/v1/snapshots/" + record["id"])


@contextlib.contextmanager
def placed(server, host_folder):
    place = Place(server, host_folder)
    try:
        yield place
    finally:
        place.close()
        away(server)


@pytest.mark.parametrize("entry", RACES, ids=name_of)
def test_held(entry, request, servers, host_folder):
    server = servers.get(entry.env) if entry.env else request.getfixturevalue("server")
    with placed(server, host_folder) as place:
        assert place.run(entry, SECONDS), place.bad[:5]


# With haste off, the window between a look and the open that it was for is some 100 us wide.
WITHOUT = sorted(
    [(r, r.red + ",haste", True) for r in RACES if r.red]
    + [(r, "haste", False) for r in RACES if r.red]
    + [(r, off, False) for r in RACES for off in r.elsewhere],
    key=lambda row: (row[1], str(row[0].env)),
)


@pytest.mark.parametrize(
    "entry, off, red", WITHOUT, ids=["%s: %s off" % (name_of(r), off) for r, off, _ in WITHOUT]
)
def test_without_guards(entry, off, red, knob_servers, host_folder):
    with placed(knob_servers.get(off, entry.env), host_folder) as place:
        held = place.run(entry, max(30, SECONDS) if red else SECONDS / 3, red)
        if red:
            assert not held, "it holds although the guard is off: it tests nothing"
        else:
            assert held, "one guard alone stood between the race and its aim: %s" % place.bad[:5]
