# SPDX-License-Identifier: Apache-2.0
"""The clock of the upper bounds counts what was waited, and not what nothing ran in."""

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
print("ready", flush=True)
began = both()
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


def test_what_was_waited_counts():
    out = run("time.sleep(1); sys.stdin.read()").communicate("")[0].split()
    assert float(out[1]) > 0.3


def test_what_nothing_ran_in_does_not():
    with run("sys.stdin.readline()") as process:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(process.pid, signal.SIGCONT)
        out, _ = process.communicate("\n")
    counted, passed = map(float, out.split())
    assert counted < 0.9 and passed >= 1


def test_the_child_of_a_fork_counts_too():
    code = "import os\nif os.fork(): os.wait(); sys.exit()\nbegan = both(); time.sleep(1)"
    out = run(code).communicate("")[0].split()
    assert float(out[-2]) > 0.3
