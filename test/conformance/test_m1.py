# SPDX-License-Identifier: Apache-2.0
"""The acceptance cases of the core, by their numbers in the contract (1.1 to 1.36).

Whatever goes through a client runs with the two published ones and with ours; what clients cannot
send is asked for by hand. Texts are exact.
"""

import json
import math
import re
import threading
import time
from urllib.parse import urlencode

import pytest

import awake
import harness
from bounds import in_time
from harness import KEYS

NO_KEY = "Invalid or missing X-API-Key header"
TEXT_MISSING = "Error: File '%s' does not exist."
UNKNOWN = "sbx_0123456789ab"
# A command that goes on for as long as the test likes.
UNTIL_STOP = "until [ -e stop ]; do sleep 0.05; done; echo stopped"


def stop(server, session):
    body = {"path": "stop", "content": ""}
    assert server.post("/v1/sessions/%s/write" % session, body).status == 200


def routes(server, below="/v1"):
    """(method, path) of every route, with ids filled in."""
    paths = server.get("/openapi.json", key=None).json["paths"]
    fill = {"id": UNKNOWN, "session_id": UNKNOWN}
    return [
        (method.upper(), re.sub(r"\{(\w+)\}", lambda m: fill.get(m.group(1), "x"), path))
        for path, methods in paths.items()
        for method in methods
        # The admin calls have a key of their own; without one configured they are not there.
        if path.startswith(below) and not path.startswith("/v1/admin")
    ]


# ---- 1.1 to 1.4: keys ----


def test_1_01_every_call_needs_a_key(server):
    all_routes = routes(server)
    assert len(all_routes) >= 9
    for method, path in all_routes:
        for headers in ({}, {"X-API-Key": ""}, {"X-API-Key": "wrong"}, {"X-API-Key": "x" * 600}):
            answer = server.request(method, path, key=None, headers=headers)
            assert answer.status == 401, (method, path, headers, answer)
            assert answer.detail == NO_KEY and answer.code == "unauthenticated"
            assert "WWW-Authenticate" not in answer.headers


@pytest.mark.parametrize(
    "header",
    [
        b"X-API-Key: \xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc",
        b"X-API-Key: \xff\xfe",
        b"X-API-Key: %s\r\nX-API-Key: %s" % (KEYS["a"].encode(), KEYS["a"].encode()),
    ],
    ids=["utf-8", "latin-1", "repeated"],
)
def test_1_01_odd_keys_are_401_and_never_500(server, header):
    answer = server.raw(b"GET /v1/usage HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n")
    assert answer.status == 401
    assert json.loads(answer.body)["detail"] == NO_KEY


def limits(**fields):
    return {"SANDBOX_TENANT_LIMITS": json.dumps({"*": fields})}


def test_1_01_a_refused_key_takes_no_token(servers):
    # The next token comes after half a minute.
    server = servers.get(limits(requests_per_minute=2))
    first = server.get("/v1/usage", key=KEYS["c"]).json["requests_available"]
    for _ in range(5):
        assert server.get("/v1/usage", key="wrong").status == 401
    assert server.get("/v1/usage", key=KEYS["c"]).json["requests_available"] == first - 1


def test_1_02_health_needs_no_key(server, sdk):
    answer = server.get("/healthz", key=None)
    assert answer.status == 200 and answer.json["status"] == "healthy"
    assert isinstance(answer.json["active_sessions"], int)
    assert sdk.sandbox(server).health()["status"] == "healthy"


def test_1_03_each_key_names_its_tenant(server, sdk):
    for tenant, key in KEYS.items():
        with sdk.sandbox(server, key) as sandbox:
            assert sandbox.tenant_id == tenant


def test_1_04_static_keys_that_work(servers):
    env = {
        "SANDBOX_API_KEYS": " a : key:with:colons-0123456789 ,, b:another-key-0123456789 ,",
        "SANDBOX_API_KEY": "key-of-default-0123456789",
    }
    server = servers.get(env)
    for key, tenant in (
        ("key:with:colons-0123456789", "a"),
        ("another-key-0123456789", "b"),
        ("key-of-default-0123456789", "default"),
    ):
        assert server.get("/v1/usage", key=key).json["tenant_id"] == tenant


@pytest.mark.parametrize(
    "env, sentence",
    [
        ({"SANDBOX_API_KEYS": "a:" + KEYS["a"] + ",b"}, "entry 2 lacks a tenant or a key"),
        ({"SANDBOX_API_KEYS": ":" + KEYS["a"]}, "entry 1 lacks a tenant or a key"),
        ({"SANDBOX_API_KEYS": "a:"}, "entry 1 lacks a tenant or a key"),
        (
            {"SANDBOX_API_KEYS": "a:%s,b:%s" % (KEYS["a"], KEYS["a"])},
            "the same key is given twice",
        ),
        ({"SANDBOX_API_KEY": KEYS["a"]}, "the same key is given twice"),
        (
            {"SANDBOX_API_KEYS": ""},
            "set SANDBOX_API_KEYS, SANDBOX_API_KEY or SANDBOX_KEYSTORE",
        ),
    ],
)
def test_1_04_static_keys_that_stop_the_start(env, sentence):
    why = harness.runnable()
    if why:
        pytest.skip(why)
    status, stderr = harness.serve_once(env)
    assert status == 78, stderr
    assert re.match(r"airlock: SANDBOX_[A-Z_]+: ", stderr) and sentence in stderr
    assert len(stderr.strip().splitlines()) == 1
    assert KEYS["a"] not in stderr


# ---- 1.5 to 1.7: sessions ----


def open_sessions(server, key=KEYS["a"]):
    return [entry["session_id"] for entry in server.get("/v1/sessions", key=key).json["sessions"]]


def test_1_05_a_session_lives_as_long_as_the_with_block(server, sdk):
    with sdk.sandbox(server) as sandbox:
        name = sandbox.session_id
        assert re.match(r"sbx_[0-9a-f]{12}$", name)
        sandbox.files.write("main.py", "print(2 ** 16)")
        assert sandbox.files.read("main.py") == "print(2 ** 16)"
        assert sandbox.run("python3 main.py").stdout == "65536\n"
        assert name in open_sessions(server)
        assert sandbox.disk_quota_mb == 512
        assert sandbox.egress == []
    assert name not in open_sessions(server)
    sandbox.close()


def test_1_05_create_is_start(server, sdk):
    sandbox = sdk.Sandbox.create(KEYS["a"], server.url)
    assert sandbox.session_id in open_sessions(server)
    sandbox.close()


def test_1_06_an_expired_session_closes_quietly(servers, sdk):
    server = servers.get({"SANDBOX_SESSION_TTL": "1"})
    sandbox = sdk.sandbox(server).start()
    path = "/v1/sessions/" + sandbox.session_id
    harness.wait_until(lambda: server.get(path).status == 404, "the session is removed")
    with pytest.raises(sdk.errors.NotFoundError, match="Session not found or expired"):
        sandbox.run("true")
    with pytest.raises(sdk.errors.NotFoundError):
        sandbox.files.read("a")
    sandbox.close()


def test_1_07_a_template_that_is_not_allowed(server, sdk):
    with pytest.raises(sdk.errors.ValidationError) as caught:
        sdk.sandbox(server, template="evil").start()
    assert caught.value.status == 400
    assert caught.value.detail == (
        "Template 'evil' not permitted. Allowed: ['sandbox-base:latest', 'python:3.11-slim']"
    )


def test_1_07_both_templates_start(server, sdk):
    for template in ("sandbox-base:latest", "python:3.11-slim"):
        with sdk.sandbox(server, template=template) as sandbox:
            assert sandbox.run("python3 -c 'print(1)'").stdout == "1\n"


# ---- 1.8 to 1.15: commands ----


@pytest.fixture
def box(server, sdk):
    with sdk.sandbox(server) as sandbox:
        yield sandbox


def test_1_08_the_text_form_and_the_raw_streams(box):
    result = box.run("echo hi")
    assert result.stdout == "hi\n" and result.stderr == ""
    assert result.exit_code == 0 and result.ok and result.warnings == []
    assert result.output == "[STDOUT]:\nhi\n[EXIT CODE]: 0"
    assert box.run_command("echo hi") == result.output


@pytest.mark.parametrize(
    "command, output",
    [
        ("true", "[EXIT CODE]: 0"),
        ("printf '  \\n\\t'", "[EXIT CODE]: 0"),
        ("echo a; echo b >&2; exit 4", "[STDOUT]:\na\n[STDERR]:\nb\n[EXIT CODE]: 4"),
        ("echo; echo ' x '; echo", "[STDOUT]:\nx\n[EXIT CODE]: 0"),
        ("", "[EXIT CODE]: 0"),
    ],
)
def test_1_08_blank_streams_are_left_out_of_the_text(server, session, command, output):
    assert server.exec(session, command)["output"] == output


def test_1_08_every_field_is_there(server, session):
    answer = server.exec(session, "echo hi; echo no >&2; exit 3")
    assert answer["command"] == "echo hi; echo no >&2; exit 3"
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("hi\n", "no\n", 3)
    assert answer["timed_out"] is False and answer["oom_killed"] is False
    assert answer["pids_limit_hit"] is False
    assert answer["warnings"] == []
    for name in ("duration_ms", "cpu_ms", "peak_memory_bytes"):
        assert isinstance(answer[name], int) and not isinstance(answer[name], bool), name
    assert 0 <= answer["duration_ms"] < 15000
    assert answer["peak_memory_bytes"] > 65536
    assert "partial_stdout" not in answer


def test_1_09_exit_status(sdk, box):
    result = box.run("exit 3")
    assert result.exit_code == 3 and not result.ok
    with pytest.raises(sdk.errors.CommandError) as caught:
        result.check()
    assert caught.value.result is result
    assert str(caught.value) == "Command 'exit 3' exited with code 3.\n[EXIT CODE]: 3"


def test_1_09_timeout(sdk, box):
    result = in_time(3, lambda: box.run("echo before; sleep 9", timeout=1))
    assert result.exit_code == -1 and result.timed_out and not result.oom_killed
    assert (result.stdout, result.stderr) == ("", "")
    assert result.warnings == ["Execution exceeded 1s limit."]
    assert result.output == "[TIMEOUT]: Execution exceeded 1s limit.\n[EXIT CODE]: -1"
    with pytest.raises(sdk.errors.CommandError, match="timed out") as caught:
        result.check()
    assert caught.value.result is result


def test_1_09_what_was_printed_before_the_timeout_is_in_extra_fields(server, session):
    # Long enough for a command that is kept from running meanwhile.
    def times_out():
        answer = server.exec(session, "echo out; echo err >&2; sleep 19", timeout_seconds=5)
        assert answer["timed_out"] and answer["stdout"] == "" and answer["stderr"] == ""
        assert (answer["partial_stdout"], answer["partial_stderr"]) == ("out\n", "err\n")
        assert 5000 <= answer["duration_ms"]
        return answer

    in_time(5.5, times_out, lambda answer: answer["duration_ms"] / 1000)


def test_1_09_memory(sdk, box):
    result = harness.beyond_memory(lambda: box.run("python3 -c \"b = b'x' * (1 << 30)\""))[-1]
    assert result.exit_code == 137 and result.oom_killed and not result.timed_out
    assert result.warnings == ["Process killed by cgroups (Memory limit exceeded)."]
    assert result.output.endswith(
        "[WARNING]: Process killed by cgroups (Memory limit exceeded).\n[EXIT CODE]: 137"
    )
    with pytest.raises(sdk.errors.CommandError, match="too much memory") as caught:
        result.check()
    assert caught.value.result is result


def test_1_09_a_kill_that_is_not_the_memory_limit_says_so(box):
    result = box.run("kill -9 $$")
    assert result.exit_code == 137 and not result.oom_killed
    assert result.warnings == [
        "Process was killed (exit 137, SIGKILL), most likely for exceeding the memory limit."
    ]


def test_1_10_bytes_that_are_not_text_become_replacement_characters(server, sdk, box):
    assert box.run(r"printf '\xff\xfe'").stdout == "\ufffd\ufffd"
    answer = server.post(
        "/v1/sessions/%s/exec" % box.session_id, {"command": r"printf '\xff\xfe' >&2"}
    )
    answer.body.decode("utf-8")
    assert answer.json["stderr"] == "\ufffd\ufffd"


@pytest.mark.parametrize(
    "value, kind",
    [
        ("0", "greater_than_equal"),
        ("61", "less_than_equal"),
        ("600", "less_than_equal"),
        ('"15"', "int_type"),
        ("15.5", "int_from_float"),
        ("true", "int_type"),
        ("null", "int_type"),
    ],
)
def test_1_11_timeouts_that_are_refused(server, session, value, kind):
    body = b'{"command": "true", "timeout_seconds": %s}' % value.encode()
    answer = server.post(
        "/v1/sessions/%s/exec" % session, raw=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status == 422 and answer.code == "invalid_request"
    (item,) = answer.detail
    assert item["type"] == kind and item["loc"] == ["body", "timeout_seconds"]


@pytest.mark.parametrize("value", ["15.0", "1", "60"])
def test_1_11_timeouts_that_are_accepted(server, session, value):
    body = b'{"command": "true", "timeout_seconds": %s}' % value.encode()
    answer = server.post(
        "/v1/sessions/%s/exec" % session, raw=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status == 200 and answer.json["exit_code"] == 0


def test_1_12_the_longest_command(server, session):
    for filler in ("a", "ü"):
        command = "true #"
        width = len(filler.encode())
        command += filler * ((131071 - len(command)) // width)
        command += "x" * (131071 - len(command.encode()))
        assert server.exec(session, command)["exit_code"] == 0
        answer = server.post("/v1/sessions/%s/exec" % session, {"command": command + "x"})
        assert answer.status == 422 and answer.detail[0]["loc"] == ["body", "command"]


def test_1_12_a_command_with_nul_is_refused(server, session):
    answer = server.post("/v1/sessions/%s/exec" % session, {"command": "echo a\0b"})
    assert answer.status == 422 and answer.detail[0]["loc"] == ["body", "command"]


def test_1_13_health_answers_while_a_command_runs(server, session):
    with harness.in_background(server.exec, session, UNTIL_STOP, 60) as result:
        try:
            harness.wait_until(
                lambda: server.get("/v1/usage").json["commands_running"], "the command runs"
            )

            def answers():
                assert server.get("/healthz", key=None).status == 200
                assert not result

            for _ in range(50):
                in_time(1, answers)
        finally:
            stop(server, session)
    assert result[0]["exit_code"] == 0


def test_1_14_background_processes_do_not_hold_the_answer(server, box):
    def none_is_left():
        return "s114" not in [name for _, name in harness.tenant_processes(server.number)]

    def runs():
        result = box.run("cp /bin/sleep s114; ./s114 100 & echo x")
        assert (result.stdout, result.exit_code, result.ok) == ("x\n", 0, True)
        return awake.seconds()

    def seconds_until_it_is_gone():
        answered = in_time(2, runs)
        harness.wait_until(none_is_left, "no process is left")
        return awake.seconds() - answered

    in_time(0.5, seconds_until_it_is_gone, lambda seconds: seconds)


def test_1_15_fifteen_mebibytes_are_complete(server, box):
    result = box.run("head -c 15728640 /dev/zero | tr '\\0' a")
    assert len(result.stdout) == 15 << 20 and set(result.stdout) == {"a"}
    assert result.warnings == [] and result.exit_code == 0


def test_1_15_beyond_the_limit_head_and_tail_are_kept(server, box):
    result = box.run("seq -f '%015.0f' 1 2621440")
    found = re.search(r"\n?\[\.\.\. (\d+) bytes dropped \.\.\.\]\n?", result.stdout)
    dropped = int(found.group(1))
    head, tail = result.stdout[: found.start()], result.stdout[found.end() :]
    assert len(head) + len(tail) + dropped == pytest.approx(40 << 20, abs=2)
    assert len(head) == pytest.approx(12 << 20, abs=64)
    assert len(tail) == pytest.approx(4 << 20, abs=64)
    assert head.startswith("000000000000001\n000000000000002\n")
    assert tail.endswith("000000002621439\n000000002621440\n")
    assert result.warnings == ["Output exceeded 16 MB; %d bytes were dropped." % dropped]
    assert result.exit_code == 0


# ---- 1.16 to 1.21: files ----


def test_1_16_parents_are_made_and_characters_counted(server, box):
    text = "ü€😀\r\n\tend"
    assert box.write_file("a/b/c.txt", text) == (
        "Successfully wrote %d characters to a/b/c.txt" % len(text)
    )
    assert box.files.read("a/b/c.txt") == text
    answer = server.post(
        "/v1/sessions/%s/write" % box.session_id, {"path": "a/b/u.txt", "content": "ü"}
    )
    assert answer.json == {
        "status": "success",
        "message": "Successfully wrote 1 characters to a/b/u.txt",
    }
    modes = box.run("stat -c '%a %U' a a/b a/b/c.txt").stdout
    assert modes == "755 sandbox\n755 sandbox\n644 sandbox\n"


def test_1_16_a_write_replaces_as_a_whole_and_keeps_the_mode(box):
    box.files.write("run.sh", "echo long old content\n" * 100)
    box.run("chmod 750 run.sh").check()
    box.files.write("run.sh", "echo new\n")
    assert box.run("stat -c %a run.sh; bash run.sh; ls -A | wc -l").stdout == "750\nnew\n1\n"


def test_1_16_an_empty_file_is_empty_and_not_missing(box):
    box.files.write("empty", "")
    assert box.files.read("empty") == ""
    assert box.run("stat -c %s empty").stdout == "0\n"


@pytest.mark.parametrize("path", ["no/such", "it's \"quoted\".txt", "a+b.txt", "a b.txt", "ü/ä.txt"])
def test_1_17_a_missing_file(server, sdk, box, path):
    for read in (box.files.read, box.read_file):
        with pytest.raises(FileNotFoundError) as caught:
            read(path)
        assert caught.value.args[0] == path
    answer = server.get("/v1/sessions/%s/read?%s" % (box.session_id, urlencode({"path": path})))
    assert answer.status == 200
    assert answer.json == {"path": path, "content": TEXT_MISSING % path}
    box.files.write(path, "now it is there")
    assert box.files.read(path) == "now it is there"


def test_1_17_the_text_of_a_missing_file_is_a_200(server, session):
    answer = server.get("/v1/sessions/%s/read?path=no+such%%2Bfile" % session)
    assert answer.status == 200
    assert answer.json == {
        "path": "no such+file",
        "content": "Error: File 'no such+file' does not exist.",
    }


def outside(path):
    return "Access denied: symlink/path traversal outside workspace for '%s'" % path


OUTSIDE = [
    "../x",
    "a/../../x",
    "folder/../../x",
    "missing/../../x",
    "/etc/passwd",
    "/workspace/a",
    "../workspace2/a",
    "../workspace/a",
    "to-file",
    "to-root/etc/passwd",
    "up/etc/passwd",
    "dangling",
    "proc-self/cwd",
]


@pytest.fixture
def with_links(box):
    box.run(
        "echo mine > own; mkdir folder; ln -s /etc/passwd to-file; ln -s / to-root; ln -s ../../.. up;"
        "ln -s /tmp/planted dangling; ln -s /proc/self proc-self"
    ).check()
    return box


@pytest.mark.parametrize("path", OUTSIDE)
def test_1_18_paths_that_leave_the_workspace(server, sdk, with_links, path):
    box = with_links
    before = box.run("sha256sum /etc/passwd; ls -ld /tmp/planted; cat own").stdout
    for call in (lambda: box.files.read(path), lambda: box.files.write(path, "evil")):
        with pytest.raises(sdk.errors.PermissionDeniedError) as caught:
            call()
        assert isinstance(caught.value, PermissionError)
        assert caught.value.status == 403 and caught.value.detail == outside(path)
    assert box.run("sha256sum /etc/passwd; ls -ld /tmp/planted; cat own").stdout == before


def test_1_18_long_paths_are_echoed_cut(server, session):
    path = "../" + "x" * 250
    answer = server.get("/v1/sessions/%s/read?path=%s" % (session, path))
    assert answer.status == 403 and answer.code == "path_outside"
    assert answer.detail == outside(path[:200])


def test_1_19_paths_that_stay_inside(box):
    box.run("mkdir a real; echo text > real/f; ln -s real/f link; ln -s real dir").check()
    assert box.files.read("a/../link") == "text\n"
    assert box.files.read("dir/f") == "text\n"
    box.files.write("link", "through the link")
    assert box.run("cat real/f; readlink link").stdout == "through the linkreal/f\n"
    box.files.write("dir/new", "x")
    assert box.run("cat real/new").stdout == "x"
    box.files.write("a/../b", "b")
    assert box.run("cat b").stdout == "b"


@pytest.mark.parametrize(
    "path, text, code",
    [
        ("fifo", "'fifo' is not a regular file.", "not_regular_file"),
        ("socket", "'socket' is not a regular file.", "not_regular_file"),
        ("folder", "'folder' is a folder.", "is_folder"),
        (".", "'.' is a folder.", "is_folder"),
        ("bytes", "'bytes' is not UTF-8 text; use download.", "not_utf8"),
        ("bytes/x", "'bytes/x' is not inside a folder.", "not_in_folder"),
    ],
)
def test_1_20_what_is_no_text_file(server, session, path, text, code):
    server.exec(
        session,
        "mkfifo fifo; mkdir folder; printf 'a\\xffb' > bytes; python3 -c"
        " 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'",
    )
    def is_refused():
        answer = server.get("/v1/sessions/%s/read?path=%s" % (session, path))
        assert (answer.status, answer.detail, answer.code) == (400, text, code)
        if code != "not_utf8":
            answer = server.post("/v1/sessions/%s/write" % session, {"path": path, "content": "x"})
            assert (answer.status, answer.detail, answer.code) == (400, text, code)

    in_time(3, is_refused)


def test_1_20_a_fifo_holds_nobody_up(server, box):
    box.run("mkfifo fifo").check()
    for _ in range(20):
        assert server.get("/v1/sessions/%s/read?path=fifo" % box.session_id).status == 400
    box.files.write("after", "ok")
    assert box.files.read("after") == "ok"


def test_1_20_without_permission(server, session):
    server.exec(session, "echo x > secret; chmod 0 secret; mkdir locked; chmod 555 locked")
    answer = server.get("/v1/sessions/%s/read?path=secret" % session)
    assert (answer.status, answer.code) == (403, "permission_denied")
    assert answer.detail == "Permission denied for 'secret'."
    answer = server.post(
        "/v1/sessions/%s/write" % session, {"path": "locked/x", "content": "x"}
    )
    assert (answer.status, answer.detail) == (403, "Permission denied for 'locked/x'.")


def test_1_21_the_quota(servers, sdk):
    server = servers.get({"SANDBOX_WORKSPACE_QUOTA_MB": "2"})
    megabyte = "x" * (1 << 20)
    with sdk.sandbox(server) as box:
        assert box.disk_quota_mb == 2
        with pytest.raises(sdk.errors.QuotaExceededError, match="quota") as caught:
            box.files.write("big", megabyte * 3)
        assert caught.value.status == 413
        assert caught.value.detail == (
            "Writing big would use 3.0 MB of the workspace's 2 MB disk quota. Delete files first."
        )
        assert box.run("ls -A | wc -l").stdout == "0\n"
        box.files.write("one", megabyte)
        box.files.write("one", megabyte)
        result = box.run("head -c 2097152 /dev/zero > fill; echo wrote")
        assert result.stdout == "wrote\n"
        assert result.warnings == [
            "Workspace uses 3.0 MB, over its 2 MB disk quota. Delete files before writing more."
        ]
        with pytest.raises(sdk.errors.QuotaExceededError, match="quota"):
            box.files.write("another", "x" * 65536)
        assert box.run("rm fill").warnings == []
        box.files.write("another", "x" * 65536)
        assert box.run("stat -c %s one another").stdout == "1048576\n65536\n"


def test_1_21_the_old_content_survives_a_refused_write(servers, sdk):
    server = servers.get({"SANDBOX_WORKSPACE_QUOTA_MB": "2"})
    with sdk.sandbox(server) as box:
        box.files.write("keep", "old")
        with pytest.raises(sdk.errors.QuotaExceededError):
            box.files.write("keep", "x" * (3 << 20))
        assert box.files.read("keep") == "old"
        assert box.run("ls -A").stdout == "keep\n"


# ---- 1.22 to 1.31: tenants, limits, life ----


def test_1_22_another_tenant_is_refused_everywhere(server, session):
    base = "/v1/sessions/" + session
    calls = [
        ("GET", base + "/read?path=a", None, "Forbidden: Access denied to this session"),
        ("POST", base + "/write", {"path": "a", "content": "b"},
         "Forbidden: Access denied to this session"),
        ("POST", base + "/exec", {"command": "true"}, "Forbidden: Access denied to this session"),
        ("GET", base + "/egress", None, "Forbidden: Access denied to this session"),
        ("GET", base, None, "Forbidden: Access denied to this session"),
        ("DELETE", base, None, "Forbidden"),
    ]
    for method, path, body, text in calls:
        answer = server.request(method, path, body, key=KEYS["b"])
        assert (answer.status, answer.detail) == (403, text), (method, path)
        assert answer.code == "not_your_session"
    assert session not in open_sessions(server, KEYS["b"])
    assert server.exec(session, "echo alive")["stdout"] == "alive\n"


@pytest.mark.parametrize(
    "name", [UNKNOWN, "nope", "sbx_0123456789AB", "sbx_0123456789abc", "sbx_", "..%2F..", "%00"]
)
def test_1_23_unknown_sessions(server, name):
    answer = server.post("/v1/sessions/%s/exec" % name, {"command": "true"})
    assert (answer.status, answer.code) == (404, "session_not_found")
    assert answer.detail == "Session not found or expired"
    answer = server.delete("/v1/sessions/" + name)
    assert (answer.status, answer.code) == (404, "session_not_found")
    assert answer.detail == "Session not found"


def test_1_24_the_session_limit(servers, sdk, monkeypatch):
    server = servers.get(limits(max_sessions=2))
    asked = sdk.slept(monkeypatch)
    first = sdk.sandbox(server).start()
    second = sdk.sandbox(server).start()
    answer = server.post("/v1/sessions", {})
    assert answer.status == 429 and answer.code == "session_limit"
    assert answer.detail == (
        "Session limit reached: 2 of 2 sessions are open. Delete one first."
    )
    assert "Retry-After" not in answer.headers
    with pytest.raises(sdk.errors.RateLimitError, match="2 of 2") as caught:
        sdk.sandbox(server).start()
    assert caught.value.retry_after is None and asked == [1, 2, 4]
    with sdk.sandbox(server, KEYS["b"]) as other:
        assert other.run("echo b").stdout == "b\n"
    first.close()
    with sdk.sandbox(server) as third:
        assert third.run("echo third").stdout == "third\n"
    second.close()


def test_1_25_a_refused_create_takes_no_slot(servers, sdk):
    server = servers.get(limits(max_sessions=1))
    assert server.post("/v1/sessions", {"template": "evil"}).status == 400
    answer = server.post("/v1/sessions", {"egress": ["example.com"]})
    assert answer.status == 403 and answer.code == "egress_not_permitted"
    assert answer.detail == (
        "Egress not permitted for this tenant: ['example.com']. Allowed: []"
    )
    answer = server.post("/v1/sessions", {"snapshot_id": "snap_0123456789abcdef"})
    assert (answer.status, answer.code) == (404, "snapshot_not_found")
    assert answer.detail == "Snapshot not found"
    assert server.get("/v1/usage").json["sessions_open"] == 0
    with sdk.sandbox(server) as sandbox:
        # At the limit the refusals before it still come first.
        assert server.post("/v1/sessions", {"template": "evil"}).status == 400
        assert server.post("/v1/sessions", {}).status == 429
        assert open_sessions(server) == [sandbox.session_id]


def test_1_26_the_command_limit(servers, sdk, monkeypatch):
    server = servers.get(limits(max_concurrent_exec=1))
    sdk.slept(monkeypatch)
    with sdk.sandbox(server, max_retries=0) as box:
        with harness.in_background(server.exec, box.session_id, UNTIL_STOP, 60) as slow:
            try:
                harness.wait_until(
                    lambda: server.get("/v1/usage").json["commands_running"] == 1, "it runs"
                )
                answer = server.post("/v1/sessions/%s/exec" % box.session_id, {"command": "true"})
                assert answer.status == 429 and answer.code == "exec_limit"
                assert answer.detail == (
                    "Too many commands running at once: 1 allowed. Wait for one to finish."
                )
                assert "Retry-After" not in answer.headers
                with pytest.raises(sdk.errors.RateLimitError, match="1 allowed"):
                    box.run("true")
            finally:
                stop(server, box.session_id)
        assert slow[0]["stdout"] == "stopped\n"
        assert box.run("echo free").stdout == "free\n"


@pytest.mark.parametrize("per_minute, wait", [(3, 20), (2, 30), (1, 60)])
def test_1_27_an_empty_bucket_says_how_long(servers, per_minute, wait):
    server = servers.get(limits(requests_per_minute=per_minute))
    began = time.monotonic()
    for _ in range(per_minute):
        assert server.get("/v1/usage").status == 200
    answer = server.get("/v1/usage")
    passed = time.monotonic() - began
    assert answer.status == 429 and answer.code == "rate_limited"
    said = int(answer.headers["Retry-After"])
    assert math.ceil(wait - passed) <= said <= wait
    assert answer.detail == (
        "Rate limit of %d requests per minute exceeded; retry in %d s." % (per_minute, said)
    )


def test_1_27_a_long_wait_is_an_error_at_once(servers, sdk, monkeypatch):
    server = servers.get(dict(limits(requests_per_minute=1), SANDBOX_SESSION_TTL="1799"))
    asked = sdk.slept(monkeypatch)
    key = {"0.1.0": "a", "0.9.0": "b", "ours": "c"}[sdk.name]
    began = time.monotonic()
    assert server.get("/v1/usage", key=KEYS[key]).status == 200
    with pytest.raises(sdk.errors.RateLimitError) as caught:
        sdk.sandbox(server, KEYS[key]).usage()
    assert math.ceil(60 - (time.monotonic() - began)) <= caught.value.retry_after <= 60
    assert asked == []


@pytest.mark.slow
def test_1_27_a_short_wait_is_waited_for(servers, monkeypatch):
    """Really waits 30 s, with all clients at once."""
    import clients

    server = servers.get(dict(limits(requests_per_minute=2), SANDBOX_SESSION_TTL="1798"))
    slept, results = {}, {}

    def use(name, key):
        sandbox = clients.client(name).sandbox(server, key)
        began = time.monotonic()
        for _ in range(3):
            sandbox.usage()
        results[name] = time.monotonic() - began

    names = ["ours"]
    for name in clients.PUBLISHED:
        try:
            clients.client(name)
            names.append(name)
        except clients.MissingWheel:
            pass
    threads = [
        threading.Thread(target=use, args=(name, KEYS[tenant]))
        for name, tenant in zip(names, "abc")
    ]
    for name in names:
        slept[name] = clients.client(name).slept(monkeypatch, really=True)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(names)
    assert all(passed > 29.5 for passed in results.values()), results
    # Once, and no longer than for a token: what of its minute has passed before it asked is left out.
    assert all(len(waits) == 1 and waits[0] <= 30 for waits in slept.values()), slept


def test_1_28_what_costs_a_token(servers):
    # The next token comes after 15 s.
    server = servers.get(limits(requests_per_minute=4))

    def available():
        return server.get("/v1/usage", key=KEYS["b"]).json["requests_available"]

    before = available()
    assert server.get("/v1/sessions/%s" % UNKNOWN, key=KEYS["b"]).status == 404
    assert available() == before - 2
    assert server.get("/v1/sessions/%s" % UNKNOWN, key="wrong").status == 401
    assert server.get("/v1/nowhere", key=KEYS["b"]).status == 404
    assert available() == before - 3


def test_1_29_all_capacity_used(servers, sdk, monkeypatch):
    server = servers.get({"SANDBOX_MAX_SESSIONS": "1"})
    asked = sdk.slept(monkeypatch)
    with sdk.sandbox(server, KEYS["b"]):
        answer = server.post("/v1/sessions", {})
        assert answer.status == 503 and answer.code == "no_capacity"
        assert answer.detail == "All sandbox workspaces are in use; try again shortly."
        assert answer.headers["Retry-After"] == "5"
        with pytest.raises(sdk.errors.CapacityError):
            sdk.sandbox(server, max_retries=2).start()
        assert asked == ([5, 5] if sdk.is_ours else [1, 2])
        assert open_sessions(server) == []
        assert server.get("/v1/usage").json["sessions_open"] == 0
    with sdk.sandbox(server) as box:
        assert box.run("echo ok").stdout == "ok\n"


def test_1_30_usage(server, sdk):
    with sdk.sandbox(server, KEYS["c"]) as box:
        before = box.usage()
        assert before["tenant_id"] == "c"
        assert before["limits"] == {
            "max_sessions": 1000,
            "requests_per_minute": 1000000,
            "max_concurrent_exec": 64,
            "max_persistent": 3,
            "max_snapshots": 20,
            "max_snapshot_mb": 10240,
            "max_previews": 5,
        }
        assert before["sessions_open"] == 1 and before["commands_running"] == 0
        assert before["requests_available"] <= 999999
        assert before["persistent_open"] == 0 and before["snapshots_stored"] == 0
        assert re.match(r"\d{4}-\d{2}$", before["month"]["period"])

        def spent():
            before = box.usage()["month"]
            box.run("sleep 0.2")
            after = box.usage()["month"]
            # In a new month they begin anew, and it may have ended in the old one.
            if after["period"] != before["period"]:
                return spent()
            assert after["commands"] == before["commands"] + 1
            assert after["command_seconds"] - before["command_seconds"] >= 0.19
            return after["command_seconds"] - before["command_seconds"]

        in_time(2, spent, lambda seconds: seconds)


def kept_alive(server):
    """A session that lived for half again the TTL of 1 s, during which every call restarts the clock;
    None when the next call did not come before that."""
    began = last = asked = time.monotonic()
    name = server.create()
    while asked - began < 1.5:
        last, asked = asked, time.monotonic()
        answer = server.post("/v1/sessions/%s/exec" % name, {"command": "true"})
        if answer.status == 404 and time.monotonic() - last > 1:
            return None
        assert answer.status == 200 and answer.json["exit_code"] == 0, answer
    return name


def test_1_31_calls_keep_a_session_alive_and_the_sweep_removes_it(servers):
    server = servers.get({"SANDBOX_SESSION_TTL": "1"})
    name = harness.wait_until(lambda: kept_alive(server), "calls come in time")
    path = "/v1/sessions/" + name
    # Every min(60 s, TTL) it comes.
    harness.within(lambda: server.get(path).status == 404, 20, "the sweep removed it")
    answer = server.post(path + "/exec", {"command": "true"})
    assert (answer.status, answer.detail) == (404, "Session not found or expired")


# ---- 1.32 to 1.34: the wire ----


def nested(depth):
    """An object that is depth levels deep, the object itself counted."""
    return b'{"command": "true", "x": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    "body, kind",
    [
        (b'{"command": "true", "command": "false"}', "json_invalid"),
        (b'{"command": "true", "x": {"a": 1, "a": 2}}', "json_invalid"),
        (nested(33), "json_invalid"),
        (b'{"command": "\\ud800"}', "json_invalid"),
        (b'{"command": "\\udc00\\ud800"}', "json_invalid"),
        (b'{"command": "\xff"}', "json_invalid"),
        (b'\xef\xbb\xbf{"command": "true"}', "json_invalid"),
        (b'{"command": "true"} {}', "json_invalid"),
        (b"{", "json_invalid"),
        (b'{"command": "true", "x": [' + b"0," * 10000 + b"0]}", "json_invalid"),
        (b"[]", "model_attributes_type"),
        (b'"text"', "model_attributes_type"),
        (b"null", "model_attributes_type"),
        (b"{}", "missing"),
        (b"", "missing"),
        (b'{"command": 1}', "string_type"),
        (b'{"command": null}', "string_type"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else value,
)
def test_1_32_bodies_that_are_refused(server, session, body, kind):
    answer = server.post(
        "/v1/sessions/%s/exec" % session, raw=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status == 422 and answer.code == "invalid_request", answer
    assert answer.detail[0]["type"] == kind
    assert answer.detail[0]["loc"][0] == "body"
    if kind == "json_invalid":
        assert answer.detail[0]["msg"] == "JSON decode error"
        assert answer.detail[0]["ctx"]["error"]


@pytest.mark.parametrize(
    "body",
    [nested(32), b'{"command": "true", "unknown": {"anything": null}}',
     b' \r\n{"command": "\\u0074rue"}\t'],
    ids=["depth 32", "unknown field", "blanks"],
)
def test_1_32_bodies_that_are_accepted(server, session, body):
    for kind in ("application/json", "application/json; charset=utf-8", "application/x+json", None):
        headers = {} if kind is None else {"Content-Type": kind}
        answer = server.post("/v1/sessions/%s/exec" % session, raw=body, headers=headers)
        assert answer.status == 200, (kind, answer)


def test_1_32_another_content_type(server, session):
    path = "/v1/sessions/%s/exec" % session
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp"):
        answer = server.post(path, raw=b'{"command": "true"}', headers={"Content-Type": kind})
        assert (answer.status, answer.code) == (415, "bad_content_type")
        assert answer.detail == "Content-Type must be application/json."
    # Only a body makes the type matter: clients send one with GET and DELETE too.
    assert server.get("/v1/usage", headers={"Content-Type": "text/plain"}).status == 200


KEY_LINE = b"X-API-Key: " + KEYS["a"].encode() + b"\r\n"
MALFORMED = {
    "two lengths": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "length list": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Content-Length: 2, 2\r\n\r\n{}",
    "bare cr in value": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n",
    "bare lf line end": b"GET /healthz HTTP/1.1\nHost: x\n\n",
    "nul in value": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n",
    "chunked with length": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Content-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "folded field": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "empty name": b"GET /healthz HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n",
    "blank before colon": b"GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
    "gzip, chunked": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "identity": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Transfer-Encoding: identity\r\n\r\n",
    "chunked twice": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "trailer": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nA: b\r\n\r\n",
    "chunk size not hex": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "chunk too long": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}}\r\n0\r\n\r\n",
    "chunk framing with bare lf": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n",
    "negative length": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Content-Length: -2\r\n\r\n{}",
    "plus length": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Content-Length: +2\r\n\r\n{}",
    "hex length": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Content-Length: 0x2\r\n\r\n{}",
    "huge length": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\n" + KEY_LINE
    + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "method is no token": b"GE T /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "http/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_1_33_malformed_requests(server, name):
    answer = server.raw(MALFORMED[name])
    allowed = (400, 505) if name == "http/2 preface" else (400,)
    assert answer.status in allowed, answer
    assert answer.closed, "the connection stays open"
    if answer.status == 400:
        assert json.loads(answer.body) == {
            "detail": "Malformed request.",
            "code": "malformed_request",
        }


def test_1_33_http_1_0(server):
    answer = server.raw(b"GET /v1/usage HTTP/1.0\r\nHost: x\r\n" + KEY_LINE + b"\r\n")
    assert answer.status == 505 and answer.closed
    assert json.loads(answer.body)["detail"] == "Use HTTP/1.1."
    assert server.raw(b"GET /healthz HTTP/1.0\r\n\r\n").status == 200


def test_1_33_heads_that_are_too_long(server):
    answer = server.raw(b"GET /" + b"a" * 17000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.status == 414 and answer.closed
    assert json.loads(answer.body)["detail"] == "Request target too long."
    many = b"".join(b"A%d: b\r\n" % i for i in range(101))
    for fields in (b"A: " + b"b" * 17000 + b"\r\n", many):
        answer = server.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n")
        assert answer.status == 431 and answer.closed
        assert json.loads(answer.body)["detail"] == "Request headers too large."


def test_1_34_a_trailing_slash_is_another_path(server):
    for method, path in routes(server) + [("GET", "/healthz"), ("GET", "/openapi.json")]:
        answer = server.request(method, path + "/")
        assert answer.status == 404, (method, path, answer)


def test_1_34_a_wrong_method(server):
    known = {}
    for method, path in routes(server) + [("GET", "/healthz")]:
        known.setdefault(path, set()).add(method)
    for path, methods in known.items():
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"} - methods:
            if path == "/healthz" and method == "HEAD":
                continue
            answer = server.request(method, path)
            assert answer.status == 405, (method, path, answer)
            assert set(re.split(r",\s*", answer.headers["Allow"])) >= methods
            if method != "HEAD":
                assert answer.detail == "Method Not Allowed"
    assert server.request("HEAD", "/healthz", key=None).status == 200


def test_1_34_what_is_not_there(server):
    for path in ("/", "/v1", "/v1/", "/v2/sessions", "/docs", "/redoc", "/v1//sessions",
                 "/v1/sessions/%zz", "/V1/sessions", "/.well-known/oauth-authorization-server"):
        answer = server.get(path)
        assert (answer.status, answer.detail, answer.code) == (404, "Not Found", "not_found"), path


def test_answers_carry_their_headers(server):
    seen = set()
    for method, path in [("GET", "/v1/usage"), ("GET", "/v1/sessions"), ("GET", "/v1/nowhere")]:
        answer = server.request(method, path)
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Type"].startswith("application/json")
        assert re.match(r"req_[0-9a-f]{16}$", answer.headers["X-Request-Id"])
        assert not any(name.lower().startswith("access-control") for name in answer.headers)
        seen.add(answer.headers["X-Request-Id"])
    assert len(seen) == 3


def test_the_openapi_description(server):
    answer = server.get("/openapi.json", key=None)
    assert answer.status == 200
    assert answer.json["openapi"].startswith("3.1")
    assert answer.json["info"]["title"] == "Agent Sandbox Execution API"
    assert answer.json["info"]["version"] == "1.0.0"
    paths = answer.json["paths"]
    assert "/healthz" in paths and "/v1/sessions" in paths
    assert {"get", "post"} <= set(paths["/v1/sessions"])


# ---- 1.35 and 1.36: inside ----


def test_1_35_who_and_where(box):
    result = box.run("id -u; id -g; id -G; pwd; hostname; echo $HOME; test -w $HOME && echo writable")
    assert result.stdout == "1000\n1000\n1000\n/workspace\nsandbox\n/tmp\nwritable\n"


def test_1_35_the_root_is_read_only(box):
    result = box.run("grep -E '^[^ ]+ / ' /proc/self/mounts; touch /x; touch /usr/x; touch /etc/x")
    assert re.search(r"^\S+ / \S+ ro[,\s]", result.stdout, re.M)
    assert result.stderr.count("Read-only file system") == 3


def test_1_35_tmp_is_small_and_new_for_every_command(box):
    result = box.run("head -c 104857600 /dev/zero > /tmp/big; stat -c %s /tmp/big")
    assert "No space left on device" in result.stderr
    assert int(result.stdout) <= 64 << 20
    assert box.run("ls -A /tmp").stdout == ""


def test_1_35_the_environment_is_exactly_this(server, session):
    lines = set(server.exec(session, "env")["stdout"].splitlines())
    expected = {
        "HOME=/tmp",
        "PYTHONUSERBASE=/workspace/.local",
        "PATH=/workspace/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PIP_USER=1",
        "PIP_NO_CACHE_DIR=1",
        "PIP_DISABLE_PIP_VERSION_CHECK=1",
        "PIP_BREAK_SYSTEM_PACKAGES=1",
        "LANG=C.UTF-8",
        "USER=sandbox",
        "LOGNAME=sandbox",
        "SHELL=/bin/bash",
        "PWD=/workspace",
    }
    # What bash itself adds.
    assert lines - {"SHLVL=0", "SHLVL=1", "_=/usr/bin/env"} == expected


def test_1_35_no_network(box):
    result = box.run(
        "python3 - <<'E'\n"
        "import socket, os\n"
        "print(sorted(n for _, n in socket.if_nameindex()))\n"
        "for address in ('8.8.8.8', '169.254.169.254', '10.0.0.1'):\n"
        "    s = socket.socket(); s.settimeout(2)\n"
        "    print(s.connect_ex((address, 80)) != 0)\n"
        "E\n"
    )
    assert result.stdout == "['lo']\nTrue\nTrue\nTrue\n", result.output


def test_1_35_the_sixty_fifth_process_fails(box):
    result = box.run(
        "python3 - <<'E'\n"
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    while made < 200:\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(30)\n"
        "            os._exit(0)\n"
        "        made += 1\n"
        "except BlockingIOError:\n"
        "    print(made)\n"
        "E\n"
    )
    # bash, python and init are among the 64.
    assert 55 <= int(result.stdout) <= 63


def test_1_36_the_tools_are_there(box):
    for command, text in (
        ("python --version", "Python 3.11"),
        ("python3 --version", "Python 3.11"),
        ("pip --version", "pip "),
        ("pip3 --version", "pip "),
        ("find . -maxdepth 0 -printf '%p\\n'", "."),
        ("git --version", "git version"),
        ("curl --version", "curl "),
        ("awk --version", "GNU Awk"),
        ("ps --version", "procps"),
        ("tar --version", "GNU tar"),
        ("strace -V", "strace"),
        ("jq --version", "jq-"),
        ("rg --version", "ripgrep"),
    ):
        result = box.run(command)
        assert result.exit_code == 0 and text in result.stdout, (command, result.output)


def test_1_36_strace_is_there_and_not_permitted(box):
    result = box.run("strace -f true")
    assert result.exit_code != 0 and "not permitted" in result.stderr


def test_1_36_a_virtual_environment_works(box):
    result = box.run("python3 -m venv --without-pip v && v/bin/python -c 'print(6 * 7)'", timeout=60)
    assert result.stdout == "42\n"
