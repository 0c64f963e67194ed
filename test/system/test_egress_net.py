# SPDX-License-Identifier: Apache-2.0
"""What a sandbox with egress finds in its network, and what the host keeps of it: routes, listening
sockets, the supervised gateway, its log directory. What the gateway decides is in other files."""

import contextlib
import grp
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess

import pytest

import fetch
import harness
from harness import KEYS

POLICY = {"SANDBOX_EGRESS_POLICY": '{"a": ["allowed.example"]}', "SANDBOX_EGRESS_DNS": "192.0.2.53"}
EGRESS = ["allowed.example"]

INSIDE = r"""
import errno, json, os, socket, sys, time
out = []
def show(value):
    out.append(value)
def name(error):
    return errno.errorcode.get(error.errno, str(error))
def dial(host, port, timeout=20):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    s.settimeout(timeout)
    try:
        s.connect((host, port))
    except OSError as error:
        return name(error)
    return s
def connects(host, port):
    s = dial(host, port)
    if isinstance(s, str):
        return s
    s.close()
    return "ok"
"""


def inside(server, session, code, **more):
    """Runs Python in the sandbox; the list of what it shows."""
    result = server.exec(
        session,
        "python3 -",
        30,
        stdin=INSIDE + code + "\njson.dump(out, sys.stdout)\n",
        **more,
    )
    assert result["exit_code"] == 0, result
    return json.loads(result["stdout"])


def needs_gateway():
    why = harness.runnable()
    if not why and not os.access(os.path.join(harness.BUILD, "airlock-gateway"), os.X_OK):
        why = "airlock-gateway is not built"
    if why:
        pytest.skip(why)


def gateway_of(server):
    """Its pid, once it serves: a server is healthy before."""

    def serves():
        return "gateway" not in server.get("/healthz", key=None).json and server.process_of(
            "airlock-gateway"
        )

    (pid,) = harness.wait_until(serves, "there is a gateway")
    return pid


@pytest.fixture(scope="module")
def egress(servers):
    needs_gateway()
    server = servers.get(POLICY)
    gateway_of(server)
    return server


@pytest.fixture
def session(egress):
    made = egress.create(egress=EGRESS)
    yield made
    egress.delete("/v1/sessions/" + made)


@pytest.fixture(scope="module")
def all_ports():
    """Whether this host lets the launcher catch connections to every port."""
    ran = subprocess.run(
        [os.path.join(harness.BUILD, "airlock"), "doctor", "--json"],
        env=harness.environment(),
        stdout=subprocess.PIPE,
    )
    layers = {entry["layer"]: entry for entry in json.loads(ran.stdout)["layers"]}
    return layers["all-ports catch"]["verdict"] == "ok"


# ---- Inside ------------------------------------------------------------------------------------


def test_web_and_name_servers_of_every_address_answer(egress, session):
    addresses = ["198.51.100.7", "8.8.8.8", "10.1.2.3", "169.254.169.254", "2001:db8::5", "fe00::1"]
    code = "show([connects(h, p) for h in %r for p in (80, 443, 53)])" % addresses
    assert inside(egress, session, code) == [["ok"] * 3 * len(addresses)]


def test_the_proxy_listens_on_loopback_alone(egress, session):
    code = "show(connects('127.0.0.1', 3128)); show(connects('127.0.0.2', 3128))"
    assert inside(egress, session, code) == ["ok", "ECONNREFUSED"]


def test_a_dns_query_to_any_server_is_answered_by_that_server(egress, session):
    code = r"""
query = bytes.fromhex("1234010000010000000000000664656e696564076578616d706c650000010001")
for family, server in ((socket.AF_INET, "8.8.8.8"), (socket.AF_INET6, "2001:4860::8888"),
                       (socket.AF_INET, "127.0.0.1")):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(30)
    s.sendto(query, (server, 53))
    answer, source = s.recvfrom(512)
    show([answer[:2].hex(), source[:2]])
"""
    assert inside(egress, session, code) == [
        ["1234", ["8.8.8.8", 53]],
        ["1234", ["2001:4860::8888", 53]],
        ["1234", ["127.0.0.1", 53]],
    ]


def test_other_ports_are_reset_at_once_or_refused(egress, session, all_ports):
    """With the catch the gateway has accepted, and seen what was dialled, before it resets."""
    code = r"""
def attempt(host):
    s = dial(host, 8443)
    try:
        return s if isinstance(s, str) else s.recv(1).decode()
    except OSError as error:
        return name(error)
for host in ("198.51.100.7", "2001:db8::5"):
    took = []
    for _ in range(3):
        began = time.monotonic()
        show(attempt(host))
        took.append(time.monotonic() - began)
    # The machine may stand still for longer, but not each time.
    show(min(took) < 1)
"""
    expected = "ECONNRESET" if all_ports else "ECONNREFUSED"
    assert inside(egress, session, code) == [expected, expected, expected, True] * 2


def test_other_datagrams_are_refused(egress, session):
    code = r"""
for port in (443, 123, 54):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.connect(("198.51.100.7", port))
    try:
        s.send(b"x")
        s.recv(1)
    except OSError as error:
        show(name(error))
"""
    assert inside(egress, session, code) == ["ECONNREFUSED"] * 3


def test_loopback_belongs_to_the_sandbox(egress, session):
    """Own servers work, on ports that are caught elsewhere too, and nothing of ours answers."""
    code = r"""
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"),
                     (socket.AF_INET, "127.9.9.9")):
    server = socket.socket(family)
    server.bind((host, 8080))
    server.listen()
    client = dial(host, 8080)
    show(server.accept()[0].getsockname()[:2] == client.getpeername()[:2])
    client.close()
    server.close()
    show(connects(host, 8080))
"""
    assert inside(egress, session, code) == [True, "ECONNREFUSED"] * 3


def test_nothing_of_it_exists_without_egress(egress):
    """Neither a session without, nor one of a tenant whom the policy gives nothing."""
    code = r"""
show([connects(h, p) for h in ("198.51.100.7", "2001:db8::5") for p in (80, 443, 53, 22)])
show(connects("127.0.0.1", 3128))
show([len(open("/proc/net/" + f).readlines()) for f in ("tcp", "tcp6", "udp", "udp6")])
"""
    for key in (KEYS["a"], KEYS["b"]):
        made = egress.create(key)
        assert inside(egress, made, code, key=key) == [
            ["ENETUNREACH"] * 8, "ECONNREFUSED", [1, 1, 1, 1]
        ]
        egress.delete("/v1/sessions/" + made, key=key)


def test_ports_of_the_gateway_cannot_be_taken(egress, session):
    code = r"""
def binds(family, kind, host, port, reuse):
    s = socket.socket(family, kind)
    for option in reuse:
        s.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        s.bind((host, port))
        if kind == socket.SOCK_STREAM:
            s.listen()
    except OSError as error:
        return name(error)
    return "ok"
found = set()
for port in (53, 80, 443, 3128):
    for family, hosts in ((socket.AF_INET, ("0.0.0.0", "127.0.0.1", "198.51.100.7")),
                          (socket.AF_INET6, ("::", "::1", "2001:db8::5", "::ffff:127.0.0.1"))):
        for host in hosts:
            for reuse in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,)):
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    if port != 3128 or (kind == socket.SOCK_STREAM and host in
                                        ("0.0.0.0", "127.0.0.1", "::ffff:127.0.0.1")):
                        found.add(binds(family, kind, host, port, reuse))
show(sorted(found))
"""
    (found,) = inside(egress, session, code)
    assert found and set(found) <= {"EACCES", "EADDRINUSE"}


def test_ping_and_raw_sockets_do_not_exist(egress, session):
    code = r"""
for family, kind, protocol in ((socket.AF_INET, socket.SOCK_DGRAM, 1), (socket.AF_INET, socket.SOCK_RAW, 1),
                               (socket.AF_INET, socket.SOCK_RAW, 6), (socket.AF_INET6, socket.SOCK_RAW, 58),
                               (17, socket.SOCK_RAW, 0x300), (17, socket.SOCK_DGRAM, 0x300)):
    try:
        socket.socket(family, kind, protocol)
        show("ok")
    except OSError as error:
        show("refused")
"""
    assert inside(egress, session, code) == ["refused"] * 6


# ---- Outside -----------------------------------------------------------------------------------


def sockets_of(pid):
    found = []
    for name in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(OSError):
            found.append(os.readlink("/proc/%d/fd/%s" % (pid, name)))
    return [target for target in found if target.startswith("socket:")]


def internet_sockets(pid):
    """Those of the network namespace of a process, as their links in /proc read."""
    found = set()
    for name in ("tcp", "tcp6", "udp", "udp6"):
        with open("/proc/%d/net/%s" % (pid, name)) as file:
            found |= {"socket:[%s]" % line.split()[9] for line in file.readlines()[1:]}
    return found


def test_no_process_inside_holds_a_listening_socket(egress, session):
    egress.exec(session, "true")
    gateway = gateway_of(egress)

    def waiting():
        """(sockets of its namespace, its own) of blank sandboxes that everybody knows already."""
        found = []
        for pid, name, uid in egress.processes():
            # The builder's name until init is executed.
            if uid >= harness.ID_FIRST and name != "airlock-builder":
                with contextlib.suppress(OSError):
                    found.append((internet_sockets(pid), set(sockets_of(pid))))
        ours = set(sockets_of(gateway)) & set(sockets_of(egress.process.pid))
        return [entry for entry in found if entry[0] and entry[0] <= ours]

    for there, own in harness.wait_until(waiting, "a blank sandbox waits"):
        assert len(there) == 5
        assert not there & own


def test_the_gateway_runs_as_nobody_else(egress):
    pid = gateway_of(egress)
    status = harness.proc_status(pid)
    wanted = str(pwd.getpwnam("airlock-gw").pw_uid)
    assert status["Uid"].split() == [wanted] * 4
    assert status["Groups"] == "" and status["NoNewPrivs"] == "1"
    for name in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
        assert int(status[name], 16) == 0
    with open("/proc/%d/environ" % pid, "rb") as file:
        assert not [w for w in file.read().split(b"\0") if w and b"_OPTIONS=" not in w]


def test_commands_leave_no_socket_and_no_namespace(egress):
    made = egress.create(egress=EGRESS)
    egress.exec(made, "true")
    roles = ("airlock-launcher", "airlock-gateway")

    def counts():
        return [len(sockets_of(pid)) for role in roles for pid in egress.process_of(role)]

    before = counts()
    for _ in range(30):
        egress.exec(made, "exec 3<>/dev/tcp/198.51.100.7/443")
    # The pool may hold a few more or fewer; each sandbox is five sockets in both.
    harness.wait_until(
        lambda: all(a <= b + 4 * 7 for a, b in zip(counts(), before)), "%r as before" % before
    )
    egress.delete("/v1/sessions/" + made)


def test_a_gateway_that_dies_is_replaced_and_no_sandbox_with_it(egress):
    made = egress.create(egress=EGRESS)
    old = gateway_of(egress)
    command = (
        "echo up; until test -e go; do sleep 0.05; done; exec 3<>/dev/tcp/198.51.100.7/443; echo $?"
    )
    seen = []
    for _, event, data in egress.stream(made, command, 60):
        seen.append((event, data))
        if len(seen) > 1:
            continue
        assert data == {"text": "up\n"}
        os.kill(old, signal.SIGKILL)
        harness.wait_until(
            lambda: egress.process_of("airlock-gateway") not in ([], [old]), "there is a new one"
        )
        egress.post("/v1/sessions/%s/write" % made, {"path": "go", "content": ""})
    result = seen[-1][1]
    assert result["stdout"].split() == ["up", "0"], result
    assert inside(egress, made, "show(connects('198.51.100.7', 443))") == ["ok"]
    egress.delete("/v1/sessions/" + made)


def test_an_airlockd_that_dies_is_connected_again(egress):
    (old,) = egress.process_of("airlockd")
    gateway = gateway_of(egress)
    os.kill(old, signal.SIGKILL)
    harness.wait_until(
        lambda: [p for p in egress.process_of("airlockd") if p != old], "a new airlockd"
    )
    harness.wait_until(lambda: egress.get("/healthz", key=None).status == 200, "it is healthy")
    made = egress.create(egress=EGRESS)
    assert inside(egress, made, "show(connects('198.51.100.7', 443))") == ["ok"]
    assert egress.process_of("airlock-gateway") == [gateway]
    egress.delete("/v1/sessions/" + made)


def test_a_stop_leaves_no_gateway():
    needs_gateway()
    # The machine may hold up one of them, but not each time.
    for _ in range(3):
        with harness.Server(POLICY) as server:
            pid = gateway_of(server)
            server.stop()
            # What was killed goes when the kernel has it run again.
            harness.wait_until(lambda: not os.path.exists("/proc/%d" % pid), "it is gone")
        if server.stop_seconds < 5:
            break
    assert server.stop_seconds < 5


@pytest.mark.parametrize("policy", [None, " "])
def test_without_a_policy_there_is_a_gateway_and_nothing_leads_to_it(policy):
    needs_gateway()
    with harness.Server({"SANDBOX_EGRESS_POLICY": policy}) as server:
        gateway = gateway_of(server)
        assert server.post("/v1/sessions", {"egress": EGRESS}).status == 403
        before = len(sockets_of(gateway))  # that to airlockd may be still to come
        folder = os.path.join(server.state_dir, "egress")
        logs = os.listdir(folder)  # the directory may have served another server
        made = server.create()
        code = "show([connects(*at) for at in [('127.0.0.1', 3128), ('8.8.8.8', 443)]])"
        assert inside(server, made, code) == [["ECONNREFUSED", "ENETUNREACH"]]
        # A sandbox is five.
        assert len(sockets_of(gateway)) < before + 5
        assert server.get("/v1/sessions/%s/egress" % made).json["events"] == []
        assert os.listdir(folder) == logs
        server.delete("/v1/sessions/" + made)


# ---- Name servers ------------------------------------------------------------------------------


@pytest.fixture
def nameless(tmp_path):
    """airlock on a host whose name servers are on loopback."""
    needs_gateway()
    local = tmp_path / "resolv.conf"
    local.write_text("nameserver 127.0.0.53\n")
    files = {"/etc/resolv.conf": local, "/run/systemd/resolve/resolv.conf": local}
    return fetch.seeing(str(tmp_path), files)


def test_without_name_servers_there_is_no_gateway_and_imports_say_so(nameless):
    with harness.Server({"SANDBOX_EGRESS_DNS": None}, program=nameless) as server:
        assert server.process_of("airlock-gateway") == []
        made = server.create()
        answer = server.post("/v1/sessions/%s/import" % made, {"repo": "o/r"})
        assert (answer.status, answer.code) == (502, "github_failed")
        assert answer.detail == (
            "Couldn't download o/r: this server's host has no name servers but those on loopback; "
            "its operator has to set SANDBOX_EGRESS_DNS"
        )
        server.delete("/v1/sessions/" + made)


def test_without_name_servers_doctor_says_what_does_not_work(nameless):
    ran = subprocess.run(
        [nameless, "doctor", "--json"], env=harness.environment(), stdout=subprocess.PIPE
    )
    layers = {entry["layer"]: entry for entry in json.loads(ran.stdout)["layers"]}
    found = layers["name servers"]
    assert found["verdict"] == "note" and "repositories cannot be imported" in found["found"]
    assert "SANDBOX_EGRESS_DNS" in found["advice"]


@pytest.mark.parametrize("asked", [
    {"SANDBOX_EGRESS_POLICY": '{"*": []}'}, {"SANDBOX_GITHUB_BASE": "https://git.test"},
])
def test_what_needs_name_servers_and_has_none_is_refused(nameless, asked):
    server = harness.Server(dict(asked, SANDBOX_EGRESS_DNS=None), program=nameless)
    with pytest.raises(AssertionError):
        server.start()
    assert server.process.wait(60) == 78
    assert "airlock: SANDBOX_EGRESS_DNS: " in server.log()


# ---- The log directory -------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path):
    """A folder that everybody can pass through."""
    path = os.path.join("/var/tmp", "airlock-egress-%d" % os.getpid())
    os.mkdir(path, 0o755)
    yield path
    shutil.rmtree(path)


def refused(log_dir):
    server = harness.Server(dict(POLICY, SANDBOX_EGRESS_LOG_DIR=log_dir))
    with pytest.raises(AssertionError):
        server.start()
    assert server.process.wait(60) == 78
    lines = [line for line in server.log().splitlines() if line.startswith("airlock: ")]
    lines = [line for line in lines if not line.startswith("airlock: warning: ")]
    assert len(lines) == 1 and lines[0].startswith("airlock: SANDBOX_EGRESS_LOG_DIR: "), lines
    return lines[0]


def test_the_log_directory_is_for_airlockd_to_read(egress):
    path = os.path.join(egress.state_dir, "egress")
    found = os.stat(path)
    assert stat.S_IMODE(found.st_mode) == 0o2750
    assert found.st_uid == pwd.getpwnam("airlock-gw").pw_uid
    assert found.st_gid == grp.getgrnam("airlock").gr_gid


def test_an_empty_folder_of_root_is_taken_and_kept(place):
    needs_gateway()
    path = os.path.join(place, "logs")
    os.mkdir(path, 0o700)
    for _ in range(2):
        with harness.Server(dict(POLICY, SANDBOX_EGRESS_LOG_DIR=path)):
            assert os.stat(path).st_uid == pwd.getpwnam("airlock-gw").pw_uid


def test_a_folder_of_somebody_else_is_not_taken(place):
    needs_gateway()
    path = os.path.join(place, "logs")
    os.mkdir(path)
    with open(os.path.join(path, "precious"), "w"):
        pass
    assert "precious" not in refused(path)
    assert os.stat(path).st_uid == 0
    os.unlink(os.path.join(path, "precious"))
    os.chown(path, 65534, 65534)
    refused(path)
    assert os.stat(path).st_uid == 65534


def test_a_link_is_not_followed_to_the_log_directory(place):
    needs_gateway()
    os.mkdir(os.path.join(place, "target"))
    os.symlink("target", os.path.join(place, "logs"))
    refused(os.path.join(place, "logs"))
    assert os.stat(os.path.join(place, "target")).st_uid == 0


def test_a_log_directory_that_cannot_be_made_stops_the_start(place):
    needs_gateway()
    refused(os.path.join(place, "missing", "logs"))
    with open(os.path.join(place, "file"), "w"):
        pass
    refused(os.path.join(place, "file"))


def test_a_log_directory_that_the_gateway_cannot_reach_stops_the_start(place):
    needs_gateway()
    os.chmod(place, 0o700)
    assert "airlock-gw" in refused(os.path.join(place, "logs"))


# ---- The base of imports -----------------------------------------------------------------------


def test_the_gateway_hears_of_the_base_of_imports_alone(tmp_path):
    needs_gateway()
    ca = tmp_path / "ca.pem"
    ca.write_text("of the test\n")
    env = {"SANDBOX_GITHUB_BASE": "https://git.test:8443/", "SANDBOX_EGRESS_DNS": "192.0.2.53"}
    server = harness.Server(env, program=fetch.trusting(str(tmp_path), ca)).start()
    try:
        gateway = gateway_of(server)
        with open("/proc/%d/cmdline" % gateway) as file:
            words = file.read().split("\0")
        assert words[words.index("--import-base") + 1] == "https://git.test:8443"
        # What update-ca-certificates keeps is what the gateway sees.
        with open("/proc/%d/root%s" % (gateway, fetch.TRUST)) as file:
            assert file.read() == "of the test\n"
        assert not server.post("/v1/sessions", {"egress": EGRESS}).status < 300
    finally:
        server.stop()
