# SPDX-License-Identifier: Apache-2.0
"""The operating part of the bench: calls without a sandbox against nginx, many sessions and connections,
what the audit log costs, and one tenant beside another one that floods.

The load comes from h2load, over HTTP/1.1.
"""

import contextlib
import http.client
import json
import os
import re
import subprocess
import time

import harness
from harness import KEYS

CLIENTS = 8
SESSIONS = 10000
CONNECTIONS = 1000
# What tenant b asks for each second, far beyond its 120 a minute.
FLOOD = 2000
BURN = "end=$((SECONDS + %d)); while [ $SECONDS -lt $end ]; do :; done"

NGINX = """
daemon off;
worker_processes auto;
pid {folder}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ default_type application/json; return 200 '{body}'; }}
    }}
}}
"""


def p50(values):
    return sorted(values)[len(values) // 2]


def p99(values):
    return sorted(values)[min(len(values) - 1, len(values) * 99 // 100)]


class Operate:
    def __init__(self, bench):
        self.bench = bench
        self.table = bench.table
        self.seconds = 2 if bench.rounds < 100 else 5

    def run(self):
        self.small_calls()
        self.audit()
        self.flooded()
        self.connections()
        self.sessions()

    @contextlib.contextmanager
    def started(self, env=None, **options):
        server = harness.Server(env, build=self.bench.build, **options).start()
        try:
            yield server
        finally:
            server.stop(clean=False)

    # ---- Calls that need no sandbox ----

    def load(self, port, path, key=None, per_second=None, seconds=None, clients=CLIENTS):
        """(requests a second, microseconds of each)."""
        log = self.bench.path("h2load")
        command = ["h2load", "--h1", "-t", "1", "-c", str(clients), "-D", str(seconds or self.seconds),
                   "--log-file", log]
        if key:
            command += ["-H", "X-API-Key: " + key]
        if per_second:
            command += ["--rps", str(max(1, per_second // clients))]
        ran = subprocess.run([*command, "http://127.0.0.1:%d%s" % (port, path)],
                             stdout=subprocess.PIPE, text=True, check=True)
        with open(log) as file:
            rows = [line.split() for line in file]
        os.unlink(log)
        assert rows and all(row[1] == "200" for row in rows), (path, ran.stdout)
        rate = float(re.search(r"finished in .*?, ([0-9.]+) req/s", ran.stdout).group(1))
        return rate, [int(row[2]) for row in rows]

    @contextlib.contextmanager
    def nginx(self, body):
        folder = self.bench.path("nginx")
        os.mkdir(folder)
        port = harness.free_port()
        config = os.path.join(folder, "nginx.conf")
        with open(config, "w") as file:
            file.write(NGINX.format(folder=folder, port=port, body=body))
        process = subprocess.Popen(["nginx", "-p", folder, "-e", "stderr", "-c", config])

        def answers():
            with contextlib.suppress(OSError):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
                connection.request("GET", "/")
                return connection.getresponse().status == 200
            return False

        try:
            harness.wait_until(answers, "nginx answers")
            yield port
        finally:
            process.terminate()
            process.wait()

    def fresh_load(self, path, key, **more):
        """On a server of its own: the highest rate that a tenant can be given, a million a minute, is used
        up in some ten seconds."""
        with self.started() as server:
            for _ in range(5):
                server.create()
            return self.load(server.port, path, key, **more)

    def small_calls(self):
        with self.started() as server:
            for _ in range(5):
                server.create()
            usage = server.get("/v1/usage").body.decode()
        with self.nginx(usage) as port:
            for path, key in (("/healthz", None), ("/v1/usage", KEYS["a"]), ("/v1/sessions", KEYS["a"])):
                ours, its = [], []
                for _ in range(self.bench.repeats):
                    its.append(self.load(port, "/")[0])
                    ours.append(self.fresh_load(path, key)[0])
                self.table.at_least("GET %s, %d clients / nginx" % (path, CLIENTS),
                                    p50(ours) / p50(its), 0.3,
                                    note="%.0f/s, nginx %.0f/s" % (p50(ours), p50(its)))
                _, times = self.fresh_load(path, key, per_second=int(p50(ours) / 2))
                self.table.at_most("the same at half of that rate, p99, ms", p99(times) / 1e3, 2,
                                   note="p50 %.2f ms" % (p50(times) / 1e3))

    # ---- What the records cost ----

    def audit(self):
        with self.started() as off, self.started({"SANDBOX_AUDIT": "sqlite"}) as on:
            times = {off: [], on: []}
            sessions = {server: server.create() for server in times}
            for number in range(self.bench.rounds + 20):
                for server, session in sessions.items():
                    began = time.monotonic_ns()
                    server.exec(session, "true")
                    if number >= 20:
                        times[server].append(time.monotonic_ns() - began)
            more = (p50(times[on]) - p50(times[off])) / 1e6
            self.table.at_most("`true` with the audit log, p50 more than without, ms", more, 1,
                               note="p50 %.2f ms without, p99 %.2f and %.2f" % (
                                   p50(times[off]) / 1e6, p99(times[off]) / 1e6, p99(times[on]) / 1e6))

    # ---- Beside a tenant that floods ----

    def timed(self, server, session, rounds):
        times = []
        for _ in range(rounds):
            began = time.monotonic_ns()
            server.exec(session, "true")
            times.append(time.monotonic_ns() - began)
        return times

    def flooded(self):
        """Tenant a beside tenant b, which has the limits that everybody has, all of them used up: ten
        sessions, four commands that burn a CPU each, and requests far beyond its rate."""
        limits = {"a": harness.WIDE["*"]}
        rounds = max(100, self.bench.rounds // 2)
        with self.started({"SANDBOX_TENANT_LIMITS": json.dumps(limits)}) as server:
            mine = server.create()
            burners = [server.create(KEYS["b"]) for _ in range(10)]
            self.timed(server, mine, 20)
            idle = self.timed(server, mine, rounds)
            burn = BURN % 20
            with contextlib.ExitStack() as stack:
                for session in burners[:4]:
                    stack.enter_context(
                        harness.in_background(server.exec, session, burn, 60, KEYS["b"]))
                flood = subprocess.Popen(
                    ["h2load", "--h1", "-t", "1", "-c", "16", "-D", "60", "--rps", str(FLOOD // 16),
                     "-H", "X-API-Key: " + KEYS["b"], server.url + "/v1/usage"],
                    stdout=subprocess.DEVNULL)
                stack.callback(flood.wait)
                stack.callback(flood.terminate)
                harness.wait_until(
                    lambda: server.get("/v1/sessions", key=KEYS["b"]).status == 429, "b floods")
                beside = self.timed(server, mine, rounds)
                for session in burners:
                    server.delete("/v1/sessions/" + session, key=KEYS["b"])
            self.table.at_most("`true` beside a flooding tenant / alone, p99", p99(beside) / p99(idle), 3,
                               note="p99 %.2f ms alone, p50 %.2f and %.2f" % (
                                   p99(idle) / 1e6, p50(idle) / 1e6, p50(beside) / 1e6))

    # ---- Many ----

    def connections(self):
        with self.started() as server:
            (pid,) = server.process_of("airlockd")
            self.load(server.port, "/healthz", seconds=1)
            before = harness.rss_kib(pid)
            with contextlib.ExitStack() as stack:
                for _ in range(CONNECTIONS):
                    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
                    stack.callback(connection.close)
                    connection.request("GET", "/v1/usage", headers={"X-API-Key": KEYS["a"]})
                    answer = connection.getresponse()
                    assert answer.status == 200 and answer.read()
                more = harness.rss_kib(pid) - before
            self.table.at_most("airlockd resident, for 1,000 idle connections, MiB", more / 1024, 8, "%.1f")

    def sessions(self):
        count = SESSIONS if self.bench.rounds >= 100 else SESSIONS // 10
        limits = {"*": dict(harness.WIDE["*"], max_sessions=SESSIONS + 10)}
        state = self.bench.path("many-state")
        os.mkdir(state, 0o755)
        os.chmod(self.bench.folder, 0o755)
        env = {"SANDBOX_MAX_SESSIONS": str(SESSIONS + 10), "SANDBOX_SESSION_TTL": "604800",
               "SANDBOX_TENANT_LIMITS": json.dumps(limits), "SANDBOX_WORKSPACE_QUOTA_MB": "8"}
        with self.started(env, state_dir=state, keep=True) as server:
            for _ in range(count):
                server.create()
        with self.started(env, state_dir=state, keep=True) as server:
            (pid,) = server.process_of("airlockd")
            assert server.get("/healthz").json["active_sessions"] == count
            self.table.at_most("start to healthy with %d open sessions, s" % count,
                               server.start_seconds, 3)
            self.table.at_most("airlockd resident, with them, MiB", harness.rss_kib(pid) / 1024, 40,
                               "%.1f")
            session = server.create()
            self.timed(server, session, 20)
            times = self.timed(server, session, 100)
            self.table.add("`true` by REST beside them, p50", "%.2f ms" % (p50(times) / 1e6))
