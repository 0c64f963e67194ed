# SPDX-License-Identifier: Apache-2.0
"""An internet of our own: two network namespaces, one for the server under test, one for "the rest".

    with internet.Internet() as net:       # this thread is now in the server's namespace
        net.name("www.good.test", "93.184.216.34")
        net.tls("93.184.216.34", ["www.good.test"])
        ...

The server runs in the first namespace as on a host with one interface and a default route. Behind it
lies the second, in which addresses that are public in the world are local: so the gateway judges,
resolves and dials exactly as it would outside, and not one packet leaves the machine. Name server:
dnsmasq. TLS: openssl's certificates behind Python's ssl or Caddy.

Only the calling thread moves; threads and processes that it starts afterwards are where it was.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading

import harness

CLONE_NEWNET = 0x40000000
PROGRAMS = ("ip", "dnsmasq", "openssl")

HOST4, HOST6 = "192.0.2.1", "2001:db8:1::1"
ROUTER4, ROUTER6 = "192.0.2.2", "2001:db8:1::2"
NAME_SERVER = "9.9.9.9"
# Local to "the rest"; each is globally routable in the world.
PUBLIC4 = ["93.184.216.%d" % i for i in range(10, 60)]
PUBLIC6 = ["2606:2800:220:1::%x" % i for i in range(16, 40)]

_libc = ctypes.CDLL(None, use_errno=True)


def missing():
    """None, or why there can be no such internet here."""
    for program in PROGRAMS:
        if not shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin"):
            return "%s is not installed" % program
    return None


def _setns(fd):
    if _libc.setns(fd, CLONE_NEWNET) < 0:
        raise OSError(ctypes.get_errno(), "setns")


def _unshare():
    if _libc.unshare(CLONE_NEWNET) < 0:
        raise OSError(ctypes.get_errno(), "unshare")


def _ip(*words):
    subprocess.run(["ip", *words], check=True)


def _sysctl(path, value):
    with contextlib.suppress(FileNotFoundError), open("/proc/sys/net/" + path, "w") as file:
        file.write(value)


def _own_namespace():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class Internet:
    def __enter__(self):
        self._stack = contextlib.ExitStack()
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc_info):
        self._stack.close()

    def _build(self):
        self.folder = tempfile.mkdtemp(prefix="airlock-internet-")
        os.chmod(self.folder, 0o755)
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        before = _own_namespace()
        self._stack.callback(os.close, before)
        self._stack.callback(_setns, before)
        _unshare()
        self.rest = _own_namespace()
        self._stack.callback(os.close, self.rest)
        _ip("link", "set", "lo", "up")
        for address in [NAME_SERVER, *PUBLIC4]:
            _ip("addr", "add", address + "/32", "dev", "lo")
        for address in PUBLIC6:
            _ip("addr", "add", address + "/128", "dev", "lo")
        _unshare()
        self.host = _own_namespace()
        self._stack.callback(os.close, self.host)
        _ip("link", "set", "lo", "up")
        # Without duplicate detection an IPv6 address is usable at once.
        _sysctl("ipv6/conf/default/accept_dad", "0")
        _ip("link", "add", "wan", "type", "veth", "peer", "name", "isp")
        _ip("addr", "add", HOST4 + "/30", "dev", "wan")
        _ip("addr", "add", HOST6 + "/64", "dev", "wan", "nodad")
        _ip("link", "set", "isp", "netns", "/proc/%d/fd/%d" % (os.getpid(), self.rest))
        with self.inside_rest():
            _ip("addr", "add", ROUTER4 + "/30", "dev", "isp")
            _ip("addr", "add", ROUTER6 + "/64", "dev", "isp", "nodad")
            _ip("link", "set", "isp", "up")
        _ip("link", "set", "wan", "up")
        _ip("route", "add", "default", "via", ROUTER4)
        _ip("-6", "route", "add", "default", "via", ROUTER6)
        self._names = []
        self._dns = None
        self._make_ca()
        self._restart_dns()

    @contextlib.contextmanager
    def inside_rest(self):
        """This thread, for a while, in the namespace of the rest."""
        _setns(self.rest)
        try:
            yield
        finally:
            _setns(self.host)

    @contextlib.contextmanager
    def another_namespace(self):
        """This thread, for a while, in a new namespace with nothing but loopback."""
        _unshare()
        try:
            _ip("link", "set", "lo", "up")
            yield
        finally:
            _setns(self.host)

    # ---- Names ----

    def names(self, rows):
        """[(name, address, ...)]: all names at once, replacing those of before."""
        self._names = list(rows)
        self._restart_dns()

    def add_names(self, *rows):
        self.names(self._names + list(rows))

    def _restart_dns(self):
        if self._dns:
            self._dns.terminate()
            self._dns.wait()
        words = [
            "dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null",
            "--listen-address=" + NAME_SERVER, "--bind-interfaces", "--no-daemon", "--user=root",
            "--pid-file=", "--local=//", "--log-facility=" + os.path.join(self.folder, "dns.log"),
            "--log-queries", "--local-ttl=1",
        ]
        for name, *addresses in self._names:
            if addresses and addresses[0].startswith("cname:"):
                words.append("--cname=%s,%s" % (name, addresses[0][6:]))
                continue
            for address in addresses:
                words.append("--host-record=%s,%s" % (name, address))
        with self.inside_rest():
            self._dns = subprocess.Popen(
                words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            self._stack.callback(self._stop, self._dns)
            harness.wait_until(self._dns_answers, "the name server answers")

    @staticmethod
    def _dns_answers():
        question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01x\x04test\x00\x00\x01\x00\x01"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(0.2)
            try:
                s.sendto(question, (NAME_SERVER, 53))
                return len(s.recv(512)) > 0
            except OSError:
                return False

    def questions(self):
        """What the name server was asked: names, in order."""
        with open(os.path.join(self.folder, "dns.log")) as file:
            return [line.split(" ")[-3] for line in file if ": query[" in line]

    @staticmethod
    def _stop(process):
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()

    # ---- TLS ----

    def _make_ca(self):
        self.ca = os.path.join(self.folder, "ca.pem")
        self._ca_key = os.path.join(self.folder, "ca.key")
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", self._ca_key, "-out", self.ca, "-subj", "/CN=stand-in CA", "-days", "30",
            "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign",
        )

    @staticmethod
    def _openssl(*words):
        subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def certificate(self, names, days=30, trusted=True):
        """Files (certificate, key) for these names, signed by the CA in self.ca or by itself."""
        kind = "%s.%d.%d" % (names[0].replace("*", "any"), days, trusted)
        base = os.path.join(self.folder, kind)
        signer = ["-CA", self.ca, "-CAkey", self._ca_key, "-CAcreateserial"]
        if not os.path.exists(base + ".pem"):
            self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                          "-keyout", base + ".key", "-out", base + ".csr", "-subj", "/CN=" + names[0])
            with open(base + ".ext", "w") as file:
                file.write("subjectAltName=" + ",".join("DNS:" + name for name in names))
            self._openssl("x509", "-req", "-in", base + ".csr", "-out", base + ".pem", "-days",
                          str(days), "-extfile", base + ".ext",
                          *(signer if trusted else ["-signkey", base + ".key"]))
        return base + ".pem", base + ".key"

    def listen(self, address, port, here=False):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.nullcontext() if here else self.inside_rest():
            s = socket.socket(family, socket.SOCK_STREAM)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((address, port))
            s.listen(128)
        self._stack.callback(s.close)
        return s

    def tls(self, address, names, handler=None):
        """A TLS server on port 443 of a public address. handler(connection) talks; the default
        answers one HTTP request with "hello from <name>". Returns the list of accepted peers."""
        return self.serve(address, 443, handler or Hello(names[0]), self._context(names))

    def tls_here(self, address, names, handler):
        """The same on an address of the server's own host."""
        return self.serve(address, 443, handler, self._context(names), here=True)

    def _context(self, names):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificate(names))
        return context

    def serve(self, address, port, handler, context=None, here=False):
        listener = self.listen(address, port, here)
        seen = []

        def one(connection):
            with contextlib.suppress(OSError), contextlib.closing(connection):
                if context:
                    connection = context.wrap_socket(connection, server_side=True)
                handler(connection)

        def loop():
            while True:
                try:
                    connection, peer = listener.accept()
                except OSError:
                    return
                seen.append(peer)
                threading.Thread(target=one, args=(connection,), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()
        return seen


class Hello:
    """Reads one request, answers it, closes."""

    def __init__(self, name):
        self.body = ("hello from %s\n" % name).encode()

    def __call__(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return
            data += more
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(self.body), self.body)
        )
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
