# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the code host: CodeHost is one on loopback, SANDBOX_GITHUB_BASE is its base; TLSHost is
what talks behind the TLS of internet.py."""

import contextlib
import http.server
import io
import socket
import sys
import tarfile
import threading


def archive(*members, root="repo-1/"):
    """A tar in gzip: (name, bytes) are files, (name, type, link) others."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, *rest in members:
            info = tarfile.TarInfo(root + name)
            if len(rest) == 1:
                info.size = len(rest[0])
                tar.addfile(info, io.BytesIO(rest[0]))
            else:
                info.type, info.linkname = rest
                tar.addfile(info)
    return out.getvalue()


class CodeHost(http.server.ThreadingHTTPServer):
    """Answers by path: bytes, a status, or a function of the handler."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.base = "http://127.0.0.1:%d" % self.server_address[1]
        self.paths, self.asked = {}, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def put(self, what, answer, ref="HEAD"):
        self.paths["/o/%s/archive/%s.tar.gz" % (what, ref)] = answer

    def handle_error(self, request, client_address):
        """Whoever downloads may be killed in the middle; other errors are the test's."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_GET(self):
        self.server.asked.append((self.path, self.headers["User-Agent"]))
        answer = self.server.paths.get(self.path, 404)
        if callable(answer):
            answer(self)
            return
        body = answer if isinstance(answer, bytes) else b""
        self.send_response(200 if isinstance(answer, bytes) else answer)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def answer(status=200, body=b"", *fields, length=None):
    lines = [b"HTTP/1.1 %d Whatever" % status, *fields]
    if length is not False:
        lines.append(b"Content-Length: %d" % (len(body) if length is None else length))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def redirect(to, status=302):
    return answer(status, b"elsewhere", b"Location: " + to.encode("latin-1"))


class TLSHost:
    """Answers by path: bytes are sent, a function talks. Remembers what it was asked."""

    def __init__(self):
        self.paths = {}
        self.requests = []
        self.release = threading.Event()

    def __call__(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return
            data += more
        self.requests.append(data)
        what = self.paths.get(data.split(b" ")[1].decode(), answer(404))
        if callable(what):
            what(connection)
        else:
            connection.sendall(what)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
