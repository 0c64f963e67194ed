# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the code host, on loopback: SANDBOX_GITHUB_BASE is its base."""

import http.server
import io
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
