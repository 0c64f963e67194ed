# SPDX-License-Identifier: Apache-2.0
"""Through the reverse proxy that deploy/Caddyfile describes: TLS, large bodies, streams."""

import http.client
import itertools
import json
import os
import random
import shutil
import ssl
import subprocess

import pytest

import harness


@pytest.fixture(scope="module", params=["http", "https"])
def proxy(request, shared_server, tmp_path_factory):
    """(base url, authority file or None, process id)"""
    caddy = shutil.which("caddy")
    if not caddy:
        pytest.skip("caddy is not installed")
    home = str(tmp_path_factory.mktemp("caddy"))
    port = harness.free_port()
    url = "%s://localhost:%d" % (request.param, port)
    # The only thing that the file does not say: do not touch this machine's list of authorities.
    config = os.path.join(home, "Caddyfile")
    with open(os.path.join(harness.ROOT, "deploy", "Caddyfile")) as file:
        text = file.read()
    with open(config, "w") as file:
        file.write(text.replace("{\n", "{\n\tadmin off\n\tauto_https disable_redirects\n"
                                "\tskip_install_trust\n", 1))
    env = {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "XDG_DATA_HOME": home,
        "XDG_CONFIG_HOME": home,
        "AIRLOCK_SITE": url,
        "AIRLOCK_UPSTREAM": "127.0.0.1:%d" % shared_server.port,
    }
    log = open(os.path.join(home, "log"), "wb")
    process = subprocess.Popen(
        [caddy, "run", "--adapter", "caddyfile", "--config", config],
        env=env, stdout=log, stderr=log, cwd=home,
    )
    authority = os.path.join(home, "caddy", "pki", "authorities", "local", "root.crt")

    def ready():
        if process.poll() is not None:
            with open(os.path.join(home, "log")) as file:
                raise AssertionError("caddy ended: " + file.read()[-2000:])
        if request.param == "https" and not os.path.exists(authority):
            return False
        try:
            return get(url, authority, "/healthz").status == 200
        except OSError:
            return False

    try:
        harness.wait_until(ready, "the proxy answers")
        yield url, authority if request.param == "https" else None, process.pid
    finally:
        process.terminate()
        process.wait()
        log.close()


def get(url, authority, path):
    import urllib.request

    context = None
    if url.startswith("https:"):
        context = ssl.create_default_context(cafile=authority)
    return urllib.request.urlopen(url + path, context=context, timeout=60)


@pytest.fixture
def sandbox(proxy, ours):
    url, authority, _ = proxy
    with ours.Sandbox(harness.KEYS["a"], url, verify=authority) as opened:
        yield opened


def test_a_session_through_the_proxy(sandbox):
    sandbox.files.write("a b+c", "ü")
    assert sandbox.files.read("a b+c") == "ü"
    assert sandbox.run("cat 'a b+c'; exit 3").exit_code == 3


def test_a_large_body_and_a_large_answer(sandbox):
    text = "0123456789abcdef" * (1 << 20)
    sandbox.files.write("big", text)
    assert sandbox.files.read("big") == text


def test_fifty_megabytes_pass_without_being_held(proxy, sandbox):
    data = random.Random(1).randbytes(50 << 20)
    before = harness.rss_kib(proxy[2])
    with harness.Peak(proxy[2]) as peak:
        assert sandbox.files.upload("big", data) == len(data)
        assert sandbox.files.download("big") == data
    assert peak.kib - before < 24 << 10, "%d KiB more" % (peak.kib - before)


def test_errors_keep_their_form(proxy, ours):
    url, authority, _ = proxy
    with pytest.raises(ours.errors.AuthenticationError) as caught:
        ours.Sandbox("wrong", url, verify=authority).usage()
    assert caught.value.code == "unauthenticated"


def test_events_are_not_held_back(proxy, server, session):
    url, authority, _ = proxy
    tries = itertools.count()

    def stream():
        """Nothing more comes until what came was seen. None: it has no end. On a busy machine Caddy
        closes its own connection to the server ("use of closed network connection" in its log) when
        an answer begins before it has noticed that the request is over."""
        seen = "seen-%d" % next(tries)
        command = "echo one; until test -e %s; do sleep 0.05; done; echo two" % seen
        connection = connect(url, authority)
        connection.request(
            "POST", "/v1/sessions/%s/exec" % session,
            body=json.dumps({"command": command, "timeout_seconds": 30}),
            headers={"X-API-Key": harness.KEYS["a"], "Content-Type": "application/json",
                     "Accept": "text/event-stream"},
        )
        events = []
        for _, name, data in harness.events_of(connection.getresponse(), 0):
            events.append((name, data.get("text", data.get("timed_out"))))
            server.post("/v1/sessions/%s/write" % session, {"path": seen, "content": ""})
        connection.close()
        return events if "result" in dict(events) else None

    events = harness.wait_until(stream, "a stream comes to its end")
    assert events == [("stdout", "one\n"), ("stdout", "two\n"), ("result", False)]


def connect(url, authority):
    host = url.split("//")[1]
    if not authority:
        return http.client.HTTPConnection(host, timeout=60)
    context = ssl.create_default_context(cafile=authority)
    return http.client.HTTPSConnection(host, timeout=60, context=context)
