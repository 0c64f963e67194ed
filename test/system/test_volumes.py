# SPDX-License-Identifier: Apache-2.0
"""The file system of the workspaces, as its operator handles it: show, grow, purge."""

import collections
import concurrent.futures
import json
import os
import shutil
import subprocess
import threading

import pytest

import harness

AIRLOCK = os.path.join(harness.BUILD, "airlock")
MB = 1 << 20


def volume(*words, dir):
    return subprocess.run(
        [AIRLOCK, "volume", words[0], "--state-dir", dir, *words[1:]],
        env=harness.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
        text=True,
    )


def show(dir):
    ran = volume("show", "--json", dir=dir)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture
def served():
    """Starts servers, one after the other, on a state directory of their own."""
    why = harness.runnable()
    if why:
        pytest.skip(why)
    root = os.path.join(harness.state_dirs().root, "volume")
    servers = []

    def start(*arguments, **env):
        env.setdefault("SANDBOX_VOLUME_SIZE_MB", "512")
        servers.append(
            harness.Server(env, keep=True, state_dir=root, arguments=arguments).start())
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
    shutil.rmtree(root)


def test_show_counts_while_it_serves_and_when_it_is_stopped(served):
    server = served()
    session = server.create()
    running = show(server.state_dir)
    assert (running["running"], running["workspaces"], running["snapshots"]) == (True, 1, 0)
    assert running["size_bytes"] == 512 * MB
    assert 0 < running["free_bytes"] < 512 * MB
    assert running["kind"].startswith("btrfs, ")
    server.stop()
    stopped = show(server.state_dir)
    assert (stopped["running"], stopped["workspaces"], stopped["kind"]) == (
        False, 1, running["kind"],
    )
    assert served().get("/v1/sessions/" + session).status == 200
    text = volume("show", dir=server.state_dir).stdout
    assert "size             0.5 GB" in text and "(served)" in text


def test_the_size_of_plain_directories_is_that_of_the_disk(served):
    server = served(SANDBOX_VOLUMES="plain", SANDBOX_MODE="single")
    disk = os.statvfs(server.state_dir)
    shown = show(server.state_dir)
    assert shown["kind"] == "plain directories, no hard quota"
    assert shown["size_bytes"] == disk.f_blocks * disk.f_frsize
    ran = subprocess.run(
        [AIRLOCK, "status", "--json"],
        env=harness.environment(SANDBOX_API_URL=server.url),
        stdout=subprocess.PIPE,
        timeout=60,
    )
    status = {s["state_dir"]: s for s in json.loads(ran.stdout)["servers"]}
    assert status[server.state_dir]["volume_size_bytes"] == shown["size_bytes"]


def test_it_grows_under_a_running_server_and_under_none(served):
    server = served()
    session = server.create()
    server.post("/v1/sessions/%s/write" % session, {"path": "a", "content": "kept"})
    for size in ("600M", "700M"):
        ran = volume("grow", size, dir=server.state_dir)
        assert ran.returncode == 0, ran.stderr
        assert "has %s MB now" % size[:-1] in ran.stdout
        assert show(server.state_dir)["size_bytes"] == int(size[:-1]) * MB
        assert server.exec(session, "cat a")["stdout"] == "kept"
        if size == "600M":
            server.stop()
            ran = volume("grow", "650M", dir=server.state_dir)
            assert "has 650 MB now" in ran.stdout, ran.stderr
            server = served()
            assert show(server.state_dir)["size_bytes"] == 650 * MB
    img = os.stat(os.path.join(server.state_dir, "volumes.img"))
    assert img.st_size == 700 * MB <= img.st_blocks * 512


@pytest.mark.parametrize("size, why", [("100M", "made smaller"), ("100T", "are free there")])
def test_a_size_that_cannot_be_changes_nothing(served, size, why):
    server = served()
    ran = volume("grow", size, dir=server.state_dir)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert why in ran.stderr
    assert os.stat(os.path.join(server.state_dir, "volumes.img")).st_size == 512 * MB


def test_only_what_the_last_start_could_not_explain_is_purged(served):
    server = served()
    kept = server.create()
    server.post("/v1/sessions/%s/write" % kept, {"path": "a", "content": "kept"})
    server.stop()
    database = os.path.join(server.state_dir, "state", "airlock.db")
    shutil.copyfile(database, database + ".old")
    server = served()
    lost = server.create()
    server.stop()
    assert volume("purge", dir=server.state_dir).stdout.startswith("No volume was lost")
    shutil.copyfile(database + ".old", database)
    server = served()
    assert server.get("/healthz", key=None).json["lost_volumes"] == 1
    ran = volume("purge", "--yes", dir=server.state_dir)
    assert ran.returncode == 1 and "stop it first" in ran.stderr
    server.stop()
    ran = volume("purge", dir=server.state_dir)
    assert ran.returncode == 0 and lost in ran.stdout and kept not in ran.stdout
    assert "--yes" in ran.stdout
    assert show(server.state_dir)["workspaces"] == 2
    ran = volume("purge", "--yes", dir=server.state_dir)
    assert lost in ran.stdout and "removed" in ran.stdout
    assert show(server.state_dir)["workspaces"] == 1
    server = served()
    assert "lost_volumes" not in server.get("/healthz", key=None).json
    assert server.exec(kept, "cat a")["stdout"] == "kept"


def test_many_lost_volumes_are_no_start_until_it_is_said(served):
    """As when the database of some time ago was put back."""
    server = served()
    server.stop()
    database = os.path.join(server.state_dir, "state", "airlock.db")
    shutil.copyfile(database, database + ".old")
    server = served()
    made = [server.create() for _ in range(11)]
    server.stop()
    new, old = (open(path, "rb").read() for path in (database, database + ".old"))
    shutil.copyfile(database + ".old", database)
    for _ in range(2):
        status, said = harness.serve_once(server.env)
        assert status == 78
        assert "explains none of 11 workspaces" in said and "--accept-lost" in said
    # Nothing was done: with the right one all is as before.
    for content, arguments, lost in ((new, [], None), (old, ["--accept-lost"], 11), (old, [], 11)):
        with open(database, "wb") as file:
            file.write(content)
        server = served(*arguments)
        assert server.get("/healthz", key=None).json.get("lost_volumes") == lost
        assert len(server.get("/v1/sessions").json["sessions"]) == (0 if lost else len(made))
        server.stop()
    ran = subprocess.run(
        [os.path.join(harness.BUILD, "airlock"), "doctor", "--json"],
        env=dict(os.environ, SANDBOX_STATE_DIR=server.state_dir), stdout=subprocess.PIPE, text=True,
    )
    layers = {entry["layer"]: entry for entry in json.loads(ran.stdout)["layers"]}
    assert layers["lost volumes"]["found"].startswith("11 that")
    assert layers["lost volumes"]["advice"] == "airlock volume purge"


def test_where_nothing_is_it_says_so(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    ran = volume("show", dir=str(tmp_path))
    assert ran.returncode == 1 and "the first start of a server makes it" in ran.stderr
    ran = volume("show", dir=str(tmp_path / "absent"))
    assert ran.returncode == 1
    assert os.listdir(tmp_path) == []


# ---- How many workspaces it takes ----


def create(server, **body):
    return server.post("/v1/sessions", body)


def assert_refused(answer):
    assert (answer.status, answer.code) == (503, "no_capacity"), answer
    assert answer.detail == "All sandbox workspaces are in use; try again shortly."
    assert answer.headers["Retry-After"] == "5"


def test_no_more_is_promised_than_twice_the_volume(served):
    # 100 MB of quota and 64 MB for the largest write: six times that are less than 1,024 MB.
    env = {"SANDBOX_WORKSPACE_QUOTA_MB": "100", "SANDBOX_VOLUME_OVERCOMMIT": None}
    server = served(**env)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: create(server), range(16)))
    made = [answer.json["session_id"] for answer in answers if answer.status == 201]
    assert len(made) == 6
    for answer in answers:
        if answer.status != 201:
            assert_refused(answer)
    assert show(server.state_dir)["workspaces"] == 6
    assert server.get("/healthz", key=None).json["volume"] == "promised"
    harness.wait_until(lambda: "airlock volume grow" in server.log(), "it is said")
    # From a snapshot, and as a fork, alike.
    snapshot = server.post("/v1/sessions/%s/snapshots" % made[0], {}).json["id"]
    assert_refused(create(server, snapshot_id=snapshot))
    assert_refused(server.post("/v1/sessions/%s/fork" % made[0], {}))
    # Whoever goes makes room at once, for one.
    server.delete("/v1/sessions/" + made.pop())
    assert_refused(server.post("/v1/sessions/%s/fork" % made[0], {"count": 2}))
    assert create(server, snapshot_id=snapshot).status == 201
    assert_refused(create(server))
    server.delete("/v1/sessions/" + made.pop())
    assert server.post("/v1/sessions/%s/fork" % made[0], {"count": 1}).status == 201
    assert_refused(create(server))
    # So does a larger volume: 1,400 MB are enough for eight.
    assert volume("grow", "700M", dir=server.state_dir).returncode == 0
    assert [create(server).status for _ in range(3)] == [201, 201, 503]
    server.stop()
    assert_refused(create(served(**env)))


def test_a_twentieth_of_the_volume_stays_free(served):
    server = served()
    session = server.create()
    much = show(server.state_dir)["free_bytes"] - 10 * MB
    result = server.exec(session, "head -c %d /dev/urandom > much; sync much" % much, 60)
    assert result["exit_code"] == 0, result

    def refused():
        answer = create(server)
        return answer if answer.status == 503 else server.delete(
            "/v1/sessions/" + answer.json["session_id"]
        ) and None

    # What the server knows of it may be two seconds old.
    assert_refused(harness.wait_until(refused, "the server has seen that it is full"))
    assert server.get("/healthz", key=None).json["volume"] == "full"
    harness.wait_until(lambda: "less than 5 % of the volume is free" in server.log(), "it is said")
    # What there is works on.
    assert server.exec(session, "wc -c < much")["stdout"] == "%d\n" % much
    # The space comes back without the file system's next commit, which is an hour away.
    subprocess.run(
        ["nsenter", "-t", str(server.process.pid), "-m", "mount", "-o", "remount,commit=3600",
         os.path.join(server.state_dir, "mnt")],
        check=True,
    )
    server.delete("/v1/sessions/" + session)
    harness.wait_until(lambda: create(server).status == 201, "there is room again")
    assert "volume" not in server.get("/healthz", key=None).json


def test_who_fills_and_deletes_takes_nothing_from_others(served):
    """Five workspaces at a time may hold 640 MB of 1,536; whatever was deleted may still lie there."""
    server = served(SANDBOX_VOLUME_SIZE_MB="1536", SANDBOX_WORKSPACE_QUOTA_MB="64")
    ended = threading.Event()
    filled = collections.Counter()

    def fill():
        while not ended.is_set():
            answer = create(server)
            assert answer.status == 201, answer
            session = answer.json["session_id"]
            server.exec(session, "head -c 200M /dev/zero >big", 60)
            gone = server.delete("/v1/sessions/" + session)
            assert gone.status == 200, gone
            filled["times"] += 1

    def ask(method, path, status, **more):
        answer = server.request(method, "/v1/sessions" + path, key=harness.KEYS["b"], **more)
        assert answer.status == status, answer
        return answer.json

    def work():
        path = "/" + ask("POST", "", 201, body={})["session_id"]
        ask("PUT", path + "/files?path=x", 200, raw=os.urandom(300000))
        ask("DELETE", path, 200)

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        fillers = [pool.submit(fill) for _ in range(5)]
        try:
            while filled["times"] < 60 and not any(f.done() for f in fillers):
                work()
        finally:
            ended.set()
        for filler in fillers:
            filler.result()


def test_a_damaged_volume_refuses_the_start_and_is_left_alone(served):
    server = served()
    server.stop()
    path = os.path.join(server.state_dir, "volumes.img")
    with open(path, "r+b") as file:
        for place in (64 << 10, 64 << 20):  # the file system's two superblocks
            file.seek(place)
            file.write(b"\xff" * 4096)
    ran = subprocess.run(
        [server.program, "serve"],
        env=server.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60,
    )
    assert ran.returncode == 78 and "volumes.img is damaged" in ran.stderr, ran.stderr
    with open(path, "rb") as file:
        file.seek(64 << 10)
        assert file.read(4096) == b"\xff" * 4096
