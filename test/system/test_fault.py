# SPDX-License-Identifier: Apache-2.0
"""Every system call of the launcher's and init's start and hand-over paths fails once.

For each n the n-th call that a process, or anything it forks meanwhile, makes while a command is
asked for is refused (test/fault/inject.c). Whatever it hits: the caller gets its result or a clean
error, the next command works, and in the end nothing is left.
"""

import errno
import os

import pytest

import harness
from injection import Injection, missing

CALLS_MAX = 2000


@pytest.fixture(scope="module")
def faulty(servers):
    if missing():
        pytest.skip(missing())
    # Without a pool every command builds its sandbox, on the path.
    return servers.get({"SANDBOX_POOL": "0"})


@pytest.fixture(scope="module")
def faulty_egress(servers):
    if missing():
        pytest.skip(missing())
    if not os.access(os.path.join(harness.BUILD, "airlock-gateway"), os.X_OK):
        pytest.skip("airlock-gateway is not built")
    return servers.get(
        {
            "SANDBOX_POOL": "0",
            "SANDBOX_EGRESS_POLICY": '{"a": ["allowed.example"]}',
            "SANDBOX_EGRESS_DNS": "192.0.2.53",
        }
    )


def process_of_role(server, role):
    if role == "hand-over":
        return server.process.pid

    return server.wait_for_child("airlock-" + role)


def run_all(server, role, number, start=1, **session):
    """How many calls were refused, one in each round, before a command needed no further one."""
    session = server.create(**session)
    hits = 0
    for n in range(start, CALLS_MAX):
        # A round that finds a sandbox which the round before left ready needs fewer calls.
        if not any(one_round(server, role, number, n, session) for _ in range(3)):
            break
        hits += 1
    else:
        raise AssertionError("more than %d calls" % CALLS_MAX)
    server.delete("/v1/sessions/" + session)
    return hits


def one_round(server, role, number, n, session):
    """Whether an n-th call was made, and refused, while a command was asked for."""
    injection = Injection(process_of_role(server, role), n, number)
    answer = server.post(
        "/v1/sessions/%s/exec" % session, {"command": "echo ok", "timeout_seconds": 10}
    )
    hit = injection.finish()
    where = "n=%d hit=%s %r" % (n, hit, answer)
    if answer.status == 200:
        result = answer.json
        good = (result["exit_code"], result["stdout"]) == (0, "ok\n")
        # A call that the tenant's own program made may well fail; then it says so itself.
        assert good or result["exit_code"] != 0, where
    else:
        assert answer.status in (500, 503) and answer.code, where
    harness.wait_until(lambda: works(server, session), "works again: " + where)
    return hit is not None


def works(server, session):
    answer = server.post(
        "/v1/sessions/%s/exec" % session, {"command": "echo ok", "timeout_seconds": 10}
    )
    return answer.status == 200 and answer.json["stdout"] == "ok\n"


def test_every_call_of_a_build_and_of_init_fails_once(faulty):
    faulty.exec(faulty.create(), "true")
    before = harness.Inventory(faulty)
    hits = run_all(faulty, "builder", errno.ENOMEM)
    assert hits > 200, "only %d calls were seen; is the builder traced?" % hits
    after = harness.Inventory(faulty)
    harness.wait_until(
        lambda: not harness.tenant_processes(faulty.number), "no sandbox is left"
    )
    assert after.mounts == before.mounts and after.loop == before.loop


def test_every_call_of_a_build_with_egress_fails_once(faulty_egress):
    """Routes, listening sockets and the all-ports catch among them: a sandbox has all or is none."""
    server = faulty_egress
    harness.wait_until(lambda: server.get("/healthz").json["status"] == "healthy", "it is ready")
    gateway = server.wait_for_child("airlock-gateway")

    def descriptors():
        return [len(os.listdir("/proc/%d/fd" % pid)) for pid in (gateway, server.process.pid)]

    server.delete("/v1/sessions/" + server.create(egress=["allowed.example"]))
    before = descriptors()
    hits = run_all(server, "builder", errno.ENOMEM, egress=["allowed.example"])
    assert hits > 220, "only %d calls were seen" % hits
    harness.wait_until(
        lambda: not harness.tenant_processes(server.number), "no sandbox is left"
    )

    def none_left():
        in_gateway, in_launcher = (a - b for a, b in zip(descriptors(), before))
        # Four files of each slot that was used stay open; of five sockets and a link none does.
        return in_gateway == 0 and in_launcher % 4 == 0

    harness.wait_until(none_left, "%r as before, now %r" % (before, descriptors()))
    assert server.child("airlock-gateway") == gateway


def test_every_call_of_a_hand_over_with_egress_fails_once(faulty_egress):
    hits = run_all(faulty_egress, "hand-over", errno.EIO, egress=["allowed.example"])
    assert hits > 10, "only %d calls were seen" % hits
    harness.wait_until(
        lambda: not harness.tenant_processes(faulty_egress.number), "no sandbox is left"
    )


def test_every_call_of_a_hand_over_fails_once(faulty):
    hits = run_all(faulty, "hand-over", errno.EIO)
    assert hits > 10, "only %d calls were seen" % hits
    harness.wait_until(
        lambda: not harness.tenant_processes(faulty.number), "no sandbox is left"
    )
