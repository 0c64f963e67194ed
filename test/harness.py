# SPDX-License-Identifier: Apache-2.0
"""Real servers for tests: start, ask, look at the host, stop.

A Server is `airlock serve` on a free loopback port with a state directory of its own. State
directories are used again after a clean stop (their volume holds the image already), but never with
sessions in them: servers of the tests end their sessions when they stop, unless told otherwise.

Which build: AIRLOCK_BUILD, else build/ of this repository.
"""

import atexit
import collections
import contextlib
import fcntl
import glob
import http.client
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import awake

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("CACHE") or "/var/cache/airlock"
BUILD = os.path.abspath(os.environ.get("AIRLOCK_BUILD") or os.path.join(ROOT, "build"))
KNOBS_BUILD = os.path.abspath(
    os.environ.get("AIRLOCK_KNOBS_BUILD") or os.path.join(ROOT, "build-knobs")
)
CI = os.environ.get("CI") == "true"
VOLUME_MB = "1024"
START_SECONDS = 60
PATIENCE_SECONDS = 60
_log_numbers = itertools.count(1)
_ports = set()
_servers = set()

# Static keys that every server of the tests has, one tenant each.
KEYS = {name: "test-key-of-%s-0123456789" % name for name in ("a", "b", "c")}
# Limits out of the way; a test of a limit sets its own.
WIDE = {
    "*": {
        "max_sessions": 1000,
        "requests_per_minute": 1000000,
        "max_concurrent_exec": 64,
    }
}
ID_FIRST, ID_SERVER, ID_SERVERS = 1900000000, 1000000, 16


class NotRunnable(Exception):
    """Why no server can be started here; a test that needs one is skipped with this."""


def runnable(build=None):
    """None, or the sentence why servers cannot be started on this machine."""
    build = build or BUILD
    if os.geteuid() != 0:
        return "needs root"
    for program in ("airlock", "airlockd", "airlock-launcher", "airlock-init", "airlock-gateway"):
        if not os.access(os.path.join(build, program), os.X_OK):
            return "%s is not built" % os.path.join(build, program)
    key = subprocess.run([os.path.join(ROOT, "image", "key.sh")], stdout=subprocess.PIPE, text=True)
    if not os.path.exists(os.path.join(CACHE, key.stdout.strip(), "rootfs.tar")):
        return "the base image is not built (make image)"
    return None


def free_port():
    """A port that nobody listens on, below those that outgoing connections get. Each time another one: who
    was given the last may not listen yet."""
    while True:
        port = random.randrange(10000, 30000)
        if port in _ports:
            continue
        with socket.socket() as s, contextlib.suppress(OSError):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
            _ports.add(port)
            return port


def wait_until(condition, what):
    """Polls; returns the first true value. For states of the system, never for time-outs: it comes to
    them soon, and on a machine that is busy with other things after a while. What has a bound that is
    promised, or would come by itself once some time-out is over, is waited for by within."""
    return within(condition, PATIENCE_SECONDS, what)


def within(condition, seconds, what):
    deadline = awake.seconds() + seconds
    while True:
        value = condition()
        if value:
            return value
        if awake.seconds() > deadline:
            raise AssertionError("not within %s s: %s" % (seconds, what))
        time.sleep(0.005)


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def detail(self):
        return self.json["detail"]

    @property
    def code(self):
        return self.json["code"]

    def __repr__(self):
        return "<Answer %d %r>" % (self.status, self.body[:300])


Raw = collections.namedtuple("Raw", "status head body closed")


class StateDirs:
    """Folders under one temporary root, handed out again after a clean stop."""

    def __init__(self):
        self._remove_abandoned()
        self.root = tempfile.mkdtemp(prefix="airlock-test-%d-" % os.getpid())
        os.chmod(self.root, 0o755)
        self._free = collections.defaultdict(list)
        self._of_servers = set()
        self._count = 0

    @staticmethod
    def _remove_abandoned():
        """Each holds a whole volume; a run that was killed could not take its own away."""
        for path in glob.glob(os.path.join(tempfile.gettempdir(), "airlock-test-*-*")):
            owner = path.rsplit("/", 1)[1].split("-")[2]
            if owner.isdigit() and not os.path.exists("/proc/" + owner):
                shutil.rmtree(path, ignore_errors=True)

    def take(self, kind):
        if self._free[kind]:
            return self._free[kind].pop()
        self._count += 1
        path = os.path.join(self.root, "state-%d" % self._count)
        os.mkdir(path, 0o755)
        return path

    def take_for_server(self, kind):
        path = self.take(kind)
        self._of_servers.add(path)
        return path

    def remove_unused(self):
        """What servers took for themselves, and neither gave back nor run on: those that kept their
        sessions, and those of tests that failed. Each holds a whole volume."""
        used = {server.state_dir for server in _servers if server.is_running()}
        for path in self._of_servers - used:
            self._of_servers.remove(path)
            shutil.rmtree(path, ignore_errors=True)

    def give_back(self, kind, path):
        self._of_servers.discard(path)
        for name in os.listdir(os.path.join(path, "state")):
            full = os.path.join(path, "state", name)
            if os.path.isfile(full):
                os.unlink(full)
        self._free[kind].append(path)

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


_dirs = None


def state_dirs():
    global _dirs
    if _dirs is None:
        _dirs = StateDirs()
        atexit.register(remove_state_dirs)
    return _dirs


def remove_unused_dirs():
    if _dirs is not None:
        _dirs.remove_unused()


def remove_state_dirs():
    """At the end, with the servers that tests which failed have left."""
    global _dirs
    for server in _servers:
        if server.is_running():
            server.kill()
    if _dirs is not None:
        _dirs.remove()
        _dirs = None


def environment(**extra):
    """What a server gets: nothing of the caller's but PATH, then the given variables."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
        if name in os.environ:
            env[name] = os.environ[name]
    env.update({name: value for name, value in extra.items() if value is not None})
    return env


def once(pairs):
    """For json.loads: an object in which no key stands twice."""
    made = dict(pairs)
    assert len(made) == len(pairs), pairs
    return made


class Server:
    def __init__(
        self, env=None, build=None, state_dir=None, keep=False, knobs=None, program=None,
        arguments=(),
    ):
        """env: variables over the defaults; None removes one. keep: sessions survive a stop.
        program: the airlock to start, when it is not the one at the top of the build."""
        why = runnable(build)
        if why:
            raise NotRunnable(why)
        self.build = os.path.abspath(build or BUILD)
        self.program = program or os.path.join(self.build, "airlock")
        self.arguments = arguments
        self.keep = keep
        self.port = free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        self._kind = (env or {}).get("SANDBOX_VOLUMES", "auto")
        self._own_dir = state_dir is None
        self.state_dir = state_dir or state_dirs().take_for_server(self._kind)
        _servers.add(self)
        settings = {
            "SANDBOX_API_KEYS": ",".join("%s:%s" % pair for pair in KEYS.items()),
            "SANDBOX_LISTEN": "127.0.0.1:%d" % self.port,
            "SANDBOX_STATE_DIR": self.state_dir,
            "SANDBOX_TENANT_LIMITS": json.dumps(WIDE),
            "SANDBOX_VOLUME_SIZE_MB": VOLUME_MB,
            "SANDBOX_VOLUME_OVERCOMMIT": "1000",
            # Nobody is asked: RFC 5737.
            "SANDBOX_EGRESS_DNS": "192.0.2.53",
            "SANDBOX_SESSION_STATE": None if keep else "off",
            # A test that leaves a command behind does not wait for it; test_stop.py does.
            "SANDBOX_STOP_SECONDS": "0",
            "AIRLOCK_TEST_OFF": knobs,
        }
        settings.update(env or {})
        self.env = environment(**settings)
        # A port may come again; the log of another server would be counted in.
        self.log_path = os.path.join(state_dirs().root, "server-%d.log" % next(_log_numbers))
        self.process = None
        self.number = None
        self.start_seconds = None

    # ---- Life ----

    def start(self):
        """Others on this host may have all the numbers that there are for servers."""
        wait_until(self._start, "less than 16 servers run on this host")
        return self

    def _start(self):
        began = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = self.popen(stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            within(self._healthy_or_dead, START_SECONDS, "the server is healthy")
        except AssertionError:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server does not answer:\n" + self.log_tail()) from None
        if self.process.poll() == 78 and "servers run on this host already" in self.log_tail(1):
            return False
        if self.process.poll() is not None:
            raise AssertionError(
                "the server ended with %d:\n%s" % (self.process.returncode, self.log_tail())
            )
        self.start_seconds = time.monotonic() - began
        self.number = server_number(self.process.pid)
        return True

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def popen(self, **more):
        return subprocess.Popen(
            [self.program, "serve", *self.arguments], env=self.env, cwd="/", **more
        )

    def _healthy_or_dead(self):
        if self.process.poll() is not None:
            return True
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.get("/healthz", key=None, timeout=2).status == 200
        return False

    def stop(self, clean=True):
        """Stops it and, when clean, looks whether anything of it is left on the host."""
        if self.process is None or self.process.poll() is not None:
            return
        began = awake.seconds()
        self.process.send_signal(signal.SIGTERM)
        try:
            wait_until(lambda: self.process.poll() is not None, "the server stops")
        except AssertionError as error:
            self.process.kill()
            self.process.wait()
            raise AssertionError("%s\n%s" % (error, self.log_tail())) from None
        self.stop_seconds = awake.seconds() - began
        self.settle()
        if clean:
            assert self.process.returncode == 0, "ended with %d:\n%s" % (
                self.process.returncode,
                self.log_tail(),
            )
            # What a sanitized build found; a plain one never writes these words.
            for words in ("AddressSanitizer", "runtime error:", "LeakSanitizer"):
                assert words not in self.log(), self.log()[-6000:]
            left = self.left_over()
            assert not left, "left on the host: %s\n%s" % (left, self.log_tail())

    def settle(self):
        """The kernel takes apart later what was held. What a killed one leaves the next start removes."""
        seconds = PATIENCE_SECONDS if self.process.returncode == 0 else 5
        with contextlib.suppress(AssertionError):
            within(lambda: not self.left_over(), seconds, "nothing is left")

    def kill(self):
        """SIGKILL to the launcher: the rest has to end by itself."""
        self.process.kill()
        self.process.wait()

    def release(self):
        if self._own_dir and not self.keep and os.path.isdir(os.path.join(self.state_dir, "state")):
            if not self._volumes_left():
                state_dirs().give_back(self._kind, self.state_dir)

    def _volumes_left(self):
        """A stop that took too long has not deleted all; to the next database they would be lost volumes."""
        ran = subprocess.run(
            [os.path.join(self.build, "airlock"), "volume", "show", "--json", "--state-dir",
             self.state_dir],
            env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )
        if ran.returncode:
            return True
        shown = json.loads(ran.stdout)
        return shown["workspaces"] + shown["snapshots"] + shown["being_deleted"] > 0

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        self.stop(clean=kind is None)
        if kind is None:
            self.release()

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def events(self):
        """What the log has said so far; a line that is just being written is not among it."""
        lines = self.log().split("\n")[:-1]
        return [json.loads(line, object_pairs_hook=once) for line in lines if line.startswith("{")]

    def log_tail(self, lines=40):
        return "".join(line + "\n" for line in self.log().splitlines()[-lines:])

    def left_over(self):
        return left_over(self.number, self.state_dir)

    def processes(self):
        """(pid, name, uid) of everything that belongs to this server, the caller's child first."""
        return processes_of(self.number, self.process.pid)

    def process_of(self, name):
        return [pid for pid, comm, _ in self.processes() if comm == name[:15]]

    def child(self, name):
        """Pid of the launcher's own child of that name. None: it is not there, or not the only one; a
        sandbox has its builder's name until it has become one, and half-built outlives it."""
        ours = [pid for pid in self.process_of(name) if parent_of(pid) == self.process.pid]
        return ours[0] if len(ours) == 1 else None

    def wait_for_child(self, name, but=None):
        """but: one that is not meant any more."""

        def found():
            pid = self.child(name)
            return pid if pid != but else None

        return wait_until(found, "there is one " + name)

    # ---- Asking ----

    def request(self, method, path, body=None, key=KEYS["a"], headers=None, timeout=100, raw=None):
        """One request on a connection of its own. body: sent as JSON; raw: bytes as they are."""
        send = dict(headers or {})
        if key is not None:
            send.setdefault("X-API-Key", key)
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
            send.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body=data, headers=send)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body=None, **kwargs):
        return self.request("POST", path, body, **kwargs)

    def delete(self, path, **kwargs):
        return self.request("DELETE", path, **kwargs)

    def create(self, key=KEYS["a"], **body):
        answer = self.post("/v1/sessions", body, key=key)
        assert answer.status == 201, answer
        return answer.json["session_id"]

    def exec(self, session, command, timeout_seconds=15, key=KEYS["a"], **more):
        body = dict(command=command, timeout_seconds=timeout_seconds, **more)
        answer = self.post("/v1/sessions/%s/exec" % session, body, key=key)
        assert answer.status == 200, answer
        return answer.json

    def stream(self, session, command, timeout_seconds=15, key=KEYS["a"], **more):
        """The same as server-sent events: yields (seconds since the request, event, data)."""
        body = json.dumps(dict(command=command, timeout_seconds=timeout_seconds, **more))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        began = time.monotonic()
        try:
            connection.request(
                "POST",
                "/v1/sessions/%s/exec" % session,
                body=body,
                headers={
                    "X-API-Key": key,
                    "Content-Type": "application/json",
                    "Accept": "text/event-stream",
                },
            )
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            yield from events_of(answer, began)
        finally:
            connection.close()

    def raw(self, data, timeout=60):
        """Sends bytes, reads one answer; closed says whether the server closed the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as s:
            with contextlib.suppress(ConnectionError):
                s.sendall(data)
            return read_raw(s)

    def connect(self, timeout=60):
        return socket.create_connection(("127.0.0.1", self.port), timeout)


def events_of(answer, began):
    """Server-sent events as they come."""
    name, data = "message", []
    while True:
        line = answer.readline()
        if not line:
            return
        line = line.decode("utf-8").rstrip("\r\n")
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].lstrip(" "))
        elif not line and data:
            yield time.monotonic() - began, name, json.loads("\n".join(data))
            name, data = "message", []


def serve_once(env, arguments=("serve",), build=None):
    """Starts a server that is expected to refuse; (exit status, stderr)."""
    folder = tempfile.mkdtemp(prefix="airlock-refused-")
    full = {
        "SANDBOX_API_KEYS": "a:" + KEYS["a"],
        "SANDBOX_LISTEN": "127.0.0.1:%d" % free_port(),
        "SANDBOX_STATE_DIR": folder,
        "SANDBOX_VOLUME_SIZE_MB": "1024",
    }
    full.update(env)
    try:
        ran = subprocess.run(
            [os.path.join(build or BUILD, "airlock"), *arguments],
            env=environment(**full),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
            text=True,
        )
        return ran.returncode, ran.stderr
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_raw(s):
    """One answer from a socket, and whether it ended there."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = s.recv(65536)
        if not piece:
            return Raw(None, got, b"", True)
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    length = re.search(rb"(?im)^content-length:\s*(\d+)", head)
    length = int(length.group(1)) if length else 0
    while len(body) < length:
        piece = s.recv(65536)
        if not piece:
            break
        body += piece
    closed = False
    # Who says that it closes does, and who does not must not within this time.
    says = re.search(rb"(?im)^connection:\s*close\s*$", head)
    s.settimeout(PATIENCE_SECONDS if says else 0.5)
    with contextlib.suppress(socket.timeout):
        try:
            closed = s.recv(1) == b""
        except ConnectionResetError:
            closed = True
    return Raw(status, head, body, closed)


# ---- The host, as seen from outside ----


def server_number(pid):
    """n of the launcher's lock /run/airlock/<n>."""
    for link in glob.glob("/proc/%d/fd/*" % pid):
        with contextlib.suppress(OSError):
            found = re.match(r"/run/airlock/(\d+)$", os.readlink(link))
            if found:
                return int(found.group(1))
    return None


def is_free(number):
    """Whether no launcher holds the number."""
    try:
        with open("/run/airlock/%d" % number) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False


def proc_status(pid):
    fields = {}
    with open("/proc/%d/status" % pid) as file:
        for line in file:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    return fields


def parent_of(pid):
    """None when it is gone."""
    with contextlib.suppress(OSError):
        return int(proc_status(pid)["PPid"])
    return None


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def processes_of(number, root_pid):
    """Descendants of the launcher, and whatever runs under the ids of server number."""
    parents, uids, names = {}, {}, {}
    for pid in all_pids():
        with contextlib.suppress(OSError, KeyError, ValueError):
            status = proc_status(pid)
            if status["State"].startswith("Z"):
                continue
            parents[pid] = int(status["PPid"])
            uids[pid] = int(status["Uid"].split()[0])
            names[pid] = status["Name"]
    ours = []
    for pid in sorted(parents):
        ancestor, steps = pid, 0
        while ancestor in parents and ancestor != root_pid and steps < 64:
            ancestor, steps = parents[ancestor], steps + 1
        first = ID_FIRST + (number or 0) * ID_SERVER
        if ancestor == root_pid or (number is not None and first <= uids[pid] < first + ID_SERVER):
            ours.append((pid, names[pid], uids[pid]))
    ours.sort(key=lambda entry: entry[0] != root_pid)
    return ours


def tenant_processes(number):
    first = ID_FIRST + number * ID_SERVER
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            status = proc_status(pid)
            if first <= int(status["Uid"].split()[0]) < first + ID_SERVER:
                if not status["State"].startswith("Z"):
                    found.append((pid, status["Name"]))
    return found


def cgroup_dirs(number, below=""):
    """Every directory below airlock-<number>, in every hierarchy."""
    found = []
    for top in glob.glob("/sys/fs/cgroup/airlock-%d" % number) + glob.glob(
        "/sys/fs/cgroup/*/airlock-%d" % number
    ):
        for path, _, _ in os.walk(os.path.join(top, below)):
            found.append(path)
    return found


def loop_devices(state_dir):
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            with open(path) as file:
                if file.read().startswith(state_dir + "/"):
                    found.append(path.split("/")[3])
    return found


def mounts(state_dir):
    with open("/proc/self/mountinfo") as file:
        return [line for line in file if state_dir in line or "/run/airlock/" in line]


def unnamed_files(state_dir):
    """Files below it that have a process, but no name (any more): room on the disk that none sees."""
    found = []
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            target = os.readlink(path)
            if target.startswith(state_dir + "/") and target.endswith(" (deleted)"):
                found.append((path, target))
    return found


def left_over(number, state_dir):
    """What a stopped server must not leave, as a readable dict; empty is good."""
    left = {}
    if number is not None:
        left["processes"] = tenant_processes(number)
        left["cgroups"] = cgroup_dirs(number)
        # Another server may have taken the number meanwhile; then its things are not ours.
        if not is_free(number):
            left = {}
    left["loop"] = loop_devices(state_dir)
    left["mounts"] = mounts(state_dir)
    tmp = os.path.join(state_dir, "state", "tmp")
    if os.path.isdir(tmp):
        left["tmp"] = os.listdir(tmp)
    return {name: value for name, value in left.items() if value}


class Inventory:
    """Everything on the host that Airlock could leak, for comparing before with after."""

    def __init__(self, server):
        self.tenant_processes = sorted(name for _, name in tenant_processes(server.number))
        dirs = cgroup_dirs(server.number, "tenants")
        self.slots = {path.rsplit("/", 1)[1] for path in dirs if re.search(r"/s\d+$", path)}
        self.loop = loop_devices(server.state_dir)
        self.mounts = mounts(server.state_dir)
        self.fds = {}
        for pid, name, uid in server.processes():
            if uid >= ID_FIRST:
                continue
            with contextlib.suppress(OSError):
                self.fds.setdefault(name, []).append(len(os.listdir("/proc/%d/fd" % pid)))
        with open("/proc/sysvipc/shm") as file:
            self.sysv = sum(1 for _ in file)


def rss_kib(pid):
    return int(proc_status(pid)["VmRSS"].split()[0])


class Peak:
    """The most resident memory that a process had while this is open; 0 where a sanitizer has its
    own beside it, which is several times ours."""

    def __init__(self, pid):
        self.pid, self.kib, self._stop = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self._stop.is_set() and not os.environ.get("AIRLOCK_SANITIZED"):
            self.kib = max(self.kib, rss_kib(self.pid))
            time.sleep(0.002)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self._stop.set()
        self._thread.join()


def beyond_memory(run):
    """All that run() said of a command that takes more memory than there is, last of all of its end.

    About once in 250 times the kernel goes on looking for memory instead of killing, until the
    time-out ends the command; then it runs again.
    """
    said = []
    for _ in range(3):
        said.append(run())
        last = said[-1]
        if not (last["timed_out"] if isinstance(last, dict) else last.timed_out):
            break
    return said


@contextlib.contextmanager
def in_background(function, *args):
    """Runs function in a thread; yields a list that holds its result or exception in the end."""
    result = []

    def call():
        try:
            result.append(function(*args))
        except BaseException as error:  # handed to the test
            result.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield result
    finally:
        thread.join()
