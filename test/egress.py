# SPDX-License-Identifier: Apache-2.0
"""A server with egress in an internet of its own, and what tests of it look at.

    with egress.World() as world:
        session = world.session()
        world.reach(session, ["proxy", {"authority": "www.good.test:443"}])
        world.events(session)

Everything in it happens in the namespaces of internet.py: this thread is there until the end. Names
below good.test are allowed; what stands behind each is in NAMES.
"""

import contextlib
import copy
import glob
import json
import os
import socket
import struct
import threading

import harness
import internet
from harness import KEYS

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "reach.py"), encoding="utf-8") as _file:
    REACH = _file.read()

RULES = ["*.good.test", "exact.test"]
POLICY = {"*": RULES}

WWW, TLS, DEAD, NOWHERE = "93.184.216.34", "93.184.216.35", "93.184.216.40", "93.184.220.1"
WWW6 = "2606:2800:220:1::20"
# Names that resolve, by what stands behind them.
NAMES = [
    ("www.good.test", WWW),
    ("exact.test", WWW),
    ("six.good.test", WWW6),
    ("both.good.test", WWW, WWW6),
    ("tls.good.test", TLS),
    ("closed.good.test", DEAD),
    ("closed-six.good.test", "2606:2800:220:1::21"),
    # Nobody answers, not even with a refusal.
    ("nowhere.good.test", NOWHERE),
    # The first address refuses, the second does not.
    ("second.good.test", WWW, "2606:2800:220:1::21"),
    ("private.good.test", "10.0.0.1"),
    ("mixed.good.test", WWW, "10.0.0.1"),
    ("mixed-six.good.test", WWW, "fd00::1"),
    ("alias.good.test", "cname:tls.good.test"),
]
# Answers that are refused, by the kind of address.
FORBIDDEN = {
    "this-network": "0.0.0.0",
    "private-10": "10.1.2.3",
    "private-172": "172.16.0.1",
    "private-192": "192.168.1.1",
    "cgnat": "100.64.0.1",
    "loopback": "127.0.0.1",
    "loopback-other": "127.255.255.254",
    "link-local": "169.254.169.254",
    "protocol": "192.0.0.1",
    "test-net-1": "192.0.2.77",
    "test-net-2": "198.51.100.1",
    "test-net-3": "203.0.113.1",
    "benchmark": "198.18.0.1",
    "multicast": "224.0.0.1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "unspecified-six": "::",
    "loopback-six": "::1",
    "ula": "fc00::1",
    "metadata-six": "fd00:ec2::254",
    "link-local-six": "fe80::1",
    "site-local": "fec0::1",
    "multicast-six": "ff02::1",
    "documentation": "2001:db8::1",
    "mapped-private": "::ffff:10.0.0.1",
    "compatible": "::93.184.216.34",
    "nat64": "64:ff9b::5db8:d822",
    "nat64-private": "64:ff9b::a00:1",
    "nat64-local": "64:ff9b:1::5db8:d822",
    "six-to-four": "2002:5db8:d822::1",
    "six-to-four-private": "2002:a00:1::1",
    "teredo": "2001::1",
    "own": internet.HOST4,
    "own-six": internet.HOST6,
}


def forbidden_name(kind):
    return "%s.bad.good.test" % kind


def missing():
    return harness.runnable() or internet.missing()


class Peer:
    """What stands on port 443 of a public address: reads one TLS record, then a line, and does it:

    give N   sends N bytes and closes        take     reads to the end, then says how much it was
    echo     sends everything back           hold N   sends N bytes (if given), then keeps it open
                                             until the other side closes
    reset    resets                          deaf     never reads again, nor closes, until the end
    half N   ends its direction, then reads to the end; N bytes before that
    """

    def __init__(self):
        self.release = threading.Event()
        self.taken = []  # bytes that came behind the line, of each connection that ended
        self.hellos = []

    def __call__(self, connection):
        head = self._exactly(connection, 5)
        if not head:
            return
        self.hellos.append(head + self._exactly(connection, struct.unpack(">H", head[3:5])[0]))
        words = self._line(connection).split()
        if not words:
            return
        action = getattr(self, "_" + words[0].decode("latin-1"), None)
        if action:
            action(connection, *map(int, words[1:]))

    @staticmethod
    def _exactly(connection, n):
        got = b""
        while len(got) < n:
            piece = connection.recv(n - len(got))
            if not piece:
                return b""
            got += piece
        return got

    @staticmethod
    def _line(connection):
        got = b""
        while not got.endswith(b"\n"):
            piece = connection.recv(1)
            if not piece or len(got) > 100:
                return b""
            got += piece
        return got

    def _rest(self, connection):
        n = 0
        while True:
            piece = connection.recv(1 << 18)
            if not piece:
                self.taken.append(n)
                return n
            n += len(piece)

    @staticmethod
    def _give(connection, n):
        block = bytes(65536)
        while n > 0:
            connection.sendall(block[:n] if n < len(block) else block)
            n -= len(block)

    def _take(self, connection):
        connection.sendall(b"%d\n" % self._rest(connection))

    def _echo(self, connection):
        while True:
            piece = connection.recv(65536)
            if not piece:
                return
            connection.sendall(piece)

    def _hold(self, connection, n=0):
        self._give(connection, n)
        self._rest(connection)

    def _half(self, connection, n):
        self._give(connection, n)
        connection.shutdown(socket.SHUT_WR)
        self._rest(connection)

    @staticmethod
    def _reset(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _deaf(self, connection):
        self.release.wait(60)


def fold(lines):
    """Events out of a log file, as the call gives them: two lines of a connection are one event."""
    events, by_conn = [], {}
    for line in lines:
        event = json.loads(line)
        first = by_conn.get(event.get("conn"))
        if first is not None:
            first.clear()
            first.update(event)
            continue
        if "conn" in event:
            by_conn[event["conn"]] = event
        events.append(event)
    for event in events:
        if event["decision"] == "deny":
            event.pop("open", None)
    return events


class World:
    def __init__(self, names=NAMES, policy=POLICY, start=True):
        self._env = {
            "SANDBOX_EGRESS_POLICY": json.dumps(policy),
            "SANDBOX_EGRESS_DNS": internet.NAME_SERVER,
        }
        self._names = names
        self._start = start

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.net = stack.enter_context(internet.Internet())
            forbidden = [(forbidden_name(kind), at) for kind, at in FORBIDDEN.items()]
            self.net.names(list(self._names) + forbidden)
            self.peer = Peer()
            stack.callback(self.peer.release.set)
            for address in (WWW, WWW6):
                self.net.serve(address, 443, self.peer)
            self.net.tls(TLS, ["tls.good.test", "alias.good.test"])
            if self._start:
                self.server = stack.enter_context(self.new_server())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info):
        return self._stack.__exit__(*exc_info)

    def new_server(self, env=None, hurry=None, knobs=None, **options):
        env = dict(self._env, **(env or {}))
        if hurry:
            env["AIRLOCK_TEST_HURRY"] = str(hurry)
        build = harness.KNOBS_BUILD if hurry or knobs else None
        return harness.Server(env, build=build, knobs=knobs, **options)

    @contextlib.contextmanager
    def beside(self, env=None, **options):
        """The same world around another server."""
        other = copy.copy(self)
        with self.new_server(env, **options) as other.server:
            yield other

    # ---- Sessions ----

    def session(self, egress=RULES, key=KEYS["a"]):
        """A session that has reach.py and the certificate of the stand-in's CA."""
        session = self.server.create(key, egress=list(egress))
        with open(self.net.ca, encoding="ascii") as file:
            ca = file.read()
        for path, content in (("reach.py", REACH), ("ca.pem", ca)):
            answer = self.server.post(
                "/v1/sessions/%s/write" % session, {"path": path, "content": content}, key=key
            )
            assert answer.status == 200, answer
        return session

    @contextlib.contextmanager
    def opened(self, **options):
        session = self.session(**options)
        yield session
        self.close(session, options.get("key", KEYS["a"]))

    def reach(self, session, *attempts, timeout=50, key=KEYS["a"]):
        """Results of attempts that are made one after the other in one command."""
        return self.command(session, "python3 reach.py", json.dumps(attempts), timeout, key)[0]

    def code(self, session, text, timeout=50):
        """What a piece of Python with everything of reach.py at hand shows."""
        return self.command(session, "python3 -", "from reach import *\n" + text, timeout)[0]

    def command(self, session, command, stdin, timeout=50, key=KEYS["a"]):
        result = self.server.exec(session, command, timeout, key, stdin=stdin)
        try:
            return json.loads(result["stdout"]), result
        except ValueError:
            raise AssertionError("it did not finish: %r" % result) from None

    # ---- The log ----

    @property
    def log_dir(self):
        return self.server.env.get("SANDBOX_EGRESS_LOG_DIR") or os.path.join(
            self.server.state_dir, "egress"
        )

    def text(self, session):
        path = os.path.join(self.log_dir, session + ".jsonl")
        if not os.path.exists(path):
            return ""
        with open(path, encoding="ascii") as file:
            return file.read()

    def lines(self, session):
        """Those that are whole: ext4 shows what is just being written page by page."""
        return self.text(session).split("\n")[:-1]

    def logged(self, session):
        """Events by the file."""
        return fold(self.lines(session))

    def asked(self, session, limit=1000, key=KEYS["a"]):
        """Events by the call."""
        answer = self.server.get("/v1/sessions/%s/egress?limit=%d" % (session, limit), key=key)
        assert answer.status == 200, answer
        return answer.json["events"]

    def events(self, session, n=None):
        """Events when nothing is open any more, and there are n."""

        def settled():
            events = self.logged(session)
            return (n is None or len(events) >= n) and not any(e.get("open") for e in events)

        harness.wait_until(settled, "%s events are written and closed" % n)
        return self.logged(session)

    def close(self, session, key=KEYS["a"]):
        """Deletes it; the gateway closes its log when the last sandbox is gone too."""
        assert self.server.delete("/v1/sessions/" + session, key=key).status == 200
        harness.wait_until(lambda: not self.writes(session), "the log is closed")

    def end(self, session):
        """Deletes it; its events, which are whole then."""
        self.close(session)
        return self.events(session)

    def writes(self, session):
        """Whether the gateway has its log open."""
        for fd in glob.glob("/proc/%d/fd/*" % self.gateway):
            with contextlib.suppress(OSError):
                if os.readlink(fd).endswith("/%s.jsonl" % session):
                    return True
        return False

    # ---- Processes ----

    @property
    def gateway(self):
        """Its pid."""
        return harness.wait_until(
            lambda: self.server.process_of("airlock-gateway"), "there is a gateway"
        )[0]

    def gateway_fds(self):
        return len(os.listdir("/proc/%d/fd" % self.gateway))

    @property
    def catches_all_ports(self):
        return '"no_all_ports"' not in self.server.log()


def brief(event):
    """What one event says, without when and to whom."""
    return tuple(
        event.get(name) for name in ("host", "port", "via", "decision", "code")
    )


def deny(host, code, via="proxy", port=443):
    return host, port, via, "deny", code


def allow(host, via="proxy"):
    return host, 443, via, "allow", None
