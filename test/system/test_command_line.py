# SPDX-License-Identifier: Apache-2.0
"""The program airlock as a person uses it: exit statuses, what goes where, and what is left behind."""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import pytest

import harness
from bounds import in_time
from harness import KEYS

AIRLOCK = os.path.join(harness.BUILD, "airlock")
OWN_STATE = "/var/lib/airlock-run"


def environment(server=None, **extra):
    if server:
        extra = dict({"SANDBOX_API_URL": server.url, "SANDBOX_API_KEY": KEYS["a"]}, **extra)
    else:
        extra.setdefault("SANDBOX_VOLUME_SIZE_MB", "1024")
    return harness.environment(**extra)


def airlock(*words, server=None, stdin=None, env=None, timeout=90):
    return subprocess.run(
        [AIRLOCK, *words],
        env=env or environment(server),
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=timeout,
        text=True,
    )


def ids(server):
    return [s["session_id"] for s in server.get("/v1/sessions").json["sessions"]]


# ---- run ---------------------------------------------------------------------------------------


def own_server(where):
    """Whether run uses a running server (by SANDBOX_API_URL) or one of its own."""
    why = harness.runnable()
    if why:
        pytest.skip(why)
    return where == "own"


@pytest.fixture(params=["server", "own"])
def run(request):
    """airlock run with a server and without one: the same outside."""
    server = None
    if not own_server(request.param):
        server = request.getfixturevalue("server")
    return lambda *words, **more: airlock("run", *words, server=server, **more)


@pytest.mark.parametrize(
    "words, status, out, err",
    [
        (["--", "python3", "-c", "print(2**16)"], 0, "65536\n", ""),
        (["--", "sh", "-c", "echo out; echo err >&2; exit 7"], 7, "out\n", "err\n"),
        (["--", "sh", "-c", "kill -TERM $$"], 143, "", ""),
        (["--", "printf", "<%s>", "a b", "it's", "$HOME", ""], 0, "<a b><it's><$HOME><>", ""),
        (["--env", "A=b c", "--", "sh", "-c", 'echo "$A"'], 0, "b c\n", ""),
        (["--timeout", "1", "--", "sleep", "9"], 124, "", "airlock: Execution exceeded 1s limit.\n"),
        (
            ["--", "python3", "-c", "x = bytearray(10**9)"],
            137,
            "",
            "airlock: Process killed by cgroups (Memory limit exceeded).\n",
        ),
    ],
)
def test_run_gives_output_and_status_of_the_command(run, words, status, out, err):
    def once():
        ran = run(*words)
        ran.timed_out = ran.returncode == 124
        return ran

    ran = harness.beyond_memory(once)[-1] if status == 137 else run(*words)
    assert (ran.returncode, ran.stdout, ran.stderr) == (status, out, err)


def test_run_hands_stdin_on_only_when_asked(run):
    assert run("--stdin", "--", "cat", stdin="héllo\n").stdout == "héllo\n"
    assert run("--", "cat", stdin="not this").stdout == ""


def test_run_copies_files_in_and_out(run, tmp_path):
    (tmp_path / "in.txt").write_text("ü\n")
    out = tmp_path / "out.txt"
    ran = run(
        "--put", "%s:a/in.txt" % (tmp_path / "in.txt"),
        "--get", "b/out.txt:%s" % out,
        "--cwd", "a",
        "--", "sh", "-c", "mkdir ../b; tr ü u <in.txt >../b/out.txt; cat in.txt",
    )
    assert (ran.returncode, ran.stdout) == (0, "ü\n"), ran.stderr
    assert out.read_bytes().endswith(b"\n")
    ran = run("--get", "missing:%s" % out, "--", "true")
    assert (ran.returncode, ran.stderr) == (1, "airlock: File 'missing' does not exist.\n")


def test_run_refuses_with_the_servers_words(run):
    ran = run("--template", "evil", "--", "true")
    assert ran.returncode == 1
    assert ran.stderr.startswith("airlock: Template 'evil' not permitted. Allowed: [")
    ran = run("--secret", "A=b", "--", "true")
    assert ran.returncode == 1 and ran.stdout == ""


def test_run_prints_output_as_it_comes(run, server):
    with subprocess.Popen(
        [AIRLOCK, "run", "--", "sh", "-c", "echo first; cat"],
        env=environment(server),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"first\n"
    # The command that is still running when its first line is read: its second never comes before.
    with subprocess.Popen(
        [AIRLOCK, "run", "--", "sh", "-c", "echo first; sleep 30; echo second"],
        env=environment(server),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"first\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert process.wait(60) == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_kills_the_command_and_leaves_no_sandbox(server, number):
    before = ids(server)
    with subprocess.Popen(
        [AIRLOCK, "run", "--", "sh", "-c", "echo started; sleep 50"],
        env=environment(server),
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"started\n"
        process.send_signal(number)
        assert process.wait(60) == 130
    assert ids(server) == before
    harness.wait_until(
        lambda: server.get("/v1/usage").json["commands_running"] == 0, "the command ended"
    )


def test_a_reader_that_leaves_ends_the_command(server):
    before = ids(server)
    with subprocess.Popen(
        [AIRLOCK, "run", "--", "yes"], env=environment(server), stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        process.wait(60)
    assert ids(server) == before


def own_processes():
    found = set()
    for pid in harness.all_pids():
        with contextlib.suppress(OSError):
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                if OWN_STATE.encode() in file.read():
                    found.add(pid)
    return found


def test_nothing_of_its_own_server_is_left():
    own_server("own")
    before = own_processes()
    assert airlock("run", "--", "true").returncode == 0
    harness.wait_until(lambda: not own_processes() - before, "nothing is left")


def test_its_own_server_has_no_gateway_for_imports_that_it_cannot_do():
    own_server("own")
    with subprocess.Popen(
        [AIRLOCK, "run", "--", "sh", "-c", "echo started; sleep 50"],
        env=environment(SANDBOX_EGRESS_DNS="192.0.2.53"),
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"started\n"
        names = [name for _, name, _ in harness.processes_of(None, process.pid)]
        process.send_signal(signal.SIGINT)
    assert "airlockd" in names and "airlock-gateway" not in names


def test_a_killed_run_takes_its_server_with_it():
    own_server("own")
    before = own_processes()
    process = subprocess.Popen(
        [AIRLOCK, "run", "--", "sh", "-c", "echo started; sleep 50"],
        env=environment(),
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"started\n"
    its = own_processes() - before
    assert its
    process.kill()
    process.wait()
    process.stdout.close()
    harness.wait_until(lambda: not own_processes() & its, "its server has ended")


def test_a_warm_start_is_short():
    own_server("own")

    def runs():
        assert airlock("run", "--", "true").returncode == 0

    runs()
    in_time(2, runs)


def test_several_runs_at_once_have_servers_of_their_own():
    own_server("own")
    running = [
        subprocess.Popen(
            [AIRLOCK, "run", "--", "sh", "-c", "echo %d" % i], env=environment(), stdout=subprocess.PIPE
        )
        for i in range(3)
    ]
    for i, process in enumerate(running):
        assert process.communicate(timeout=90)[0] == b"%d\n" % i
        assert process.returncode == 0


def test_without_root_run_names_the_way_out():
    own_server("own")
    ran = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", AIRLOCK, "run", "--", "true"],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ran.returncode == 1
    assert "needs root" in ran.stderr and "SANDBOX_API_URL" in ran.stderr


# ---- Sandboxes and files -----------------------------------------------------------------------


def test_a_sandbox_from_create_to_rm(server, tmp_path):
    made = airlock("sandbox", "create", server=server)
    assert made.returncode == 0
    session = made.stdout.strip()
    assert session in ids(server)
    assert session in airlock("sandbox", "list", server=server).stdout
    shown = json.loads(airlock("sandbox", "show", "--json", session, server=server).stdout)
    assert shown["session_id"] == session

    assert airlock("files", "write", session, "x/y", server=server, stdin="text\n").returncode == 0
    assert airlock("files", "read", session, "x/y", server=server).stdout == "text\n"
    local = tmp_path / "local"
    assert airlock("files", "read", session, "x/y", str(local), server=server).returncode == 0
    assert local.read_text() == "text\n"
    refused = airlock("files", "read", session, "../x", server=server)
    assert refused.returncode == 1 and refused.stderr.startswith("airlock: Access denied: ")

    ran = airlock("sandbox", "exec", session, "--timeout", "5", "--", "cat", "x/y", server=server)
    assert (ran.returncode, ran.stdout) == (0, "text\n")
    ran = airlock("sandbox", "exec", "--json", session, "--", "false", server=server)
    assert ran.returncode == 1 and json.loads(ran.stdout)["exit_code"] == 1

    assert airlock("sandbox", "egress", session, server=server).stdout == "No attempts.\n"
    log = airlock("sandbox", "egress", "--limit", "5", "--json", session, server=server)
    assert json.loads(log.stdout) == {"session_id": session, "events": []}

    assert airlock("sandbox", "rm", session, server=server).returncode == 0
    gone = airlock("sandbox", "rm", session, server=server)
    assert (gone.returncode, gone.stderr) == (1, "airlock: %s: Session not found\n" % session)


def test_keep_leaves_the_sandbox_and_says_its_id(server):
    ran = airlock("run", "--keep", "--", "touch", "kept", server=server)
    assert ran.returncode == 0
    session = ran.stderr.rsplit(" ", 1)[1].strip()
    assert airlock("sandbox", "exec", session, "--", "ls", server=server).stdout == "kept\n"
    assert airlock("sandbox", "rm", session, server=server).returncode == 0


@pytest.mark.parametrize("command", ["usage", "policy", "health"])
def test_json_is_the_servers_object(server, command):
    path = {"usage": "/v1/usage", "policy": "/v1/egress/policy", "health": "/healthz"}[command]
    shown = json.loads(airlock(command, "--json", server=server).stdout)
    assert shown.keys() == server.get(path).json.keys()
    assert airlock(command, server=server).returncode == 0


# ---- What goes wrong ---------------------------------------------------------------------------


def test_errors_are_one_sentence_and_status_1(server):
    env = environment(server, SANDBOX_API_KEY="wrong")
    ran = airlock("usage", env=env)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "airlock: Invalid or missing X-API-Key header\n"
    nobody = "http://127.0.0.1:%d" % harness.free_port()
    ran = airlock("sandbox", "create", env=environment(SANDBOX_API_URL=nobody, SANDBOX_API_KEY="x"))
    assert ran.returncode == 1
    assert ran.stderr.startswith("airlock: Could not reach %s: " % nobody)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["run"],
        ["run", "--nope", "--", "true"],
        ["run", "--timeout", "0", "--", "true"],
        ["run", "--timeout", "61", "--", "true"],
        ["sandbox"],
        ["sandbox", "exec"],
        ["sandbox", "show"],
        ["sandbox", "rm"],
        ["sandbox", "egress"],
        ["sandbox", "egress", "--limit", "1001", "x"],
        ["files", "read", "x"],
        ["files", "put", "x"],
        ["files", "archive"],
        ["files", "list"],
        ["files", "list", "x", "y", "z"],
        ["files", "list", "--depth", "17", "x"],
        ["files", "rm", "x"],
        ["files", "mv", "x", "y"],
        ["files", "mkdir", "x"],
        ["usage", "more"],
        ["image", "rm"],
        ["volume"],
        ["volume", "grow"],
        ["volume", "grow", "40"],
        ["volume", "grow", "0G"],
        ["volume", "purge", "x"],
        ["serve", "more"],
    ],
)
def test_wrong_use_is_status_2_and_shows_the_use(words):
    ran = airlock(*words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "usage: airlock" in ran.stderr or "airlock run " in ran.stderr


# ---- The host ----------------------------------------------------------------------------------


def test_doctor_agrees_with_what_runs(server):
    """A server with many tenants runs here, so every required layer must be found."""
    ran = airlock("doctor", "--json", timeout=120)
    report = json.loads(ran.stdout)
    missing = [
        layer for layer in report["layers"]
        if layer["required"] and layer["verdict"] not in ("ok", "note")
    ]
    assert not missing
    assert ran.returncode == 0 and report["multi_tenant"] is True
    for layer in report["layers"]:
        assert layer["verdict"] in ("ok", "note", "missing", "unknown"), layer
        assert layer["found"], layer


def test_doctor_leaves_nothing_behind():
    def host():
        found = set()
        with open("/proc/self/mountinfo") as file:
            found.update(file)
        for path in os.listdir("/sys/block"):
            with contextlib.suppress(OSError):
                with open("/sys/block/%s/loop/backing_file" % path) as file:
                    if "airlock-doctor" in file.read():
                        found.add(path)
        found.update(name for name in os.listdir("/var/tmp") if name.startswith("airlock-doctor"))
        return found | {path for path in ["/run/airlock-doctor"] if os.path.exists(path)}

    # What others leave behind may go meanwhile.
    before = host()
    airlock("doctor", timeout=120)
    harness.wait_until(lambda: host() <= before, "nothing is there that was not")


def test_doctor_without_root_says_what_it_could_not_try():
    if os.geteuid() != 0:
        pytest.skip("needs root to give it up")
    ran = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", AIRLOCK, "doctor", "--json"],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    unknown = [l["layer"] for l in json.loads(ran.stdout)["layers"] if l["verdict"] == "unknown"]
    assert ran.returncode == 1
    assert "hard quota" in unknown


def test_status_shows_this_server(server):
    ran = airlock("status", "--json", server=server)
    report = json.loads(ran.stdout)
    assert report["health"]["status"] == "healthy"
    assert "limits" in report["usage"]
    here = [s for s in report["servers"] if s["state_dir"] == server.state_dir]
    assert len(here) == 1 and here[0]["daemon_pid"] in server.process_of("airlockd")
    assert here[0]["volume_size_bytes"] > here[0]["volume_free_bytes"] > 0
    assert airlock("status", server=server).returncode == 0


def test_images_come_and_go(tmp_path):
    env = environment(AIRLOCK_IMAGE_CACHE=str(tmp_path / "cache"))
    tar = tmp_path / "my-image.tar"
    (tmp_path / "file").write_text("x")
    subprocess.run(["tar", "cf", tar, "-C", tmp_path, "file"], check=True)
    assert json.loads(airlock("image", "ls", "--json", env=env).stdout) == {"images": []}
    assert airlock("image", "import", str(tar), env=env).returncode == 0
    (listed,) = json.loads(airlock("image", "ls", "--json", env=env).stdout)["images"]
    assert listed["name"] == "my-image:latest"
    assert listed["size_bytes"] == os.path.getsize(tar)
    assert airlock("image", "rm", "my-image:latest", env=env).returncode == 0
    again = airlock("image", "rm", "my-image:latest", env=env)
    assert (again.returncode, again.stdout) == (1, "")
    assert airlock("image", "import", "/etc/passwd", env=env).returncode == 1
    assert airlock("image", "import", "--as", "../x", str(tar), env=env).returncode == 2
    assert not os.path.exists(str(tmp_path / "x.tar"))


def test_a_second_name_of_the_base_image_is_an_own_image_once_it_was_imported(tmp_path):
    """Each session says which root it has: the imported archive is the base image and one file."""
    (base,) = json.loads(airlock("image", "ls", "--json").stdout)["images"]
    archive = tmp_path / "own.tar"
    shutil.copy(base["path"], archive)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "own-image").write_text("")
    subprocess.run(["tar", "rf", archive, "-C", tmp_path, "etc/own-image"], check=True)
    cache = tmp_path / "cache"
    key = os.path.dirname(base["path"])
    cache.mkdir()
    (cache / os.path.basename(key)).symlink_to(key)
    env = {"AIRLOCK_IMAGE_CACHE": str(cache)}
    words = ("image", "import", "--as", "python:3.11-slim", str(archive))
    assert airlock(*words, env=environment(**env)).returncode == 0
    state_dir = os.path.join(harness.state_dirs().root, "own-image")
    os.mkdir(state_dir)
    server = harness.Server(env, state_dir=state_dir).start()
    try:
        for template, exit_code in (("sandbox-base:latest", 1), ("python:3.11-slim", 0)):
            session = server.create(template=template)
            answer = server.exec(session, "test -e /etc/own-image")
            assert answer["exit_code"] == exit_code, template
    finally:
        server.stop()
        shutil.rmtree(state_dir)
        shutil.rmtree(cache)
        archive.unlink()
