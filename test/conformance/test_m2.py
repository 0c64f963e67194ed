# SPDX-License-Identifier: Apache-2.0
"""The acceptance cases of egress, by their numbers in the contract (2.1 to 2.16).

Through the published clients and ours; against the world of egress.py, so every answer comes from the
real decision over names and addresses that look like the internet's.
"""

import email
import glob
import json
import os
import re
import tempfile
import zipfile

import pytest

import clients
import egress
import harness
import packages
import reach
from egress import allow, brief, deny, forbidden_name
from harness import KEYS

PYPI = [packages.PYPI, packages.FILES]
REASONS = {
    "no_rule": "host not on allowlist",
    "not_connect": "only HTTPS (CONNECT) is supported",
    "addr_class": "resolves to a private or reserved address",
    "rebind_suspected": "resolves to a private or reserved address",
    "dns_fail": "DNS lookup failed",
    "connect_fail": "upstream connection failed",
    "literal": "host not on allowlist",
    "port": "port 8443 not allowed",
    "not_tls": "not TLS",
    "no_sni": "no TLS server name",
    "sni_mismatch": "TLS name does not match the host",
    "error": "proxy error: malformed request",
}
POLICY = {
    "*": egress.RULES,
    "b": ["pypi"],
    "c": ["*.example.com"],
}


@pytest.fixture(scope="module")
def world():
    why = egress.missing()
    if why:
        pytest.skip(why)
    with egress.World(policy=POLICY) as opened:
        yield opened


@pytest.fixture(scope="module")
def index(world):
    if packages.missing():
        pytest.skip(packages.missing())
    with packages.Packages(world.net) as served:
        served.add_wheel(*packages.wheel("requests", "2.32.3", "version = 1\n"))
        yield served


@pytest.fixture
def box(world, sdk):
    with sdk.sandbox(world.server, egress=egress.RULES) as opened:
        with open(world.net.ca, encoding="ascii") as file:
            opened.files.write("ca.pem", file.read())
        opened.files.write("reach.py", egress.REACH)
        yield opened


def told(box, n):
    """What the client shows when n events are there and nothing is open any more."""

    def settled():
        events = box.egress_log()
        return len(events) >= n and not any(event.get("open") for event in events)

    harness.wait_until(settled, "%d events" % n)
    events = box.egress_log()
    for event in events:
        if event["decision"] == "deny":
            assert event["reason"] == REASONS[event["code"]]
        assert event["session"] == box.session_id and event["tenant"] == box.tenant_id
    return events


def refused(world, egress_list, key=KEYS["a"]):
    answer = world.server.post("/v1/sessions", {"egress": egress_list}, key=key)
    assert answer.status == 403 and answer.code == "egress_not_permitted", answer
    return answer.detail


# ---- 2.1 to 2.4: policy and rules ----


def test_2_01_a_preset_is_its_hosts_in_order(world, sdk):
    with sdk.sandbox(world.server, KEYS["b"], egress=["pypi"]) as sandbox:
        assert sandbox.egress == PYPI
        assert sandbox.egress_policy() == PYPI
    with sdk.sandbox(world.server, KEYS["b"], egress=["Pypi.Org.", "pypi"]) as sandbox:
        assert sandbox.egress == PYPI


@pytest.mark.parametrize("name", clients.PUBLISHED + ("ours",))
def test_2_02_a_host_outside_is_named_with_the_policy(world, name):
    try:
        sdk = clients.client(name)
    except clients.MissingWheel as missing:
        (pytest.fail if harness.CI else pytest.skip)(str(missing))
    with pytest.raises(sdk.errors.PermissionDeniedError) as caught:
        sdk.sandbox(world.server, KEYS["b"], egress=["evil.test", "pypi"]).start()
    text = "Egress not permitted for this tenant: ['evil.test']. Allowed: ['%s', '%s']" % tuple(PYPI)
    assert text in str(caught.value) and caught.value.status == 403
    assert refused(world, ["evil.test", "pypi"], KEYS["b"]) == text


def test_2_02_without_a_policy_nothing_is_allowed(world):
    with world.new_server({"SANDBOX_EGRESS_POLICY": None}) as server:
        answer = server.post("/v1/sessions", {"egress": ["pypi"]})
        assert answer.status == 403 and answer.detail == (
            "Egress not permitted for this tenant: ['%s', '%s']. Allowed: []" % tuple(PYPI)
        )
        assert server.get("/v1/egress/policy").json == {"tenant_id": "a", "allowed": []}
        session = server.create(egress=[])
        assert server.get("/v1/sessions/%s/egress" % session).json["events"] == []
        server.delete("/v1/sessions/" + session)


@pytest.mark.parametrize(
    "rule, good",
    [
        ("api.example.com", True),
        ("a.b.example.com", True),
        ("*.example.com", True),
        ("*.a.example.com", True),
        ("API.Example.COM.", True),
        ("example.com", False),
        ("*.com", False),
        ("badexample.com", False),
        ("93.184.216.34", False),
        ("2606:2800:220:1::20", False),
        ("http://x", False),
        ("https://api.example.com", False),
        ("api.example.com:443", False),
        (" ", False),
        ("", False),
        ("*", False),
        ("a.*.example.com", False),
        ("*api.example.com", False),
    ],
)
def test_2_03_what_a_wildcard_covers(world, rule, good):
    if not good:
        shown = rule.strip().lower().rstrip(".")
        assert refused(world, [rule], KEYS["c"]) == (
            "Egress not permitted for this tenant: ['%s']. Allowed: ['*.example.com']" % shown
        )
        return
    answer = world.server.post("/v1/sessions", {"egress": [rule]}, key=KEYS["c"])
    assert answer.status == 201
    assert answer.json["egress"] == [rule.lower().rstrip(".")]
    world.server.delete("/v1/sessions/" + answer.json["session_id"], key=KEYS["c"])


def test_2_04_an_entry_replaces_the_star(world, sdk):
    for key, want in ((KEYS["a"], egress.RULES), (KEYS["b"], PYPI), (KEYS["c"], ["*.example.com"])):
        with sdk.sandbox(world.server, key) as sandbox:
            assert sandbox.egress_policy() == want
    answer = world.server.get("/v1/egress/policy")
    assert answer.json == {"tenant_id": "a", "allowed": egress.RULES}


# ---- 2.5 to 2.9: connections ----


def test_2_05_without_egress_nothing_is_reached_or_logged(world, sdk):
    with sdk.sandbox(world.server) as sandbox:
        result = sandbox.run("curl -sS -m 10 https://tls.good.test/")
        assert result.exit_code in (6, 7)
        result = sandbox.run("curl -sS -m 10 https://93.184.216.35/")
        assert result.exit_code == 7
        assert sandbox.egress == [] and sandbox.egress_log() == []


@pytest.mark.parametrize("via", ["proxy", "direct"])
@pytest.mark.parametrize("name", ["tls.good.test", "alias.good.test"])
def test_2_06_an_allowed_host_works_with_and_without_the_proxy(box, via, name):
    way = "" if via == "proxy" else "--noproxy '*' "
    result = box.run("curl -sS --cacert ca.pem %shttps://%s/" % (way, name))
    assert (result.stdout, result.exit_code) == ("hello from tls.good.test\n", 0), result
    (event,) = told(box, 1)
    assert brief(event) == allow(name, via) and event["ip"] == egress.TLS
    assert event["bytes_up"] > 300 and event["bytes_down"] > 500 and event["open"] is False
    assert event["duration_ms"] >= 0
    assert isinstance(event["ts"], float) and "conn" not in event
    assert ("dest" in event) == (via == "direct")


ROW_7 = [
    ("https://other.test/", 403, deny("other.test", "no_rule"), None),
    ("https://tls.good.test:8443/", 403, deny("tls.good.test", "port", port=8443), None),
    ("http://tls.good.test/x", 405, deny("tls.good.test", "not_connect", port=80), None),
    ("https://private.good.test/", 403, deny("private.good.test", "addr_class"), ["10.0.0.1"]),
    (
        "https://mixed.good.test/", 403, deny("mixed.good.test", "rebind_suspected"),
        ["10.0.0.1", egress.WWW],
    ),
    ("https://nx.good.test/", 502, deny("nx.good.test", "dns_fail"), None),
    ("https://closed.good.test/", 502, deny("closed.good.test", "connect_fail"), [egress.DEAD]),
]


@pytest.mark.parametrize("url, status, want, ips", ROW_7, ids=[row[0] for row in ROW_7])
def test_2_07_a_refusal_has_its_status_and_reason(box, url, status, want, ips):
    name = "http_connect" if url.startswith("https") else "http_code"
    result = box.run("curl -s -m 20 -o body -w '%%{%s}' %s; wc -c <body" % (name, url))
    assert result.stdout.startswith("%d" % status), result
    assert not result.stdout.endswith("\n") or result.stdout[3:].strip() in ("", "0")
    (event,) = told(box, 1)
    assert brief(event) == want
    assert (sorted(event["ips"]) if "ips" in event else None) == ips
    assert event.get("target") == (url if status == 405 else None)


def test_2_08_the_metadata_service_is_refused_and_logged(box):
    for url, name, status in (
        ("http://169.254.169.254/latest/meta-data/", "http_code", "405"),
        ("https://169.254.169.254/latest/meta-data/", "http_connect", "403"),
    ):
        result = box.run("curl -s -m 20 -o /dev/null -w '%%{%s}' %s" % (name, url))
        assert result.stdout == status
    for url in ("http://169.254.169.254/", "https://169.254.169.254/"):
        box.run("curl -s -m 20 --noproxy '*' %s" % url)
    events = told(box, 4)
    assert [brief(event) for event in events] == [
        deny("169.254.169.254", "not_connect", port=80),
        deny("169.254.169.254", "literal"),
        deny("169.254.169.254", "not_connect", "direct", 80),
        # curl sends no server name for an address.
        deny("", "no_sni", "direct"),
    ]
    assert events[3]["dest"] == "169.254.169.254"


@pytest.mark.parametrize("kind", sorted(egress.FORBIDDEN))
def test_2_09_answers_that_are_not_public_are_refused(world, kind):
    with world.opened() as session:
        name = forbidden_name(kind)
        result, other = world.reach(
            session,
            ["proxy", {"authority": name + ":443"}],
            ["direct", {"address": "1.2.3.4", "name": name}],
        )
        assert result["status"] == 403 and other["got"] == 0
        events = world.events(session, 2)
        assert [brief(event) for event in events] == [
            deny(name, "addr_class"), deny(name, "addr_class", "direct")
        ]
        assert all(len(event["ips"]) == 1 for event in events)


# ---- 2.10: the first bytes ----

FIRST = [
    ("sni_mismatch", reach.hello("exact.test")),
    ("no_sni", reach.hello(None)),
    ("not_tls", b"GET / HTTP/1.1\r\nHost: www.good.test\r\n\r\n"),
]


@pytest.mark.parametrize("code, first", FIRST, ids=[code for code, _ in FIRST])
def test_2_10_the_first_bytes_must_fit_the_host(box, code, first):
    box.files.write("plan", json.dumps(
        [["proxy", {"authority": "www.good.test:443", "first": first.hex()}]]
    ))
    (result,) = json.loads(box.run("python3 reach.py <plan").check().stdout)
    assert result["status"] == 200 and result["got"] == 0
    (event,) = told(box, 1)
    assert brief(event) == deny("www.good.test", code)


# ---- 2.11: rebinding, in test/system/test_egress_faults.py, which has a name server that lies ----


# ---- 2.12 and 2.13: the log ----


def test_2_12_every_event_has_a_host(box):
    box.run("curl -s --noproxy '*' https://1.2.3.4/; printf 'x\\r\\n\\r\\n' >/dev/tcp/127.0.0.1/3128")
    box.run("curl -s https://no.test/")
    for event in told(box, 2):
        assert isinstance(event["host"], str)
        print(event["decision"], event["host"], event.get("reason", ""))


def test_2_13_the_limit_is_clamped_and_the_session_is_ones_own(world):
    with world.opened() as session:
        path = "/v1/sessions/%s/egress" % session
        names = ["n%d.test" % i for i in range(1, 251)]
        world.reach(session, *[["proxy", {"authority": name + ":443"}] for name in names])

        def hosts(query):
            answer = world.server.get(path + query)
            assert answer.status == 200 and list(answer.json) == ["session_id", "events"]
            assert answer.json["session_id"] == session
            return [event["host"] for event in answer.json["events"]]

        assert hosts("?limit=0") == hosts("?limit=1") == hosts("?limit=-5") == names[-1:]
        assert hosts("?limit=5000") == hosts("?limit=1000") == names
        assert hosts("") == names[-200:]
        assert hosts("?limit=3") == names[-3:]
        for bad in ("x", "1.5", "", "0x10", "1e3"):
            answer = world.server.get(path + "?limit=" + bad)
            assert answer.status == 422, (bad, answer)
            assert answer.detail[0]["loc"] == ["query", "limit"]
        assert world.server.get(path, key=KEYS["b"]).status == 403
        assert world.server.get(path, key=None).status == 401
    assert world.server.get(path).status == 404
    assert world.server.get("/v1/sessions/sbx_0123456789ab/egress").status == 404


# ---- 2.14: test/system/test_egress.py; 2.15: test/hostile/test_network.py ----


# ---- 2.16: a policy that stops the start ----


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("{", ""),
        ("[]", ""),
        ('"pypi"', ""),
        ('{"a": "pypi"}', ""),
        ('{"a": [1]}', ""),
        ('{"a": [null]}', ""),
        ('{"a": {"hosts": []}}', ""),
        ('{"a": [], "a": ["pypi"]}', ""),
        ('{"a": ["10.0.0.1"]}', "10.0.0.1"),
        ('{"a": ["http://x.test"]}', "http://x.test"),
        ('{"a": ["*.com"]}', "*.com"),
        ('{"a": ["*"]}', "*"),
        ('{"a": [""]}', ""),
    ],
)
@pytest.mark.parametrize("where", ["variable", "file"])
def test_2_16_a_bad_policy_stops_the_start_with_a_sentence(text, sentence, where):
    why = egress.missing()
    if why:
        pytest.skip(why)
    with tempfile.NamedTemporaryFile("w", prefix="airlock-policy-") as file:
        file.write(text)
        file.flush()
        # It is looked at as the user that airlockd runs as.
        os.chmod(file.name, 0o644)
        name, value = {
            "variable": ("SANDBOX_EGRESS_POLICY", text),
            "file": ("SANDBOX_EGRESS_POLICY_FILE", file.name),
        }[where]
        status, stderr = harness.serve_once({"SANDBOX_EGRESS_DNS": "9.9.9.9", name: value})
    assert status == 78, stderr
    assert stderr.startswith("airlock: %s: " % name) and sentence in stderr
    assert len(stderr.strip().splitlines()) == 1


# ---- The example of the published client's README, as it is printed there ----


def readme_example():
    """The Python below "Internet access (egress)" of the newest published client."""
    wheels = glob.glob(
        os.path.join(harness.CACHE, "wheels", "airlock_sandbox-%s-*.whl" % clients.PUBLISHED[-1])
    )
    if not wheels:
        (pytest.fail if harness.CI else pytest.skip)("the wheel of the published client is not there")
    with zipfile.ZipFile(wheels[0]) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        text = email.message_from_bytes(archive.read(name)).get_payload()
    section = text[text.index("## Internet access (egress)") :]
    return re.search(r"^```python\n(.*?)^```$", section, re.S | re.M).group(1)


def test_the_readme_of_the_published_client_works_as_printed(world, index, sdk, monkeypatch, capsys):
    code = readme_example()
    monkeypatch.setenv("SANDBOX_API_URL", world.server.url)
    monkeypatch.setenv("SANDBOX_API_KEY", KEYS["b"])

    class Sandbox(sdk.Sandbox):
        """Trusts the stand-in's certificates; nothing else of the example is touched."""

        def __enter__(self):
            opened = super().__enter__()
            packages.teach_pip(opened, world.net.ca)
            return opened

    exec(compile(code, "README.md", "exec"), {"Sandbox": Sandbox, "__name__": "__main__"})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {tuple(line) for line in lines} == {("allow", PYPI[0]), ("allow", PYPI[1])}
