# SPDX-License-Identifier: Apache-2.0
"""Clients that attack the framing of requests on a connection that others may share behind a proxy. Each
must fail; what holds is the bookkeeping of the input (http/conn.h), which is no layer that could be off:
src/http/test-server.c has seen it red."""

from harness import KEYS

BIG = 24 << 20


def test_a_body_that_is_a_request_is_never_served(server):
    """Its answer is a download that goes on while more comes, as from a proxy with the next request."""
    session = server.create()
    key = "Host: x\r\nX-API-Key: %s\r\n" % KEYS["a"]
    path = "/v1/sessions/%s" % session
    server.exec(session, "head -c %d /dev/zero > big" % BIG)
    smuggled = "DELETE %s HTTP/1.1\r\n%s\r\n" % (path, key)
    with server.connect() as s:
        s.sendall(
            ("GET %s/files?path=big HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s"
             % (path, key, len(smuggled), smuggled)).encode()
        )
        got = s.recv(4096)
        s.sendall(b"G")
        while b"\r\n\r\n" not in got:
            got += s.recv(4096)
        head, _, body = got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        left = BIG - len(body)
        while left:
            piece = s.recv(min(left, 1 << 20))
            assert piece
            left -= len(piece)
        s.sendall(("ET /v1/usage HTTP/1.1\r\n%sConnection: close\r\n\r\n" % key).encode())
        rest = b""
        while piece := s.recv(65536):
            rest += piece
    assert rest.count(b"HTTP/1.1 ") == 1 and b'"sessions"' in rest, rest
    assert server.get(path).status == 200
    server.delete(path)
