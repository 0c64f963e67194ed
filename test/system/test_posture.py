# SPDX-License-Identifier: Apache-2.0
"""What a running sandbox is, measured from outside, against the table of what it should be.

The API's own posture is compared too: a layer that it calls true must be seen here.
"""

import contextlib
import glob
import os
import re
import signal

import pytest

import harness

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")

# mount point: (file system types, options that must be there, options that must not)
MOUNTS = {
    "/": ({"tmpfs", "btrfs", "overlay"}, {"ro", "nosuid", "nodev"}, {"rw"}),
    "/workspace": ({"btrfs"}, {"rw", "nosuid", "nodev"}, {"noexec"}),
    "/tmp": ({"tmpfs"}, {"rw", "nosuid", "nodev", "noexec"}, set()),
    "/dev/shm": ({"tmpfs"}, {"rw", "nosuid", "nodev"}, set()),
    "/proc": ({"proc"}, {"nosuid", "nodev", "noexec"}, set()),
    "/proc/sys": ({"proc"}, {"ro"}, set()),
    "/dev": ({"tmpfs"}, {"nosuid"}, set()),
    "/dev/pts": ({"devpts"}, {"nosuid", "noexec"}, set()),
}
MASKED = ("/proc/kcore", "/proc/keys", "/proc/kallsyms", "/proc/cmdline", "/proc/sysrq-trigger")

# What a tenant may have, and init.
PIDS = "65"

LIMITS = {
    "Max open files": ("1024", "4096"),
    "Max core file size": ("0", "0"),
    "Max realtime priority": ("0", "0"),
    "Max nice priority": ("0", "0"),
}


@pytest.fixture(scope="module")
def home(shared_server):
    session = shared_server.create()
    yield session
    shared_server.delete("/v1/sessions/" + session)


@pytest.fixture
def running(shared_server, home):
    """(pid on the host of a tenant's process that runs, its session). A command lasts a minute at most, so
    each test has one of its own."""
    command = "cp /bin/sleep measured; exec ./measured 58"
    with harness.in_background(shared_server.exec, home, command, 60):

        def find():
            for pid, name in harness.tenant_processes(shared_server.number):
                if name == "measured":
                    return pid
            return None

        pid = harness.wait_until(find, "the command runs")
        try:
            yield pid, home
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def link(pid, name):
    return os.readlink("/proc/%s/ns/%s" % (pid, name))


def test_every_namespace_is_its_own(shared_server, running):
    pid, _ = running
    for name in NAMESPACES:
        own = link(pid, name)
        for other in ["self"] + [p for p, _, u in shared_server.processes() if u < harness.ID_FIRST]:
            # Helpers of a moment come and go.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                assert link(other, name) != own, name


def test_two_ids_are_mapped_and_groups_are_frozen(shared_server, running):
    pid, _ = running
    first = harness.ID_FIRST + shared_server.number * harness.ID_SERVER
    for kind in ("uid_map", "gid_map"):
        with open("/proc/%d/%s" % (pid, kind)) as file:
            rows = [tuple(int(n) for n in line.split()) for line in file]
        assert [(inner, length) for inner, _, length in rows] == [(0, 1), (1000, 1)]
        outer = [row[1] for row in rows]
        assert outer[1] == outer[0] + 1
        assert first <= outer[0] < first + harness.ID_SERVER
    with open("/proc/%d/setgroups" % pid) as file:
        assert file.read() == "deny\n"


def test_ids_capabilities_and_filters(shared_server, running):
    pid, _ = running
    status = harness.proc_status(pid)
    with open("/proc/%d/uid_map" % pid) as file:
        tenant = int(file.read().split()[4])
    assert status["Uid"].split() == [str(tenant)] * 4
    assert status["Gid"].split() == [str(tenant)] * 4
    assert status["Groups"].split() == [], status["Groups"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert int(status["Seccomp_filters"]) >= 1


def test_no_signal_is_ignored_whoever_started_the_server(tmp_path):
    starter = tmp_path / "starter"
    starter.write_text(
        "#!/bin/sh\ntrap '' HUP INT PIPE CHLD USR1 64\nexec %s/airlock \"$@\"\n" % os.path.abspath(harness.BUILD)
    )
    starter.chmod(0o755)
    with harness.Server(program=str(starter)) as server:
        said = server.exec(server.create(), "grep -E '^Sig(Blk|Ign)' /proc/self/status; yes | head -1")
        assert said["stdout"] == "SigBlk:\t%016x\nSigIgn:\t%016x\ny\n" % (0, 0)


def test_mounts_are_the_declared_ones(running):
    pid, _ = running
    found = {}
    with open("/proc/%d/mountinfo" % pid) as file:
        for line in file:
            left, right = line.rstrip("\n").split(" - ")
            fields, kind = left.split(), right.split()
            found[fields[4]] = (kind[0], set(fields[5].split(",")), fields[3], kind)
            assert not any(field.startswith("shared:") for field in fields[6:]), line
    for point, (kinds, must, must_not) in MOUNTS.items():
        assert point in found, point
        kind, options, _, _ = found[point]
        assert kind in kinds and must <= options and not must_not & options, (point, found[point])
    # What only the host's root may read needs no mask.
    for point in MASKED:
        if os.path.exists(point) and os.stat(point).st_mode & 0o004:
            assert point in found, point
    # Nothing is there beyond the root's parts, the table, masks below /proc and nodes of /dev.
    for point, (kind, options, _, _) in found.items():
        if point in MOUNTS or point.startswith(("/proc/", "/dev/")):
            continue
        assert "ro" in options and {"nosuid", "nodev"} <= options, (point, kind, options)


def test_the_workspace_is_idmapped(running):
    pid, _ = running
    with open("/proc/%d/mountinfo" % pid) as file:
        line = next(line for line in file if line.split()[4] == "/workspace")
    assert "idmapped" in line.split()[5]
    assert os.stat("/proc/%d/root/workspace/measured" % pid).st_uid == int(
        harness.proc_status(pid)["Uid"].split()[0]
    )


def test_descriptors_are_three(running):
    pid, _ = running
    links = {n: os.readlink("/proc/%d/fd/%s" % (pid, n)) for n in os.listdir("/proc/%d/fd" % pid)}
    assert sorted(links) == ["0", "1", "2"]
    assert links["0"] == "/dev/null"
    assert links["1"].startswith("pipe:") and links["2"].startswith("pipe:")
    assert links["1"] != links["2"]


def test_process_limits(running):
    pid, _ = running
    with open("/proc/%d/limits" % pid) as file:
        text = file.read()
    for name, (soft, hard) in LIMITS.items():
        found = re.search(r"^%s\s+(\S+)\s+(\S+)" % name, text, re.M)
        assert found.groups() == (soft, hard), name


def cgroup_values(pid, names):
    """name -> content of the first file of that name in any of the process's cgroups."""
    values = {}
    with open("/proc/%d/cgroup" % pid) as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            tops = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            tops += ["/sys/fs/cgroup/" + c for c in controllers.split(",") if c]
            for top in tops:
                for name in names:
                    with contextlib.suppress(OSError):
                        with open(os.path.join(top, path.lstrip("/"), name)) as value:
                            values.setdefault(name, value.read().strip())
    return values


def test_cgroup_limits(shared_server, running):
    pid, _ = running
    with open("/proc/%d/cgroup" % pid) as file:
        assert "/airlock-%d/tenants/" % shared_server.number in file.read()
    if glob.glob("/sys/fs/cgroup/memory"):
        wanted = {
            "memory.limit_in_bytes": str(256 << 20),
            "memory.memsw.limit_in_bytes": str(256 << 20),
            "pids.max": PIDS,
        }
        values = cgroup_values(pid, list(wanted) + ["cpu.cfs_quota_us", "cpu.cfs_period_us"])
        assert values["cpu.cfs_quota_us"] == values["cpu.cfs_period_us"]
    else:
        wanted = {"memory.max": str(256 << 20), "memory.swap.max": "0", "pids.max": PIDS,
                  "memory.oom.group": "1"}
        values = cgroup_values(pid, list(wanted) + ["cpu.max"])
        quota, period = values["cpu.max"].split()
        assert quota == period
    for name, value in wanted.items():
        if name == "memory.memsw.limit_in_bytes" and name not in values:
            with open("/proc/swaps") as file:
                assert len(file.readlines()) == 1, "swap without a limit"
            continue
        assert values[name] == value, name


def test_init_is_locked_too(shared_server, running):
    pid, _ = running
    init = int(harness.proc_status(pid)["PPid"])
    status = harness.proc_status(init)
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    # Only what starting commands under the tenant's id and ending them needs: KILL, SETGID, SETUID.
    assert int(status["CapEff"], 16) & ~0b11100000 == 0, status["CapEff"]
    assert int(status["CapPrm"], 16) & ~0b11100000 == 0, status["CapPrm"]
    assert int(status["CapInh"], 16) == 0 and int(status["CapAmb"], 16) == 0
    assert os.readlink("/proc/%d/exe" % init).startswith("/memfd:")


def test_the_posture_of_the_api_agrees(shared_server, running):
    _, session = running
    posture = shared_server.get("/v1/sessions/" + session).json["posture"]
    reported_only = {"io_weight"}
    missing = {name for name, value in posture.items() if not value} - reported_only
    assert not missing, missing
    assert {
        "user_namespace", "mount_namespace", "pid_namespace", "net_namespace", "ipc_namespace",
        "uts_namespace", "cgroup_namespace", "unprivileged_user", "no_capabilities",
        "no_new_privs", "seccomp", "landlock", "read_only_root", "masked_proc", "memory_limit",
        "pids_limit", "cpu_limit", "idmapped_workspace", "hard_quota", "own_image_copy",
    } <= set(posture)


# ---- The daemons -------------------------------------------------------------------------------


def test_airlockd_has_no_privilege(shared_server):
    pid = shared_server.wait_for_child("airlockd")
    status = harness.proc_status(pid)
    import pwd

    assert status["Uid"].split() == [str(pwd.getpwnam("airlock").pw_uid)] * 4
    # The bounding set gives nothing to a process that can never gain privileges again.
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    with open("/proc/%d/environ" % pid, "rb") as file:
        assert file.read() == b""
    assert os.readlink("/proc/%d/cwd" % pid) == "/"


def test_only_the_launcher_is_root(shared_server):
    names = {name for _, name, uid in shared_server.processes() if uid == 0}
    assert names == {"airlock-launche", "airlock-builder", "airlock-sweeper"}, names


def test_the_launcher_keeps_few_capabilities(shared_server):

    def three():
        # A sandbox that is being built is one more until it has its ids.
        roles = [pid for pid, _, uid in shared_server.processes() if uid == 0]
        return len(roles) == 3 and roles

    roles = harness.wait_until(three, "three of root's")
    for pid in roles:
        status = harness.proc_status(pid)
        assert int(status["CapEff"], 16) != (1 << 41) - 1, "every capability is kept"
        assert int(status["CapInh"], 16) == 0 and int(status["CapAmb"], 16) == 0


def test_the_state_directory_is_closed(shared_server):
    root = shared_server.state_dir
    modes = {"": 0o755, "state": 0o700, "volumes.img": 0o600}
    for name, mode in modes.items():
        assert os.stat(os.path.join(root, name)).st_mode & 0o7777 == mode, name
    for folder, _, names in os.walk(os.path.join(root, "state")):
        for name in names:
            assert os.stat(os.path.join(folder, name)).st_mode & 0o077 == 0, name


def test_the_volume_is_not_seen_from_the_host(shared_server):
    assert harness.mounts(shared_server.state_dir) == []


def test_no_key_in_any_command_line_or_log(shared_server):
    for pid, name, _ in shared_server.processes():
        with contextlib.suppress(OSError):
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                line = file.read().decode("utf-8", "replace")
            assert not any(key in line for key in harness.KEYS.values()), name
    log = shared_server.log()
    assert not any(key in log for key in harness.KEYS.values())
