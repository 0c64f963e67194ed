# SPDX-License-Identifier: Apache-2.0
"""What `make run` does after building, with a stand-in for the server: whom it takes for one that serves,
and which key it shows."""

import os
import signal
import subprocess

import pytest

import harness

STAND_IN = """#!/usr/bin/python3
import http.server, json, os

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = os.environ["TEST_HEALTH"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.send_error(404)

    def log_message(self, *_):
        pass

host, port = os.environ["SANDBOX_LISTEN"].split(":")
http.server.HTTPServer((host, int(port)), Answer).serve_forever()
"""

DEGRADED = '{"status": "degraded", "active_sessions": 0, "problems": ["one thing", "another"]}'


@pytest.fixture
def run(tmp_path):
    """The lines of deploy/run.sh until it waits for Ctrl-C, with the given variables."""
    program = tmp_path / "airlock"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    processes = []

    def start(health=DEGRADED, **variables):
        process = subprocess.Popen(
            [os.path.join(harness.ROOT, "deploy", "run.sh")], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            env=harness.environment(
                BUILD=str(tmp_path), TEST_HEALTH=health, SANDBOX_STATE_DIR=str(tmp_path / "state"),
                SANDBOX_LISTEN="127.0.0.1:%d" % harness.free_port(), **variables
            ),
        )
        processes.append(process)
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith("Ctrl-C"):
                break
        return lines

    yield start
    for process in processes:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


def key_shown(lines):
    return [line.partition("=")[2] for line in lines if "export SANDBOX_API_KEY=" in line]


def test_a_server_with_problems_serves_and_they_are_shown(run):
    lines = run(SANDBOX_API_KEY="k" * 20)
    at = lines.index("Airlock is running, with problems:")
    assert lines[at + 1 : at + 4] == ["", "    one thing", "    another"]
    assert key_shown(lines) == ["k" * 20]
    assert lines[-1].startswith("Ctrl-C")


def test_one_without_problems_is_just_running(run):
    lines = run('{"status": "healthy", "active_sessions": 0}', SANDBOX_API_KEY="k" * 20)
    assert "Airlock is running. To use it from another shell:" in lines


@pytest.mark.parametrize(
    "variables, key",
    [
        ({"SANDBOX_API_KEYS": "acme:first:part,other:second"}, "first:part"),
        ({"SANDBOX_API_KEYS": " , ,\t acme : first\t, other:second"}, "first"),
        ({"SANDBOX_API_KEY": " first ", "SANDBOX_API_KEYS": "acme:second"}, "first"),
        ({"SANDBOX_API_KEY": " ", "SANDBOX_API_KEYS": "acme:second"}, "second"),
    ],
)
def test_the_key_that_is_shown_is_one_that_the_server_takes(run, variables, key):
    assert key_shown(run(**variables)) == [key]
