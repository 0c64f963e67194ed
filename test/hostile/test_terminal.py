# SPDX-License-Identifier: Apache-2.0
"""Texts of tenants, and of other users of the host, on the terminal of whoever looks at them: what a terminal
obeys must not arrive there."""

import json
import re
import subprocess
import sys

import pytest

import harness
from harness import KEYS

ADMIN = "operator-0123456789abcdef0123456789"
# ESC and BEL, DEL, and CSI as one character.
ORDERS = "\x1b[31m\x07\x7f\x9b31m"
IMPOSTOR = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, b"airlock-launcher", 0, 0, 0)
print(flush=True)
sys.stdin.read()
"""
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def logged(servers):
    return servers.get({"SANDBOX_AUDIT": "sqlite", "SANDBOX_KEYSTORE": "sqlite", "SANDBOX_ADMIN_KEY": ADMIN})


def airlock(server, *words):
    """(exit status, all that it printed)"""
    ran = subprocess.run(
        [server.program, *words],
        env=harness.environment(
            SANDBOX_API_URL=server.url, SANDBOX_API_KEY=KEYS["a"], SANDBOX_ADMIN_KEY=ADMIN
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    return ran.returncode, ran.stdout.decode()


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_command_on_record_gives_no_orders(logged, form):
    session = logged.create()
    command = "echo harmless %s" % ORDERS
    logged.exec(session, command)
    status, printed = airlock(logged, "audit", "--limit", "1", *form)
    assert status == 0 and "echo harmless" in printed
    assert not CONTROL.search(printed), repr(printed)
    if form:
        assert json.loads(printed)["command"] == command
    logged.delete("/v1/sessions/" + session)


def test_a_path_that_is_refused_gives_no_orders(logged):
    session = logged.create()
    status, printed = airlock(logged, "files", "read", session, "missing" + ORDERS)
    assert status == 1 and "missing" in printed
    assert not CONTROL.search(printed), repr(printed)
    logged.delete("/v1/sessions/" + session)


@pytest.mark.parametrize("order", CONTROL.findall(ORDERS))
def test_a_name_of_a_key_has_no_control_characters(logged, order):
    answer = logged.post("/v1/keys", {"name": "a%sb" % order}, key=KEYS["b"])
    assert (answer.status, answer.code) == (422, "invalid_request")


def test_a_process_that_is_named_like_ours_gives_no_orders(logged):
    impostor = subprocess.Popen(
        [sys.executable, "-c", IMPOSTOR, "--state-dir", "/nowhere" + ORDERS],
        user=65534, group=65534, extra_groups=[], cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )
    try:
        impostor.stdout.readline()
        status, printed = airlock(logged, "status")
    finally:
        impostor.stdin.close()
        impostor.wait()
    assert status == 0 and "/nowhere" in printed
    assert not CONTROL.search(printed), repr(printed)
