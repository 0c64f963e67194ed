# SPDX-License-Identifier: Apache-2.0
"""HTTP as a hostile client speaks it: bytes on a socket, no client library in between.

Rows 1.33 and 1.34 of the contract, and what an attacker tries with framing, pipelining, slowness,
paths, ranges, content types, origins and hosts. Needs only a base URL and a key: no state of the
server is changed but one session, which is deleted again.
"""

import contextlib
import json
import re
import socket
from urllib.parse import urlsplit

import pytest

HOST = b"Host: airlock.test\r\n"
GET = b"GET /healthz HTTP/1.1\r\n"
MALFORMED = {"detail": "Malformed request.", "code": "malformed_request"}


class Answer:
    def __init__(self, status, fields, body):
        self.status = status
        self.fields = fields
        self.body = body

    def __getitem__(self, name):
        values = [value for key, value in self.fields if key == name.lower()]
        assert len(values) <= 1, (name, values)
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)


class Peer:
    """One connection. Reads answers by their framing; nothing is delimited by closing."""

    def __init__(self, url):
        parts = urlsplit(url)
        self.sock = socket.create_connection((parts.hostname, parts.port), timeout=60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)
        return self

    def _fill(self):
        piece = self.sock.recv(65536)
        self.got += piece
        return bool(piece)

    def _take_until(self, mark):
        while mark not in self.got:
            assert self._fill(), "the connection ended in %r" % self.got[:300]
        taken, _, self.got = self.got.partition(mark)
        return taken

    def _take(self, n):
        while len(self.got) < n:
            assert self._fill(), "the connection ended in %r" % self.got[:300]
        taken, self.got = self.got[:n], self.got[n:]
        return taken

    def read(self, method="GET"):
        head = self._take_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        found = re.fullmatch(r"HTTP/1\.1 (\d{3}) [ -~]+", head[0])
        assert found, head[0]
        fields = [tuple(part.strip() for part in line.split(":", 1)) for line in head[1:]]
        answer = Answer(int(found.group(1)), [(k.lower(), v) for k, v in fields], b"")
        if method == "HEAD" or answer.status in (100, 204, 304):
            return answer
        if answer["transfer-encoding"]:
            assert answer["transfer-encoding"] == "chunked" and answer["content-length"] is None
            while True:
                size = int(self._take_until(b"\r\n"), 16)
                answer.body += self._take(size)
                assert self._take(2) == b"\r\n"
                if not size:
                    return answer
        assert re.fullmatch(r"\d+", answer["content-length"] or ""), fields
        answer.body = self._take(int(answer["content-length"]))
        return answer

    def ended(self):
        """The server has closed its direction and sent nothing more."""
        assert not self._fill() and not self.got, self.got[:300]
        return True


@pytest.fixture
def peer(server_url):
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(Peer(server_url))


@pytest.fixture
def key(api_key):
    return b"X-API-Key: " + api_key.encode() + b"\r\n"


def ask(peer, data, method="GET"):
    return peer().send(data).read(method)


def check_headers(answer):
    assert re.fullmatch(r"req_[0-9a-f]{16}", answer["x-request-id"])
    assert answer["cache-control"] == "no-store"
    assert answer["x-content-type-options"] == "nosniff"
    assert not [name for name, _ in answer.fields if name.startswith("access-control-")]


def is_alive(peer):
    assert ask(peer, GET + HOST + b"\r\n").status == 200


# ---- 1.33 and what belongs to it: framing ----

BODY = b"Content-Length: 2\r\n\r\n{}"
POST = b"POST /v1/sessions HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED_HEADS = {
    "two lengths": POST + b"Content-Length: 2\r\n" + BODY,
    "two lengths that differ": POST + b"Content-Length: 3\r\n" + BODY,
    "two lengths in one field": POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "length with plus": POST + b"Content-Length: +2\r\n\r\n{}",
    "negative length": POST + b"Content-Length: -2\r\n\r\n{}",
    "hexadecimal length": POST + b"Content-Length: 0x2\r\n\r\n{}",
    "length with a letter": POST + b"Content-Length: 2b\r\n\r\n{}",
    "empty length": POST + b"Content-Length:\r\n\r\n{}",
    "length of 2^63": POST + b"Content-Length: 9223372036854775808\r\n\r\n{}",
    "length of 2^64 + 2": POST + b"Content-Length: 18446744073709551618\r\n\r\n{}",
    "chunked with length": POST + b"Transfer-Encoding: chunked\r\n" + BODY,
    "length with chunked": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "gzip, chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\n" + BODY,
    "xchunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked behind a vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "blank before the colon of a coding": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "bare CR in a value": GET + HOST + b"X: a\rb\r\n\r\n",
    "bare CR after the request line": b"GET /healthz HTTP/1.1\r" + HOST + b"\r\n",
    "bare LF after the request line": b"GET /healthz HTTP/1.1\n" + HOST + b"\r\n",
    "bare LF after a field": GET + b"Host: airlock.test\n\r\n",
    "bare LF ends the head": GET + HOST + b"\n",
    "folded field": GET + HOST + b"X: a\r\n b\r\n\r\n",
    "folded field with a tab": GET + HOST + b"X: a\r\n\tb\r\n\r\n",
    "blank before the first field": GET + b" " + HOST + b"\r\n",
    "blank before the colon": GET + b"Host : airlock.test\r\n\r\n",
    "field without name": GET + HOST + b": a\r\n\r\n",
    "field without colon": GET + HOST + b"X\r\n\r\n",
    "NUL in a value": GET + HOST + b"X: a\0b\r\n\r\n",
    "NUL in a name": GET + HOST + b"X\0: a\r\n\r\n",
    "NUL in the target": b"GET /healthz\0 HTTP/1.1\r\n" + HOST + b"\r\n",
    "DEL in a value": GET + HOST + b"X: \x7f\r\n\r\n",
    "byte above 7f in the target": b"GET /\xc3\xbc HTTP/1.1\r\n" + HOST + b"\r\n",
    "method that is not a token": b"G@T /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "absolute form": b"GET http://airlock.test/healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "absolute form that disagrees": b"GET http://evil.test/healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "authority form": b"CONNECT airlock.test:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "asterisk form": b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    "fragment": b"GET /healthz#x HTTP/1.1\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET /healthz\r\n",
    "HTTP/0.9 by name": b"GET /healthz HTTP/0.9\r\n" + HOST + b"\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "switch to HTTP/2": GET + HOST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
    "no host": GET + b"\r\n",
    "two hosts": GET + HOST + HOST + b"\r\n",
    "two hosts in one field": GET + b"Host: airlock.test, evil.test\r\n\r\n",
    "empty host": GET + b"Host:\r\n\r\n",
    "host with a path": GET + b"Host: airlock.test/x\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(64),
}


@pytest.mark.parametrize("data", REFUSED_HEADS.values(), ids=REFUSED_HEADS.keys())
def test_1_33_a_malformed_head_is_400_and_closed(peer, data):
    connection = peer()
    # What follows is never taken for a request of its own.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.send(data + GET + HOST + b"\r\n")
    answer = connection.read()
    assert answer.status == 400 and answer.json() == MALFORMED
    assert answer["connection"] == "close" and answer["content-type"] == "application/json"
    check_headers(answer)
    assert connection.ended()
    is_alive(peer)


BAD_CHUNKS = {
    "bare LF after the size": b"2\n{}\r\n0\r\n\r\n",
    "bare LF after the data": b"2\r\n{}\n0\r\n\r\n",
    "bare LF after the last size": b"2\r\n{}\r\n0\n\r\n",
    "bare LF at the end": b"2\r\n{}\r\n0\r\n\n",
    "bare CR after the size": b"2\r{}\r\n0\r\n\r\n",
    "blank after the size": b"2 \r\n{}\r\n0\r\n\r\n",
    "size with plus": b"+2\r\n{}\r\n0\r\n\r\n",
    "size with 0x": b"0x2\r\n{}\r\n0\r\n\r\n",
    "negative size": b"-2\r\n{}\r\n0\r\n\r\n",
    "size above 2^64": b"10000000000000002\r\n{}\r\n0\r\n\r\n",
    "no size": b"\r\n{}\r\n0\r\n\r\n",
    "data longer than its size": b"1\r\n{}\r\n0\r\n\r\n",
    "bare LF in an extension": b"2;a\n{}\r\n0\r\n\r\n",
    "trailer field": b"2\r\n{}\r\n0\r\nX: y\r\n\r\n",
    "length as a trailer": b"2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n",
}


@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=BAD_CHUNKS.keys())
def test_1_33_malformed_chunks_are_400_and_closed(peer, key, body):
    connection = peer()
    connection.send(POST + key + b"Transfer-Encoding: chunked\r\n\r\n")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.send(body)
    answer = connection.read()
    assert answer.status == 400 and answer.json() == MALFORMED
    assert answer["connection"] == "close"
    check_headers(answer)
    assert connection.ended()


def test_the_limits_of_a_head(peer):
    long_target = b"GET /healthz?" + b"x" * 16384 + b" HTTP/1.1\r\n" + HOST + b"\r\n"
    answer = ask(peer, long_target)
    assert answer.status == 414
    assert answer.json() == {"detail": "Request target too long.", "code": "target_too_long"}
    assert answer["connection"] == "close"
    longest = b"GET /healthz?" + b"x" * (16384 - 9) + b" HTTP/1.1\r\n" + HOST + b"\r\n"
    assert ask(peer, longest).status == 200
    for fields in (b"X: " + b"x" * 16384 + b"\r\n", b"".join(b"X%d: y\r\n" % i for i in range(100))):
        answer = ask(peer, GET + HOST + fields + b"\r\n")
        assert answer.status == 431
        assert answer.json() == {"detail": "Request headers too large.", "code": "headers_too_large"}
        assert answer["connection"] == "close"
    most = b"".join(b"X%d: y\r\n" % i for i in range(99))
    assert ask(peer, GET + HOST + most + b"\r\n").status == 200


def test_http_1_0_is_505_but_for_health(peer, key):
    for data in (
        b"GET /v1/usage HTTP/1.0\r\n" + HOST + key + b"\r\n",
        b"GET /v1/usage HTTP/2.0\r\n" + HOST + key + b"\r\n",
        b"POST /healthz HTTP/1.0\r\n" + HOST + b"\r\n",
    ):
        connection = peer().send(data)
        answer = connection.read()
        assert answer.status == 505
        assert answer.json() == {"detail": "Use HTTP/1.1.", "code": "http_version"}
        assert connection.ended()
    connection = peer().send(b"GET /healthz HTTP/1.0\r\n\r\n")
    answer = connection.read()
    assert answer.status == 200 and answer.json()["status"] == "healthy"
    assert answer["content-length"] and answer["connection"] == "close"
    assert connection.ended()


# ---- 1.34: routes ----


def test_1_34_a_trailing_slash_is_404_and_never_a_redirect(peer, key):
    for path in (b"/v1/sessions/", b"/v1/usage/", b"/healthz/", b"//healthz", b"/v1//usage", b"/v1",
                 b"/v1/", b"/", b"/V1/usage", b"/HEALTHZ", b"/mcp/"):
        for method in (b"GET", b"POST", b"DELETE"):
            answer = ask(peer, method + b" " + path + b" HTTP/1.1\r\n" + HOST + key + b"\r\n")
            assert answer.status == 404, (method, path)
            assert answer.json() == {"detail": "Not Found", "code": "not_found"}
            assert answer["location"] is None
            check_headers(answer)


def test_1_34_a_wrong_method_is_405_with_allow(peer, key):
    for path, allowed in ((b"/healthz", "GET"), (b"/v1/usage", "GET"), (b"/v1/sessions", "POST")):
        for method in (b"PATCH", b"PUT", b"OPTIONS", b"TRACE", b"FROB", b"get", b"DELETE"):
            answer = ask(peer, method + b" " + path + b" HTTP/1.1\r\n" + HOST + key + b"\r\n")
            assert answer.status == 405, (method, path)
            assert answer.json() == {"detail": "Method Not Allowed", "code": "method_not_allowed"}
            assert allowed in re.split(r",\s*", answer["allow"])
            check_headers(answer)


def test_head_is_answered_on_health_alone(peer, key):
    connection = peer().send(b"HEAD /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    answer = connection.read("HEAD")
    assert answer.status == 200 and int(answer["content-length"]) > 0
    connection.send(b"HEAD /v1/usage HTTP/1.1\r\n" + HOST + key + b"\r\n")
    assert connection.read("HEAD").status == 405
    connection.send(GET + HOST + b"\r\n")
    assert connection.read().status == 200


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/sessions/%2e%2e/usage",
        b"/v1/sessions/../usage",
        b"/v1/./usage",
        b"/v1/%75sage%00",
        b"/v1/usage%2f",
        b"/v1%2fusage",
        b"/v1%5cusage",
        b"/v1\\usage",
        b"/v1/usage;x=1",
        b"/v1/usage.",
        b"/v1/usage%20",
        b"/v1/%2575sage",
        b"/v1/usage%",
        b"/v1/usage%zz",
        b"/v1/usage%c0%ae",
        b"/v1/sessions/%ff",
        b"/healthz/..%2fv1/usage",
    ],
)
def test_path_tricks_reach_no_route(peer, key, path):
    answer = ask(peer, b"GET " + path + b" HTTP/1.1\r\n" + HOST + key + b"\r\n")
    assert answer.status == 404, answer.body
    assert "usage" not in answer.body.decode() and "limits" not in answer.body.decode()


# ---- Keys ----


def test_odd_keys_are_refused_quickly(peer, api_key):
    key = api_key.encode()
    for fields in (
        b"",
        b"X-API-Key:\r\n",
        b"X-API-Key: " + key[:-1] + b"\r\n",
        b"X-API-Key: " + key + b"x\r\n",
        b"X-API-Key: " + key + b"\r\nX-API-Key: " + key + b"\r\n",
        b"X-API-Key: \xc3\xbc\xff\r\n",
        b"X-API-Key: " + b"k" * 10000 + b"\r\n",
        b"Authorization: Basic " + key + b"\r\n",
        b"Cookie: X-API-Key=" + key + b"\r\n",
    ):
        answer = ask(peer, b"GET /v1/usage?key=" + key + b" HTTP/1.1\r\n" + HOST + fields + b"\r\n")
        assert answer.status == 401, fields[:80]
        assert answer.json()["code"] == "unauthenticated"
        assert answer["www-authenticate"] is None
        check_headers(answer)
    assert ask(peer, GET + HOST + b"X-API-Key: " + key + b"\0\r\n\r\n").status == 400
    assert ask(peer, GET + HOST + b"X-API-Key: " + b"k" * (1 << 20) + b"\r\n\r\n").status == 431


# ---- Pipelining ----


def test_ten_thousand_pipelined_requests_are_answered_in_order(peer):
    connection, n, step = peer(), 10000, 500
    for begin in range(0, n, step):
        requests = b"".join(
            b"GET /%s HTTP/1.1\r\n%s\r\n" % (b"healthz" if i % 3 else b"x%d" % i, HOST)
            for i in range(begin, begin + step)
        )
        connection.send(requests)
        for i in range(begin, begin + step):
            assert connection.read().status == (200 if i % 3 else 404)


def test_each_pipelined_request_has_its_own_key(peer, key):
    usage = b"GET /v1/usage HTTP/1.1\r\n" + HOST
    wrong = b"X-API-Key: wrong\r\n"
    connection = peer().send(
        b"".join(usage + k + b"\r\n" for k in (key, b"", wrong, key, b"", key))
    )
    assert [connection.read().status for _ in range(6)] == [200, 401, 401, 200, 401, 200]


def test_nothing_is_served_after_a_framing_error(peer, key):
    usage = b"GET /v1/usage HTTP/1.1\r\n" + HOST + key
    connection = peer().send(usage + b"\r\n" + usage + b" folded\r\n\r\n" + usage + b"\r\n")
    assert connection.read().status == 200
    assert connection.read().status == 400
    assert connection.ended()


def test_connection_close_is_the_last_request(peer):
    connection = peer().send(GET + HOST + b"Connection: close\r\n\r\n" + GET + HOST + b"\r\n")
    answer = connection.read()
    assert answer.status == 200 and answer["connection"] == "close"
    assert connection.ended()


def test_a_client_that_closed_its_direction_gets_its_answers(peer):
    connection = peer().send((GET + HOST + b"\r\n") * 2)
    connection.sock.shutdown(socket.SHUT_WR)
    assert [connection.read().status, connection.read().status] == [200, 200]
    assert connection.ended()


# ---- Bodies ----


def test_a_chunked_body_byte_by_byte_is_taken(peer, key):
    connection = peer()
    for byte in CHUNKED[:-2] + key + b"\r\n1\r\n{\r\n01;a=b\r\n}\r\n0\r\n\r\n":
        connection.send(bytes([byte]))
    answer = connection.read()
    assert answer.status == 201, answer.body
    session = answer.json()["session_id"].encode()
    connection.send(b"DELETE /v1/sessions/" + session + b" HTTP/1.1\r\n" + HOST + key + b"\r\n")
    assert connection.read().status == 200


def test_continue_is_said_only_to_who_may_send(peer, key):
    head = POST + b"Content-Type: application/json\r\nContent-Length: 1\r\nExpect: 100-continue\r\n"
    connection = peer().send(head + b"\r\n")
    assert connection.read().status == 401
    assert connection.ended()
    connection = peer().send(head + key + b"\r\n")
    assert connection.read().status == 100
    connection.send(b"[")
    assert connection.read().status == 422


@pytest.mark.parametrize("fields", [b"Content-Length: 12582912\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_who_is_refused_early_still_sees_the_answer(peer, fields):
    connection = peer().send(POST + fields + b"\r\n")
    piece = b"x" * 65536
    if b"chunked" in fields:
        piece = b"10000\r\n" + piece + b"\r\n"
    for _ in range(192):
        connection.send(piece)
    answer = connection.read()
    assert answer.status == 401 and answer["connection"] == "close"
    assert connection.ended()


def test_a_body_that_is_too_large_is_413_before_it_is_read(peer, key):
    head = POST + key + b"Content-Type: application/json\r\n"
    for fields in (
        b"Content-Length: 1048577\r\n\r\n",
        b"Content-Length: 9223372036854775807\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n100001\r\nx",
    ):
        connection = peer().send(head + fields)
        answer = connection.read()
        assert answer.status == 413, answer.body
        assert answer.json()["detail"] == "Request body is larger than the 1 MB limit."
        assert answer["connection"] == "close"
        assert connection.ended()


@pytest.mark.parametrize(
    "kind",
    [
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data; boundary=" + b"b" * 10000,
        b"application/jsonx",
        b"text/json+x; application/json",
    ],
)
def test_only_json_is_taken_for_json(peer, key, kind):
    answer = ask(peer, POST + key + b"Content-Type: " + kind + b"\r\n" + BODY)
    assert answer.status == 415
    assert answer.json()["detail"] == "Content-Type must be application/json."


# ---- Other people's headers ----


def test_ranges_are_ignored(peer):
    many = b", ".join(b"%d-%d" % (i, i) for i in range(1200))
    for ranges in (b"0-0", b"5-2", b"-5", b"0-,0-,0-", many):
        data = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"Range: bytes=" + ranges + b"\r\n\r\n"
        answer = ask(peer, data)
        assert answer.status == 200 and answer["content-range"] is None
        assert answer.json()["paths"]


def test_no_origin_is_let_in(peer, key):
    for origin in (b"https://evil.test", b"null", b"https://airlock.test.evil.test"):
        asked = b"Origin: " + origin + b"\r\n"
        answer = ask(peer, b"GET /v1/usage HTTP/1.1\r\n" + HOST + key + asked + b"\r\n")
        check_headers(answer)
        preflight = b"OPTIONS /v1/usage HTTP/1.1\r\n" + HOST + asked
        answer = ask(peer, preflight + b"Access-Control-Request-Method: GET\r\n\r\n")
        assert answer.status == 405
        check_headers(answer)


def test_a_foreign_host_opens_nothing(peer):
    for host in (b"evil.test", b"127.0.0.1:1", b"[::1]:8000", b"localhost"):
        answer = ask(peer, b"GET /v1/usage HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert answer.status == 401, host


# ---- Slowness ----


def test_three_hundred_slow_clients_do_not_hold_others_up(peer):
    beginnings = (b"", b"G", GET, GET + HOST + b"X: ", POST + b"Content-Length: 100\r\n\r\n{")
    slow = [peer().send(beginnings[i % len(beginnings)]) for i in range(300)]
    for _ in range(20):
        is_alive(peer)
    # A slow one is served like others when it goes on.
    slow[3].send(b"y\r\n\r\n")
    assert slow[3].read().status == 200
