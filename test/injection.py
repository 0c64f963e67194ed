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
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self._said = []
        line = self.process.stdout.readline()
        assert line == "attached\n", (words, line)

    def has_hit(self):
        """Whether the n-th call was made by now."""
        if not self._said and select.select([self.process.stdout], [], [], 0)[0]:
            self._said.append(self.process.stdout.readline())
        return any(line.startswith("injected") for line in self._said)

    def finish(self):
        """What was hit ("<call> <pid>"), or None when fewer than n calls were made."""
        self.process.terminate()
        self._said += self.process.stdout.read().splitlines()
        self.process.stdout.close()
        self.process.wait()
        self.total = next(int(l.split()[1]) for l in self._said if l.startswith("total"))
        hit = [line.strip() for line in self._said if line.startswith("injected")]
        return hit[0][len("injected ") :] if hit else None
