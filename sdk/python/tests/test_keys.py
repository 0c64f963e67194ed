# SPDX-License-Identifier: Apache-2.0
"""Keys, against a server that answers from a script."""

import platform

import pytest

from airlock_sandbox import errors
from airlock_sandbox import keys as module
from airlock_sandbox.keys import Keys
from standin import Reply, StandIn

RECORD = {
    "key_id": "abcdefghij",
    "tenant_id": "acme",
    "name": "a name of more than twenty",
    "created_at": 1.0,
    "revoked_at": None,
    "active": True,
    "prefix": "asb_abcdefghij_\u2026",
}


def test_a_tenant_asks_with_its_key():
    replies = (
        Reply(body={"tenant_id": "acme", "keys": [RECORD]}),
        Reply(201, body=dict(RECORD, api_key="asb_x")),
        Reply(body=RECORD),
    )
    with StandIn(*replies) as server:
        keys = Keys("k" * 20, server.url)
        assert keys.list("ignored") == [RECORD]
        assert keys.create("ci")["api_key"] == "asb_x"
        assert keys.revoke("a/b") == RECORD
        asked = server.asked
    assert [(one.method, one.target) for one in asked] == [
        ("GET", "/v1/keys"),
        ("POST", "/v1/keys"),
        ("DELETE", "/v1/keys/a%2Fb"),
    ]
    assert asked[1].body == b'{"name": "ci"}'
    assert {one.headers["X-API-Key"] for one in asked} == {"k" * 20}
    # As the contract has it (18.3): unlike a Sandbox, with Python's version and not the package's.
    agent = "airlock-sandbox python/" + platform.python_version()
    assert {one.headers["User-Agent"] for one in asked} == {agent}


def test_an_operator_asks_for_all_tenants(monkeypatch):
    monkeypatch.setenv("SANDBOX_ADMIN_KEY", "a" * 32)
    with StandIn(Reply(body={"keys": []}), Reply(201, body=RECORD)) as server:
        monkeypatch.setenv("SANDBOX_API_URL", server.url)
        keys = Keys(admin=True)
        assert keys.list("x y") == []
        with pytest.raises(errors.SandboxError, match="tenant"):
            keys.create("ci")
        keys.create("ci", "acme")
        listing, create = server.asked
    assert listing.target == "/v1/admin/keys?tenant=x+y"
    assert create.body == b'{"name": "ci", "tenant": "acme"}'
    assert create.headers["X-API-Key"] == "a" * 32


@pytest.mark.parametrize("admin, variable", [(False, "SANDBOX_API_KEY"), (True, "SANDBOX_ADMIN_KEY")])
def test_what_is_missing_is_named(admin, variable):
    with pytest.raises(errors.SandboxError, match="SANDBOX_API_URL and " + variable):
        Keys(admin=admin)


def run(monkeypatch, capsys, server, *arguments):
    monkeypatch.setenv("SANDBOX_API_URL", server.url)
    monkeypatch.setenv("SANDBOX_API_KEY", "k" * 20)
    try:
        module.main(arguments)
        status = 0
    except SystemExit as end:
        status = end.code
    return status, capsys.readouterr()


def test_the_command_lists(monkeypatch, capsys):
    revoked = dict(RECORD, active=False, name="b")
    with StandIn(Reply(body={"keys": [RECORD, revoked]}), Reply(body={"keys": []})) as server:
        status, said = run(monkeypatch, capsys, server, "list")
        assert status == 0
        assert said.out.splitlines() == [
            "KEY ID       TENANT           NAME                 STATUS   PREFIX",
            "abcdefghij   acme             a name of more than  active   asb_abcdefghij_\u2026",
            "abcdefghij   acme             b                    revoked  asb_abcdefghij_\u2026",
        ]
        assert run(monkeypatch, capsys, server, "list")[1].out == "No keys.\n"


def test_the_command_shows_a_new_key_once(monkeypatch, capsys):
    with StandIn(Reply(201, body=dict(RECORD, name="ci", api_key="asb_x"))) as server:
        said = run(monkeypatch, capsys, server, "create", "--name", "ci")[1].out.splitlines()
    assert said[:4] == ["Created key abcdefghij for tenant acme (ci).", "", "    asb_x", ""]
    assert "shown only once" in said[4]


def test_the_command_revokes(monkeypatch, capsys):
    with StandIn(Reply(body=dict(RECORD, name="ci"))) as server:
        said = run(monkeypatch, capsys, server, "revoke", "abcdefghij")[1].out
    assert said == "Revoked abcdefghij (acme, ci). It stops working immediately.\n"


def test_the_commands_errors(monkeypatch, capsys):
    refused = Reply(409, body={"detail": "This is the last active key.", "code": "last_key"})
    with StandIn(refused) as server:
        status, said = run(monkeypatch, capsys, server, "revoke", "abcdefghij")
        assert status == 1
        assert said.err == "airlock-sandbox-keys: SandboxError: This is the last active key.\n"
        assert run(monkeypatch, capsys, server, "nonsense")[0] == 2
