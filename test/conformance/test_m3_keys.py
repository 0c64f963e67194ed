# SPDX-License-Identifier: Apache-2.0
"""The acceptance cases of keys and of the operator's calls, by their numbers in the contract (3.1 to
3.7, 3.17), through the published client that knows keys, ours, and by hand. Texts are exact.
"""

import contextlib
import http.client
import importlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import clients
import harness
from harness import KEYS

ADMIN = "operator-0123456789abcdef0123456789"
KEY = re.compile(r"asb_([a-z2-7]{10})_[A-Za-z0-9_-]{43}\Z")
STORED = {"SANDBOX_KEYSTORE": "sqlite", "SANDBOX_ADMIN_KEY": ADMIN}
REFUSED = (401, "unauthenticated", "Invalid or missing X-API-Key header")
LAST = "This is the tenant's last active key; create a new one before revoking it."


@pytest.fixture
def keeper(servers):
    return servers.get(STORED)


@pytest.fixture(params=("0.9.0", "ours"))
def keys(request):
    """The module airlock_sandbox.keys of the clients that have one."""
    try:
        client = clients.client(request.param)
    except clients.MissingWheel as missing:
        (pytest.fail if harness.CI else pytest.skip)(str(missing))
    folder = client.modules["airlock_sandbox"].__path__[0].rsplit("/", 1)[0]
    client.activate()
    sys.path.insert(0, folder)
    try:
        module = importlib.import_module("airlock_sandbox.keys")
    finally:
        sys.path.remove(folder)
    module.errors_of_client = client.errors
    return module


def said(answer):
    return answer.status, answer.code, answer.detail


def issue(server, tenant, name=""):
    answer = server.post("/v1/admin/keys", {"tenant": tenant, "name": name}, key=ADMIN)
    assert answer.status == 201, answer
    return answer.json


def test_3_1_a_key_works_at_once_until_it_is_revoked(keeper, keys):
    admin = keys.Keys(ADMIN, keeper.url, admin=True)
    made = admin.create(name="ci", tenant="acme-31")
    assert KEY.match(made["api_key"]).group(1) == made["key_id"]
    assert "shown only once" in made["note"]
    assert made["tenant_id"] == "acme-31"
    answer = keeper.get("/v1/usage", key=made["api_key"])
    assert (answer.status, answer.json["tenant_id"]) == (200, "acme-31")
    session = keeper.post("/v1/sessions", {}, key=made["api_key"]).json["session_id"]
    assert keeper.exec(session, "echo in", key=made["api_key"])["stdout"] == "in\n"
    gone = admin.revoke(made["key_id"])
    assert not gone["active"] and gone["revoked_at"] >= made["created_at"]
    assert said(keeper.get("/v1/usage", key=made["api_key"])) == REFUSED
    assert admin.revoke(made["key_id"]) == gone
    # The tenant and what it has stay.
    again = admin.create(tenant="acme-31")["api_key"]
    assert keeper.exec(session, "echo still", key=again)["stdout"] == "still\n"
    keeper.delete("/v1/sessions/" + session, key=again)


def test_3_2_a_list_has_no_secret_and_no_static_key(keeper, keys):
    admin = keys.Keys(ADMIN, keeper.url, admin=True)
    tenant = "acme-32-%d" % time.monotonic_ns()
    made = [admin.create(name=name, tenant=tenant) for name in ("one", "two")]
    for records in (
        admin.list(tenant=tenant),
        keys.Keys(made[0]["api_key"], keeper.url).list(),
        keeper.get("/v1/keys", key=made[1]["api_key"]).json["keys"],
    ):
        assert [record["name"] for record in records] == ["one", "two"]
        for record in records:
            assert sorted(record) == [
                "active", "created_at", "key_id", "name", "prefix", "revoked_at", "tenant_id",
            ]
            assert record["prefix"] == "asb_%s_\u2026" % record["key_id"]
    everything = keeper.get("/v1/admin/keys", key=ADMIN)
    for one in made:
        assert one["api_key"][-43:] not in everything.body.decode()
    assert not {"a", "b"} & {record["tenant_id"] for record in everything.json["keys"]}
    assert keeper.get("/v1/keys").json == {"tenant_id": "a", "keys": []}
    assert admin.list(tenant="nobody at all") == []


def test_3_3_a_tenant_rotates_its_key(keeper, keys):
    tenant = "acme-33-%d" % time.monotonic_ns()
    old = issue(keeper, tenant)
    mine = keys.Keys(old["api_key"], keeper.url)
    with pytest.raises(keys.errors_of_client.SandboxError, match="last active key"):
        mine.revoke(old["key_id"])
    new = mine.create(name="next")
    # The answer to whoever gives its own key up.
    assert mine.revoke(old["key_id"])["active"] is False
    assert said(keeper.get("/v1/usage", key=old["api_key"])) == REFUSED
    mine = keys.Keys(new["api_key"], keeper.url)
    other = issue(keeper, "acme-33-other")
    answer = keeper.delete("/v1/keys/" + other["key_id"], key=new["api_key"])
    assert said(answer) == (
        404, "key_not_found", "No key '%s' for this tenant." % other["key_id"],
    )
    for _ in range(9):
        mine.create()
    answer = keeper.post("/v1/keys", {}, key=new["api_key"])
    assert said(answer) == (
        409,
        "too_many_keys",
        "Tenant '%s' already has 10 active keys (max 10). Revoke one first." % tenant,
    )
    # The operator may take the last one.
    for record in mine.list():
        keys.Keys(ADMIN, keeper.url, admin=True).revoke(record["key_id"])
    assert said(keeper.get("/v1/keys", key=new["api_key"])) == REFUSED


def test_3_4_each_key_opens_its_own_calls(keeper):
    assert said(keeper.get("/v1/usage", key=ADMIN)) == REFUSED
    wrong = (401, "bad_admin_key", "Invalid or missing admin key")
    made = issue(keeper, "acme-34")
    assert said(keeper.get("/v1/admin/keys", key=made["api_key"])) == wrong
    assert said(keeper.get("/v1/admin/keys", key=KEYS["a"])) == wrong
    assert said(keeper.get("/v1/admin/keys", key=None)) == wrong


def test_3_5_what_is_not_configured_says_so(server, servers):
    off = "Self-service keys are not enabled on this server (SANDBOX_KEYSTORE)."
    for method, path in (("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/x")):
        assert said(server.request(method, path)) == (501, "keystore_off", off)
    admin_off = (404, "admin_off", "The admin API is not enabled on this server.")
    assert said(server.get("/v1/admin/keys", key=ADMIN)) == admin_off
    assert said(server.get("/v1/admin/keys", key=None)) == admin_off
    only_admin = servers.get({"SANDBOX_ADMIN_KEY": ADMIN})
    assert said(only_admin.get("/v1/admin/keys", key=ADMIN)) == (501, "keystore_off", off)
    assert said(only_admin.get("/v1/admin/keys"))[0] == 401


def test_3_5_a_short_admin_key_is_refused_at_the_start():
    status, err = harness.serve_once({"SANDBOX_ADMIN_KEY": "x" * 31})
    assert status == 78
    assert err == "airlock: SANDBOX_ADMIN_KEY: must have at least 32 characters\n"


def test_3_6_what_an_operator_may_not_ask(keeper):
    bad = "Tenant names are 1-63 chars of lowercase letters, digits, '-' or '_'."
    for tenant in ("", "Acme", "-a", "a.b", "a" * 64, "\u00fc"):
        answer = keeper.post("/v1/admin/keys", {"tenant": tenant}, key=ADMIN)
        assert said(answer) == (400, "bad_tenant", bad), tenant
    for key_id in ("aaaaaaaaaa", "nonsense", "%00"):
        answer = keeper.delete("/v1/admin/keys/" + key_id, key=ADMIN)
        assert answer.status == 404 and answer.code in ("key_not_found", "not_found")
    answer = keeper.delete("/v1/admin/keys/aaaaaaaaaa", key=ADMIN)
    assert answer.detail == "No key 'aaaaaaaaaa'."
    for body in ({}, {"tenant": 1}, {"tenant": "a", "name": "x" * 101}, {"tenant": "a", "name": "\n."}):
        assert keeper.post("/v1/admin/keys", body, key=ADMIN).status == 422, body


def test_3_7_a_key_that_is_nearly_right_is_refused(keeper):
    made = issue(keeper, "acme-37")
    right = made["api_key"]
    secret = right[-43:]
    wrong = [
        right[:-43] + ("A" if secret[0] != "A" else "B") + secret[1:],
        right[:-1] + ("A" if secret[-1] != "A" else "B"),
        right[:-1], right + "A", right.upper(), " ".join((right, right)),
        "asb_%s_" % made["key_id"], "asb_aaaaaaaaaa_" + secret, "\u00e4" + right,
    ]
    for text in wrong:
        headers = {"X-API-Key": text.encode()}
        answer = keeper.request("GET", "/v1/usage", key=None, headers=headers)
        assert said(answer) == REFUSED, text
    assert keeper.get("/v1/usage", key=right).status == 200


def test_3_17_the_command(keeper, keys, monkeypatch, capsys):
    monkeypatch.setenv("SANDBOX_API_URL", keeper.url)
    monkeypatch.setenv("SANDBOX_ADMIN_KEY", ADMIN)

    def command(*arguments):
        try:
            keys.main(list(arguments))
            status = 0
        except SystemExit as end:
            status = end.code
        return (status, *capsys.readouterr())

    tenant = "acme-317-%d" % time.monotonic_ns()
    status, out, _ = command("--admin", "create", "--tenant", tenant, "--name", "laptop")
    first, blank, shown, _, sentence = out.splitlines()
    made = KEY.match(shown.strip())
    assert status == 0 and not blank and shown.startswith("    asb_")
    assert first == "Created key %s for tenant %s (laptop)." % (made.group(1), tenant)
    assert "shown only once" in sentence
    monkeypatch.setenv("SANDBOX_API_KEY", shown.strip())
    status, out, _ = command("list")
    assert out.splitlines() == [
        "KEY ID       TENANT           NAME                 STATUS   PREFIX",
        "%-12s %-16s %-20s active   asb_%s_\u2026" % (made.group(1), tenant, "laptop", made.group(1)),
    ]
    status, out, err = command("revoke", made.group(1))
    assert (status, out) == (1, "") and "last active key" in err
    assert command("create", "--name", "other")[0] == 0
    status, out, _ = command("revoke", made.group(1))
    assert status == 0
    assert out == "Revoked %s (%s, laptop). It stops working immediately.\n" % (made.group(1), tenant)
    assert command("list")[0] == 1
    assert command("--admin", "list", "--tenant", "nobody")[1] == "No keys.\n"


def test_revoking_ends_what_is_open(keeper):
    """A stream of events and what it runs, an upload in the middle, a command that is waited for."""
    made = issue(keeper, "acme-open")
    session = keeper.post("/v1/sessions", {}, key=made["api_key"]).json["session_id"]
    ended = []

    def wait():
        try:
            answer = keeper.post(
                "/v1/sessions/%s/exec" % session,
                {"command": "echo $$ > pid; sleep 60", "timeout_seconds": 60},
                key=made["api_key"],
            )
            ended.append(answer.status)
        except (OSError, http.client.HTTPException) as error:
            ended.append(type(error).__name__)

    waiting = threading.Thread(target=wait)
    waiting.start()
    spare = issue(keeper, "acme-open")

    def running():
        return keeper.get("/v1/usage", key=spare["api_key"]).json["commands_running"]

    harness.wait_until(lambda: running() == 1, "the command runs")
    with keeper.connect() as upload:
        upload.sendall(
            (
                "PUT /v1/sessions/%s/files?path=f HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n"
                "Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"
                % (session, made["api_key"])
            ).encode()
        )
        # The key was looked at.
        assert upload.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        upload.sendall(bytes(1000))
        assert keeper.delete("/v1/admin/keys/" + made["key_id"], key=ADMIN).status == 200
        # By themselves they would end after 60 s and 30 s.
        waiting.join(20)
        assert ended and ended[0] != 200
        upload.settimeout(20)
        try:
            assert upload.recv(100) == b""
        except (ConnectionResetError, BrokenPipeError):
            pass
        except socket.timeout:
            pytest.fail("the upload goes on")
    harness.within(lambda: running() == 0, 20, "the command has ended")
    keeper.delete("/v1/sessions/" + session, key=spare["api_key"])


def test_keys_survive_a_kill(servers):
    """Of a database of its own, beside the state's."""
    server = servers.get(dict(STORED, SANDBOX_KEYSTORE="sqlite:keys.db"))
    kept, gone = issue(server, "acme-kill"), issue(server, "acme-kill")
    assert server.delete("/v1/admin/keys/" + gone["key_id"], key=ADMIN).status == 200
    (pid,) = server.process_of("airlockd")
    os.kill(pid, signal.SIGKILL)

    def is_back():
        with contextlib.suppress(OSError):
            return server.process_of("airlockd") != [pid] and server.get("/healthz").status == 200

    harness.wait_until(is_back, "airlockd is back")
    assert server.get("/v1/usage", key=kept["api_key"]).status == 200
    assert said(server.get("/v1/usage", key=gone["api_key"])) == REFUSED


def test_wrong_admin_keys_are_counted(servers):
    server = servers.get(dict(STORED, SANDBOX_MAX_SESSIONS="99"))
    began, wrong = time.monotonic(), 0
    while (answer := server.get("/v1/admin/keys", key="x" * 32)).status == 401:
        wrong += 1
    # One more is let in every 6 s.
    assert 10 <= wrong <= 10 + (time.monotonic() - began) / 6
    assert answer.status == 429 and 1 <= int(answer.headers["Retry-After"]) <= 6
    assert server.get("/v1/admin/keys", key=ADMIN).status == 200


def test_the_command_line_says_the_same(keeper):
    def command(*arguments, **more):
        env = dict(harness.environment(), SANDBOX_API_URL=keeper.url, SANDBOX_ADMIN_KEY=ADMIN, **more)
        ran = subprocess.run(
            [os.path.join(harness.BUILD, "airlock"), "keys", *arguments],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, text=True,
        )
        return ran.returncode, ran.stdout, ran.stderr

    status, out, _ = command(
        "--admin", "create", "--tenant", "acme-cli", "--name", "\u00e4" * 25
    )
    text = KEY.search(out.splitlines()[2]).group(0)
    key_id = KEY.match(text).group(1)
    assert status == 0
    assert out.splitlines()[0] == "Created key %s for tenant acme-cli (%s)." % (key_id, "\u00e4" * 25)
    status, out, _ = command("list", SANDBOX_API_KEY=text)
    assert out.splitlines()[1] == "%-12s %-16s %s active   asb_%s_\u2026" % (
        key_id, "acme-cli", "\u00e4" * 20, key_id,
    )
    assert command("revoke", key_id, SANDBOX_API_KEY=text) == (1, "", "airlock: %s\n" % LAST)
    assert command("revoke", "--admin", key_id)[:2] == (
        0, "Revoked %s (acme-cli, %s). It stops working immediately.\n" % (key_id, "\u00e4" * 25),
    )
    assert command("list", "--tenant", "x")[0] == 2
    assert command("--admin", "create")[0] == 2
    assert command("nonsense")[0] == 2
