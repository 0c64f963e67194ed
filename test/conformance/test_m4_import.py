# SPDX-License-Identifier: Apache-2.0
"""The acceptance cases of repository import, by their numbers in the contract (4.15 to 4.17).

Through the published client that has imports and ours; what clients cannot send is asked for by
hand. The code host is a stand-in on loopback. Texts are exact.
"""

import json
import os
import random
import subprocess
import tarfile
import threading

import pytest

import clients
import harness
from codehost import CodeHost, archive

MB = 1 << 20
ONLY_GITHUB = "Only GitHub repositories can be imported (https://github.com/owner/repo)."
GIVE = "Give the repository as owner/repo or https://github.com/owner/repo."
USE = "Use https://github.com/owner/repo or https://github.com/owner/repo/tree/<branch>."

GOOD = archive(("README.md", b"hello\n"), ("src/a.py", b"print(1)\n"), ("l", tarfile.SYMTYPE, "src/a.py"))
UP = archive(("f", b"x"), ("../../up", b"planted"))


@pytest.fixture(scope="module")
def host():
    made = CodeHost()
    made.put("repo", GOOD)
    made.put("repo", GOOD, "feature/x")
    yield made
    made.close()


@pytest.fixture(scope="module")
def near(servers, host):
    return servers.get(
        {
            "SANDBOX_GITHUB_BASE": host.base,
            "SANDBOX_IMPORT_MAX_MB": "2",
            "SANDBOX_WORKSPACE_QUOTA_MB": "8",
            "SANDBOX_TENANT_LIMITS": json.dumps(
                {"*": {"max_concurrent_exec": 1, "requests_per_minute": 1000000}}
            ),
        }
    )


@pytest.fixture(params=("0.9.0", "ours"))
def sdk(request):
    try:
        return clients.client(request.param)
    except clients.MissingWheel as missing:
        (pytest.fail if harness.CI else pytest.skip)(str(missing))


@pytest.fixture
def box(near):
    made = near.create()
    yield made
    near.delete("/v1/sessions/" + made)


def ask(server, session, repo, **more):
    body = dict(repo=repo, **more)
    return server.post("/v1/sessions/%s/import" % session, body, timeout=240)


def everything(server, session):
    return server.exec(session, "find . -mindepth 1 | sort")["stdout"].split("\n")[:-1]


@pytest.mark.parametrize(
    "repo",
    ["o/repo", " o/repo\t", "https://github.com/o/repo", "http://www.github.com/o/repo.git",
     "https://github.com/o/repo/", "https://github.com/o/repo/tree/feature/x"],
)
def test_4_15_forms_that_are_accepted(near, box, repo):
    answer = ask(near, box, repo, ref=None, path=None)
    assert answer.status == 200, answer
    assert answer.json == {
        "repo": "o/repo",
        "ref": "feature/x" if repo.endswith("/x") else "HEAD",
        "path": "/workspace/repo",
        "dest": "repo",
        "files": 2,
        "archive_bytes": len(GOOD),
    }


@pytest.mark.parametrize(
    "repo, code, text",
    [
        ("https://gitlab.com/o/repo", "bad_repo", ONLY_GITHUB),
        ("ssh://git@github.com/o/repo", "bad_repo", ONLY_GITHUB),
        ("https://github.com@127.0.0.1/o/repo", "bad_repo", ONLY_GITHUB),
        ("repo", "bad_repo", GIVE),
        ("", "bad_repo", GIVE),
        ("o/repo/x", "bad_repo", GIVE),
        ("https://github.com/o", "bad_repo", USE),
        ("https://github.com/o/repo/blob/main/a", "bad_repo", USE),
        ("-o/repo", "bad_repo", "'-o/repo' isn't a valid GitHub repository name."),
        ("o/..", "bad_repo", "'o/..' isn't a valid GitHub repository name."),
        ("https://github.com/o/repo/tree/a..b", "bad_ref", "'a..b' isn't a valid branch, tag or commit."),
    ],
)
def test_4_15_forms_that_are_refused(near, box, host, repo, code, text):
    before = len(host.asked)
    answer = ask(near, box, repo)
    assert (answer.status, answer.code, answer.detail) == (400, code, text)
    assert len(host.asked) == before


@pytest.mark.parametrize("path", ["..", "a/../b", ".", "a//b", "a b", ".airlock-0123456789abcdef"])
def test_4_15_destinations_that_are_refused(near, box, path):
    answer = ask(near, box, "o/repo", path=path)
    text = "'%s' isn't a valid folder name inside the workspace." % path
    assert (answer.status, answer.code, answer.detail) == (400, "bad_destination", text)


def test_4_16_ref_and_path(near, sdk, host):
    with sdk.sandbox(near) as sandbox:
        result = sandbox.import_repo("o/repo", ref="feature/x", path="src/lib")
        assert result == {
            "repo": "o/repo",
            "ref": "feature/x",
            "path": "/workspace/src/lib",
            "dest": "src/lib",
            "files": 2,
            "archive_bytes": len(GOOD),
        }
        assert host.asked[-1] == ("/o/repo/archive/feature/x.tar.gz", "airlock-sandbox")
        ran = sandbox.run("find . -mindepth 1 | sort; python3 src/lib/l")
        assert ran.stdout.split("\n")[:-1] == [
            "./src", "./src/lib", "./src/lib/README.md", "./src/lib/l", "./src/lib/src",
            "./src/lib/src/a.py", "1",
        ]  # no archive is left


def declared(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(3 * MB))
    handler.end_headers()


def endless(handler):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    try:
        while True:
            handler.wfile.write(piece)
    except OSError:
        handler.close_connection = True


def elsewhere(handler):
    handler.send_response(302)
    handler.send_header("Location", "https://evil.test/x")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


FAULTS = [
    ("gone", 404, 404, "NotFoundError", "o/gone@HEAD wasn't found. Only public repositories can be imported."),
    ("down", 500, 502, "SandboxError", "GitHub answered 500 for o/down."),
    ("large", declared, 413, "QuotaExceededError", "o/large is larger than the 2 MB import limit."),
    ("endless", endless, 413, "QuotaExceededError", "o/endless is larger than the 2 MB import limit."),
    ("noise", b"no archive", 422, "ValidationError", "Unpacking o/noise failed: the archive is damaged or cut short."),
    ("cut", GOOD[:-9], 422, "ValidationError", "Unpacking o/cut failed: the archive is damaged or cut short."),
    ("up", UP, 422, "ValidationError", "Unpacking o/up failed: a name in the archive leads out of its folder, "
     "is too long, or needs a folder where a file is."),
    ("link", archive(("l", tarfile.SYMTYPE, "../../../etc"), ("l/x", b"x")), 422, "ValidationError",
     "Unpacking o/link failed: a name in the archive leads through a link, or a hard link leads out of it."),
    ("device", archive(("null", tarfile.CHRTYPE, "")), 422, "ValidationError",
     "Unpacking o/device failed: the archive has something that is no file, folder or link."),
    ("elsewhere", elsewhere, 502, "SandboxError", "GitHub redirected the download to an unexpected host (evil.test)."),
]


@pytest.mark.parametrize("name, what, status, error, text", FAULTS, ids=[row[0] for row in FAULTS])
def test_4_17_faults(near, sdk, host, name, what, status, error, text):
    host.put(name, what)
    with sdk.sandbox(near) as sandbox:
        with pytest.raises(getattr(sdk.errors, error)) as raised:
            sandbox.import_repo("o/" + name)
        assert (raised.value.status, raised.value.detail) == (status, text)
        assert sandbox.run("find . -mindepth 1").stdout == ""
        # The place is free for another try.
        host.put(name, GOOD)
        assert sandbox.import_repo("o/" + name)["files"] == 2


@pytest.mark.parametrize("make", ["mkdir repo", "touch repo", "ln -s nowhere repo"])
def test_4_17_an_existing_destination(near, box, host, make):
    near.exec(box, make)
    before = len(host.asked)
    answer = ask(near, box, "o/repo")
    text = "/workspace/repo already exists. Pick another folder name or delete it first."
    assert (answer.status, answer.code, answer.detail) == (409, "destination_exists", text)
    assert len(host.asked) == before
    near.exec(box, "rm -r repo")
    assert ask(near, box, "o/repo").status == 200


def test_4_17_no_space(near, box, host):
    big = archive(("big", random.Random(1).randbytes(MB)))
    host.put("big", big)
    # All that the machine has to write may take long.
    assert near.exec(box, "head -c 7600000 /dev/urandom > fill; sync", 60)["exit_code"] == 0
    answer = ask(near, box, "o/big")
    assert (answer.status, answer.code) == (413, "import_no_space")
    assert answer.detail.startswith("The archive (1.0 MB) doesn't fit in the workspace's free disk space (0.")
    assert everything(near, box) == ["./fill"]
    assert near.exec(box, "rm fill; sync", 60)["exit_code"] == 0
    assert ask(near, box, "o/big").status == 200


def test_4_17_links_at_names_of_ours_are_not_followed(near, box):
    near.exec(box, "ln -s /etc/passwd .airlock-import-0123456789abcdef.tar.gz")
    assert ask(near, box, "o/repo").status == 200
    assert near.exec(box, "readlink .airlock-import*")["stdout"] == "/etc/passwd\n"


def test_the_slot_is_needed_after_the_download(near, box, host):
    running = threading.Thread(target=near.exec, args=(box, "until test -e go; do sleep 0.05; done"))
    running.start()
    harness.wait_until(lambda: near.get("/v1/usage").json["commands_running"], "a command runs")
    before = len(host.asked)
    answer = ask(near, box, "o/repo")
    near.request("PUT", "/v1/sessions/%s/files?path=go" % box, raw=b"")
    running.join()
    assert (answer.status, answer.code) == (429, "exec_limit")
    assert answer.headers["Retry-After"] is None
    assert len(host.asked) == before + 1


def test_the_command_line_says_where_it_is(near, box):
    def airlock(*words):
        return subprocess.run(
            [os.path.join(harness.BUILD, "airlock"), "sandbox", "import", box, *words],
            env=harness.environment(SANDBOX_API_URL=near.url, SANDBOX_API_KEY=harness.KEYS["a"]),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )

    ran = airlock("o/repo", "--ref", "feature/x", "--path", "x/y")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "/workspace/x/y\n", "")
    ran = airlock("o/repo", "--path", "x/y")
    text = "airlock: /workspace/x/y already exists. Pick another folder name or delete it first.\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", text)
    assert airlock().returncode == 2
