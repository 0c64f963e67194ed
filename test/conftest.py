# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the system, conformance and hostile suites."""

import json
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import clients  # noqa: E402
import harness  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than half a minute")
    # No proxy of the caller's comes between the tests and loopback.
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            del os.environ[name]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    harness.remove_unused_dirs()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    harness.remove_state_dirs()
    clients.remove_unpacked()


class Servers:
    """Servers by their configuration. One that a module asks for again is the same one, as long as it
    is among the last few: a machine has room for 16 in all."""

    AT_ONCE = 2

    def __init__(self):
        self._running = {}

    def get(self, env=None, **options):
        name = json.dumps([env, options], sort_keys=True)
        server = self._running.pop(name, None)
        if server is None:
            while len(self._running) >= self.AT_ONCE:
                self._stop(next(iter(self._running)))
            server = harness.Server(env, **options).start()
        self._running[name] = server
        return server

    def _stop(self, name):
        server = self._running.pop(name)
        server.stop()
        server.release()

    def stop_all(self):
        problems = []
        for name in list(self._running):
            try:
                self._stop(name)
            except AssertionError as error:
                problems.append(str(error))
        assert not problems, "\n".join(problems)


def _need_server():
    why = harness.runnable()
    if why:
        pytest.skip(why)


@pytest.fixture(scope="session")
def shared_server():
    """One server with wide limits for everything that does not change its configuration."""
    _need_server()
    servers = Servers()
    yield servers.get()
    servers.stop_all()


@pytest.fixture
def server(shared_server):
    yield shared_server
    assert shared_server.process.poll() is None, "the server ended:\n" + shared_server.log_tail()


@pytest.fixture(scope="module")
def servers():
    """Servers with other configurations: servers.get({"SANDBOX_...": "..."})."""
    _need_server()
    running = Servers()
    yield running
    running.stop_all()


@pytest.fixture
def server_url(server):
    return server.url


@pytest.fixture
def api_key():
    return harness.KEYS["a"]


@pytest.fixture(params=clients.PUBLISHED + ("ours",))
def sdk(request):
    """The published clients and ours, one after the other."""
    try:
        return clients.client(request.param)
    except clients.MissingWheel as missing:
        (pytest.fail if harness.CI else pytest.skip)(str(missing))


@pytest.fixture
def ours():
    return clients.client("ours")


@pytest.fixture
def sandbox(server, ours):
    with ours.sandbox(server) as opened:
        yield opened


@pytest.fixture
def session(server):
    """The id of a session of tenant a."""
    made = server.create()
    yield made
    server.delete("/v1/sessions/" + made)
