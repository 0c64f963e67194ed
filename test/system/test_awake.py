# SPDX-License-Identifier: Apache-2.0
"""The clock of the upper bounds counts what was waited, and not what nothing ran in."""

import ctypes
import os
import signal
import subprocess
import sys
import time

import harness

BOTH = """
import sys, time
sys.path.insert(0, %r)
import awake
def both():
    return awake.seconds(), time.monotonic()
began = both()
print("ready", flush=True)
%s
print(*(b - a for a, b in zip(began, both())))
"""


def run(code):
    folder = os.path.join(harness.ROOT, "test")
    return subprocess.Popen(
        [sys.executable, "-c", BOTH % (folder, code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# Up to 10 s: the machine may stand still in this one, too.
WAIT = """
for _ in range(100):
    time.sleep(0.1)
    if awake.seconds() - began[0] > 0.6:
        break
"""


def test_what_was_waited_counts():
    out = run(WAIT).communicate("")[0].split()
    assert float(out[-2]) > 0.3


def test_what_nothing_ran_in_does_not():
    with run("sys.stdin.readline()") as process:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(process.pid, signal.SIGCONT)
        out, _ = process.communicate("\n")
    counted, passed = map(float, out.split())
    assert passed >= 1 and passed - counted > 0.9


def ptrace(request, thread):
    assert ctypes.CDLL(None).ptrace(request, thread, None, None) == 0


def test_what_nothing_ran_in_on_one_processor_does_not():
    attach, detach, wall = 16, 17, 0x40000000
    with run("sys.stdin.readline()") as process:
        assert process.stdout.readline() == "ready\n"
        # Each but the first is one of the clock's.
        thread = max(map(int, os.listdir("/proc/%d/task" % process.pid)))
        ptrace(attach, thread)
        os.waitpid(thread, wall)
        time.sleep(1)
        ptrace(detach, thread)
        out, _ = process.communicate("\n")
    counted, passed = map(float, out.split())
    assert passed >= 1 and passed - counted > 0.9


def test_the_child_of_a_fork_counts_too():
    code = "import os\nif os.fork(): os.wait(); sys.exit()\nbegan = both()\n"
    out = run(code + WAIT).communicate("")[0].split()
    assert float(out[-2]) > 0.3
