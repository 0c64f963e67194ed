# SPDX-License-Identifier: Apache-2.0
"""The file part of the bench: transfers against a plain socket into the same file system, small files,
archives against tar, snapshots and forks of little and of much.

A server of its own, with a volume that takes all of it. What is compared with it works in the root
of the same file system, which only root can reach, through the launcher's mount namespace.
"""

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import threading
import time

import harness
from harness import KEYS

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
LARGE = 50 * MIB
SMALL, FILES = 1024, 10000
WORKSPACES = 1000


def p50(values):
    return sorted(values)[len(values) // 2]


def p99(values):
    return sorted(values)[min(len(values) - 1, len(values) * 99 // 100)]


def rate(ns):
    return "%.0f MB/s" % (LARGE / p50(ns) * 1e3)


class Files:
    def __init__(self, bench):
        self.bench = bench
        self.table = bench.table
        self.rounds = max(20, bench.rounds // 4)

    # ---- Life ----

    def run(self):
        state = os.path.join(self.bench.folder, "files-state")
        os.mkdir(state, 0o755)
        os.chmod(self.bench.folder, 0o755)
        outer = self.bench.server
        limits = dict(harness.WIDE["*"], max_sessions=2000)
        self.server = harness.Server(
            {"SANDBOX_VOLUME_SIZE_MB": "3072", "SANDBOX_MAX_SESSIONS": "2000",
             "SANDBOX_TENANT_LIMITS": json.dumps({"*": limits})},
            build=self.bench.build, state_dir=state,
        ).start()
        self.bench.server = self.server
        root = "/proc/%d/root%s/mnt/bench" % (self.server.process.pid, state)
        os.mkdir(root)
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(shutil.rmtree, root)
                self.start_bare(root, stack)
                self.transfers()
                self.small_files()
                self.archive(root)
                self.copies()
                self.deleting()
                self.many_workspaces()
        finally:
            self.bench.server = outer
            self.server.stop(clean=False)

    def start_bare(self, root, stack):
        program = os.path.join(self.bench.folder, "bare")
        subprocess.run(["gcc", "-O2", "-D_GNU_SOURCE", "-pthread", "-o", program,
                        os.path.join(HERE, "bare.c")], check=True)
        bare = subprocess.Popen([program, root], stdout=subprocess.PIPE, text=True)
        stack.callback(bare.wait)
        stack.callback(bare.terminate)
        self.bench.pair_env["PAIR_BARE_PORT"] = bare.stdout.readline().strip()

    def ask(self, method, session, what, raw=b""):
        return (
            "%s /v1/sessions/%s/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: %s\r\n"
            "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (method, session, what, KEYS["a"], len(raw))
        ).encode() + raw

    def items(self, requests, bare=False):
        item = self.bench.rest(requests)
        return item.replace("rest:", "bare:", 1) if bare else item

    def crowd(self, count, width, item):
        return [int(line) for line in self.bench.pair("crowd", count, width, item).splitlines()]

    def on_disk(self, session, megabytes):
        answer = self.server.exec(
            session, "head -c %d /dev/urandom > much && sync much" % (megabytes * MIB), 60
        )
        assert answer["exit_code"] == 0, answer

    # ---- Large and small ----

    def transfers(self):
        session = self.server.create()
        data = os.urandom(LARGE)
        up = self.ask("PUT", session, "files?path=f", data)
        down = self.ask("GET", session, "files?path=f")
        got = self.bench.run_rounds(
            self.rounds, self.items([up]), self.items([up], bare=True),
            self.items([down]), self.items([down], bare=True),
        )
        for what, ours, bare in (("upload", got[0], got[1]), ("download", got[2], got[3])):
            self.table.at_least(
                "%s of 50 MiB, throughput / a plain socket" % what, p50(bare) / p50(ours), 0.6,
                note="%s, plain %s" % (rate(ours), rate(bare)),
            )
        sessions = [session] + [self.server.create() for _ in range(3)]
        requests = []
        for s in sessions:
            self.server.request("PUT", "/v1/sessions/%s/files?path=f" % s, raw=data)
            requests += [self.ask("PUT", s, "files?path=g", data),
                         self.ask("GET", s, "files?path=f")]
        (pid,) = self.server.process_of("airlockd")
        with open("/proc/%d/clear_refs" % pid, "w") as file:
            file.write("5")  # the peak begins anew
        self.crowd(32, 8, self.items(requests))
        peak = int(harness.proc_status(pid)["VmHWM"].split()[0])
        self.table.at_most("airlockd resident, eight 50 MiB transfers at once, MiB", peak / 1024,
                           40, "%.1f")
        self.bench.delete_all()

    def small_files(self):
        sessions = [self.server.create() for _ in range(8)]
        body = ('{"path": "f", "content": "%s"}' % ("x" * SMALL)).encode()
        writes = [self.ask("POST", s, "write", body) for s in sessions]
        reads = [self.ask("GET", s, "read?path=f") for s in sessions]
        for what, requests in (("write", writes), ("read", reads)):
            item = self.items(requests)
            (alone,) = self.bench.run_rounds(self.bench.rounds, item)
            self.table.at_most("1 KiB %s, warm, p50, ms" % what, p50(alone) / 1e6, 1.0)
            self.crowd(64, 8, item)
            runs = [self.crowd(8 * self.bench.rounds, 8, item)
                    for _ in range(1 + 2 * self.bench.repeats)]
            self.table.at_most("1 KiB %s, 8 clients, p99 / p50" % what,
                               p50([p99(run) / p50(run) for run in runs]), 3.0,
                               note="p50 %.2f ms" % (p50([p50(run) for run in runs]) / 1e6))
        self.bench.delete_all()

    MAKE = (
        "import os, sys\n"
        "for d in range(100):\n"
        "    os.makedirs('%s/%d' % (sys.argv[1], d))\n"
        "    for f in range(" + str(FILES // 100) + "):\n"
        "        open('%s/%d/%d' % (sys.argv[1], d, f), 'wb').write(os.urandom(500) * 2)\n"
    )

    def archive(self, root):
        session = self.server.create()
        self.server.post("/v1/sessions/%s/write" % session,
                         {"path": "make.py", "content": self.MAKE})
        answer = self.server.exec(session, "python3 make.py tree", 60)
        assert answer["exit_code"] == 0, answer
        subprocess.run(["/usr/bin/python3", "-c", self.MAKE, os.path.join(root, "tree")], check=True)
        tar = self.bench.spawn(["tar", "-cz", "-C", root, "tree"], "pipe")
        ours = self.items([self.ask("GET", session, "archive?path=tree")])
        got = self.bench.run_rounds(max(5, self.rounds // 10), ours, tar)
        self.table.at_most("archive of 10,000 small files / tar -cz", p50(got[0]) / p50(got[1]), 1.5,
                           note="%.0f ms, tar %.0f ms" % (p50(got[0]) / 1e6, p50(got[1]) / 1e6))
        self.bench.delete_all()

    # ---- Snapshots ----

    def timed(self, method, path, body):
        """Seconds of one call, and its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
        connection.connect()
        began = time.monotonic_ns()
        connection.request(method, path, json.dumps(body),
                           {"X-API-Key": KEYS["a"], "Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        took = time.monotonic_ns() - began
        connection.close()
        assert answer.status in (200, 201), text
        return took, json.loads(text)

    def copies(self):
        sizes = {5: self.server.create(), 500: self.server.create()}
        took = {(what, size): [] for what in ("snapshot", "restore", "fork") for size in sizes}
        for size, session in sizes.items():
            self.on_disk(session, size)
        for number in range(self.rounds + 3):
            for size, session in sizes.items():
                at = "/v1/sessions/%s/" % session
                ns = {}
                ns["snapshot"], snapshot = self.timed("POST", at + "snapshots", {})
                empty = self.server.create()
                ns["restore"], _ = self.timed("POST", "/v1/sessions/%s/restore" % empty,
                                              {"snapshot_id": snapshot["id"]})
                ns["fork"], forked = self.timed("POST", at + "fork", {})
                for gone in (empty, forked["sessions"][0]["session_id"]):
                    self.server.delete("/v1/sessions/" + gone)
                self.server.delete("/v1/snapshots/" + snapshot["id"])
                for what in ns:
                    if number >= 3:
                        took[what, size].append(ns[what])
        for what in ("snapshot", "restore", "fork"):
            for size in sizes:
                values = took[what, size]
                self.table.at_most("%s of %d MB, p50, ms" % (what, size), p50(values) / 1e6, 50,
                                   "%.1f", note="p99 %.1f" % (p99(values) / 1e6))
            small, large = p50(took[what, 5]), p50(took[what, 500])
            self.table.at_most("%s, 500 MB / 5 MB" % what, large / small, 2.0)
        self.bench.delete_all()

    # ---- Others meanwhile ----

    def deleting(self):
        alone, meanwhile = [], []
        item = self.bench.rest([self.bench.exec_request(self.server.create(), "true")])
        for _ in range(3):
            large = self.server.create()
            self.on_disk(large, 500)
            alone += self.bench.run_rounds(self.rounds, item)[0]
            thread = threading.Thread(target=self.server.delete, args=("/v1/sessions/" + large,))
            thread.start()
            meanwhile += self.bench.run_rounds(self.rounds, item)[0]
            thread.join()
        self.table.at_most("`true` by REST while 500 MB are deleted, p99 / without",
                           p99(meanwhile) / p99(alone), 2.0,
                           note="%.1f ms, without %.1f" % (p99(meanwhile) / 1e6, p99(alone) / 1e6))
        self.bench.delete_all()

    def many_workspaces(self):
        bare = self.bench.spawn(["bash", "-c", "true"])
        few = self.bench.run_rounds(self.rounds, bare, self.bench.life("true"))
        for _ in range(WORKSPACES):
            self.server.create()
        many = self.bench.run_rounds(self.rounds, bare, self.bench.life("true"))
        self.table.at_most(
            "create + `true` + delete / bare, 1,000 workspaces", p50(many[1]) / p50(many[0]), 4.0,
            note="%.2f ms; before them %.2f" % (p50(many[1]) / 1e6, p50(few[1]) / 1e6),
        )
