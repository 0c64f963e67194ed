# SPDX-License-Identifier: Apache-2.0
"""test/fault/inject on a process of a server: its n-th system call fails, or is not lived to see.

AIRLOCK_FAULT_POINTS says how many of the calls of a process and an operation are taken where each means a
round of its own, spread over all of them (1 unless set), or `all`.
"""

import contextlib
import os
import select
import subprocess

import harness

POINTS = os.environ.get("AIRLOCK_FAULT_POINTS", "1")
NEVER = 1 << 40
INJECT = os.path.join(harness.BUILD, "test", "fault", "inject")


def missing():
    """None, or why nothing can be injected here."""
    return None if os.access(INJECT, os.X_OK) else "test/fault/inject is not built (x86-64 only)"


def points(total, turn, least=1):
    """Which calls: all of them, or some at equal distances, others for each pair."""
    if POINTS == "all":
        return range(1, total + 1)
    some = min(max(int(POINTS), least), total)
    shift = turn * 0.618 % 1
    return [1 + int((i + shift) * total / some) for i in range(some)]


def is_alive(pid):
    with contextlib.suppress(OSError):
        return not harness.proc_status(pid)["State"].startswith("Z")
    return False


class Injection:
    def __init__(self, pid, n, *action):
        words = [INJECT, str(pid), str(n), *map(str, action)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE)
        # Nothing else may read it: what it says next may have come with what is waited for.
        self._said = b""
        while b"\n" not in self._said and self._read():
            pass
        assert self._lines()[:1] == ["attached"], (words, self._said)

    def _read(self):
        piece = os.read(self.process.stdout.fileno(), 4096)
        self._said += piece
        return piece

    def _lines(self):
        return self._said.decode().split("\n")[:-1]

    def _hits(self):
        return [line for line in self._lines() if line.startswith("injected")]

    def has_hit(self):
        """Whether the n-th call was made by now."""
        while select.select([self.process.stdout], [], [], 0)[0] and self._read():
            pass
        return bool(self._hits())

    def finish(self):
        """What was hit ("<call> <pid>"), or None when fewer than n calls were made."""
        self.process.terminate()
        while self._read():
            pass
        self.process.stdout.close()
        self.process.wait()
        self.total = next(int(l.split()[1]) for l in self._lines() if l.startswith("total"))
        hits = self._hits()
        return hits[0][len("injected ") :] if hits else None
