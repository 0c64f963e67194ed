# SPDX-License-Identifier: Apache-2.0
"""The real gateway without a server: this process is its launcher and its airlockd, as src/ipc/messages.h
says, and asks it for downloads.

    with internet.Internet() as net, fetch.Gateway(net) as gateway:
        answer = gateway.get("https://github.com/a/b", ["github.com"])
        answer.end, answer.text, answer.body

The gateway runs as its own user behind its own fences, in the namespaces of internet.py. What it trusts
is the file of update-ca-certificates, over which the CA of the stand-in internet is mounted in a mount
namespace of its own.
"""

import array
import collections
import fcntl
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

import harness
import internet

TRUST = "/etc/ssl/certs/ca-certificates.crt"
USER = "airlock-gw"
HEAD = struct.Struct("<BBHI")
HELLO, READY, FETCH, FETCH_END = 1, 5, 7, 8
LG_DAEMON, GL_HELLO, GD_HELLO, GD_FETCHED, GD_COUNTED = 3, 1, 1, 4, 5
ENDS = ["ok", "status", "too_large", "redirect", "failed", "no_space"]
SEALS = 0xF  # seal, shrink, grow, write
F_ADD_SEALS = 1033
HOSTS = ["github.com", "codeload.github.com", "api.github.com"]
MAX = 1 << 20

Answer = collections.namedtuple("Answer", "end status bytes text body")

# Mounts need root; the gateway must not be it.
START = """
set -e
mount --make-rprivate /
mount --bind "$CA" %s
exec 3<&"$SOCKET"
exec setpriv --reuid %s --regid %s --clear-groups --no-new-privs "$@"
""" % (TRUST, USER, USER)


def missing():
    why = harness.runnable() or internet.missing()
    if not why and not shutil.which("setpriv"):
        why = "setpriv is not installed"
    return why


def seeing(folder, files, build=None):
    """A program for harness.Server: its airlock, in a mount namespace where those files of the host that
    are named, {path: what to see there}, are others."""
    path = os.path.join(folder, "airlock-that-sees")
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "#!/bin/sh\nset -e\n[ -n \"$SEEING\" ] || SEEING=1 exec unshare --mount \"$0\" \"$@\"\n"
            "unset SEEING\nmount --make-rprivate /\n"
        )
        for there, seen in files.items():
            file.write("[ ! -e %s ] || mount --bind '%s' %s\n" % (there, seen, there))
        file.write("exec '%s' \"$@\"\n" % os.path.join(build or harness.BUILD, "airlock"))
    os.chmod(path, 0o755)
    return path


def trusting(folder, ca, build=None):
    """The same where the host trusts ca alone."""
    return seeing(folder, {TRUST: ca}, build)


def knob_bits(names):
    """As the launcher of a build with switches hands them on."""
    with open(os.path.join(harness.ROOT, "src/sandbox/knobs.h"), encoding="utf-8") as file:
        text = re.search(r"enum knob \{(.*?)KNOB_COUNT", file.read(), re.S).group(1)
    order = re.findall(r"^\tKNOB_(\w+),", text, re.M)
    return sum(1 << order.index(name.upper()) for name in names)


def memory(data, seal=False):
    fd = os.memfd_create("fetch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.pwrite(fd, data, 0)
    if seal:
        fcntl.fcntl(fd, F_ADD_SEALS, SEALS)
    return fd


class Gateway:
    def __init__(self, net, base=None, build=None, off=(), ca=None, dns=internet.NAME_SERVER):
        self.folder = tempfile.mkdtemp(prefix="airlock-fetch-")
        user = pwd.getpwnam(USER)
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        self._launcher, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = os.path.join(build or harness.BUILD, "airlock-gateway")
        words = ["unshare", "--mount", "bash", "-c", START, "gateway", program,
                 "--log-dir", self.folder, "--log-days", "1", "--dns", dns]
        if base:
            words += ["--import-base", base]
        if off:
            words += ["--off", str(knob_bits(off))]
        self.log = open(os.path.join(self.folder, "stderr"), "w+")
        with theirs:
            self.process = subprocess.Popen(
                words,
                env={"CA": ca or net.ca, "SOCKET": str(theirs.fileno()),
                     "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.log,
            )
        self._launcher.settimeout(60)
        self._next = 0
        _, _, hello = self._receive(self._launcher)
        self._build = hello
        self._answers = {}
        self.connect()

    def connect(self):
        """As a new airlockd."""
        self.daemon, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.daemon.settimeout(60)
        self._send(self._launcher, LG_DAEMON, 0, b"", [theirs.fileno()])
        theirs.close()
        self._send(self.daemon, HELLO, 0, self._build)
        self._send(self.daemon, READY, 0)
        kind, _, hello = self._receive(self.daemon)
        assert (kind, hello) == (GD_HELLO, self._build)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def close(self, statuses=(0, -signal.SIGKILL)):
        self.daemon.close()
        self._launcher.close()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            said = self.said()
            self.log.close()
            shutil.rmtree(self.folder)
        assert self.process.returncode in statuses, said

    @staticmethod
    def _send(sock, kind, number, body=b"", fds=()):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sock.sendmsg([HEAD.pack(1, kind, 0, number) + body], ancillary)

    @staticmethod
    def _receive(sock):
        data = sock.recv(512)
        if not data:
            raise EOFError("the gateway has ended")
        version, kind, _, number = HEAD.unpack_from(data)
        assert version == 1
        return kind, number, data[HEAD.size :]

    # ---- Downloads ----

    def start(self, url, hosts=HOSTS, max_bytes=MAX, timeout_ms=20000, file=None):
        """The number of a download, for wait and cancel."""
        texts = url.encode() + b"\0" + b"".join(host.encode() + b"\0" for host in hosts)
        head = struct.pack("<IIII", 0x31465841, len(hosts), len(url), len(texts) - len(url) - 1)
        spec = memory(head + texts, seal=True)
        self._next += 1
        own = file is None
        file = memory(b"") if own else file
        self._send(self.daemon, FETCH, self._next, struct.pack("<QII", max_bytes, timeout_ms, 0),
                   [spec, file])
        os.close(spec)
        self._answers[self._next] = (file, own)
        return self._next

    def wait(self, number=None):
        while True:
            kind, got, body = self._receive(self.daemon)
            if kind == GD_COUNTED:
                continue
            assert kind == GD_FETCHED
            if got in self._answers:
                break  # else it was cancelled while this was on its way
        assert number in (None, got)
        end, status, size = struct.unpack_from("<IIQ", body)
        file, own = self._answers.pop(got)
        data = os.pread(file, os.fstat(file).st_size, 0)
        if own:
            os.close(file)
        return Answer(ENDS[end], status, size, body[16:].split(b"\0")[0].decode(), data)

    def get(self, url, *args, **more):
        return self.wait(self.start(url, *args, **more))

    def cancel(self, number):
        self._send(self.daemon, FETCH_END, number)
        file, own = self._answers.pop(number)
        if own:
            os.close(file)

    def cancel_all(self):
        """What a test that failed has not waited for is not the next one's."""
        for number in list(self._answers):
            self.cancel(number)

    def said(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8") as file:
            return file.read()
