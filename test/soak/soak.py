# SPDX-License-Identifier: Apache-2.0
"""Hours of a server in minutes: three tenants, one of them hostile, while each process is killed and the
whole is restarted, again and again.

    soak.py [--seconds N] [--cycle N]

In each cycle (60 s unless set) airlockd, the builder, the sweeper, the gateway, a sandbox's init and the
launcher are killed once, and once everything is stopped as an operator stops it. Then all wait, and:

  every acknowledged file, session and snapshot is there, to the byte; a command that was acknowledged is
  in the audit log, once, and one that was not at most once; nobody has seen bytes of another tenant; the
  database explains every volume; nothing of dead processes is left; the processes have not grown.

Between two disturbances nothing may fail at all. Ends with status 1 at the first thing that is wrong.
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import random
import select
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import awake  # noqa: E402
import harness  # noqa: E402
from codehost import CodeHost, archive  # noqa: E402
from harness import KEYS  # noqa: E402
from ledger import Ledger  # noqa: E402
from tenants import Honest, Hostile, Lost, bomb  # noqa: E402

ROLES = ("airlockd", "builder", "sweeper", "gateway", "launcher")
DISTURBANCES = ("airlockd", "builder", "init", "sweeper", "gateway", "launcher", "restart")
PATIENCE = 60
# A request that was under way in the middle of it may be answered a little later.
AFTER = 2
GROWTH, SLACK_KIB = 1.25, 3 << 10


class Soak:
    def __init__(self, seconds, cycle):
        self.seconds, self.cycle = seconds, cycle
        self.random = random.Random(seconds)
        self.markers = {name: b"marker-%s-%s" % (name.encode(), os.urandom(8).hex().encode())
                        for name in KEYS}
        self.statuses = collections.Counter()
        self.samples = collections.defaultdict(list)
        self.disturbances = []  # [begin, end]
        self._lock = threading.Condition()
        self._paused = self._ended = self._gave_up = False
        self._waiting = 0
        self._host = CodeHost()
        for name in KEYS:
            self._host.put(name, archive(("README", self.readme(name))))
        self._host.put("bomb", bomb())
        limits = dict(harness.WIDE["*"])
        self.ledger = Ledger("soak", {
            "SANDBOX_AUDIT": "sqlite",
            "SANDBOX_GITHUB_BASE": self._host.base,
            "SANDBOX_TENANT_LIMITS": json.dumps(
                {"a": limits, "b": limits, "c": {"requests_per_minute": 6000}}),
            "SANDBOX_VOLUME_SIZE_MB": "3072",
            "SANDBOX_WORKSPACE_QUOTA_MB": "64",
        }, journal_max=20000)  # most volumes come and go unseen
        self.honest = [Honest(self, name, number) for name in "ab" for number in range(2)]
        self.hostile = [Hostile(self, "c", number) for number in range(2)]

    # ---- For the tenants ----

    @property
    def server(self):
        return self.ledger.server

    def readme(self, name):
        return self.markers[name] + b" README\n"

    def may_go_on(self, patient=False):
        """Waits while all have to. patient: whether a server that does not listen may come yet."""
        with self._lock:
            if patient:
                return not self._gave_up and self.was_disturbed(awake.seconds() - PATIENCE)
            self._waiting += 1
            self._lock.notify_all()
            while self._paused and not self._ended:
                self._lock.wait()
            self._waiting -= 1
            return not self._ended

    def stop(self):
        with self._lock:
            self._ended = self._gave_up = True
            self._lock.notify_all()

    def was_disturbed(self, since):
        return any(end is None or end + AFTER > since for _, end in self.disturbances[-8:])

    def count(self, method, path, status):
        what = path.split("?")[0].rsplit("/", 1)[1]
        self.statuses[method, "{id}" if "_" in what else what, status] += 1

    def sessions_of_others(self, name):
        known = [s for t in self.honest if t.tenant != name for s in list(t.sessions)]
        return self.random.sample(known, min(2, len(known)))

    # ---- What is done to it ----

    def disturb(self, what):
        print("%.1f: %s" % (time.time(), what), flush=True)
        mark = [awake.seconds(), None]
        self.disturbances.append(mark)
        if what == "restart":
            self.server.stop()
            self.ledger.start()
        elif what == "init":
            inits = [pid for pid, name in harness.tenant_processes(self.server.number)
                     if name == "airlock-init"]
            if inits:
                self.kill(self.random.choice(inits))
        else:
            self.kill(self.pid_of(what))
        self.ledger.recover()
        mark[1] = awake.seconds()

    def pid_of(self, role):
        """It may just be forking."""
        return self.ledger.wait_for_pid(role)

    def kill(self, pid):
        """One that ends by itself meanwhile is as good."""
        with contextlib.suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                select.select([fd], [], [], PATIENCE)
            finally:
                os.close(fd)

    @contextlib.contextmanager
    def everybody_waits(self):
        with self._lock:
            self._paused = True
            alive = self.honest + self.hostile
            deadline = awake.seconds() + 2 * PATIENCE
            while self._waiting < sum(t.is_alive() for t in alive):
                if awake.seconds() > deadline:
                    raise Lost("a request hangs")
                self._lock.wait(1)
        yield
        with self._lock:
            self._paused = False
            self._lock.notify_all()

    # ---- What must hold ----

    def check(self):
        for tenant in self.honest:
            tenant.check()
        for name in "ab":
            self._check_lists(name)
        for tenant in self.hostile:
            tenant.begin_anew()
        self.ledger.settle()
        self.ledger.check_leaks()
        harness.wait_until(lambda: not self.ledger.transfers(), "no file of a transfer is left")
        for role in ROLES:
            pid = self.pid_of(role)
            self.samples[role].append((harness.rss_kib(pid), len(os.listdir("/proc/%d/fd" % pid))))

    def _check_lists(self, name):
        """All that was acknowledged, and no more beside it than what may have been made."""
        tenants = [t for t in self.honest if t.tenant == name]
        one = tenants[0]
        perhaps = sum(t.perhaps for t in tenants)
        for path, field, known in (
            ("/v1/sessions", "session_id", {s for t in tenants for s in t.sessions}),
            ("/v1/snapshots", "id", {s for t in tenants for s in t.snapshots}),
        ):
            listed = one.ask("GET", path, sure=True).json[path.rsplit("/", 1)[1]]
            there = {entry[field] for entry in listed}
            if known - there:
                raise Lost("%s of %s are gone: %r" % (path, name, known - there))
            perhaps -= len(there - known)
            for extra in there - known:
                one.ask("DELETE", "%s/%s" % (path, extra), sure=True)
        if perhaps < 0:
            raise Lost("%s has %d sessions or snapshots that nobody asked for" % (name, -perhaps))
        for t in tenants:
            t.perhaps = 0

    def check_audit(self):
        for name in "ab":
            tenants = [t for t in self.honest if t.tenant == name]
            found = collections.Counter()
            codes = {}
            before = ""
            while before is not None:
                page = tenants[0].ask("GET", "/v1/audit?limit=500" + before, sure=True).json
                for entry in page["entries"]:
                    if entry["kind"] == "exec":
                        told = entry["command"].split(";")[0] + ";"
                        found[told] += 1
                        codes[told] = entry["exit_code"]
                before = "&before=" + page["next"] if page["next"] else None
            for t in tenants:
                for told, code in t.acknowledged.items():
                    # One that a stop cut off is a failure on record.
                    good = (code, None) if code == 137 else (code,)
                    if found[told] != 1 or codes[told] not in good:
                        raise Lost("%s is %d times in the audit log, with %r instead of %r" % (
                            told, found[told], codes.get(told), code))
                for told in t.unknown:
                    if found[told] > 1:
                        raise Lost("%s is %d times in the audit log" % (told, found[told]))

    def check_growth(self):
        third = max(1, len(self.samples["airlockd"]) // 3)
        for role, samples in self.samples.items():
            first, last = samples[:third], samples[-third:]
            for what, index, slack in (("KiB", 0, SLACK_KIB), ("descriptors", 1, 8)):
                early, late = (sorted(s[index] for s in part)[len(part) // 2] for part in (first, last))
                print("  %-9s %7d %s, then %d" % (role, early, what, late))
                if late > early * GROWTH + slack:
                    raise Lost("%s grows: %r" % (role, [s[index] for s in samples]))

    # ---- All of it ----

    def wait_until(self, when):
        """Or until a tenant found something."""
        while time.monotonic() < when:
            self.raise_failure()
            time.sleep(0.05)

    def raise_failure(self):
        for tenant in self.honest + self.hostile:
            if tenant.failure:
                raise tenant.failure

    def one_cycle(self):
        begin = time.monotonic()
        for turn, what in enumerate(DISTURBANCES):
            self.wait_until(begin + (turn + 0.5) * self.cycle / len(DISTURBANCES))
            self.disturb(what)
        self.wait_until(begin + self.cycle)
        with self.everybody_waits():
            self.raise_failure()
            self.check()

    def run(self):
        end = time.monotonic() + self.seconds
        for tenant in self.honest + self.hostile:
            tenant.start()
        for number in itertools.count(1):
            self.one_cycle()
            print("cycle %d: %d requests, airlockd %d KiB" % (
                number, sum(self.statuses.values()), self.samples["airlockd"][-1][0]), flush=True)
            if time.monotonic() >= end:
                break
        self.stop()
        for tenant in self.honest + self.hostile:
            tenant.join(2 * PATIENCE)
        self.raise_failure()
        self._gave_up = False
        self.check()
        self.check_audit()
        self.check_growth()
        self._host.close()
        self.ledger.close()

    def report(self):
        acknowledged = sum(len(t.acknowledged) for t in self.honest)
        print("%d requests, %d commands acknowledged, %d of unknown outcome, %d disturbances" % (
            sum(self.statuses.values()), acknowledged, sum(len(t.unknown) for t in self.honest),
            len(self.disturbances)))
        for (method, what, status), count in sorted(self.statuses.items()):
            print("  %6d  %s %s %d" % (count, method, what, status))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--cycle", type=float, default=60)
    options = parser.parse_args()
    why = harness.runnable()
    if why:
        print("soak: " + why)
        return 1
    soak = Soak(options.seconds, options.cycle)
    try:
        soak.run()
    except BaseException as error:
        soak.stop()
        soak.report()
        print("\n".join(line for line in soak.server.log().splitlines()
                        if '"level":"info"' not in line)[-20000:])
        print("soak: %s: %s" % (type(error).__name__, error))
        soak.ledger.discard()
        if not isinstance(error, Exception):
            raise
        return 1
    soak.report()
    print("soak: nothing was lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
