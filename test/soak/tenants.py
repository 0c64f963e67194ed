# SPDX-License-Identifier: Apache-2.0
"""The tenants of the soak: Honest ones, who remember what was acknowledged and compare, and Hostile.

A tenant's bytes carry its marker; no other tenant may ever see it. What got no answer, or a refusal
while something was being killed, may have been done or not: both are then remembered.
"""

import contextlib
import http.client
import io
import json
import os
import random
import socket
import tarfile
import threading
import time

import awake
from harness import KEYS

MIB = 1 << 20
SESSIONS = 4
NOTHING = None  # among the contents that a file may have: it is not there


class Lost(Exception):
    """Something that must not be."""


class Tenant(threading.Thread):
    def __init__(self, soak, name, number):
        super().__init__(daemon=True)
        self.soak, self.tenant = soak, name
        self.key = KEYS[name]
        self.marker = soak.markers[name]
        self.random = random.Random("%s %d" % (name, number))
        self.label = "%s%d" % (name, number)
        self.asked = 0
        self.failure = None

    def run(self):
        try:
            while self.soak.may_go_on():
                self.step()
        except BaseException as error:  # reported by the soak
            self.failure = error
            self.soak.stop()

    # ---- Asking ----

    def ask(self, method, path, body=None, raw=None, sure=False):
        """An answer; None when it may have been done or not. sure: what was refused or not answered is
        asked again, as it can be done twice."""
        while True:
            began = awake.seconds()
            try:
                answer = self.soak.server.request(method, path, body, key=self.key, raw=raw, timeout=60)
            except ConnectionRefusedError:
                # Not even sent.
                if not self.soak.may_go_on(patient=True):
                    raise Lost("no server to ask %s %s" % (method, path)) from None
                time.sleep(0.05)
                continue
            except (OSError, http.client.HTTPException) as error:
                self._excuse(began, "%s %s: %r" % (method, path, error))
                answer = None
            if answer:
                self.soak.count(method, path, answer.status)
                self._look_for_markers(answer.body)
                if answer.status < 500:
                    return answer
                if answer.status != 503 or b'"busy"' not in answer.body:
                    self._excuse(began, "%s %s: %r" % (method, path, answer))
            if not sure:
                return None
            time.sleep(0.02)

    def _excuse(self, began, what):
        if not self.soak.was_disturbed(began):
            raise Lost("without any reason: " + what)

    def _look_for_markers(self, body):
        for name, marker in self.soak.markers.items():
            if name != self.tenant and marker in body:
                raise Lost("%s got what is %s's: %r" % (self.tenant, name, body[:300]))


class Workspace:
    """What a session may hold: path -> the contents that it may have."""

    def __init__(self, files=None):
        self.files = files or {}

    def copy(self):
        return Workspace({path: set(contents) for path, contents in self.files.items()})

    def wrote(self, path, content, answer):
        if answer is None:
            self.files.setdefault(path, {NOTHING}).add(content)
        else:
            self.files[path] = {content}


class Honest(Tenant):
    def __init__(self, soak, name, number):
        super().__init__(soak, name, number)
        self.sessions = {}
        self.snapshots = {}
        self.acknowledged, self.unknown = {}, set()  # commands, by what the audit log must say
        self.perhaps = 0  # sessions and snapshots that may have been made

    # ---- Steps ----

    def step(self):
        if len(self.sessions) < SESSIONS:
            self.create()
            return
        what = self.random.choices(
            [self.run_command, self.write, self.upload, self.check_file, self.remove, self.list_files,
             self.take_snapshot, self.start_from, self.fork, self.fetch, self.delete, self.usage],
            [20, 10, 6, 20, 4, 6, 3, 3, 2, 2, 2, 4],
        )[0]
        what()

    def any_session(self):
        return self.random.choice(list(self.sessions.items()))

    def path(self, session, what):
        return "/v1/sessions/%s/%s" % (session, what)

    def content(self, size=40):
        return self.marker + b" %d " % self.random.getrandbits(60) + b"x" * size

    def create(self, body=None, content=None):
        answer = self.ask("POST", "/v1/sessions", body or {})
        if answer is None:
            self.perhaps += 1
        elif answer.status == 201:
            self.sessions[answer.json["session_id"]] = (content or Workspace()).copy()
        else:
            raise Lost("create: %r" % answer)

    def run_command(self):
        session, workspace = self.any_session()
        self.asked += 1
        name = "f%d" % self.random.randrange(8)
        content = self.content()
        told = ": %s-%d;" % (self.label, self.asked)
        command = "%s printf '%%s' '%s' >%s && cat %s" % (told, content.decode(), name, name)
        began = awake.seconds()
        answer = self.ask("POST", self.path(session, "exec"), {"command": command})
        if answer is None:
            self.unknown.add(told)
            workspace.wrote(name, content, None)
            # The shell had emptied it, or it had part of it.
            workspace.files[name].add(b"")
            return
        if answer.status != 200:
            raise Lost("%s: %r" % (command, answer))
        got = answer.json
        if got["exit_code"] == 0:
            if got["stdout"].encode() != content:
                raise Lost("%s said %r" % (command, got))
            workspace.wrote(name, content, answer)
        else:
            self._excuse(began, "%s: %r" % (command, got))
            workspace.wrote(name, content, None)
            workspace.files[name].add(b"")
        self.acknowledged[told] = got["exit_code"]

    def write(self):
        session, workspace = self.any_session()
        name, content = "f%d" % self.random.randrange(8), self.content(self.random.randrange(3000))
        answer = self.ask("POST", self.path(session, "write"),
                          {"path": name, "content": content.decode()})
        self.expect(answer, 200)
        workspace.wrote(name, content, answer)

    def upload(self):
        session, workspace = self.any_session()
        name = "u%d" % self.random.randrange(3)
        content = self.content(self.random.randrange(MIB))
        answer = self.ask("PUT", self.path(session, "files?path=" + name), raw=content)
        self.expect(answer, 200)
        workspace.wrote(name, content, answer)

    def check_file(self):
        session, workspace = self.any_session()
        if workspace.files:
            self.compare(session, workspace, self.random.choice(list(workspace.files)))

    def compare(self, session, workspace, name):
        answer = self.ask("GET", self.path(session, "files?path=" + name), sure=True)
        if answer.status not in (200, 404) or answer.status == 404 and b"file_not_found" not in answer.body:
            raise Lost("reading %s of %s: %r" % (name, session, answer))
        found = NOTHING if answer.status == 404 else answer.body
        if found not in workspace.files[name]:
            raise Lost("%s of %s has %r, not one of %r" % (
                name, session, found and found[:80], [c and c[:80] for c in workspace.files[name]]))
        workspace.files[name] = {found}

    def remove(self):
        session, workspace = self.any_session()
        if not workspace.files:
            return
        name = self.random.choice(list(workspace.files))
        answer = self.ask("DELETE", self.path(session, "files?path=" + name))
        self.expect(answer, 200, 404)
        workspace.wrote(name, NOTHING, answer)

    def list_files(self):
        session, workspace = self.any_session()
        answer = self.ask("GET", self.path(session, "list?path=&depth=2"), sure=True)
        self.expect(answer, 200)
        there = {entry["path"] for entry in answer.json["entries"]}
        for name, contents in workspace.files.items():
            if NOTHING not in contents and name not in there:
                raise Lost("%s of %s is not listed" % (name, session))

    def take_snapshot(self):
        session, workspace = self.any_session()
        if len(self.snapshots) >= 3:
            gone = self.random.choice(list(self.snapshots))
            del self.snapshots[gone]
            self.expect(self.ask("DELETE", "/v1/snapshots/" + gone, sure=True), 200, 404)
        answer = self.ask("POST", self.path(session, "snapshots"), {})
        if answer is None:
            self.perhaps += 1
        self.expect(answer, 200)
        if answer:
            self.snapshots[answer.json["id"]] = workspace.copy()

    def start_from(self):
        if self.snapshots:
            snapshot, workspace = self.random.choice(list(self.snapshots.items()))
            self.make_room()
            self.create({"snapshot_id": snapshot}, workspace)

    def fork(self):
        self.make_room()
        session, workspace = self.any_session()
        answer = self.ask("POST", self.path(session, "fork"), {"count": 1})
        if answer is None:
            self.perhaps += 1
        self.expect(answer, 201)
        if answer:
            (made,) = answer.json["sessions"]
            self.sessions[made["session_id"]] = workspace.copy()

    def fetch(self):
        session, workspace = self.any_session()
        into = "i%d" % self.random.getrandbits(40)
        answer = self.ask("POST", self.path(session, "import"),
                          {"repo": "o/" + self.tenant, "path": into})
        self.expect(answer, 200)
        if answer:
            workspace.files[into + "/README"] = {self.soak.readme(self.tenant)}

    def make_room(self):
        while len(self.sessions) >= SESSIONS:
            self.delete()

    def delete(self):
        session = self.random.choice(list(self.sessions))
        del self.sessions[session]
        self.expect(self.ask("DELETE", "/v1/sessions/" + session, sure=True), 200, 404)

    def usage(self):
        answer = self.ask("GET", "/v1/usage", sure=True)
        self.expect(answer, 200)

    def expect(self, answer, *good):
        if answer is not None and answer.status not in good:
            raise Lost("%r" % answer)

    # ---- Looking at all of it, while nobody works ----

    def check(self):
        for session, workspace in self.sessions.items():
            for name in list(workspace.files):
                self.compare(session, workspace, name)


# ---- The hostile one ----

COMMANDS = [
    "f() { f | f & }; f",
    "python3 -c 'x = bytearray(1 << 30)'",
    "head -c 2G /dev/zero >big",
    "yes | head -c 40M",
    "kill -9 -1; kill -9 1",
    "for i in $(seq 2000); do ln -s /proc/$i/root l$i; done",
    "setsid sleep 100 & setsid sh -c 'while :; do :; done' & exit 0",
    "mkfifo p; ls -R /proc >/dev/null 2>&1; cat p",
    "rm -rf /workspace/* /tmp/*; while :; do mkdir d && cd d || exit; done",
    "python3 -c 'import os\nwhile True: os.open(\"/proc/self/status\", 0)'",
]
GARBAGE = [
    b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50,
    b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
    b"PUT /v1/sessions/sbx_000000000000/files?path=a HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n"
    b"X-API-Key: " + KEYS["c"].encode() + b"\r\n\r\n" + b"x" * 100000,
]


def bomb():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        info = tarfile.TarInfo("repo-1/zeroes")
        info.size = 200 * MIB
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    return out.getvalue()


class Hostile(Tenant):
    """Its own answers are of no interest, as long as they are its own."""

    sessions = ()

    def step(self):
        what = self.random.choice([self.run_command] * 4 + [
            self.talk, self.half_an_upload, self.pry, self.fetch_bomb, self.begin_anew])
        with contextlib.suppress(OSError):
            what()

    def session(self):
        answer = self.ask("POST", "/v1/sessions", {})
        if answer and answer.status == 201:
            return answer.json["session_id"]
        self.begin_anew()
        return "sbx_000000000000"

    def run_command(self):
        self.ask("POST", "/v1/sessions/%s/exec" % self.session(),
                 {"command": self.random.choice(COMMANDS), "timeout_seconds": self.random.choice([1, 3])})

    def talk(self):
        with socket.create_connection(("127.0.0.1", self.soak.server.port), 5) as s:
            s.sendall(self.random.choice(GARBAGE))
            s.settimeout(0.3)
            self._look_for_markers(s.recv(65536))

    def half_an_upload(self):
        session = self.session()
        with socket.create_connection(("127.0.0.1", self.soak.server.port), 5) as s:
            s.sendall(("PUT /v1/sessions/%s/files?path=half HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n"
                       "Content-Length: 9000000\r\n\r\n" % (session, self.key)).encode() + os.urandom(MIB))

    def pry(self):
        """Somebody else's session, by its right name."""
        for session in self.soak.sessions_of_others(self.tenant):
            for method, what, body in (("GET", "files?path=f1", None), ("GET", "archive?path=", None),
                                       ("POST", "exec", {"command": "cat *"}), ("GET", "egress", None),
                                       ("POST", "fork", {}), ("POST", "snapshots", {})):
                answer = self.ask(method, "/v1/sessions/%s/%s" % (session, what), body)
                if answer and answer.status not in (403, 404, 429):
                    raise Lost("%s is not the tenant's, and %s got %r" % (session, what, answer))

    def fetch_bomb(self):
        self.ask("POST", "/v1/sessions/%s/import" % self.session(), {"repo": "o/bomb"})

    def begin_anew(self):
        answer = self.ask("GET", "/v1/sessions")
        for entry in json.loads(answer.body)["sessions"] if answer and answer.status == 200 else []:
            self.ask("DELETE", "/v1/sessions/" + entry["session_id"])
