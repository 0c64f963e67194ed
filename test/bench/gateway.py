# SPDX-License-Identifier: Apache-2.0
"""The egress part of the bench: tunnels against direct connections, the gateway against tinyproxy.

Everything runs in the stand-in internet of test/internet.py. The client (tunnel.c) runs inside a
sandbox and talks through the gateway; the same client outside talks directly, once over loopback and
once over the pair of interfaces that the gateway's own connections take.
"""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

import harness
import internet

PEER = internet.PUBLIC4[0]
NAME = "peer.good.test"
GIB = 1 << 30
HERE = os.path.dirname(os.path.abspath(__file__))
PIECE = 300000
SANDBOXES, TUNNELS = 32, 63
DENIED_PER_S = 5000
# Together they ask for more than that, or the bar could be missed by what a pause takes.
DENYING, EACH_PER_S = 2, 2550


def p50(values):
    return sorted(values)[len(values) // 2]


def p99(values):
    return sorted(values)[min(len(values) - 1, len(values) * 99 // 100)]


class Alone:
    """airlock-gateway by itself. Messages: src/ipc/messages.h; a head of version, type, 0, id."""

    HELLO, SANDBOX, DAEMON = 1, 1, 3
    SESSION, BIND, READY = 2, 4, 5

    def __init__(self, egress, count):
        self.egress = egress
        self.stack = contextlib.ExitStack()
        self.count = count
        self.made = 0

    @staticmethod
    def send(sock, kind, body=b"", fds=()):
        socket.send_fds(sock, [struct.pack("<BBHI", 1, kind, 0, 0) + body], list(fds))

    def __enter__(self):
        folder = tempfile.mkdtemp(prefix="airlock-gateway-")
        self.stack.callback(shutil.rmtree, folder)
        shutil.chown(folder, "airlock-gw", "airlock-gw")
        kinds = socket.AF_UNIX, socket.SOCK_SEQPACKET
        self.launcher, theirs = socket.socketpair(*kinds)
        self.daemon, other = socket.socketpair(*kinds)
        program = os.path.join(self.egress.bench.build, "airlock-gateway")
        # Descriptor 3, and a directory that its user can enter.
        copy = shutil.copy(program, folder)
        process = subprocess.Popen(
            ["setpriv", "--reuid=airlock-gw", "--regid=airlock-gw", "--clear-groups", copy,
             "--log-dir", folder, "--log-days", "1", "--dns", internet.NAME_SERVER],
            preexec_fn=lambda: os.dup2(theirs.fileno(), 3), pass_fds=(3,))
        self.pid = process.pid
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)
        hello = self.launcher.recv(512)
        self.send(self.launcher, self.DAEMON, fds=[other.fileno()])
        for sock in (theirs, other):
            sock.close()
        self.send(self.daemon, self.HELLO, hello[8:])
        for number in range(1, self.count + 1):
            self.send(self.daemon, self.SESSION, struct.pack("<II", number, 0),
                      [self.specification(number)])
        self.send(self.daemon, self.READY)
        return self

    def __exit__(self, *exc_info):
        self.stack.close()

    @staticmethod
    def specification(number):
        session, tenant, rule = b"sbx_%012x" % number, b"bench", b"*.good.test"
        text = struct.pack("<6I", 0x31475841, 1, len(session), len(tenant), len(rule) + 1, 0)
        fd = os.memfd_create("session", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(fd, text + b"".join(part + b"\0" for part in (session, tenant, rule)))
        fcntl.fcntl(fd, 1033, 15)  # F_ADD_SEALS, all four
        return fd

    @staticmethod
    def listener(family, kind, address, port):
        s = socket.socket(family, kind)
        s.setblocking(False)
        s.bind((address, port))
        if kind == socket.SOCK_STREAM:
            s.listen(128)
        return s

    def hold(self, tunnels):
        """One more sandbox, and a client in it with so many tunnels."""
        net = self.egress.net
        with net.another_namespace():
            six, stream = socket.AF_INET6, socket.SOCK_STREAM
            socks = [
                self.listener(socket.AF_INET, stream, "127.0.0.1", 3128),
                self.listener(six, stream, "::", 443), self.listener(six, stream, "::", 80),
                self.listener(six, stream, "::", 53),
                self.listener(six, socket.SOCK_DGRAM, "::", 53),
            ]
            name = struct.pack("<II", self.made, 1)
            self.made += 1
            self.send(self.launcher, self.SANDBOX, name, [s.fileno() for s in socks])
            self.send(self.daemon, self.BIND, name + struct.pack("<II", self.made, 0))
            client = subprocess.Popen(
                [self.egress.program, "client", PEER, "443", NAME, "via", "127.0.0.1", "3128",
                 "hold:%d" % tunnels], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for s in socks:
            s.close()
        self.stack.callback(client.wait)
        self.stack.callback(client.kill)


class Egress:
    def __init__(self, bench):
        self.bench = bench
        self.table = bench.table
        self.quick = bench.rounds < 100
        self.program = os.path.join(bench.folder, "tunnel")
        subprocess.run(["gcc", "-O2", "-D_GNU_SOURCE", "-static", "-o", self.program,
                        os.path.join(HERE, "tunnel.c")], check=True)

    # ---- The two ends ----

    def serve(self, address, port):
        process = subprocess.Popen([self.program, "serve", address, str(port)])
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)

    def session(self):
        session = self.server.create(egress=["*.good.test"])
        with open(self.program, "rb") as file:
            text = base64.b64encode(file.read()).decode()
        for number, at in enumerate(range(0, len(text), PIECE)):
            self.server.post("/v1/sessions/%s/write" % session,
                             {"path": "part%02d" % number, "content": text[at:at + PIECE]})
        answer = self.server.exec(session, "cat part* | base64 -d > tunnel && chmod +x tunnel", 30)
        assert answer["exit_code"] == 0, answer
        return session

    def inside(self, session, order):
        answer = self.server.exec(
            session, "./tunnel client %s 443 %s via 127.0.0.1 3128 %s" % (PEER, NAME, order), 60)
        assert answer["exit_code"] == 0, answer
        return [int(word) for word in answer["stdout"].split()]

    def outside(self, address, port, order, via=()):
        out = subprocess.run(
            [self.program, "client", address, str(port), NAME, *via, order],
            stdout=subprocess.PIPE, text=True, check=True).stdout
        return [int(word) for word in out.split()]

    # ---- What is measured ----

    def throughput(self, session):
        for order, what in (("down", "to the client"), ("up", "from the client")):
            times = {"tunnel": [], "loopback": [], "pair": [], "tinyproxy": []}
            via = ("via", "127.0.0.1", "3129")
            with self.tinyproxy():
                for _ in range(1 if self.quick else 5):
                    word = "%s:%d" % (order, GIB)
                    times["tunnel"] += self.inside(session, word)
                    times["loopback"] += self.outside("127.0.0.1", 4430, word)
                    times["pair"] += self.outside(PEER, 443, word)
                    times["tinyproxy"] += self.outside(PEER, 443, word, via)
            rates = {name: GIB * 1e9 / p50(values) for name, values in times.items()}
            self.table.at_least(
                "tunnel, 1 GiB %s / direct loopback TCP" % what,
                rates["tunnel"] / rates["loopback"], 0.8,
                note="%.2f GB/s, loopback %.2f, direct over the interfaces %.2f, tinyproxy %.2f"
                % tuple(rates[name] / 1e9 for name in ("tunnel", "loopback", "pair", "tinyproxy")))

    def latency(self, session):
        order = "ping:%d" % (200 if self.quick else 3000)
        tunnel = self.inside(session, order)
        direct = self.outside(PEER, 443, order)
        self.table.at_most("tunnel, added to a round trip, ms p50",
                           (p50(tunnel) - p50(direct)) / 1e6, 0.3, "%.3f",
                           note="%.3f ms, direct %.3f" % (p50(tunnel) / 1e6, p50(direct) / 1e6))

    @staticmethod
    def listens():
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", 3129)) == 0

    @contextlib.contextmanager
    def tinyproxy(self):
        """Resolves by the same name server, from a mount namespace with its own resolv.conf."""
        folder = tempfile.mkdtemp(prefix="airlock-tinyproxy-")
        with open(os.path.join(folder, "resolv.conf"), "w") as file:
            file.write("nameserver %s\n" % internet.NAME_SERVER)
        with open(os.path.join(folder, "conf"), "w") as file:
            file.write("Port 3129\nListen 127.0.0.1\nTimeout 60\nMaxClients 100\n"
                       "ConnectPort 443\nLogLevel Critical\n")
        process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c",
             "mount --bind resolv.conf /etc/resolv.conf && exec tinyproxy -d -c conf"],
            cwd=folder, stdout=subprocess.DEVNULL)
        try:
            harness.wait_until(self.listens, "tinyproxy listens")
            yield
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            shutil.rmtree(folder)

    def connections(self, session):
        order = "open:%d" % (30 if self.quick else 100)
        ours, theirs, direct = [], [], []
        with self.tinyproxy():
            for _ in range(1 if self.quick else 5):
                ours += self.inside(session, order)
                theirs += self.outside(PEER, 443, order, ("via", "127.0.0.1", "3129"))
                direct += self.outside(PEER, 443, order)
        self.table.at_most("CONNECT to first byte back / tinyproxy, p50", p50(ours) / p50(theirs),
                           1.5, note="%.2f ms, tinyproxy %.2f, direct %.2f" % (
                               p50(ours) / 1e6, p50(theirs) / 1e6, p50(direct) / 1e6))

    def flood(self, session):
        """Allowed connections are made all the while that others are refused, so few that they are no
        load themselves."""
        seconds = 2 if self.quick else 10
        order, sample = "deny:%d:%d" % (EACH_PER_S, seconds), "each:%d:%d" % (50 * seconds, seconds)
        others = [self.session() for _ in range(DENYING)]
        calm = self.inside(session, sample)
        with contextlib.ExitStack() as stack:
            refused = [stack.enter_context(harness.in_background(self.inside, other, order))
                       for other in others]
            busy = self.inside(session, sample)
        rate = sum(number for counts in refused for (number,) in counts) / seconds
        self.table.at_least("attempts refused in a second", rate, DENIED_PER_S, "%.0f",
                            note="from %d sandboxes" % DENYING)
        self.table.at_most(
            "an allowed connection beside them, added ms p99",
            (p99(busy) - p99(calm)) / 1e6, 20, "%.2f",
            note="p99 %.2f ms, alone %.2f" % (p99(busy) / 1e6, p99(calm) / 1e6))

    def open_tunnels(self):
        """More than the commands of two processors may hold: the gateway's own program, with this
        process in the place of the launcher and of airlockd, and namespaces like sandboxes'."""
        sandboxes = SANDBOXES if not self.quick else 4
        want = sandboxes * TUNNELS
        with Alone(self, sandboxes) as alone:
            for _ in range(sandboxes):
                alone.hold(TUNNELS)
            harness.wait_until(
                lambda: len(os.listdir("/proc/%d/fd" % alone.pid)) >= 2 * want, "%d tunnels are open" % want)
            self.table.at_most("gateway resident with %d open tunnels, MiB" % want,
                               harness.rss_kib(alone.pid) / 1024, 64, "%.1f")

    def commands(self):
        sessions = [self.server.create(), self.server.create(egress=["*.good.test"])]
        items = [self.bench.rest([self.bench.exec_request(s, "true")]) for s in sessions]
        before, self.bench.server = self.bench.server, self.server
        plain, egress = self.bench.run_rounds(self.bench.rounds, *items)
        self.bench.server = before
        self.table.at_most("`true` by REST with egress / without, p50", p50(egress) / p50(plain),
                           1.1, note="%.2f ms, %.2f" % (p50(egress) / 1e6, p50(plain) / 1e6))

    def run(self):
        why = internet.missing() or (None if shutil.which("tinyproxy") else "no tinyproxy")
        if why:
            raise SystemExit("bench: " + why)
        with contextlib.ExitStack() as self.stack:
            net = self.net = self.stack.enter_context(internet.Internet())
            net.names([(NAME, PEER)])
            with net.inside_rest():
                self.serve(PEER, 443)
            self.serve("127.0.0.1", 4430)
            limits = dict(harness.WIDE["*"], max_concurrent_exec=256)
            self.server = harness.Server(
                {"SANDBOX_EGRESS_POLICY": json.dumps({"*": ["*.good.test"]}),
                 "SANDBOX_EGRESS_DNS": internet.NAME_SERVER,
                 "SANDBOX_MAX_SESSIONS": "1000",
                 "SANDBOX_TENANT_LIMITS": json.dumps({"*": limits})},
                build=self.bench.build).start()
            self.stack.callback(self.server.stop, clean=False)
            session = self.session()
            self.throughput(session)
            self.latency(session)
            self.connections(session)
            self.flood(session)
            self.commands()
            self.open_tunnels()
