# SPDX-License-Identifier: Apache-2.0
"""What people do with egress: pip, git, curl, Python, npm and a program in Go, with and without the
proxy variables, against servers that speak real TLS (packages.py).

Node and Go are no part of the base image: an image with both is made of it and imported, where the
machine has them.
"""

import glob
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import urllib.parse

import pytest

import clients
import egress
import harness
import packages
from egress import allow, brief, deny

POLICY = {"*": ["pypi", "npm", "github", "*.good.test"]}
# A shell without what a sandbox says about proxies.
BARE = "env -u HTTPS_PROXY -u https_proxy -u HTTP_PROXY -u http_proxy "


# ---- The world, where a package mirror is configured -------------------------------------------


def mirror():
    """The index that pip is told to use on this machine; skips when there is none to be used."""
    ran = subprocess.run(
        ["/usr/bin/python3", "-m", "pip", "config", "get", "global.index-url"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    url = os.environ.get("PIP_INDEX_URL") or ran.stdout.strip()
    if not url.startswith("https://"):
        pytest.skip("pip has no package mirror over https configured on this machine")
    host = urllib.parse.urlsplit(url).hostname
    try:
        found = {row[4][0] for row in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)}
    except OSError:
        pytest.skip("the package mirror of this machine does not resolve")
    if not all(ipaddress.ip_address(address).is_global for address in found):
        pytest.skip("the package mirror of this machine has a private address")
    return url, host


def test_pip_installs_from_the_mirror_of_this_machine():
    why = harness.runnable()
    if why:
        pytest.skip(why)
    url, host = mirror()
    policy = {"*": [host, "pypi"]}
    with harness.Server({"SANDBOX_EGRESS_POLICY": json.dumps(policy), "SANDBOX_EGRESS_DNS": None}) as server:
        session = server.create(egress=[host, "pypi"])
        command = "pip install -q --index-url %s six && python -c 'import six'" % url
        result = server.exec(session, command, 60)
        assert result["exit_code"] == 0, result
        events = server.get("/v1/sessions/%s/egress" % session).json["events"]
        assert [event for event in events if event["decision"] == "allow" and event["bytes_down"]]
        server.delete("/v1/sessions/" + session)


# ---- The stand-in ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world():
    why = egress.missing() or packages.missing()
    if why:
        pytest.skip(why)
    with egress.World(policy=POLICY, start=False) as opened, packages.Packages(opened.net) as served:
        served.add_repository("github.com/o/r.git", {"README.md": "hello\n", "a.py": "print(1)\n"})
        served.add_npm("leftover", "1.2.3", "module.exports = () => 'padded'\n")
        opened.packages = served
        yield opened


@pytest.fixture(scope="module")
def base(world):
    with world.beside() as other:
        yield other


@pytest.fixture
def session(base):
    with base.opened(egress=["pypi", "github", "tls.good.test"]) as made:
        yield made


def run(world, session, command, timeout=60):
    result = world.server.exec(session, command, timeout)
    assert result["exit_code"] == 0, result
    return result["stdout"]


def real_wheel():
    wheels = glob.glob(
        os.path.join(harness.CACHE, "wheels", "airlock_sandbox-%s-*.whl" % clients.PUBLISHED[-1])
    )
    if wheels:
        with open(wheels[0], "rb") as file:
            return os.path.basename(wheels[0]), file.read()
    return packages.wheel("airlock_sandbox", clients.PUBLISHED[-1], "Sandbox = 1\n")


@pytest.mark.parametrize("bare, via", [("", "proxy"), (BARE, "direct")], ids=["proxy", "direct"])
def test_pip_installs_a_wheel(base, session, bare, via):
    base.packages.add_wheel(*real_wheel())
    run(base, session, bare + "pip install -q --cert ca.pem airlock-sandbox")
    where = run(base, session, "python -c 'import airlock_sandbox; print(airlock_sandbox.__file__)'")
    assert where.startswith("/workspace/.local/lib/python3")
    events = base.events(session, 2)
    assert {brief(event) for event in events} == {
        allow(packages.PYPI, via), allow(packages.FILES, via)
    }
    assert sum(event["bytes_down"] for event in events) > 5000


def test_pip_says_what_it_is_refused(base, session):
    result = base.server.exec(
        session, "pip install --retries 1 --cert ca.pem --index-url https://evil.test/simple x", 60
    )
    assert result["exit_code"] != 0 and result["egress_denied"] == ["evil.test"]
    assert "403 Forbidden" in result["stderr"]


@pytest.mark.parametrize("bare, via", [("", "proxy"), (BARE, "direct")], ids=["proxy", "direct"])
def test_git_clones_over_https(base, session, bare, via):
    command = bare + "git -c http.sslCAInfo=$PWD/ca.pem clone -q https://github.com/o/r.git r"
    assert run(base, session, command + " && cat r/README.md") == "hello\n"
    assert {brief(event) for event in base.events(session, 1)} == {allow("github.com", via)}


def test_git_over_ssh_and_its_own_protocol_is_refused(base, session):
    result = base.server.exec(session, "timeout 50 git clone -q git://github.com/o/r.git x", 60)
    assert result["exit_code"] not in (0, 124)
    if '"no_all_ports"' not in base.server.log():
        (event,) = base.events(session, 1)
        assert brief(event) == deny("", "port", "direct", 9418)


@pytest.mark.parametrize("bare, via", [("", "proxy"), (BARE, "direct")], ids=["proxy", "direct"])
def test_curl_and_urllib(base, session, bare, via):
    code = (
        "import ssl, urllib.request as r; "
        "print(r.urlopen(\\\"https://tls.good.test/\\\", "
        "context=ssl.create_default_context(cafile=\\\"ca.pem\\\")).read().decode(), end=\\\"\\\")"
    )
    commands = [
        "curl -sS --cacert ca.pem https://tls.good.test/",
        "curl -sS --cacert ca.pem --tlsv1.2 --tls-max 1.2 https://tls.good.test/",
        'python3 -c "%s"' % code,
    ]
    for command in commands:
        assert run(base, session, bare + command) == "hello from tls.good.test\n"
    events = base.events(session, 3)
    assert [brief(event) for event in events] == [allow("tls.good.test", via)] * 3


def test_a_stripped_environment_changes_the_way_and_not_the_verdict(base, session):
    """205"""
    for prefix in ("env -i PATH=/usr/bin ", "NO_PROXY='*' no_proxy='*' "):
        assert run(base, session, prefix + "curl -sS --cacert ca.pem https://tls.good.test/")
        result = base.server.exec(session, prefix + "curl -sS -m 50 https://evil.test/", 60)
        assert result["exit_code"] == 6 and result["egress_denied"] == ["evil.test"]
    assert {event["via"] for event in base.events(session, 3)} == {"direct", "dns"}


# ---- Another image: Node and Go ----------------------------------------------------------------

GO_PROGRAM = """package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	body, _ := io.ReadAll(answer.Body)
	fmt.Print(string(body))
}
"""


def find_node():
    """(node, folder of npm), where this machine has both as Debian's libraries run them."""
    node = shutil.which("node")
    npm = os.path.realpath(shutil.which("npm") or "")
    folder = os.path.dirname(os.path.dirname(npm))
    if not node or not os.path.exists(os.path.join(folder, "bin", "npm-cli.js")):
        return None
    return os.path.realpath(node), folder


def build_go(folder):
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.access(go, os.X_OK):
        return None
    with open(os.path.join(folder, "main.go"), "w", encoding="ascii") as file:
        file.write(GO_PROGRAM)
    out = os.path.join(folder, "go-get")
    env = {"PATH": "/usr/bin:/bin", "HOME": folder, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod",
           "GO111MODULE": "off", "GOTOOLCHAIN": "local",
           "GOCACHE": os.path.join(harness.CACHE, "go-build")}
    ran = subprocess.run([go, "build", "-o", out, "main.go"], cwd=folder, env=env,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out if ran.returncode == 0 else None


@pytest.fixture(scope="module")
def image(world, tmp_path_factory):
    """A server with a second image, and what is in it."""
    folder = str(tmp_path_factory.mktemp("image"))
    os.makedirs(os.path.join(folder, "usr", "local", "bin"))
    os.makedirs(os.path.join(folder, "usr", "lib"))
    tools = set()
    found = find_node()
    if found:
        shutil.copy(found[0], os.path.join(folder, "usr/local/bin/node"))
        shutil.copytree(found[1], os.path.join(folder, "usr/lib/npm"), symlinks=True)
        os.symlink("/usr/lib/npm/bin/npm-cli.js", os.path.join(folder, "usr/local/bin/npm"))
        tools.add("node")
    program = build_go(folder)
    if program:
        shutil.move(program, os.path.join(folder, "usr/local/bin/go-get"))
        tools.add("go")
    if not tools:
        pytest.skip("node and go are not installed on this machine")
    key = subprocess.run(
        [os.path.join(harness.ROOT, "image", "key.sh")], stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    cache = os.path.join(folder, "cache-of-images")
    os.mkdir(cache)
    os.symlink(os.path.join(harness.CACHE, key), os.path.join(cache, key))
    archive = os.path.join(folder, "tools.tar")
    shutil.copy(os.path.join(harness.CACHE, key, "rootfs.tar"), archive)
    subprocess.run(
        ["tar", "rf", archive, "--owner=0", "--group=0", "-C", folder, "usr"], check=True
    )
    env = {"AIRLOCK_IMAGE_CACHE": cache}
    subprocess.run(
        [os.path.join(harness.BUILD, "airlock"), "image", "import", "--as", "tools:1", archive],
        env=harness.environment(**env), check=True, stdout=subprocess.DEVNULL,
    )
    os.unlink(archive)
    env.update({"SANDBOX_TEMPLATES": "sandbox-base:latest,tools:1", "SANDBOX_VOLUME_SIZE_MB": "2048"})
    state_dir = os.path.join(harness.state_dirs().root, "tools")
    os.mkdir(state_dir)
    with world.beside(env, state_dir=state_dir) as other:
        other.tools = tools
        yield other
    shutil.rmtree(state_dir)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def tools_session(image):
    made = image.server.create(egress=["npm", "tls.good.test"], template="tools:1")
    with open(image.net.ca, encoding="ascii") as file:
        image.server.post(
            "/v1/sessions/%s/write" % made, {"path": "ca.pem", "content": file.read()}
        )
    yield made
    image.server.delete("/v1/sessions/" + made)


def needs(image, tool):
    if tool not in image.tools:
        pytest.skip("%s is not installed on this machine" % tool)


def test_npm_installs_a_package(image, tools_session):
    needs(image, "node")
    command = (
        "NODE_EXTRA_CA_CERTS=$PWD/ca.pem npm install --no-audit --no-fund --no-update-notifier leftover "
        "&& node -e \"console.log(require('leftover')())\""
    )
    assert run(image, tools_session, command, 60).endswith("padded\n")
    events = image.events(tools_session, 1)
    assert {brief(event) for event in events} == {allow("registry.npmjs.org")}


def test_fetch_of_node(image, tools_session):
    """82: it does not look at the variables, or does, by its version; both ways are judged."""
    needs(image, "node")
    command = (
        "NODE_USE_ENV_PROXY=1 NODE_EXTRA_CA_CERTS=$PWD/ca.pem node -e \"fetch('https://%s/')"
        ".then(r => r.text()).then(t => process.stdout.write(t))"
        ".catch(e => { console.log('failed'); })\""
    )
    assert run(image, tools_session, command % "tls.good.test") == "hello from tls.good.test\n"
    result = image.server.exec(tools_session, command % "evil.test", 60)
    assert result["stdout"] == "failed\n" and result["egress_denied"] == ["evil.test"]


@pytest.mark.parametrize("bare, via", [("", "proxy"), (BARE, "direct")], ids=["proxy", "direct"])
def test_a_static_program_of_go(image, tools_session, bare, via):
    needs(image, "go")
    command = bare + "SSL_CERT_FILE=$PWD/ca.pem go-get https://%s/"
    if bare:
        command = BARE + "env SSL_CERT_FILE=$PWD/ca.pem go-get https://%s/"
    assert run(image, tools_session, command % "tls.good.test") == "hello from tls.good.test\n"
    assert brief(image.events(tools_session, 1)[0]) == allow("tls.good.test", via)
    result = image.server.exec(tools_session, command % "evil.test", 60)
    assert result["exit_code"] == 1 and result["egress_denied"] == ["evil.test"]
