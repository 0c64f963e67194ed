# SPDX-License-Identifier: Apache-2.0
"""Waits until a server answers, says how to reach it, and runs the first Python block of a text.

    example.py --server-pid PID README.md      with SANDBOX_API_URL and SANDBOX_API_KEY set

Exit status 3: the server ended before it answered.
"""

import argparse
import contextlib
import io
import os
import re
import sys
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "sdk", "python"))

from airlock_sandbox import Sandbox, SandboxError  # noqa: E402

START_SECONDS = 120


def example_of(path):
    with open(path, encoding="utf-8") as file:
        found = re.search(r"^```python\n(.*?)^```$", file.read(), re.S | re.M)
    if not found:
        sys.exit("example: no Python block in %s" % path)
    return found.group(1)


def is_running(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_serving(pid):
    """What /healthz said; one that serves with problems is good enough for an example."""
    asking = Sandbox(max_retries=0, timeout=2)
    deadline = time.monotonic() + START_SECONDS
    while is_running(pid):
        with contextlib.suppress(SandboxError):
            return asking.health()
        if time.monotonic() > deadline:
            sys.exit("example: the server does not answer after %d s" % START_SECONDS)
        time.sleep(0.02)
    sys.exit(3)


def indented(text):
    return "".join("    " + line + "\n" for line in text.rstrip("\n").split("\n"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server-pid", type=int, required=True)
    parser.add_argument("text")
    options = parser.parse_args()
    code = example_of(options.text)
    problems = wait_until_serving(options.server_pid).get("problems")
    if problems:
        print("\nAirlock is running, with problems:\n")
        print(indented("\n".join(problems)))
        print("To use it from another shell:\n")
    else:
        print("\nAirlock is running. To use it from another shell:\n")
    print("    export SANDBOX_API_URL=" + os.environ["SANDBOX_API_URL"])
    print("    export SANDBOX_API_KEY=" + os.environ["SANDBOX_API_KEY"])
    print("\nThe example of %s:\n" % options.text)
    print(indented(code))
    printed = io.StringIO()
    failed = False
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, options.text, "exec"), {"__name__": "__main__"})
        except Exception:
            traceback.print_exc()
            failed = True
    print("prints:\n")
    print(indented(printed.getvalue()))
    if failed:
        print("The example failed; the server is still running.", file=sys.stderr)
    print("Ctrl-C stops the server.", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
