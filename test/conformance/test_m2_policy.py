# SPDX-License-Identifier: Apache-2.0
"""Egress as the contract has it, as far as nothing needs to be reached: policy, create, the call for
the log (21, M2: 2.1 to 2.4, 2.13, and the refusal at start of 2.16)."""

import json

import pytest

import harness
from harness import KEYS

PYPI = ["pypi.org", "files.pythonhosted.org"]


def policy(**tenants):
    return {"SANDBOX_EGRESS_POLICY": json.dumps(tenants)}


@pytest.fixture
def wildcard(servers):
    return servers.get(policy(a=["*.example.com"], b=["pypi", "github.com"]))


def test_2_1_a_preset_becomes_its_hosts(servers, sdk):
    server = servers.get(policy(a=["pypi"]))
    with sdk.sandbox(server, egress=["pypi"]) as sandbox:
        assert sandbox.egress == PYPI
        assert sandbox.egress_policy() == PYPI
        assert sandbox.egress_log() == []
        shown = server.get("/v1/sessions/" + sandbox.session_id).json
        assert shown["egress"] == PYPI
        assert [s["egress"] for s in server.get("/v1/sessions").json["sessions"]] == [PYPI]


def test_2_2_what_no_policy_covers_is_refused_with_both_lists(servers, server, sdk):
    with pytest.raises(PermissionError) as caught:
        sdk.sandbox(server, egress=["pypi"]).start()
    assert str(caught.value) == (
        "Egress not permitted for this tenant: ['pypi.org', 'files.pythonhosted.org']. Allowed: []"
    )
    other = servers.get(policy(a=["pypi"]))
    with pytest.raises(PermissionError) as caught:
        sdk.sandbox(other, egress=["files.pythonhosted.org", "evil.org", "EVIL.org."]).start()
    assert str(caught.value) == (
        "Egress not permitted for this tenant: ['evil.org']. "
        "Allowed: ['pypi.org', 'files.pythonhosted.org']"
    )
    assert other.get("/v1/usage").json["sessions_open"] == 0


@pytest.mark.parametrize(
    "host, status",
    [
        ("a.example.com", 201),
        ("*.example.com", 201),
        ("example.com", 403),
        ("*.com", 403),
        ("*.a.example.com", 201),
        ("10.0.0.1", 403),
        ("http://x", 403),
    ],
)
def test_2_3_what_a_wildcard_covers(wildcard, host, status):
    answer = wildcard.post("/v1/sessions", {"egress": [host]})
    assert answer.status == status
    if status == 403:
        assert answer.code == "egress_not_permitted"
    else:
        assert answer.json["egress"] == [host]
        wildcard.request("DELETE", "/v1/sessions/" + answer.json["session_id"])


def test_2_4_an_entry_replaces_that_of_everybody(servers):
    server = servers.get(policy(**{"*": ["pypi"], "a": ["npm", "npm", "X.org."]}))
    allowed = [server.get("/v1/egress/policy", key=KEYS[name]).json for name in "ab"]
    assert allowed == [
        {"tenant_id": "a", "allowed": ["registry.npmjs.org", "x.org"]},
        {"tenant_id": "b", "allowed": PYPI},
    ]


def test_2_13_the_limit_is_moved_into_its_range(wildcard):
    session = wildcard.post("/v1/sessions", {"egress": ["a.example.com"]}).json["session_id"]
    path = "/v1/sessions/%s/egress?limit=" % session
    for limit, status in (("0", 200), ("5000", 200), ("-1", 200), ("x", 422), ("1.5", 422)):
        assert wildcard.get(path + limit).status == status, limit
    answer = wildcard.get(path + "1", key=KEYS["b"])
    assert (answer.status, answer.detail) == (403, "Forbidden: Access denied to this session")
    wildcard.request("DELETE", "/v1/sessions/" + session)
    assert wildcard.get(path + "1").status == 404


def test_a_refusal_of_many_names_is_cut_after_2000_characters(wildcard):
    hosts = ["%s%02d.org" % ("x" * 200, n) for n in range(20)]
    answer = wildcard.post("/v1/sessions", {"egress": hosts})
    refused, allowed = answer.detail.split(". Allowed: ")
    assert allowed == "['*.example.com']"
    cut = refused.split(": ", 1)[1]
    assert len(cut) == len("[") + 2000 + len("…]") and cut.endswith("…]")


def test_sessions_keep_their_rules_over_a_restart(servers):
    server = harness.Server(policy(a=["pypi"]), keep=True)
    try:
        server.start()
        session = server.post("/v1/sessions", {"egress": ["pypi"]}).json["session_id"]
        server.stop()
        server.env.pop("SANDBOX_EGRESS_POLICY")
        server.start()
        assert server.get("/v1/sessions/" + session).json["egress"] == PYPI
        assert server.get("/v1/egress/policy").json["allowed"] == []
        assert server.post("/v1/sessions", {"egress": ["pypi"]}).status == 403
    finally:
        server.stop()
        server.release()
