# SPDX-License-Identifier: Apache-2.0
"""An HTTP server that answers from a script and remembers what it was asked."""

import http.server
import json
import threading


class Reply:
    """One answer. drop: close the connection without any answer."""

    def __init__(self, status=200, body=None, headers=None, raw=None, drop=False):
        self.status = status
        self.raw = raw if raw is not None else json.dumps({} if body is None else body).encode()
        self.headers = headers or {}
        self.drop = drop


class Asked:
    def __init__(self, method, target, headers, body):
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)


class StandIn:
    """Use as a context manager. The last reply of the script is given for ever."""

    def __init__(self, *script):
        self.script = list(script)
        self.asked = []
        standin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                standin.asked.append(Asked(self.command, self.path, self.headers, body))
                script = standin.script
                reply = script.pop(0) if len(script) > 1 else script[0]
                if callable(reply):
                    reply = reply(standin.asked[-1])
                if reply.drop:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in reply.headers:
                    self.send_header("Content-Length", str(len(reply.raw)))
                self.end_headers()
                self.wfile.write(reply.raw)

            do_GET = do_POST = do_PUT = do_DELETE = _answer

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self._server.server_port

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
