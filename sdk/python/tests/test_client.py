# SPDX-License-Identifier: Apache-2.0
"""Requests, retries and errors of the client, against a server that answers from a script."""

import json
import socket

import pytest

import airlock_sandbox
from airlock_sandbox import Sandbox
from airlock_sandbox import errors
from standin import Reply, StandIn

CREATED = {
    "session_id": "sbx_0123456789ab",
    "tenant_id": "acme",
    "egress": ["pypi.org", "files.pythonhosted.org"],
    "disk_quota_mb": 512,
    "persistent": False,
}


def client(server, **options):
    return Sandbox("k" * 20, server.url, **options)


def attached(server, **options):
    return Sandbox.attach(CREATED["session_id"], "k" * 20, server.url, **options)


# ---- Settings ----


def test_missing_settings_name_both_variables():
    with pytest.raises(errors.SandboxError) as caught:
        Sandbox()
    assert "SANDBOX_API_URL" in str(caught.value) and "SANDBOX_API_KEY" in str(caught.value)


def test_settings_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("SANDBOX_API_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("SANDBOX_API_KEY", "from-environment")
    assert Sandbox().base_url == "http://127.0.0.1:1"


def test_arguments_win_over_the_environment(monkeypatch):
    monkeypatch.setenv("SANDBOX_API_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SANDBOX_API_KEY", "from-environment")
    with StandIn(Reply(body={"allowed": []})) as server:
        Sandbox("from-argument", server.url).egress_policy()
        assert server.asked[0].headers["X-API-Key"] == "from-argument"


@pytest.mark.parametrize("word", ["1", "true", "YES"])
def test_insecure_turns_verification_off(monkeypatch, word):
    monkeypatch.setenv("SANDBOX_API_INSECURE", word)
    opener = Sandbox("k", "https://127.0.0.1:1")._connection._opener
    contexts = [h._context for h in opener.handlers if hasattr(h, "_context") and h._context]
    assert contexts and all(not context.check_hostname for context in contexts)


def test_verification_is_on_by_default():
    opener = Sandbox("k", "https://127.0.0.1:1")._connection._opener
    contexts = [h._context for h in opener.handlers if hasattr(h, "_context") and h._context]
    assert contexts and all(context.check_hostname for context in contexts)


def test_a_missing_authority_file_is_an_error():
    with pytest.raises(OSError):
        Sandbox("k", "https://127.0.0.1:1", verify="/nonexistent/ca.pem")


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.run("true"),
        lambda s: s.files.read("a"),
        lambda s: s.files.write("a", "b"),
        lambda s: s.read_file("a"),
        lambda s: s.run_command("a"),
        lambda s: s.egress_log(),
    ],
)
def test_use_before_start_says_so(call):
    with pytest.raises(errors.SandboxError, match="not started"):
        call(Sandbox("k", "http://127.0.0.1:1"))


# ---- What is sent ----


def test_start_sends_only_what_is_set():
    with StandIn(Reply(201, CREATED)) as server:
        sandbox = client(server).start()
        assert server.asked[0].json == {"template": "sandbox-base:latest", "egress": []}
        assert sandbox.session_id == "sbx_0123456789ab"
        assert sandbox.tenant_id == "acme"
        assert sandbox.disk_quota_mb == 512
        assert sandbox.egress == CREATED["egress"]


def test_start_sends_everything_that_is_set():
    with StandIn(Reply(201, CREATED)) as server:
        client(
            server,
            egress=("pypi",),
            template="python:3.11-slim",
            snapshot="snap_1",
            persistent=True,
            secrets={"A": "b"},
        ).start()
        assert server.asked[0].json == {
            "template": "python:3.11-slim",
            "egress": ["pypi"],
            "snapshot_id": "snap_1",
            "persistent": True,
            "secrets": {"A": "b"},
        }


@pytest.mark.parametrize(
    "egress, sent",
    [(None, []), ((), []), ("", []), ("pypi", ["pypi"]), (iter(["a.org", "b.org"]), ["a.org", "b.org"])],
)
def test_egress_is_sent_as_a_list(egress, sent):
    with StandIn(Reply(201, CREATED)) as server:
        sandbox = client(server, egress=egress).start()
        assert server.asked[0].json["egress"] == sandbox.requested_egress == sent


def test_refused_egress_is_a_permission_error():
    detail = "Egress not permitted for this tenant: ['a.org']. Allowed: []"
    with StandIn(Reply(403, {"detail": detail, "code": "egress_not_permitted"})) as server:
        with pytest.raises(PermissionError, match="a.org") as caught:
            client(server, egress=["a.org"]).start()
        assert (caught.value.status, caught.value.code) == (403, "egress_not_permitted")


def test_starting_twice_is_one_request():
    with StandIn(Reply(201, CREATED)) as server:
        client(server).start().start()
        assert len(server.asked) == 1


def test_an_answer_without_session_is_an_error():
    with StandIn(Reply(201, {})) as server:
        with pytest.raises(errors.SandboxError, match="session_id"):
            client(server).start()


def test_attach_makes_no_request():
    with StandIn(Reply()) as server:
        assert attached(server).session_id == CREATED["session_id"]
        assert server.asked == []


def test_headers_of_a_body_and_of_none():
    with StandIn(Reply(body={"content": "x"})) as server:
        sandbox = attached(server)
        sandbox.files.write("a", "ü")
        sandbox.files.read("a")
        write, read = server.asked
        assert write.headers["Content-Type"] == "application/json"
        assert read.headers["Content-Type"] == "application/octet-stream"
        for asked in server.asked:
            assert asked.headers["Accept"] == "application/json"
            assert asked.headers["X-API-Key"] == "k" * 20
            assert asked.headers["User-Agent"] == (
                "airlock-sandbox/" + airlock_sandbox.__version__
            )
        assert write.json == {"path": "a", "content": "ü"}


def test_paths_go_form_encoded():
    with StandIn(Reply(body={"content": "x"})) as server:
        attached(server).files.read("a b+c/ü&d=1")
        assert server.asked[0].target == (
            "/v1/sessions/sbx_0123456789ab/read?path=a+b%2Bc%2F%C3%BC%26d%3D1"
        )


def test_run_sends_command_and_timeout():
    answer = {"command": "true", "exit_code": 0, "stdout": "", "stderr": "", "output": ""}
    with StandIn(Reply(body=answer)) as server:
        attached(server).run("true", timeout=7)
        assert server.asked[0].target.endswith("/exec")
        assert server.asked[0].json == {"command": "true", "timeout_seconds": 7}


@pytest.mark.parametrize(
    "call, method, target, answer, expected",
    [
        (lambda s: s.egress_log(), "GET", "/v1/sessions/sbx_0123456789ab/egress?limit=200",
         {"events": [{"host": "a"}]}, [{"host": "a"}]),
        (lambda s: s.egress_log(limit=5), "GET", "/v1/sessions/sbx_0123456789ab/egress?limit=5",
         {"events": []}, []),
        (lambda s: s.egress_policy(), "GET", "/v1/egress/policy", {"allowed": ["a"]}, ["a"]),
        (lambda s: s.usage(), "GET", "/v1/usage", {"sessions_open": 1}, {"sessions_open": 1}),
        (lambda s: s.health(), "GET", "/healthz", {"status": "healthy"}, {"status": "healthy"}),
    ],
)
def test_the_other_calls(call, method, target, answer, expected):
    with StandIn(Reply(body=answer)) as server:
        assert call(attached(server)) == expected
        assert (server.asked[0].method, server.asked[0].target) == (method, target)


# ---- Files ----


def test_a_missing_file_is_file_not_found():
    path = "no/'such' ü+"
    with StandIn(Reply(body={"content": "Error: File '%s' does not exist." % path})) as server:
        sandbox = attached(server)
        for read in (sandbox.files.read, sandbox.read_file):
            with pytest.raises(FileNotFoundError) as caught:
                read(path)
            assert caught.value.args == (path,)


def test_a_file_that_talks_of_another_missing_file_is_content():
    text = "Error: File 'b' does not exist."
    with StandIn(Reply(body={"content": text})) as server:
        assert attached(server).files.read("a") == text


def test_write_counts_characters():
    with StandIn(Reply()) as server:
        assert attached(server).write_file("a", "ü€") == (
            "Successfully wrote 2 characters to a"
        )


# ---- Closing ----


def test_close_is_repeatable_and_ignores_404():
    with StandIn(Reply(404, {"detail": "Session not found"})) as server:
        sandbox = attached(server)
        sandbox.close()
        sandbox.close()
        assert [asked.method for asked in server.asked] == ["DELETE"]


def test_close_with_a_timeout_tries_once(waits, monkeypatch):
    limits = []
    with StandIn(Reply(503, {"detail": "busy"})) as server:
        box = attached(server)
        inner = box._connection._opener.open

        def remember(request, timeout):
            limits.append(timeout)
            return inner(request, timeout=60)

        monkeypatch.setattr(box._connection._opener, "open", remember)
        with pytest.raises(errors.CapacityError):
            box.close(timeout=1.5)
        assert len(server.asked) == 1 and waits == [] and limits == [1.5]


def test_with_closes_even_after_an_exception():
    with StandIn(Reply(201, CREATED), Reply()) as server:
        with pytest.raises(ZeroDivisionError):
            with client(server):
                raise ZeroDivisionError
        assert server.asked[-1].method == "DELETE"


# ---- Errors ----


@pytest.mark.parametrize(
    "status, kind",
    [
        (400, errors.ValidationError),
        (401, errors.AuthenticationError),
        (403, errors.PermissionDeniedError),
        (404, errors.NotFoundError),
        (409, errors.SandboxError),
        (413, errors.QuotaExceededError),
        (415, errors.SandboxError),
        (422, errors.ValidationError),
        (500, errors.SandboxError),
        (501, errors.SandboxError),
        (502, errors.SandboxError),
    ],
)
def test_each_status_has_its_class_and_is_not_repeated(waits, status, kind):
    with StandIn(Reply(status, {"detail": "why", "code": "word"})) as server:
        with pytest.raises(errors.SandboxError) as caught:
            attached(server).usage()
        assert type(caught.value) is kind
        assert (caught.value.status, caught.value.detail) == (status, "why")
        assert (caught.value.code, str(caught.value)) == ("word", "why")
        assert len(server.asked) == 1 and waits == []


def test_403_is_a_builtin_permission_error_too():
    with StandIn(Reply(403, {"detail": "why"})) as server:
        with pytest.raises(PermissionError):
            attached(server).usage()


def test_a_list_detail_becomes_json_in_the_message():
    detail = [{"type": "missing", "loc": ["body", "path"], "msg": "Field required"}]
    with StandIn(Reply(422, {"detail": detail})) as server:
        with pytest.raises(errors.ValidationError) as caught:
            attached(server).usage()
        assert caught.value.detail == detail
        assert json.loads(str(caught.value)) == detail


def test_an_error_that_is_not_json_is_the_reason_phrase():
    with StandIn(Reply(502, raw=b"<html>no</html>")) as server:
        with pytest.raises(errors.SandboxError, match="Bad Gateway"):
            attached(server).usage()


def test_a_success_that_is_not_json_is_a_sandbox_error():
    with StandIn(Reply(200, raw=b"<html>hello</html>")) as server:
        with pytest.raises(errors.SandboxError, match="not JSON"):
            attached(server).usage()


def test_a_redirect_is_an_error_and_the_key_stays():
    with StandIn(Reply()) as elsewhere:
        with StandIn(Reply(302, headers={"Location": elsewhere.url + "/"})) as server:
            with pytest.raises(errors.SandboxError) as caught:
                attached(server).usage()
            assert caught.value.status == 302
        assert elsewhere.asked == []


# ---- Repeating ----


def limited(retry_after=None):
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Reply(429, {"detail": "slow down"}, headers)


OK = Reply(body={"exit_code": 0, "output": "", "stdout": "", "stderr": "", "command": ""})


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "script, expected",
    [
        ([limited("20"), OK], [20]),
        ([limited("30"), OK], [30]),
        ([limited(), limited(), limited(), OK], [1, 2, 4]),
        ([limited("Wed, 21 Oct 2026 07:28:00 GMT"), OK], [1]),
        ([Reply(503), Reply(503), OK], [1, 2]),
        ([Reply(503, headers={"Retry-After": "5"}), OK], [5]),
        ([Reply(503, headers={"Retry-After": "60"}), OK], [1]),
        ([limited("3"), Reply(503), OK], [3, 2]),
    ],
)
def test_a_refusal_that_promises_nothing_happened_is_repeated(waits, method, script, expected):
    with StandIn(*script) as server:
        sandbox = attached(server)
        sandbox.usage() if method == "GET" else sandbox.run("true")
        assert waits == expected


def test_a_long_retry_after_is_raised_at_once(waits):
    with StandIn(limited("60")) as server:
        with pytest.raises(errors.RateLimitError) as caught:
            attached(server).run("true")
        assert caught.value.retry_after == 60 and waits == []


def test_retry_after_is_none_without_the_header(waits):
    with StandIn(limited()) as server:
        with pytest.raises(errors.RateLimitError) as caught:
            attached(server, max_retries=0).run("true")
        assert caught.value.retry_after is None


def test_repeats_end_after_max_retries(waits):
    with StandIn(Reply(503)) as server:
        with pytest.raises(errors.CapacityError):
            client(server, max_retries=2).start()
        assert waits == [1, 2] and len(server.asked) == 3


def test_waits_grow_to_thirty(waits):
    with StandIn(Reply(503)) as server:
        with pytest.raises(errors.CapacityError):
            attached(server, max_retries=7).usage()
        assert waits == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize(
    "call", [lambda s: s.usage(), lambda s: s.files.read("a"), lambda s: s.close()]
)
def test_a_lost_connection_is_repeated_where_harmless(waits, call):
    with StandIn(Reply(drop=True), Reply(body={"content": "x"})) as server:
        call(attached(server))
        assert waits == [1] and len(server.asked) == 2


@pytest.mark.parametrize(
    "call", [lambda s: s.run("true"), lambda s: s.files.write("a", "b")]
)
def test_a_lost_connection_of_a_post_is_never_repeated(waits, call):
    with StandIn(Reply(drop=True)) as server:
        with pytest.raises(errors.APIConnectionError):
            call(attached(server))
        assert waits == [] and len(server.asked) == 1


def test_a_short_answer_is_a_lost_connection(waits):
    short = Reply(headers={"Content-Length": "100", "Connection": "close"}, raw=b"{}")
    with StandIn(short, Reply(body={"sessions_open": 0})) as server:
        assert attached(server).usage() == {"sessions_open": 0}
        assert waits == [1]


def test_nobody_listens(waits):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = "http://127.0.0.1:%d" % taken.getsockname()[1]
        with pytest.raises(errors.APIConnectionError) as caught:
            Sandbox("k", url, max_retries=1).usage()
    assert str(caught.value).startswith("Could not reach %s: " % url)
    assert caught.value.status is None and waits == [1]


def test_a_server_that_stays_silent_times_out(waits):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = "http://127.0.0.1:%d" % silent.getsockname()[1]
        with pytest.raises(errors.APIConnectionError, match="timed out"):
            Sandbox("k", url, timeout=0.05, max_retries=0).usage()


# ---- Snapshots and forks ----

RECORD = {"id": "snap_0123456789abcdef", "name": "before", "size_bytes": 4096}


def test_snapshot_and_restore_send_name_and_path():
    with StandIn(
        Reply(body=RECORD), Reply(body=RECORD), Reply(body={"restored": RECORD, "path": "/workspace/x"})
    ) as server:
        box = attached(server)
        assert box.snapshot() == RECORD
        assert box.snapshot("before", path="out") == RECORD
        assert box.restore(RECORD["id"], path="x")["path"] == "/workspace/x"
    assert [asked.target for asked in server.asked] == [
        "/v1/sessions/sbx_0123456789ab/snapshots",
        "/v1/sessions/sbx_0123456789ab/snapshots",
        "/v1/sessions/sbx_0123456789ab/restore",
    ]
    assert server.asked[0].json == {"name": None, "path": "."}
    assert server.asked[1].json == {"name": "before", "path": "out"}
    assert server.asked[2].json == {"snapshot_id": RECORD["id"], "path": "x"}


def test_snapshots_are_listed_and_deleted_without_a_session():
    with StandIn(Reply(body={"snapshots": [RECORD]}), Reply(body={"status": "deleted"})) as server:
        box = client(server)
        assert box.list_snapshots() == [RECORD]
        assert box.delete_snapshot("a/b") is None
    assert [(a.method, a.target) for a in server.asked] == [
        ("GET", "/v1/snapshots"),
        ("DELETE", "/v1/snapshots/a%2Fb"),
    ]


def test_forks_are_sandboxes_of_their_own():
    forks = [dict(CREATED, session_id="sbx_00000000000%d" % i) for i in range(2)]
    with StandIn(Reply(status=201, body={"sessions": forks}), Reply()) as server:
        box = attached(server)
        made = box.fork(2)
        made[1].close()
        assert made[0].files._sandbox is made[0]
    assert server.asked[0].json == {"count": 2}
    assert server.asked[1].target == "/v1/sessions/sbx_000000000001"
    assert [m.session_id for m in made] == ["sbx_000000000000", None]
    assert made[0].egress == CREATED["egress"] and box.session_id == CREATED["session_id"]


def test_slow_calls_wait_longer_than_others(monkeypatch):
    waits = []
    with StandIn(Reply(body=dict(CREATED, sessions=[]))) as server:
        box = attached(server, timeout=5)
        inner = box._connection._opener.open

        def remember(request, timeout):
            waits.append(timeout)
            return inner(request, timeout=60)

        monkeypatch.setattr(box._connection._opener, "open", remember)
        box.snapshot()
        box.restore("x")
        box.fork()
        box.egress_log()
    assert waits == [240, 240, 240, 5]
