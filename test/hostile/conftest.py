# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the hostile suite."""

import os
import sys

import pytest

import harness

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from bounds import in_time  # noqa: E402
from box import Box, KnobServers  # noqa: E402


@pytest.fixture(scope="session")
def canaries(shared_server):
    """Secrets that no probe may ever see: of the host, and of another tenant."""
    host = "canary-host-" + os.urandom(16).hex()
    other = "canary-other-" + os.urandom(16).hex()
    path = os.path.join(shared_server.state_dir, "canary")
    with open(path, "w") as file:
        file.write(host)
    os.chmod(path, 0o600)
    session = shared_server.create(harness.KEYS["b"])
    shared_server.post(
        "/v1/sessions/%s/write" % session,
        {"path": "canary", "content": other},
        key=harness.KEYS["b"],
    )
    yield host, other
    shared_server.delete("/v1/sessions/" + session, key=harness.KEYS["b"])
    os.unlink(path)


@pytest.fixture
def box(server, canaries):
    opened = Box(server, canaries=canaries)
    yield opened
    # The innocent next command.
    assert in_time(2, lambda: opened.sh("echo ok"))["stdout"] == "ok\n"
    opened.close()


@pytest.fixture(scope="session")
def knob_servers():
    running = KnobServers()
    yield running
    running.stop_all()
