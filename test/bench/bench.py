# SPDX-License-Identifier: Apache-2.0
"""How fast and how small it is, side by side with bare processes, bubblewrap and runc.

    bench.py [--build DIR] [--quick] [--only WORD]

Everything that is compared runs interleaved, on the same machine, in the same minute; what counts is
the ratio. The last line is `bars met N of M`. --quick runs a tenth of the rounds.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import clients  # noqa: E402
import files  # noqa: E402
import gateway  # noqa: E402
import harness  # noqa: E402
import operate  # noqa: E402
from harness import KEYS  # noqa: E402

MIB = 1 << 20
# The system's own programs, as in the image; wrappers of the caller's would slow the bare side down.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp"}


class Table:
    def __init__(self):
        self.rows = []
        self.met = self.bars = 0

    def add(self, what, value, bar=None, good=None, note=""):
        """A line; with a bar it counts."""
        verdict = ""
        if good is not None:
            self.bars += 1
            self.met += bool(good)
            verdict = "met" if good else "NOT MET"
        self.rows.append((what, value, bar or "", verdict, note))
        print("%-58s %-26s %-22s %-8s %s" % self.rows[-1], flush=True)

    def at_most(self, what, value, bar, form="%.2f", note=""):
        self.add(what, form % value, "<= " + form % bar, value <= bar, note)

    def at_least(self, what, value, bar, form="%.2f", note=""):
        self.add(what, form % value, ">= " + form % bar, value >= bar, note)


def p50(values):
    return statistics.median(values)


def p99(values):
    return sorted(values)[min(len(values) - 1, len(values) * 99 // 100)]


def ms(ns):
    return "%.2f ms" % (ns / 1e6)


class Bench:
    def __init__(self, options):
        self.table = Table()
        self.rounds = 60 if options.quick else 400
        self.seconds = 4 if options.quick else 20
        self.repeats = 1 if options.quick else 3
        self.build = options.build
        self.folder = tempfile.mkdtemp(prefix="airlock-bench-")
        self.pair_program = os.path.join(self.folder, "pair")
        subprocess.run(
            ["gcc", "-O2", "-D_GNU_SOURCE", "-pthread", "-o", self.pair_program,
             os.path.join(HERE, "pair.c")],
            check=True,
        )
        self.pair_env = {}
        self.server = None
        self.count = 0

    # ---- Items ----

    def path(self, name):
        self.count += 1
        return os.path.join(self.folder, "%s-%d" % (name, self.count))

    def spawn(self, args, kind="spawn"):
        path = self.path("args")
        with open(path, "wb") as file:
            file.write(b"".join(a.encode() + b"\0" for a in args))
        return "%s:%s" % (kind, path)

    def request(self, method, path, body=None, key=KEYS["a"]):
        data = b"" if body is None else json.dumps(body).encode()
        return (
            "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: %s\r\n"
            "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (method, path, key, len(data))
        ).encode() + data

    def exec_request(self, session, command, timeout=60):
        return self.request(
            "POST", "/v1/sessions/%s/exec" % session,
            {"command": command, "timeout_seconds": timeout},
        )

    def rest(self, requests):
        folder = self.path("requests")
        os.mkdir(folder)
        for number, request in enumerate(requests):
            with open(os.path.join(folder, str(number)), "wb") as file:
                file.write(request)
        return "rest:" + folder

    def life(self, command, delete=True):
        path = self.path("life")
        steps = [self.request("POST", "/v1/sessions", {}), self.exec_request("@SESSION", command)]
        if delete:
            # DELETE with no body, as clients send it.
            steps.append(self.request("DELETE", "/v1/sessions/@SESSION"))
        with open(path, "wb") as file:
            file.write(b"\0".join(steps))
        return ("life:" if delete else "open:") + path

    def bwrap(self, command):
        if not shutil.which("bwrap"):
            return None
        return self.spawn([
            "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc",
            "--dev", "/dev", "--tmpfs", "/tmp", "bash", "-c", command,
        ])

    def runc(self, command):
        """runc run with its default specification on the base image, read-only."""
        if not shutil.which("runc"):
            return None
        bundle = self.path("bundle")
        root = os.path.join(self.folder, "rootfs")
        if not os.path.isdir(root):
            os.mkdir(root)
            key = subprocess.run([os.path.join(harness.ROOT, "image", "key.sh")],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
            subprocess.run(["tar", "-xf", os.path.join(harness.CACHE, key, "rootfs.tar"), "-C", root,
                            "--exclude=./dev/*"], check=True)
            os.makedirs(os.path.join(root, "dev"), exist_ok=True)
        os.mkdir(bundle)
        subprocess.run(["runc", "spec"], cwd=bundle, check=True)
        path = os.path.join(bundle, "config.json")
        with open(path) as file:
            spec = json.load(file)
        spec["process"]["terminal"] = False
        spec["process"]["args"] = ["/bin/bash", "-c", command]
        spec["root"] = {"path": root, "readonly": True}
        with open(path, "w") as file:
            json.dump(spec, file)
        item = self.spawn(["runc", "run", "--bundle", bundle, "@N"])
        tried = subprocess.run(["runc", "run", "--bundle", bundle, "airlock-bench-try"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if tried.returncode:
            print("runc does not run here: %s" % tried.stdout.decode()[-200:].strip())
            return None
        return item

    # ---- Running ----

    def pair(self, *arguments):
        ran = subprocess.run(
            [self.pair_program, *[str(a) for a in arguments]],
            env=dict(ENVIRONMENT, PAIR_PORT=str(self.server.port), **self.pair_env),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        if ran.returncode:
            raise SystemExit("bench: " + ran.stderr.strip() + "\n" + self.server.log_tail())
        return ran.stdout

    def run_rounds(self, rounds, *items):
        """A list of nanoseconds for each item."""
        rows = self.pair("rounds", 30, rounds, *items).splitlines()
        return list(zip(*[[int(n) for n in row.split()] for row in rows]))

    def batch(self, count, width, item):
        return int(self.pair("batch", count, width, item))

    def flood(self, width, item):
        done, took = self.pair("flood", self.seconds, width, item).split()
        return int(done) / (int(took) / 1e9)

    # ---- The table ----

    def latency(self):
        session = self.server.create()
        bare = self.spawn(["bash", "-c", "true"])
        rest = self.rest([self.exec_request(session, "true")])
        items = {"bare": bare, "rest": rest, "life": self.life("true")}
        for name, item in (("bwrap", self.bwrap("true")), ("runc", self.runc("true"))):
            if item:
                items[name] = item
        # runc is slow and shakes the machine: it runs in rounds of its own.
        runc = items.pop("runc", None)
        got = dict(zip(items, self.run_rounds(self.rounds, *items.values())))
        if runc:
            got["runc"] = self.run_rounds(max(20, self.rounds // 8), runc)[0]
        base = p50(got["bare"])
        t = self.table
        for name in ("bare", "bwrap", "runc"):
            if name in got:
                t.add("bash -c true: %s" % name,
                      "%s, p99 %s" % (ms(p50(got[name])), ms(p99(got[name]))),
                      note="%.1f x bare" % (p50(got[name]) / base))
        t.add("bash -c true: REST", "%s, p99 %s" % (ms(p50(got["rest"])), ms(p99(got["rest"]))))
        t.at_most("`true` by REST / bare, p50", p50(got["rest"]) / base, 2.0)
        t.at_most("`true` by REST, p99 / its p50", p99(got["rest"]) / p50(got["rest"]), 5.0)
        for name in ("bwrap", "runc"):
            if name in got:
                t.at_most("`true` by REST / %s" % name, p50(got["rest"]) / p50(got[name]), 1.0)
        t.at_most("create + `true` + delete / bare, p50", p50(got["life"]) / base, 4.0,
                  note=ms(p50(got["life"])))

    def python(self):
        session = self.server.create()
        bare = self.spawn(["python3", "-c", "pass"])
        shell = self.spawn(["bash", "-c", "python3 -c pass"])
        rest = self.rest([self.exec_request(session, "python3 -c pass")])
        got = self.run_rounds(self.rounds, bare, shell, rest)
        # Bare is the same command line, shell and all, as for `true`.
        base = p50(got[1])
        self.table.add("bash -c 'python3 -c pass': bare", "%s, p99 %s" % (ms(base), ms(p99(got[1]))),
                       note="without the shell: " + ms(p50(got[0])))
        self.table.at_most("`python3 -c pass` by REST / bare, p50", p50(got[2]) / base, 1.3,
                           note="%s; %.2f of python without the shell"
                           % (ms(p50(got[2])), p50(got[2]) / p50(got[0])))
        self.sdk(session)

    def sdk(self, session):
        """Alternating in this process: the client's own time counts."""
        sandbox = clients.client("ours").Sandbox.attach(session, KEYS["a"], self.server.url)
        bare, through = [], []
        for number in range(self.rounds + 20):
            began = time.monotonic_ns()
            pid = os.posix_spawn("/usr/bin/python3", ["python3", "-c", "pass"], ENVIRONMENT)
            os.waitpid(pid, 0)
            middle = time.monotonic_ns()
            sandbox.run("python3 -c pass")
            end = time.monotonic_ns()
            if number >= 20:
                bare.append(middle - began)
                through.append(end - middle)
        bar = 1.5 * p50(bare) + 1.5e6
        self.table.add("the same through the Python SDK, p50", ms(p50(through)), "<= " + ms(bar),
                       p50(through) <= bar, "bare %s, p99 %s" % (ms(p50(bare)), ms(p99(through))))

    def throughput(self):
        sessions = [self.server.create() for _ in range(8)]
        rest = self.rest([self.exec_request(s, "true") for s in sessions])
        bwrap = self.bwrap("true")
        rates = {"rest": [], "bwrap": []}
        for _ in range(self.repeats):
            rates["rest"].append(self.flood(8, rest))
            if bwrap:
                rates["bwrap"].append(self.flood(8, bwrap))
        self.table.add("8 clients, `true`: REST", "%.0f/s" % p50(rates["rest"]))
        if bwrap:
            self.table.at_least("8 clients, `true`: REST / bwrap, 8 at once",
                                p50(rates["rest"]) / p50(rates["bwrap"]), 1.3,
                                note="bwrap %.0f/s" % p50(rates["bwrap"]))

    def batches(self):
        sessions = [self.server.create() for _ in range(8)]
        rest = self.rest([self.exec_request(s, "python3 -c pass") for s in sessions])
        bare = self.spawn(["python3", "-c", "pass"])
        life = self.life("python3 -c pass", delete=False)
        ratios = {"eight": [], "hundred": []}
        for _ in range(1 + 3 * self.repeats):
            ratios["eight"].append(self.batch(100, 8, rest) / self.batch(100, 8, bare))
            ratios["hundred"].append(self.batch(100, 100, life) / self.batch(100, 100, bare))
            self.delete_all()
            sessions = [self.server.create() for _ in range(8)]
            rest = self.rest([self.exec_request(s, "python3 -c pass") for s in sessions])
        self.table.at_most("100 x `python3 -c pass`, 8 at once / bare", p50(ratios["eight"][1:]), 1.25)
        self.table.at_most("100 sessions at once, one python each / bare",
                           p50(ratios["hundred"][1:]), 1.5)

    def delete_all(self):
        for entry in self.server.get("/v1/sessions").json["sessions"]:
            self.server.delete("/v1/sessions/" + entry["session_id"])

    # ---- Inside ----

    INSIDE = {
        "cpu": "x = 0\nfor i in range(6000000): x += i * i & 7\n",
        "writes": "import os\nfd = os.open('w', os.O_CREAT | os.O_WRONLY | os.O_TRUNC)\n"
                  "for i in range(500000): os.write(fd, b'x')\n",
        "files": "import os\nfor i in range(5000):\n"
                 "    os.close(os.open('f%d' % i, os.O_CREAT | os.O_WRONLY))\n"
                 "for i in range(5000): os.unlink('f%d' % i)\n",
    }

    def inside(self):
        session = self.server.create()
        with self.same_file_system() as folder:
            for name, what, bar in (
                ("cpu", "inside: a loop on the processor", 0.98),
                ("writes", "inside: 500,000 one-byte writes", 0.85),
                ("files", "inside: 5,000 files made and removed in /workspace", 0.8),
            ):
                timed = ("import time\nbegan = time.monotonic()\n" + self.INSIDE[name]
                         + "print(time.monotonic() - began)\n")
                self.server.post("/v1/sessions/%s/write" % session,
                                 {"path": "w.py", "content": timed})
                with open(os.path.join(folder, "w.py"), "w") as file:
                    file.write(timed)
                times = {"bare": [], "inside": []}
                for _ in range(3 + 2 * self.repeats):
                    answer = self.server.exec(session, "python3 w.py", 60)
                    assert answer["exit_code"] == 0, answer
                    times["inside"].append(float(answer["stdout"]))
                    out = subprocess.run(["/usr/bin/python3", "w.py"], cwd=folder,
                                         stdout=subprocess.PIPE, text=True, check=True).stdout
                    times["bare"].append(float(out))
                self.table.at_least(what + ", of bare", p50(times["bare"]) / p50(times["inside"]),
                                    bar, note="%.3f s bare" % p50(times["bare"]))

    def same_file_system(self):
        bench = self

        class Mounted:
            def __enter__(self):
                self.image = os.path.join(bench.folder, "bare.img")
                self.folder = os.path.join(bench.folder, "bare-mount")
                os.mkdir(self.folder)
                with open(self.image, "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, 1024 * MIB)
                subprocess.run(["mkfs.btrfs", "-q", self.image], check=True)
                subprocess.run(["mount", "-o", "loop,noatime", self.image, self.folder], check=True)
                return self.folder

            def __exit__(self, *exc_info):
                subprocess.run(["umount", self.folder], check=True)
                os.unlink(self.image)

        return Mounted()

    def output(self):
        session = self.server.create()
        answer = self.server.exec(session, "head -c 100000000 /dev/urandom | base64 -w 0 |"
                                           " head -c 100000000 > big; stat -c %s big", 60)
        assert answer["stdout"] == "100000000\n", answer
        big = os.path.join(self.folder, "big")
        with open(big, "wb") as file:
            file.write(os.urandom(MIB).hex().encode() * 48)
        size = os.path.getsize(big)
        cat = self.spawn(["cat", big], "pipe")
        rates = {"inside": [], "bare": [], "call": []}
        for _ in range(4 + 2 * self.repeats):
            began = time.monotonic()
            answer = self.server.exec(session, "cat big", 60)
            rates["call"].append(1e8 / (time.monotonic() - began))
            rates["inside"].append(1e8 / max(answer["duration_ms"], 1) * 1e3)
            rates["bare"].append(size / (p50(self.run_rounds(5, cat)[0]) / 1e9))
        self.table.at_least("100 MB of output by a command / cat through a pipe",
                            p50(rates["inside"]) / p50(rates["bare"]), 0.5,
                            note="%.0f MB/s, bare %.0f; with the answer %.0f" % tuple(
                                p50(rates[name]) / 1e6 for name in ("inside", "bare", "call")))

    # ---- Size, start, stop ----

    def memory(self):
        def pss(pid):
            with open("/proc/%d/smaps_rollup" % pid) as file:
                return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))

        server = harness.Server({"SANDBOX_MAX_SESSIONS": "2000", "SANDBOX_POOL": "4"},
                                build=self.build).start()
        try:
            (pid,) = server.process_of("airlockd")
            session = server.create()
            for _ in range(20):
                server.exec(session, "true")
            harness.wait_until(lambda: not server.get("/v1/usage").json["commands_running"], "idle")
            time.sleep(0.5)
            self.table.at_most("airlockd resident, idle, MiB", harness.rss_kib(pid) / 1024, 15, "%.1f")
            everything = sum(pss(p) for p, _, _ in server.processes())
            self.table.at_most("all processes with a pool of 4 (proportional), MiB",
                               everything / 1024, 40, "%.1f",
                               note="%d processes" % len(server.processes()))
            for _ in range(999):
                server.create()
            self.table.at_most("airlockd resident, 1,000 open idle sessions, MiB",
                               harness.rss_kib(pid) / 1024, 20, "%.1f")
        finally:
            server.stop(clean=False)

    def start_stop(self):
        state = os.path.join(self.folder, "state")
        os.mkdir(state)
        os.chmod(state, 0o755)
        os.chmod(self.folder, 0o755)
        starts, stops = [], []
        for _ in range(6):
            server = harness.Server(build=self.build, state_dir=state).start()
            starts.append(server.start_seconds)
            server.exec(server.create(), "true")
            server.stop()
            stops.append(server.stop_seconds)
        self.table.at_most("first start, empty state directory, s", starts[0], 10)
        self.table.at_most("start to healthy, s", p50(starts[1:]), 2)
        self.table.at_most("stop, s", p50(stops), 1)

    def egress(self):
        gateway.Egress(self).run()

    def files(self):
        files.Files(self).run()

    def operate(self):
        operate.Operate(self).run()

    # ---- All of it ----

    def run(self, only):
        parts = [self.latency, self.python, self.throughput, self.batches, self.inside, self.output,
                 self.memory, self.start_stop, self.egress, self.files, self.operate]
        print("%-58s %-26s %-22s %-8s" % ("what", "measured", "bar", ""))
        limits = dict(harness.WIDE["*"], max_concurrent_exec=256)
        self.server = harness.Server(
            {"SANDBOX_MAX_SESSIONS": "1000", "SANDBOX_TENANT_LIMITS": json.dumps({"*": limits})},
            build=self.build,
        ).start()
        try:
            for part in parts:
                if not only or only in part.__name__:
                    part()
                    self.delete_all()
        finally:
            self.server.stop(clean=False)
        with open("/proc/cpuinfo") as file:
            model = next((l.split(":")[1].strip() for l in file if l.startswith("model name")), "?")
        print("\n%d x %s, Linux %s, load %.1f" % (
            os.cpu_count(), model, os.uname().release, os.getloadavg()[0]))
        print("bars met %d of %d" % (self.table.met, self.table.bars))
        return 0 if self.table.met == self.table.bars else 1

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        harness.remove_state_dirs()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=harness.BUILD)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    why = harness.runnable(options.build)
    if why:
        print("bench: " + why)
        print("bars met 0 of 0")
        return 1
    bench = Bench(options)
    try:
        return bench.run(options.only)
    finally:
        bench.close()


if __name__ == "__main__":
    sys.exit(main())
