# SPDX-License-Identifier: Apache-2.0
"""The acceptance cases of bytes and folders, by their numbers in the contract (4.1 to 4.7), and the
calls beside them.

Whatever goes through a client runs with the published one that has uploads and with ours; what
clients cannot send is asked for by hand. Texts are exact.
"""

import gzip
import hashlib
import http.client
import io
import os
import random
import socket
import struct
import tarfile
import threading
import zlib
from urllib.parse import urlencode

import pytest

import clients
import harness
from bounds import in_time
from harness import KEYS

MB = 1 << 20
UNKNOWN = "sbx_0123456789ab"


@pytest.fixture(params=("0.9.0", "ours"))
def sdk(request):
    try:
        return clients.client(request.param)
    except clients.MissingWheel as missing:
        (pytest.fail if harness.CI else pytest.skip)(str(missing))


@pytest.fixture
def box(server, sdk):
    with sdk.sandbox(server) as opened:
        yield opened


def at(session, what, **query):
    return "/v1/sessions/%s/%s%s" % (session, what, "?" + urlencode(query) if query else "")


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def everything(server, session):
    """Every name in the workspace, as a command sees it."""
    return server.exec(session, "find . -mindepth 1 | sort")["stdout"].split("\n")[:-1]


def upload_head(session, path, framing, key=KEYS["a"]):
    return (
        "PUT %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n%s\r\n\r\n"
        % (at(session, "files", path=path), key, framing)
    ).encode()


def chunked(data, size=65536):
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


# ---- 4.1: there and back ----


def test_4_01_nothing_and_text_come_back(box, sdk):
    assert box.files.upload("empty", b"") == 0
    assert box.files.download("empty") == b""
    assert box.files.upload("dir/\u00fc+ b%.txt", "\u00fc") == 2
    assert box.files.download("dir/\u00fc+ b%.txt") == b"\xc3\xbc"
    assert box.files.read("dir/\u00fc+ b%.txt") == "\u00fc"


def test_4_01_fifty_megabytes_come_back(box, sdk):
    data = noise(50 * MB)
    assert box.files.upload("big.bin", data) == len(data)
    ran = box.run("sha256sum big.bin")
    assert ran.stdout.split()[0] == hashlib.sha256(data).hexdigest()
    assert box.files.download("big.bin") == data


def test_4_01_ours_needs_no_memory_for_it(server, ours, tmp_path):
    data = noise(20 * MB, 2)
    local, back = tmp_path / "local", tmp_path / "back"
    local.write_bytes(data)
    steps = []
    with ours.sandbox(server) as box:
        progress = lambda done, whole: steps.append((done, whole))  # noqa: E731
        assert box.files.upload_file(local, "a/b.bin", progress) == len(data)
        assert steps[-1] == (len(data), len(data))
        del steps[:]
        assert box.files.download_file("a/b.bin", back, progress) == len(data)
        assert steps[-1] == (len(data), len(data))
    assert back.read_bytes() == data


def test_4_01_the_answers_have_their_form(server, session):
    answer = server.request("PUT", at(session, "files", path="./a//b.bin"), raw=b"12345")
    assert answer.status == 200
    assert answer.json == {"path": "./a//b.bin", "size_bytes": 5, "status": "success"}
    answer = server.get(at(session, "files", path="a/b.bin"))
    assert (answer.status, answer.body) == (200, b"12345")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Length"] == "5"
    assert answer.headers["Transfer-Encoding"] is None
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''b.bin"
    assert answer.headers["Cache-Control"] == "no-store"
    server.request("PUT", at(session, "files", path='\u00fc "q".txt'), raw=b"")
    answer = server.get(at(session, "files", path='\u00fc "q".txt'))
    assert answer.headers["Content-Disposition"].endswith("UTF-8''%C3%BC%20%22q%22.txt")


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 3 * MB + 1])
def test_4_01_chunks_are_the_same_bytes(server, session, size):
    data = noise(size, size)
    with server.connect() as s:
        s.sendall(upload_head(session, "c", "Transfer-Encoding: chunked"))
        for piece in chunked(data, 10000):
            s.sendall(piece)
        answer = harness.read_raw(s)
    assert answer.status == 200 and b'"size_bytes":%d' % size in answer.body.replace(b" ", b"")
    assert server.get(at(session, "files", path="c")).body == data


def test_4_01_an_old_file_keeps_its_mode_and_a_link_its_target(server, session):
    server.exec(session, "echo old > t; chmod 750 t; ln -s t l")
    assert server.request("PUT", at(session, "files", path="l"), raw=b"new").status == 200
    assert server.request("PUT", at(session, "files", path="fresh"), raw=b"x").status == 200
    ran = server.exec(session, "stat -c %a t fresh; cat t; readlink l")
    assert ran["stdout"] == "750\n644\nnewt\n"


# ---- 4.2: too large ----


def test_4_02_one_byte_too_many_is_one_attempt(server, box, sdk, monkeypatch):
    box.files.upload("f", b"old")
    slept = sdk.slept(monkeypatch)
    with pytest.raises(sdk.errors.QuotaExceededError) as caught:
        box.files.upload("f", b"\0" * (50 * MB + 1))
    assert str(caught.value) == "Upload is larger than the 50 MB limit."
    assert slept == []
    assert box.files.download("f") == b"old"
    assert everything(server, box.session_id) == ["./f"]


def test_4_02_the_same_in_chunks(server, session):
    server.request("PUT", at(session, "files", path="f"), raw=b"old")
    data = b"\0" * (50 * MB + 1)
    with server.connect(60) as s:
        s.sendall(upload_head(session, "f", "Transfer-Encoding: chunked"))
        for piece in chunked(data, MB):
            s.sendall(piece)
        answer = harness.read_raw(s)
    assert answer.status == 413 and answer.closed
    assert b"Upload is larger than the 50 MB limit." in answer.body
    assert b"upload_too_large" in answer.body
    assert server.get(at(session, "files", path="f")).body == b"old"
    assert everything(server, session) == ["./f"]


SMALL = {"SANDBOX_UPLOAD_MAX_MB": "1", "SANDBOX_DOWNLOAD_MAX_MB": "2"}


def test_4_02_the_limit_is_configured(servers):
    server = servers.get(SMALL)
    session = server.create()
    assert server.request("PUT", at(session, "files", path="a"), raw=b"x" * MB).status == 200
    answer = server.request("PUT", at(session, "files", path="a"), raw=b"x" * (MB + 1))
    assert (answer.status, answer.code) == (413, "upload_too_large")
    assert answer.detail == "Upload is larger than the 1 MB limit."
    server.exec(session, "truncate -s 2M fits; truncate -s 2097153 large")
    assert len(server.get(at(session, "files", path="fits")).body) == 2 * MB
    answer = server.get(at(session, "files", path="large"))
    assert (answer.status, answer.code) == (413, "file_too_large")
    assert answer.detail == "File 'large' is larger than the 2 MB download limit."
    server.delete("/v1/sessions/" + session)


def test_4_02_an_archive_over_the_limit_lacks_its_end(servers, sdk, monkeypatch):
    """That it is too long is known only when as much as may be has been sent."""
    server = servers.get(SMALL)
    sdk.slept(monkeypatch)
    with sdk.sandbox(server) as box:
        box.run("mkdir a b; head -c 2000000 /dev/urandom > a/fits; head -c 3000000 /dev/urandom > b/f")
        with tarfile.open(fileobj=io.BytesIO(box.files.download_archive("a"))) as tar:
            assert tar.getnames() == ["a", "a/fits"]
        with pytest.raises(http.client.IncompleteRead) as caught:
            server.get(at(box.session_id, "archive", path="b"))
        assert 0 < len(caught.value.partial) <= 2 * MB
        # The published client lets it through, ours makes it one of its own.
        error = sdk.errors.APIConnectionError if sdk.is_ours else http.client.IncompleteRead
        with pytest.raises(error, match="IncompleteRead"):
            box.files.download_archive("b")


# ---- 4.3: cut off ----


@pytest.mark.parametrize("framing", ["Content-Length: 3000000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_4_03_a_cut_upload_changes_nothing(server, session, framing, how):
    server.request("PUT", at(session, "files", path="d/f"), raw=b"old")
    for sent in (0, 1000, 2000000):
        s = server.connect()
        s.sendall(upload_head(session, "d/f", framing))
        if sent:
            s.sendall(b"%x\r\n" % sent if "chunked" in framing else b"")
            s.sendall(b"n" * sent)
        if how == "reset":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    assert server.get(at(session, "files", path="d/f")).body == b"old"
    # After 30 s without a byte any upload is over.
    harness.within(
        lambda: everything(server, session) == ["./d", "./d/f"], 20, "nothing of them is left"
    )


def test_4_03_a_new_name_and_its_folders_are_not_left(server, session):
    s = server.connect()
    s.sendall(upload_head(session, "new/deep/f", "Content-Length: 1000") + b"x" * 10)
    s.close()
    # After 30 s without a byte any upload is over.
    harness.within(lambda: everything(server, session) == [], 20, "nothing is left")


class Cutter:
    """A proxy that cuts the first connection in the middle of what is sent up."""

    def __init__(self, port, after):
        self.after, self.port, self.connections = after, port, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(("127.0.0.1", self.port))
            left = self.after if self.connections == 1 else None
            threading.Thread(target=self._pass, args=(server, client, None), daemon=True).start()
            threading.Thread(target=self._pass, args=(client, server, left), daemon=True).start()

    @staticmethod
    def _pass(source, target, left):
        try:
            while left is None or left > 0:
                piece = source.recv(65536)
                if not piece:
                    break
                target.sendall(piece)
                left = None if left is None else left - len(piece)
            if left is not None:
                for s in (source, target):
                    # The other thread is reading: a close alone would wait for it.
                    s.shutdown(socket.SHUT_RDWR)
                    s.close()
            else:
                target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def test_4_03_the_client_sends_it_again(server, sdk, monkeypatch):
    data = noise(5 * MB, 3)
    cutter = Cutter(server.port, 2 * MB)
    session = server.create()
    box = sdk.Sandbox.attach(session, KEYS["a"], cutter.url)
    slept = sdk.slept(monkeypatch)
    assert box.files.upload("f", data) == len(data)
    assert len(slept) == 1 and cutter.connections == 2
    assert server.get(at(session, "files", path="f")).body == data
    assert everything(server, session) == ["./f"]
    server.delete("/v1/sessions/" + session)
    cutter.listener.close()


# ---- 4.4: refusals that a client sees as such ----


def test_4_04_refusals_are_never_connection_errors(servers, sdk, monkeypatch):
    server = servers.get({"SANDBOX_WORKSPACE_QUOTA_MB": "20"})
    data = noise(50 * MB, 4)
    slept = sdk.slept(monkeypatch)
    errors = sdk.errors
    with sdk.sandbox(server) as box:
        box.files.upload("f", b"old")
        box.run("mkdir folder; ln -s / out; mkfifo pipe")
        for path, kind, text in (
            ("f", errors.QuotaExceededError, "disk quota. Delete files first."),
            ("folder", errors.ValidationError, "'folder' is a folder."),
            ("pipe", errors.ValidationError, "'pipe' is not a regular file."),
            ("f/x", errors.ValidationError, "'f/x' is not inside a folder."),
            ("out/x", errors.PermissionDeniedError, "outside workspace for 'out/x'"),
            ("../x", errors.PermissionDeniedError, "outside workspace for '../x'"),
            ("/workspace/f", errors.PermissionDeniedError, "outside workspace"),
            ("n" * 256, errors.ValidationError, "255 bytes"),
        ):
            with pytest.raises(kind) as caught:
                box.files.upload(path, data)
            assert text in str(caught.value), path
        assert box.files.download("f") == b"old"
        assert sorted(box.run("ls -A").stdout.split()) == ["f", "folder", "out", "pipe"]
        for name, key, kind in (
            (UNKNOWN, KEYS["a"], errors.NotFoundError),
            (box.session_id, "wrong", errors.AuthenticationError),
            (box.session_id, KEYS["b"], errors.PermissionDeniedError),
        ):
            stranger = sdk.Sandbox.attach(name, key, server.url)
            with pytest.raises(kind):
                stranger.files.upload("f", data)
    assert slept == []


def test_4_04_the_quota_says_what_it_would_be(servers):
    server = servers.get({"SANDBOX_WORKSPACE_QUOTA_MB": "20"})
    session = server.create()
    server.exec(session, "head -c 10000000 /dev/zero > f")
    answer = server.request("PUT", at(session, "files", path="g"), raw=b"x" * (15 * MB))
    assert (answer.status, answer.code) == (413, "quota")
    assert answer.detail == (
        "Writing g would use 24.5 MB of the workspace's 20 MB disk quota. Delete files first."
    )
    # What it replaces does not count.
    assert server.request("PUT", at(session, "files", path="f"), raw=b"x" * (15 * MB)).status == 200
    server.delete("/v1/sessions/" + session)


def test_4_04_expect_is_answered_finally_or_when_it_may_come(server, session):
    framing = "Content-Length: 5\r\nExpect: 100-continue"
    too_large = framing.replace("5", str(50 * MB + 1), 1)
    for target, how, status in ((UNKNOWN, framing, 404), (session, too_large, 413)):
        with server.connect() as s:
            s.sendall(upload_head(target, "f", how))
            assert harness.read_raw(s).status == status
    with server.connect() as s:
        s.sendall(upload_head(session, "f", framing))
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(b"hello")
        assert harness.read_raw(s).status == 200
    assert server.get(at(session, "files", path="f")).body == b"hello"


# ---- 4.5: downloads that are none ----


def test_4_05_what_cannot_be_downloaded(server, session):
    server.exec(session, "mkdir d; mkfifo p; ln -s /etc/passwd out; ln -s ../../x up; echo x > f")
    table = (
        ("none", 404, "file_not_found", "File 'none' does not exist."),
        ("d/none", 404, "file_not_found", "File 'd/none' does not exist."),
        ("d", 400, "is_folder", "'d' is a folder."),
        (".", 400, "is_folder", "'.' is a folder."),
        ("p", 400, "not_regular_file", "'p' is not a regular file."),
        ("f/x", 400, "not_in_folder", "'f/x' is not inside a folder."),
    )
    for path, status, code, detail in table:
        answer = server.get(at(session, "files", path=path))
        assert (answer.status, answer.code, answer.detail) == (status, code, detail)
    for path in ("out", "up", "/etc/passwd", "../x", "d/../../x"):
        answer = server.get(at(session, "files", path=path))
        assert (answer.status, answer.code) == (403, "path_outside"), path


def test_4_05_a_missing_file_raises_not_found(box, sdk):
    with pytest.raises(sdk.errors.NotFoundError) as caught:
        box.files.download("none")
    assert str(caught.value) == "File 'none' does not exist."
    with pytest.raises(sdk.errors.NotFoundError):
        box.files.download_archive("none")


# ---- 4.6: archives ----


MIXED = """
mkdir -p out/sub/empty out/a-b 'out/odd names'
echo one > out/one; chmod 4755 out/one; echo two > out/sub/two; chmod 600 out/sub/two
ln out/one out/hard; ln -s one out/link; ln -s /etc/passwd out/outside; ln -s ../.. out/up
mkfifo out/pipe; mknod out/device c 1 3 2>/dev/null
echo -n > "$(printf 'out/odd names/n\\xffl')"; echo -n > "$(printf 'out/odd names/new\\nline')"
echo x > out/a-b/x; touch -d @1000000000 out/one; mkdir out/.airlock-inside; touch .airlock-top
touch "out/$(printf 'n%.0s' $(seq 255))"
true
"""


def test_4_06_an_archive_has_the_folder_and_nothing_else(server, sdk, box):
    assert box.run(MIXED).ok
    blob = box.files.download_archive("out")
    with tarfile.open(fileobj=io.BytesIO(blob), errors="surrogateescape") as tar:
        members = {member.name: member for member in tar.getmembers()}
        names = [member.name for member in tar.getmembers()]
        assert tar.extractfile("out/hard").read() == tar.extractfile("out/one").read() == b"one\n"
    raw = [name.encode("utf-8", "surrogateescape") for name in names]
    assert raw == sorted(raw) and len(raw) == len(set(raw))
    assert all(name == "out" or name.startswith("out/") for name in names)
    assert members["out/one"].mode == 0o755 and members["out/one"].mtime == 1000000000
    assert members["out/sub/two"].mode == 0o600
    assert members["out/hard"].isreg() and members["out/sub/empty"].isdir()
    for name, target in (("link", "one"), ("outside", "/etc/passwd"), ("up", "../..")):
        assert members["out/" + name].issym() and members["out/" + name].linkname == target
    assert b"out/odd names/n\xffl" in raw and b"out/odd names/new\nline" in raw
    assert "out/" + "n" * 255 in names
    assert not {"out/pipe", "out/device"} & set(names)
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members.values()} == {(0, 0, "", "")}


def test_4_06_the_workspace_has_no_prefix(server, session):
    assert server.exec(session, MIXED)["exit_code"] == 0
    answer = server.get(at(session, "archive"))
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/gzip"
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.headers["Content-Length"] is None
    with tarfile.open(fileobj=io.BytesIO(answer.body), errors="surrogateescape") as tar:
        names = tar.getnames()
    assert "out/one" in names and "out/.airlock-inside" in names
    assert not [name for name in names if name.startswith((".airlock-", "./", "/"))]


def test_4_06_an_empty_folder_is_an_archive(server, session):
    for path in (".", "empty"):
        server.exec(session, "mkdir -p empty")
        blob = gzip.decompress(server.get(at(session, "archive", path=path)).body)
        with tarfile.open(fileobj=io.BytesIO(blob)) as tar:
            assert tar.getnames() == ["empty"]


def test_4_06_what_is_no_folder(server, session):
    server.exec(session, "echo x > f; ln -s / out")
    for path, status, code in (
        ("none", 404, "file_not_found"),
        ("f", 400, "not_folder"),
        ("out", 403, "path_outside"),
        ("..", 403, "path_outside"),
    ):
        answer = server.get(at(session, "archive", path=path))
        assert (answer.status, answer.code) == (status, code), path
    assert server.get(at(session, "archive", path="none")).detail == "Folder 'none' does not exist."


# ---- 4.7: files that change while they are sent ----


def beginning(s, least):
    """(head, at least so many bytes of the body): a head may come alone."""
    head, body = b"", b""
    while not head or len(body) < least:
        piece = s.recv(65536)
        assert piece, "the connection ended in %r" % (head + body)[:300]
        body += piece
        if not head and b"\r\n\r\n" in body:
            head, _, body = body.partition(b"\r\n\r\n")
    return head, body


def slow_download(server, session, path, between):
    """The head's length, and the bytes that came when between() was called in the middle."""
    with server.connect(60) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        s.sendall(
            (
                "GET %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nConnection: close\r\n\r\n"
                % (at(session, "files", path=path), KEYS["a"])
            ).encode()
        )
        head, body = beginning(s, 0)
        length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
        between()
        broken = False
        try:
            while True:
                piece = s.recv(MB)
                if not piece:
                    break
                body += piece
        except ConnectionResetError:
            broken = True
    return int(length[0].split(b":")[1]), body, broken


def test_4_07_growth_is_not_sent(server, session):
    server.exec(session, "head -c 30000000 /dev/zero > f")
    length, body, broken = slow_download(
        server, session, "f", lambda: server.exec(session, "head -c 1000000 /dev/zero >> f")
    )
    assert length == len(body) == 30000000 and not broken


def test_4_07_shrinking_breaks_the_connection(server, session):
    server.exec(session, "head -c 30000000 /dev/zero > f")
    length, body, _ = slow_download(
        server, session, "f", lambda: server.exec(session, "truncate -s 1000 f")
    )
    assert length == 30000000 and len(body) < length
    assert server.get(at(session, "files", path="f")).body == b"\0" * 1000


def test_4_07_a_replaced_file_is_sent_as_it_was_opened(server, session):
    server.exec(session, "head -c 30000000 /dev/zero > f")
    length, body, broken = slow_download(
        server, session, "f", lambda: server.exec(session, "echo new > g; mv g f")
    )
    assert (length, body) == (30000000, b"\0" * 30000000) and not broken


def test_a_broken_archive_never_ends_properly(server, session):
    """The end of the session breaks it off."""
    server.exec(session, "head -c 60000000 /dev/urandom > f")
    with server.connect(60) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        s.sendall(
            (
                "GET %s HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n\r\n"
                % (at(session, "archive"), KEYS["a"])
            ).encode()
        )
        head, body = beginning(s, 1)
        assert b"Transfer-Encoding: chunked" in head
        server.delete("/v1/sessions/" + session)
        try:
            while True:
                piece = s.recv(MB)
                if not piece:
                    break
                body = body[-100:] + piece
        except ConnectionResetError:
            pass
    assert not body.endswith(b"0\r\n\r\n")


# ---- Listing and moving ----


def test_a_list_has_every_kind(server, session):
    server.exec(
        session,
        "mkdir d; echo abc > d/f; touch -d @1234567890 d/f; chmod 640 d/f; ln -s f d/l; mkfifo d/p;"
        "mkdir d/s; touch d/s/deep 'd-e'; printf x > \"$(printf 'd/n\\xff\\\\')\"",
    )
    answer = server.get(at(session, "list"))
    assert answer.status == 200 and answer.json["path"] == "." and answer.json["next"] is None
    assert [(e["path"], e["type"]) for e in answer.json["entries"]] == [
        ("d", "folder"),
        ("d-e", "file"),
    ]
    entries = server.get(at(session, "list", path="./d/", depth=2)).json["entries"]
    assert [(e["path"], e["type"]) for e in entries] == [
        ("d/f", "file"),
        ("d/l", "link"),
        ("d/n\\xff\\x5c", "file"),
        ("d/p", "other"),
        ("d/s", "folder"),
        ("d/s/deep", "file"),
    ]
    by_path = {entry["path"]: entry for entry in entries}
    f = by_path["d/f"]
    assert (f["size_bytes"], f["mode"], f["mtime"]) == (4, 0o640, 1234567890)
    assert by_path["d/l"]["target"] == "f" and "target" not in f and "raw" not in f
    assert by_path["d/n\\xff\\x5c"]["raw"] is True
    whole = [e["path"] for e in server.get(at(session, "list", depth=16)).json["entries"]]
    assert whole == ["d", "d-e", "d/f", "d/l", "d/n\\xff\\x5c", "d/p", "d/s", "d/s/deep"]


def test_a_list_comes_in_pages(server, session, ours):
    server.exec(session, "mkdir d; cd d; seq 2500 | xargs touch")
    seen, after, pages = [], None, 0
    while pages < 10:
        query = dict(path="d", **({"after": after} if after else {}))
        answer = server.get(at(session, "list", **query)).json
        assert len(answer["entries"]) <= 1000
        seen += [entry["path"] for entry in answer["entries"]]
        pages += 1
        after = answer["next"]
        if not after:
            break
    assert pages == 3
    assert seen == sorted("d/%d" % n for n in range(1, 2501))
    box = ours.Sandbox.attach(session, KEYS["a"], server.url)
    assert [entry["path"] for entry in box.files.list("d")] == seen


def test_a_list_of_what_is_no_folder(server, session):
    server.exec(session, "echo x > f; ln -s / out")
    for path, status, code in (
        ("none", 404, "file_not_found"),
        ("f", 400, "not_folder"),
        ("out", 403, "path_outside"),
        ("/", 403, "path_outside"),
    ):
        answer = server.get(at(session, "list", path=path))
        assert (answer.status, answer.code) == (status, code), path


def test_deleting(server, session):
    server.exec(session, "mkdir -p d/e; touch d/e/f g; ln -s d/e l; ln -s /etc/passwd out")

    def delete(path, **query):
        return server.delete(at(session, "files", path=path, **query))

    assert delete("g").json == {"path": "g", "deleted": 1}
    assert delete("g").json == {"path": "g", "deleted": 0}
    assert delete("no/such").json["deleted"] == 0
    answer = delete("d")
    assert (answer.status, answer.code, answer.detail) == (409, "not_empty", "'d' is not empty.")
    assert delete("l").json["deleted"] == 1
    assert delete("out").json["deleted"] == 1
    for path in (".", "", "d/.."):
        answer = delete(path, recursive="true")
        assert (answer.status, answer.code) == (400, "is_folder"), path
    for path in ("..", "/workspace", "../x"):
        answer = delete(path, recursive="true")
        assert (answer.status, answer.code) == (403, "path_outside"), path
    assert everything(server, session) == ["./d", "./d/e", "./d/e/f"]
    assert delete("d", recursive="1").json["deleted"] == 3
    assert everything(server, session) == []


def test_moving(server, session):
    server.exec(session, "mkdir d full; touch full/x; echo a > a; echo b > b; ln -s / out")

    def move(source, to, **more):
        return server.post(at(session, "move"), dict({"from": source, "to": to}, **more))

    assert move("a", "d/c").json == {"from": "a", "to": "d/c"}
    answer = move("a", "x")
    assert (answer.status, answer.code) == (404, "file_not_found")
    assert answer.detail == "File 'a' does not exist."
    answer = move("b", "d/c")
    assert (answer.status, answer.code) == (409, "exists")
    assert answer.detail == "'d/c' already exists."
    assert move("b", "d/c", replace=True).status == 200
    assert server.exec(session, "cat d/c")["stdout"] == "b\n"
    assert move("d", "new/parent/d").status == 200
    assert server.exec(session, "cat new/parent/d/c")["stdout"] == "b\n"
    for source, to in (("../x", "y"), ("full", "../x"), ("full", "out/x"), ("/etc", "x")):
        answer = move(source, to)
        assert (answer.status, answer.code) == (403, "path_outside"), (source, to)
        assert answer.detail.endswith("'%s'" % (source if source in ("../x", "/etc") else to))
    answer = move("full", "full/deeper/full")
    assert (answer.status, answer.code) == (400, "not_in_folder")
    assert answer.detail == "'full/deeper/full' is not inside a folder."
    assert server.exec(session, "ls full")["stdout"] == "x\n"


def test_making_folders(server, session):
    server.exec(session, "echo x > f; ln -s / out")

    def mkdir(path):
        return server.post(at(session, "mkdir"), {"path": path})

    assert mkdir("a/b/c").json == {"path": "a/b/c", "created": True}
    assert mkdir("a/b/c").json == {"path": "a/b/c", "created": False}
    assert mkdir(".").json["created"] is False
    assert server.exec(session, "stat -c %a a a/b a/b/c")["stdout"] == "755\n755\n755\n"
    answer = mkdir("f")
    assert (answer.status, answer.code) == (409, "exists")
    assert answer.detail == "'f' already exists."
    assert (mkdir("f/x").status, mkdir("f/x").code) == (400, "not_in_folder")
    assert (mkdir("out/x").status, mkdir("out/x").code) == (403, "path_outside")


# ---- Several at one time ----


def test_eight_uploads_of_one_session_are_all_there(server, session):
    data = [noise(2 * MB, n) for n in range(8)]
    answers = [None] * 8

    def put(n):
        answers[n] = server.request("PUT", at(session, "files", path="f%d" % n), raw=data[n])

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers] == [200] * 8
    for n in range(8):
        assert server.get(at(session, "files", path="f%d" % n)).body == data[n]


def test_readers_see_the_old_or_the_new(server, session):
    old, new = b"o" * MB, b"n" * MB
    server.request("PUT", at(session, "files", path="f"), raw=old)
    stop, bad = threading.Event(), []

    def read():
        while not stop.is_set():
            body = server.get(at(session, "files", path="f")).body
            if body not in (old, new):
                bad.append((len(body), zlib.crc32(body)))

    thread = threading.Thread(target=read)
    thread.start()
    for n in range(20):
        server.request("PUT", at(session, "files", path="f"), raw=(new, old)[n % 2])
    stop.set()
    thread.join()
    assert not bad


def test_a_slow_upload_holds_up_only_its_like(server, session):
    other = server.create()
    with server.connect() as s:
        s.sendall(upload_head(session, "slow", "Content-Length: 1000") + b"x")

        def others_go_on():
            assert server.request("PUT", at(other, "files", path="f"), raw=b"x").status == 200
            written = server.post(at(session, "write"), {"path": "g", "content": "y"})
            assert written.status == 200
            assert server.get(at(session, "read", path="g")).json["content"] == "y"
            assert server.exec(session, "cat g")["stdout"] == "y"

        in_time(5, others_go_on)
        s.sendall(b"x" * 999)
        assert harness.read_raw(s).status == 200
    server.delete("/v1/sessions/" + other)


def test_uploads_are_not_seen_before_they_are_whole(server, session):
    with server.connect() as s:
        s.sendall(upload_head(session, "f", "Content-Length: 1000000") + b"x" * 500000)
        harness.wait_until(
            lambda: server.exec(session, "ls -A")["exit_code"] == 0, "a command runs"
        )
        assert server.exec(session, "ls -A | grep -v '^.airlock-'")["stdout"] == ""
        s.sendall(b"x" * 500000)
        assert harness.read_raw(s).status == 200
    assert os.path.basename(everything(server, session)[0]) == "f"
