# SPDX-License-Identifier: Apache-2.0
"""A wrong configuration stops the start: exit status 78, one line that names the variable."""

import json
import os
import re
import subprocess

import pytest

import harness


@pytest.fixture(autouse=True)
def needs_server():
    why = harness.runnable()
    if why:
        pytest.skip(why)


WRONG = [
    ("SANDBOX_API_KEYS", "a b:key-0123456789abcdef", ""),
    ("SANDBOX_API_KEYS", "%s:key-0123456789abcdef" % ("x" * 64), ""),
    ("SANDBOX_KEYSTORE", "mysql:x", "use sqlite:<path>"),
    ("SANDBOX_ADMIN_KEY", "x" * 31, ""),
    ("SANDBOX_ADMIN_KEY", harness.KEYS["a"] + "x" * 10, None),
    ("SANDBOX_TENANT_LIMITS", "{", ""),
    ("SANDBOX_TENANT_LIMITS", "[]", ""),
    ("SANDBOX_TENANT_LIMITS", '{"a": 1}', ""),
    ("SANDBOX_TENANT_LIMITS", '{"a": {"max_session": 1}}', ""),
    ("SANDBOX_TENANT_LIMITS", '{"a": {"max_sessions": 0}}', ""),
    ("SANDBOX_TENANT_LIMITS", '{"a": {"max_sessions": true}}', ""),
    ("SANDBOX_TENANT_LIMITS", '{"a": {"max_sessions": "1"}}', ""),
    ("SANDBOX_TENANT_LIMITS", '{"a": {"max_sessions": 1.5}}', ""),
    ("SANDBOX_TENANT_LIMITS_FILE", "/nonexistent", ""),
    ("SANDBOX_EGRESS_POLICY", "{", ""),
    ("SANDBOX_EGRESS_POLICY", '{"a": "pypi"}', ""),
    ("SANDBOX_EGRESS_POLICY", '{"a": ["http://x"]}', ""),
    ("SANDBOX_SESSION_TTL", "0", ""),
    ("SANDBOX_SESSION_TTL", "604801", ""),
    ("SANDBOX_SESSION_TTL", "1800s", ""),
    ("SANDBOX_SESSION_TTL", " 1800", None),
    ("SANDBOX_SESSION_TTL", "0x10", ""),
    ("SANDBOX_VOLUMES", "zfs", ""),
    ("SANDBOX_VOLUME_OVERCOMMIT", "0", ""),
    ("SANDBOX_VOLUME_OVERCOMMIT", "1001", ""),
    ("SANDBOX_WORKSPACE_QUOTA_MB", "0", ""),
    ("SANDBOX_WORKSPACE_QUOTA_MB", "-1", ""),
    ("SANDBOX_MAX_SESSIONS", "0", ""),
    ("SANDBOX_MAX_SESSIONS", "100001", ""),
    ("SANDBOX_POOL", "257", ""),
    ("SANDBOX_MODE", "both", ""),
    ("SANDBOX_RUNTIME", "docker", ""),
    ("SANDBOX_RUNTIME", "oci:/nonexistent", ""),
    ("SANDBOX_REQUIRE_GVISOR", "maybe", ""),
    ("SANDBOX_REQUIRE_GVISOR", "1", ""),
    ("SANDBOX_TEMPLATES", "sandbox-base:latest,nothing:1", ""),
    ("SANDBOX_MEMORY_MB", "31", ""),
    ("SANDBOX_CPUS", "0.05", ""),
    ("SANDBOX_CPUS", "one", ""),
    ("SANDBOX_PIDS", "15", ""),
    ("SANDBOX_TMP_MB", "0", ""),
    ("SANDBOX_MAX_OUTPUT_MB", "257", ""),
    ("SANDBOX_WRITE_MAX_MB", "0", ""),
    ("SANDBOX_LISTEN", "8000", ""),
    ("SANDBOX_LISTEN", "127.0.0.1:99999", ""),
    ("SANDBOX_LISTEN", "0.0.0.0:8000", "keys would travel in clear"),
    ("SANDBOX_MAX_CONNECTIONS", "15", ""),
    ("SANDBOX_LOG_LEVEL", "loud", ""),
    ("SANDBOX_TRUSTED_PROXIES", "everybody", ""),
    ("SANDBOX_PUBLIC_URL", "example", ""),
    ("SANDBOX_PREVIEW_DOMAIN", "localhost", ""),
    ("SANDBOX_PREVIEW_SCHEME", "ftp", ""),
    ("SANDBOX_AUDIT", "file:x", ""),
    ("SANDBOX_AUDIT_RETENTION_DAYS", "0", ""),
    ("SANDBOX_CONSOLE_BASE_URL", "https://console.example", ""),
    ("SANDBOX_CONSOLE_SIGNUP", "anyone", ""),
    ("SANDBOX_ALLOW_PLAIN_HTTP", "perhaps", ""),
]


@pytest.mark.parametrize(
    "name, value, sentence",
    [entry for entry in WRONG if entry[2] is not None],
    ids=lambda value: str(value)[:40],
)
def test_wrong_values(name, value, sentence):
    status, stderr = harness.serve_once({name: value})
    assert status == 78, stderr
    line = stderr.strip()
    assert re.match(r"airlock: SANDBOX_[A-Z_]+: \S", line) and "\n" not in line, stderr
    assert name in line or name + "_FILE" in line, line
    assert sentence in line
    for key in harness.KEYS.values():
        assert key not in line


def test_check_alone_starts_nothing():
    status, stderr = harness.serve_once({}, ("serve", "--check"))
    assert status == 0, stderr
    status, stderr = harness.serve_once({"SANDBOX_POOL": "x"}, ("serve", "--check"))
    assert status == 78 and stderr.startswith("airlock: SANDBOX_POOL: ")


def test_the_admin_key_is_no_static_key():
    key = "the-same-key-0123456789-0123456789-abc"
    status, stderr = harness.serve_once(
        {"SANDBOX_API_KEYS": "a:" + key, "SANDBOX_ADMIN_KEY": key}
    )
    assert status == 78 and "SANDBOX_ADMIN_KEY" in stderr and key not in stderr


def test_empty_means_unset_and_unknown_names_are_a_warning(servers):
    server = servers.get({"SANDBOX_POOL": "", "SANDBOX_NO_SUCH_THING": "1"})
    assert "SANDBOX_NO_SUCH_THING" in server.log()


INTERNAL = {
    "SANDBOX_ACCEPT_LOST": "1",
    "SANDBOX_IMPORTED": "sandbox-base:latest",
    "SANDBOX_EGRESS_POLICY_READ": "{",
    "SANDBOX_TENANT_LIMITS_READ": "{",
}


@pytest.mark.parametrize("name", INTERNAL)
def test_what_serve_tells_airlockd_is_unknown_to_the_operator(name, tmp_path):
    warning = "airlock: warning: %s is not a known variable" % name
    status, stderr = harness.serve_once({name: INTERNAL[name]}, ("serve", "--check"))
    assert (status, stderr.strip()) == (0, warning)
    file = tmp_path / "airlock.conf"
    file.write_text("%s=%s\n" % (name, INTERNAL[name]))
    status, stderr = harness.serve_once({}, ("serve", "--config", str(file), "--check"))
    assert (status, stderr.strip()) == (0, warning)


def test_the_file_is_read_and_the_environment_wins(tmp_path):
    file = tmp_path / "airlock.conf"
    file.write_text("# a comment\n\nSANDBOX_POOL=300\n")
    status, stderr = harness.serve_once({}, ("serve", "--config", str(file), "--check"))
    assert status == 78 and "SANDBOX_POOL" in stderr
    status, stderr = harness.serve_once(
        {"SANDBOX_POOL": "3"}, ("serve", "--config", str(file), "--check")
    )
    assert status == 0, stderr
    status, stderr = harness.serve_once({}, ("serve", "--config", "/nonexistent", "--check"))
    assert status == 78 and "/nonexistent" in stderr, (status, stderr)


def test_limits_are_merged(servers):
    limits = {"*": {"max_sessions": 7, "requests_per_minute": 5000}, "a": {"max_sessions": 3}}
    server = servers.get({"SANDBOX_TENANT_LIMITS": json.dumps(limits)})
    of_a = server.get("/v1/usage").json["limits"]
    of_b = server.get("/v1/usage", key=harness.KEYS["b"]).json["limits"]
    assert (of_a["max_sessions"], of_a["requests_per_minute"]) == (3, 5000)
    assert (of_b["max_sessions"], of_b["requests_per_minute"]) == (7, 5000)
    assert of_a["max_concurrent_exec"] == of_b["max_concurrent_exec"] == 4


def test_limits_of_the_sandbox_are_what_was_configured(servers, ours):
    server = servers.get({
        "SANDBOX_MEMORY_MB": "64", "SANDBOX_PIDS": "20", "SANDBOX_CPUS": "0.5",
        "SANDBOX_TMP_MB": "8", "SANDBOX_MAX_OUTPUT_MB": "1", "SANDBOX_WORKSPACE_QUOTA_MB": "16",
        "SANDBOX_WRITE_MAX_MB": "1",
    })
    with ours.sandbox(server) as sandbox:
        assert sandbox.disk_quota_mb == 16
        hungry = "python3 -c \"b=b'x'*(100<<20)\""
        assert harness.beyond_memory(lambda: sandbox.run(hungry))[-1].oom_killed
        result = sandbox.run("for i in $(seq 30); do sleep 5 & done; wait", timeout=60)
        assert "Resource temporarily unavailable" in result.stderr
        result = sandbox.run("head -c 20M /dev/zero > /tmp/f; stat -c %s /tmp/f")
        assert int(result.stdout) <= 8 << 20
        result = sandbox.run("head -c 3M /dev/zero | tr '\\0' a")
        assert result.warnings[0].startswith("Output exceeded 1 MB; ")

        def is_slowed_down():
            answer = server.exec(sandbox.session_id, "timeout 1 sh -c 'while :; do :; done'")
            return answer["cpu_ms"] < 0.7 * answer["duration_ms"]

        # The kernel counts as the command's what its machine stood still for.
        assert any(is_slowed_down() for _ in range(3))
        with pytest.raises(ours.errors.QuotaExceededError, match="1 MB limit"):
            sandbox.files.write("big", "x" * (2 << 20))
        sandbox.run("head -c 2M /dev/zero | tr '\\0' a > big").check()
        with pytest.raises(ours.errors.QuotaExceededError) as caught:
            sandbox.files.read("big")
        assert caught.value.detail == (
            "File 'big' is larger than the 1 MB read limit; use download."
        )


def test_plain_folders_are_for_one_tenant():
    status, stderr = harness.serve_once({"SANDBOX_VOLUMES": "plain"})
    assert status == 78 and "plain" in stderr


def test_plain_folders_work_in_single_mode(servers, ours):
    server = servers.get({"SANDBOX_VOLUMES": "plain", "SANDBOX_MODE": "single"})
    with ours.sandbox(server) as sandbox:
        sandbox.files.write("a", "b")
        assert sandbox.run("cat a").stdout == "b"
        posture = server.get("/v1/sessions/" + sandbox.session_id).json["posture"]
        assert posture["hard_quota"] is False and posture["seccomp"] is True


def test_a_unix_socket(ours, tmp_path):
    import http.client
    import socket

    path = os.path.join(harness.state_dirs().root, "listen.sock")
    server = harness.Server({"SANDBOX_LISTEN": "unix:" + path})

    class Connection(http.client.HTTPConnection):
        def connect(self):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(path)

    def ask(method, target, key=None, **_):
        connection = Connection("localhost", timeout=60)
        connection.request(method, target, headers={"X-API-Key": key} if key else {})
        answer = connection.getresponse()
        return harness.Answer(answer.status, answer.headers, answer.read())

    server.get = lambda target, key=None, timeout=None: ask("GET", target, key)
    with server:
        assert server.get("/healthz").status == 200
        assert server.get("/v1/usage", key=harness.KEYS["a"]).json["tenant_id"] == "a"


def test_a_second_server_on_the_same_state_directory_is_refused(server):
    status, stderr = harness.serve_once({"SANDBOX_STATE_DIR": server.state_dir})
    assert status != 0 and stderr
    assert server.get("/healthz", key=None).status == 200


def test_a_port_that_is_taken(server):
    status, stderr = harness.serve_once({"SANDBOX_LISTEN": "127.0.0.1:%d" % server.port})
    assert status == 78 and stderr.startswith("airlock: SANDBOX_LISTEN: ")


# ---- The commands beside the server ------------------------------------------------------------

AIRLOCK = os.path.join(harness.BUILD, "airlock")


def ask(words, variable=None, etc=None, root=True, **environment):
    """One run of airlock; etc stands where /etc is and /var/lib has nothing in it then, so that no
    server of this host is meant. root=False gives up root."""
    words = [AIRLOCK, *words]
    if not root:
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
    if etc:
        mount = 'mount --bind "$0" /etc && mount -t tmpfs none /var/lib && exec "$@"'
        words = ["unshare", "-m", "sh", "-c", mount, str(etc), *words]
    return subprocess.run(
        words, env=harness.environment(SANDBOX_STATE_DIR=variable, **environment),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, text=True,
    )


@pytest.fixture
def etc(tmp_path):
    """An /etc whose airlock.conf is written by configure."""
    folder = tmp_path / "etc"
    (folder / "airlock").mkdir(parents=True)
    return folder


def configure(folder, text, mode=0o600):
    file = folder / "airlock" / "airlock.conf"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


HOST_COMMANDS = [
    ["backup"], ["restore"], ["volume", "show"], ["volume", "grow"], ["volume", "purge"],
]


@pytest.fixture(params=HOST_COMMANDS, ids=" ".join)
def looked_in(request, tmp_path):
    """Which of the folders (one, two ...) a command looked in: none is a state directory, so it says."""
    last = {"grow": ["1G"], "backup": [str(tmp_path / "copy")], "restore": [str(tmp_path / "none")]}
    (tmp_path / "none").write_text("")
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()

    def look(*options, **how):
        words = [*request.param, *options, *last.get(request.param[-1], [])]
        ran = ask(words, **how)
        assert (ran.returncode, ran.stdout) == (1, ""), ran
        named = re.findall(r"%s/(\w+)" % tmp_path, ran.stderr) + re.findall("/var/lib/airlock", ran.stderr)
        return [name for name in named if name != "none"] or ran.stderr

    return look


def test_the_option_beats_the_environment_and_that_the_file(looked_in, tmp_path, etc):
    one, two, three = (str(tmp_path / name) for name in ("one", "two", "three"))
    configure(etc, "# a comment\nSANDBOX_API_KEY=%s\nSANDBOX_STATE_DIR=%s\n" % ("x" * 40, three))
    named = tmp_path / "named.conf"
    named.write_text("SANDBOX_STATE_DIR=%s\n" % one)
    assert looked_in(etc=etc) == ["three"]
    assert looked_in("--config", str(named), etc=etc) == ["one"]
    assert looked_in(etc=etc, variable=two) == ["two"]
    assert looked_in("--config", str(named), etc=etc, variable=two) == ["two"]
    assert looked_in("--state-dir", one, etc=etc, variable=two) == ["one"]


def test_a_file_that_names_no_folder_leaves_the_usual_one(looked_in, etc, tmp_path):
    one = str(tmp_path / "one")
    assert "/var/lib/airlock" in looked_in(etc=etc)
    configure(etc, "SANDBOX_POOL=3\n#SANDBOX_STATE_DIR=%s\n" % one)
    assert "/var/lib/airlock" in looked_in(etc=etc)


def test_a_file_is_an_error_only_when_it_is_needed(looked_in, etc, tmp_path):
    one = str(tmp_path / "one")
    for text, mode, said in (
        ("SANDBOX_STATE_DIR=%s\n" % one, 0o666, "can be written by everybody; chmod o-w"),
        ("no assignment\n", 0o600, "line 1"),
    ):
        configure(etc, text, mode)
        refused = looked_in(etc=etc)
        assert refused.startswith("airlock: /etc/airlock/airlock.conf: ") and said in refused
        assert "SANDBOX_STATE_DIR in the environment goes before that file" in refused
        assert looked_in(etc=etc, variable=one) == ["one"]
        assert looked_in("--state-dir", one, etc=etc) == ["one"]
    assert looked_in("--config", "/nonexistent").startswith(
        "airlock: /nonexistent: cannot be opened: No such file or directory; "
    )


def test_who_may_not_read_the_file_is_told(etc, tmp_path):
    configure(etc, "SANDBOX_STATE_DIR=%s\n" % tmp_path)
    ran = ask(["backup", "/nonexistent/copy"], etc=etc, root=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "airlock: /etc/airlock/airlock.conf: cannot be opened: Permission denied; "
        "SANDBOX_STATE_DIR in the environment goes before that file\n"
    )
    ran = ask(["backup", "--database", "/nonexistent/db", "/nonexistent/copy"], etc=etc, root=False)
    assert ran.returncode == 1 and "airlock.conf" not in ran.stderr


def test_an_installed_server_is_found_by_its_file(servers, etc, tmp_path):
    server = servers.get({})
    configure(etc, "SANDBOX_STATE_DIR=%s\n" % server.state_dir)
    assert ask(["backup", str(tmp_path / "copy")], etc=etc).returncode == 0
    assert (tmp_path / "copy").stat().st_size > 0
    shown = json.loads(ask(["volume", "show", "--json"], etc=etc).stdout)
    assert shown["state_dir"] == server.state_dir


def diagnosed(etc, layer, **how):
    layers = json.loads(ask(["doctor", "--json"], etc=etc, **how).stdout)["layers"]
    return [(l["verdict"], l["found"]) for l in layers if l["layer"] == layer][0]


def test_doctor_looks_for_room_there(etc, tmp_path):
    there = tmp_path / "mounted"
    there.mkdir()
    configure(etc, "SANDBOX_STATE_DIR=%s/not/yet/\n" % there)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", there], check=True)
    try:
        assert diagnosed(etc, "disk space") == ("note", "5 MB free in %s" % there)
    finally:
        subprocess.run(["umount", there], check=True)


def test_doctor_names_the_name_servers_of_an_installed_server(etc):
    def found(**how):
        return diagnosed(etc, "name servers", **how)

    (etc / "resolv.conf").write_text("nameserver 192.0.2.1\n")
    assert found() == ("ok", "192.0.2.1")
    configure(etc, "SANDBOX_EGRESS_DNS=192.0.2.2,192.0.2.3\n")
    assert found() == ("ok", "192.0.2.2,192.0.2.3, as SANDBOX_EGRESS_DNS says")
    assert found(SANDBOX_EGRESS_DNS="192.0.2.4") == ("ok", "192.0.2.4, as SANDBOX_EGRESS_DNS says")
    verdict, text = found(root=False)
    assert verdict == "unknown" and "airlock.conf: cannot be opened: Permission denied" in text
    assert found(root=False, SANDBOX_EGRESS_DNS="192.0.2.4")[0] == "ok"


def test_doctor_looks_for_lost_volumes_there(etc, tmp_path):
    def found(**how):
        return diagnosed(etc, "lost volumes", **how)

    configure(etc, "SANDBOX_STATE_DIR=%s\n" % tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "lost-volumes").write_text("one\ntwo\n")
    assert found() == ("note", "2 that the database did not explain at the last start")
    assert found(variable=str(tmp_path / "state")) == ("ok", "none")
    verdict, text = found(root=False)
    assert verdict == "unknown" and "airlock.conf: cannot be opened: Permission denied" in text
