# SPDX-License-Identifier: Apache-2.0
"""Attacks from inside a sandbox, each with its knock-out matrix.

A probe answers the question "did the sandbox hold?". Every probe runs three ways:

  held       on the release build: it must hold;
  red        on the build with switches, with the named layers off: it must not hold, so that the
             probe is known to test something;
  elsewhere  with only some of them off: it must still hold, because another layer stands behind.

The numbers are those of the attack catalogue. Probes without a switch say why there is none.
Rows of the catalogue's file, process, kernel and resource groups that are not here:

  10 11 13 25 28 29  the host does nothing of the kind in a tenant's tree: it deletes whole volumes,
                     changes no owner, renames, maps, hashes and runs nothing there
  14 16              conformance 1.20
  22 49              test_trees.py; what is swapped while it is worked on: test_races.py
  35 100 103 104 112 122 124 125   in the table of calls (inside.py), one test each
  44                 FS_IOC_SETFLAGS among the requests of 118
  47                 /dev/fuse among the devices of 19
  82                 31 and 83
  86                 test/system/test_life.py
  89                 test/fuzz/fuzz-init.c, core/native's unit tests
  94                 79
  95 160             there is no terminal yet
  101                none of those programs is in the image; what they would call is refused below
  107                106
  128 130            40
  154 155 161 163    no reattaching, previews or snapshots yet; input: reports 45
"""

import collections
import contextlib
import ctypes
import functools
import os
import socket
import threading
from urllib.parse import urlencode

import pytest

import awake
import harness
import inside
from bounds import in_time
from box import Box
from harness import KEYS, KNOBS_BUILD

Probe = collections.namedtuple("Probe", "number name function red elsewhere why env")
PROBES = []


class NotExercised(Exception):
    """The kernel lacks what the probe needs. Never counts as held."""


def probe(number, name, red=(), elsewhere=(), why=None, env=None):
    """red: comma lists of layers that make it fail. why: the reason when there is none."""
    assert bool(red) != bool(why)

    def add(function):
        PROBES.append(Probe(number, name, function, tuple(red), tuple(elsewhere), why, env))
        return function

    return add


# ---- Files -------------------------------------------------------------------------------------


@probe(1, "an absolute link is not followed by read", red=["beneath"])
def _(box):
    box.sh("ln -s /etc/hostname a; ln -s /etc/passwd b")
    return all(box.read(path).status == 403 for path in "ab")


@probe(2, "a relative link out is not followed by read", red=["beneath"])
def _(box):
    box.sh("ln -s ../../../../../../etc/passwd a; ln -s ../etc d")
    return all(box.read(path).status == 403 for path in ("a", "d/passwd"))


@probe(4, "a link as last component is not followed by write", elsewhere=["beneath"],
       why="the last link is read and its target judged by hand, whatever the kernel would do")
def _(box):
    box.sh("ln -s /tmp/target t")
    return box.write("t", "evil").status == 403


@probe(5, "a dangling link makes nothing outside", red=["beneath"])
def _(box):
    box.sh("ln -s /dev/shm/not-yet t; ln -s /dev/shm d")
    return box.write("t", "evil").status == 403 and box.write("d/x", "evil").status == 403


@probe(7, "magic links are not followed", red=["beneath"])
def _(box):
    box.sh("ln -s /proc/self/cwd c; ln -s /proc/self/fd f; ln -s /proc/1/root r; echo x > file")
    return all(box.read(path).status == 403 for path in ("c/file", "f/0", "r/etc/passwd"))


SWAP = (
    "count = 0\n"
    "while not os.path.exists('stop'):\n"
    "    for _ in range(100):\n"
    "        call(316, -100, b'd', -100, b'e', 2)\n"
    "    count += 100\n"
    "    open('count', 'w').write(str(count))\n"
    "    os.rename('count', 'swapped')\n"
    "show('done')\n"
)


def swaps(box):
    content = box.read("swapped").json.get("content", "")
    return int(content) if content.isdigit() else 0


def while_swapped(box, function):
    """Calls it for 4 s while d and e change places, and after that until it says that it met both, and
    they did so often: the command may stand still while the calls go on."""
    with harness.in_background(box.py, SWAP, 60) as swapped:
        try:
            before = harness.wait_until(lambda: swaps(box), "they change places")
            end, patience = awake.seconds() + 4, awake.seconds() + 30
            met = False
            while awake.seconds() < end or not (met or awake.seconds() > patience):
                met = function() and (awake.seconds() < end or swaps(box) - before > 1000)
        finally:
            assert box.write("stop", "").status == 200
    assert swapped == ["done"], swapped


@probe(8, "a folder swapped for a link during reads", red=["beneath"])
def _(box):
    box.write("d/hostname", "inside")
    box.sh("ln -s /etc e")
    seen = set()

    def read():
        answer = box.read("d/hostname")
        found = answer.json["content"] if answer.status == 200 else answer.status
        if not str(found).startswith("Error: File"):
            seen.add(found)
        return "inside" in seen and len(seen) > 1

    while_swapped(box, read)
    assert "inside" in seen, seen
    return seen <= {"inside", 403}


@probe(8, "a folder swapped for a link during writes", red=["beneath"])
def _(box):
    box.sh("mkdir d; ln -s /tmp e")
    written = refused = 0
    without = box.server.env.get("AIRLOCK_TEST_OFF")

    def write():
        nonlocal written, refused
        status = box.write("d/f%d" % (written + refused), "x").status
        assert status in (200, 403), status
        written, refused = written + (status == 200), refused + (status == 403)
        return written and (refused or without)

    while_swapped(box, write)
    # A write that was acknowledged is in the workspace, whatever the folder is called by then.
    there = int(box.sh("cat /dev/null; find d e -type f 2>/dev/null | wc -l")["stdout"])
    assert written
    return there == written


@probe(17, "device nodes and whiteouts cannot be made", red=["seccomp"])
def _(box):
    return set(
        box.py(
            "show([tries(os.mknod, 'n%d' % i, kind | 0o666, os.makedev(*numbers))"
            " for i, (kind, numbers) in enumerate([(0o020000, (1, 1)), (0o060000, (8, 0)),"
            " (0o020000, (0, 0))])])"
        )
    ) <= {"EPERM"}


@probe(19, "the devices are the fixed few", why="/dev is made from a list, not filtered")
def _(box):
    found = box.py(
        "show([p for p in ('mem kmem kmsg kvm fuse net/tun loop-control loop0 vhost-vsock port"
        " userfaultfd vda sda nvme0n1 snapshot cuse vfio/vfio'.split())"
        " if os.path.lexists('/dev/' + p)] + sorted(os.listdir('/dev')))"
    )
    return set(found) <= {
        "null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr",
        "ptmx", "pts", "shm", "mqueue",
    }


@probe(20, "a huge sparse file is refused by its size, at once", why="sizes are compared before anything is read")
def _(box):
    box.sh("truncate -s 7E huge")
    answer = in_time(1, lambda: box.read("huge"))
    entry = box.server.get(box.path, key=box.key).json
    assert entry["disk_used_bytes"] < 1 << 20
    return answer.status == 413


@probe(23, "odd names stay names, in answers and in the log", why="names are bytes from end to end")
def _(box):
    names = ["a\nb", "tab\tx", "\x1b[31mred", "q\"'q", "back\\slash", "-rf", " lead", "trail ", "x" * 255,
             "{}", "%s%n", "$(id)", "\u202etxt", "e\u0301", "\xe9"]
    for name in names:
        assert box.write(name, name).status == 200, name
    for name in names:
        answer = box.server.get(
            "%s/read?%s" % (box.path, urlencode({"path": name})), key=box.key
        )
        assert answer.json == {"path": name, "content": name}
    # The last one may just be written.
    for line in box.server.log().split("\n")[:-1]:
        assert line.startswith("{") and line.endswith("}"), line
    refused = [box.write(name, "x").status for name in ("a\0b", "x" * 256, "y/" * 2049)]
    return refused == [422, 422, 422] and box.sh("ls -A | wc -l")["stdout"] == "16\n"


@probe(31, "init's program cannot be opened, nor its memory", red=["tenant_id,capabilities,seccomp,landlock"],
       elsewhere=["seccomp", "capabilities", "tenant_id", "tenant_id,capabilities,seccomp"])
def _(box):
    return set(
        box.py(
            "show([tries(open, '/proc/1/' + n, m) for n, m in"
            " (('exe', 'rb'), ('exe', 'ab'), ('mem', 'rb'), ('environ', 'rb'), ('maps', 'rb'))]"
            "+ [tries(os.readlink, '/proc/1/' + n) for n in ('exe', 'root', 'cwd')])"
        )
    ) <= {"EACCES", "EPERM"}


@probe(32, "mounting fails even when the filter is off", red=["seccomp,capabilities,landlock,tenant_id"],
       elsewhere=["seccomp", "seccomp,landlock", "seccomp,capabilities"])
def _(box):
    return box.py("show(call(165, b'x', b'/tmp', b'tmpfs', 0, 0))") in ("ENOSYS", "EPERM")


@probe(34, "chroot is refused", red=["seccomp,capabilities,tenant_id"], elsewhere=["seccomp"])
def _(box):
    return box.py("show(call(161, b'/tmp'))") in inside.DENIED


@probe(37, "a command has the descriptors 0, 1, 2 and no more",
       why="the tenant process closes init's before anything else, and init's are close-on-exec")
def _(box):
    listed = box.sh(
        "for f in $(seq 0 255); do test -e /proc/$$/fd/$f && echo $f; done"
    )["stdout"].split()
    return listed == ["0", "1", "2"]


@probe(38, "the working directory cannot be outside", why="cwd is checked by the file rules and again by init")
def _(box):
    box.sh("ln -s /etc out; ln -s /proc/self/cwd magic; mkdir here; ln -s here in")
    refused = []
    for cwd in ("/etc", "../etc", "out", "/proc/self/fd/0", "/workspace", "nowhere"):
        answer = box.server.post(box.path + "/exec", {"command": "pwd", "cwd": cwd}, key=box.key)
        refused.append(answer.status in (400, 403, 404))
    inside_link = box.server.post(
        box.path + "/exec", {"command": "/bin/pwd", "cwd": "in"}, key=box.key
    )
    return all(refused) and inside_link.json["stdout"] == "/workspace/here\n"


@probe(40, "what tells about the whole machine is masked", red=["mask_proc"])
def _(box):
    sizes = box.py(
        "show([readable('/proc/' + n) for n in ('keys', 'key-users', 'kallsyms', 'modules', 'kcore',"
        " 'timer_list', 'kmsg', 'slabinfo', 'sched_debug', 'cmdline', 'diskstats')])"
    )
    listed = box.sh("ls -A /proc/bus /proc/fs /proc/pressure | grep -v : | grep .")["stdout"]
    return not listed and all(size in (0, "ENOENT", "EACCES", "EPERM") for size in sizes)


@probe(40, "what takes orders is read-only", red=["mask_proc"])
def _(box):
    mounts = box.sh("cat /proc/self/mounts")["stdout"]
    paths = ("sysrq-trigger", "sys/kernel/core_pattern", "sys/vm/drop_caches", "sys/kernel/modprobe",
             "sys/net/ipv4/ip_unprivileged_port_start", "sys/fs/binfmt_misc/register")
    refused = box.py(
        "show([tries(lambda: open('/proc/%%s' %% n, 'w').write('x')) for n in %r])" % (paths,)
    )
    assert set(refused) <= {"EACCES", "EROFS", "EPERM", "ENOENT"}, refused
    return any(
        line.split()[1] == "/proc/sys" and line.split()[3].startswith("ro")
        for line in mounts.splitlines()
    )


# Each trigger takes the kernel some 14 ms to end, after the kill, before the sandbox is gone.
@probe(40, "nobody watches the pressure of the whole machine", red=["mask_proc"])
def _(box):
    made = box.py(
        "made = []\n"
        "for name in ('cpu', 'io', 'memory') * 10:\n"
        "    try:\n"
        "        made.append(os.open('/proc/pressure/' + name, os.O_RDWR))\n"
        "        os.write(made[-1], b'some 1000000 2000000\\0')\n"
        "    except OSError: pass\n"
        "show(len(made))"
    )
    return made == 0


@probe(41, "there is no sysfs, cgroupfs, debugfs or the like", why="they are never mounted")
def _(box):
    kinds = {line.split()[2] for line in box.sh("cat /proc/self/mounts")["stdout"].splitlines()}
    assert "proc" in kinds
    assert box.sh("ls -A /sys 2>/dev/null | wc -l")["stdout"] == "0\n"
    return not kinds & {
        "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "efivarfs", "bpf",
        "pstore", "configfs", "fusectl", "hugetlbfs",
    }


@probe(43, "extended attributes count against the quota or are refused", env={"SANDBOX_WORKSPACE_QUOTA_MB": "8"},
       red=["quota"])
def _(box):
    made = box.py(
        "n = 0\n"
        "try:\n"
        "    for n in range(8000):\n"
        "        fd = os.open('x%d' % n, os.O_CREAT | os.O_WRONLY)\n"
        "        os.setxattr(fd, 'user.a', b'x' * 3900)\n"
        "        os.close(fd)\n"
        "except OSError as e:\n"
        "    pass\n"
        "show(n)\n",
        timeout=60,
    )
    return made < 7999


@probe(46, "two tenants share no inode of the image", why="each tenant has its own copy of the image")
def _(box):
    other = Box(box.server, KEYS["b"])
    command = "stat -c '%d:%i' /usr/bin/python3.11 /bin/bash /usr/lib/x86_64-linux-gnu/libc.so.6"
    mine, theirs = box.sh(command)["stdout"].split(), other.sh(command)["stdout"].split()
    other.close()
    assert len(mine) == 3
    return not set(mine) & set(theirs)


@probe(50, "the root is read-only", red=["read_only"])
def _(box):
    errors = box.py(
        "show([tries(lambda: open(p, 'w')) for p in ('/x', '/usr/bin/x', '/etc/ld.so.preload',"
        " '/etc/passwd', '/etc/resolv.conf')])"
    )
    return set(errors) == {"EROFS"}


@probe(50, "nothing can be made outside the places for it", why="no id that is mapped inside owns a folder of the root, so three more layers change nothing",
       elsewhere=["read_only", "tenant_id", "landlock", "read_only,tenant_id,landlock"])
def _(box):
    return "ok" not in box.py(
        "show([tries(os.mkdir, p) for p in ('/x', '/run/x', '/dev/x', '/usr/x', '/etc/x')])"
    )


@probe(51, "nothing in the image is set-id", why="the bits are dropped when the image is made")
def _(box):
    return box.sh("find / -xdev -perm /6000 -type f 2>/dev/null | wc -l", 60)["stdout"] == "0\n"


@probe(51, "programs in /tmp do not run", red=["nodev"])
def _(box):
    result = box.sh("cp /bin/true /tmp/t && chmod +x /tmp/t && /tmp/t")
    return result["exit_code"] == 126 and "ermission denied" in result["stderr"]


@probe(52, "broken uploads leave nothing behind", why="nothing is written before a body is complete")
def _(box):
    head = (
        "POST %s/write HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Type: application/json\r\n"
        "Content-Length: 20000000\r\n\r\n{\"path\": \"f\", \"content\": \"" % (box.path, box.key)
    ).encode()
    for _ in range(20):
        with box.server.connect() as s:
            s.sendall(head + b"x" * 1000000)
    assert box.sh("ls -A")["stdout"] == ""
    return os.listdir(os.path.join(box.server.state_dir, "state", "tmp")) == []


# ---- Processes ---------------------------------------------------------------------------------


def tenants(box, *names):
    return [name for _, name in harness.tenant_processes(box.server.number) if name in names]


@probe(76, "a fork bomb is gone when its command is", red=["pids"])
def _(box):
    def bomb():
        results.append(box.sh(
            "cp /bin/sleep bomb-sleep; trap '' TERM INT HUP; b() { ./bomb-sleep 300 & b & b & wait; };"
            " b 2>/dev/null", timeout=2
        ))

    def gone(_):
        return harness.wait_until(lambda: not tenants(box, "bomb-sleep"), "the bomb is gone")

    results = []
    try:
        in_time(1, gone, before=bomb)
    except AssertionError:
        return False
    finally:
        assert all(r["timed_out"] or r["exit_code"] != 0 for r in results), results
    # With 64 processes there is room for a few; without the limit there were many more. bash would
    # wait for some of them to end.
    peak = box.sh("exec sh -c 'for i in $(seq 100); do sleep 60 & done'")
    return "Cannot fork" in peak["stderr"]


@probe(77, "zombies are reaped", why="init has one loop and no switch to leave it out")
def _(box):
    result = box.sh(
        "for i in $(seq 300); do (sleep 0.01 &) ; done;"
        # One may just be dying.
        "for i in $(seq 200); do"
        "  n=$(grep -lE '^State:\\s+Z' /proc/[0-9]*/status 2>/dev/null | wc -l);"
        "  [ $n = 0 ] && ! pgrep -x sleep >/dev/null && break; sleep 0.1;"
        "done; echo $n"
    )
    return result["stdout"] == "0\n"


@probe(79, "a daemon that keeps the pipes open does not hold the answer",
       why="the answer depends on bash alone; that the daemon dies is the next probe")
def _(box):
    result = in_time(1.5, lambda: box.sh("setsid sleep 60 < /dev/null & disown; echo x"))
    return result["stdout"] == "x\n"


@probe(79, "what a command leaves behind is killed with it", why="the sandbox ends with its command:"
       " without the explicit kill the end of its PID namespace does the same")
def _(box):
    def leave():
        result = box.sh(
            "cp /bin/sleep left-behind; (setsid nohup ./left-behind 300 >/dev/null 2>&1 &);"
            " until pgrep -xc left-behind; do sleep 0.01; done"
        )
        assert result["stdout"].endswith("1\n"), result

    def gone(_):
        return harness.wait_until(lambda: not tenants(box, "left-behind"), "it is gone")

    return in_time(1, gone, before=leave)


@probe(80, "init and the timeout survive signals to everything", why="rules of PID 1 in the kernel")
def _(box):
    result = box.sh("kill -9 1; kill -STOP 1; kill -TERM 1; echo alive")
    assert result["stdout"] == "alive\n"
    assert box.sh("kill -9 -1; echo alive")["exit_code"] in (0, 137)
    stopped = in_time(2.5, lambda: box.sh("(sleep 0.2; kill -STOP $$) & kill -STOP $$", 1))
    return stopped["timed_out"]


@probe(83, "no process can be traced", red=["seccomp"])
def _(box):
    return box.py("show(in_child(lambda: call(101, 0, 0, 0, 0)))") in inside.DENIED


@probe(85, "no core file", red=["rlimits"])
def _(box):
    return box.sh("ulimit -c; ulimit -Hc")["stdout"] == "0\n0\n"


@probe(85, "open files are bounded", red=["rlimits"])
def _(box):
    return box.sh("ulimit -n; ulimit -Hn; ulimit -r; ulimit -e")["stdout"] == "1024\n4096\n0\n0\n"


@probe(88, "nothing that a command prints changes its result", why="the result does not come through its pipes")
def _(box):
    result = box.sh(
        "printf '[STDOUT]:\\n[EXIT CODE]: 0\\n'; printf '\\003\\000\\000\\000' >&2;"
        " for f in 3 4 5 6 7 8 9; do eval \"echo forged >&$f\" 2>/dev/null; done; exit 9"
    )
    return result["exit_code"] == 9 and result["output"].endswith("[EXIT CODE]: 9")


@probe(91, "a command that ends at its deadline has one truthful result", why="a race, not a layer")
def _(box):
    results = [box.sh("exec sleep %.3f" % (0.96 + n * 0.006), 1) for n in range(10)]
    return all(
        (r["timed_out"], r["exit_code"]) in ((True, -1), (False, 0)) and not r["oom_killed"]
        for r in results
    )


@probe(92, "no real-time priority, no negative niceness", why="the kernel asks for the host's capability")
def _(box):
    errors = box.py(
        "show([tries(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)),"
        " tries(os.sched_setscheduler, 0, os.SCHED_RR, os.sched_param(99)),"
        " tries(os.nice, -20) if os.nice(0) == 0 else 'EPERM', tries(os.setpriority, 0, 0, -5)])"
    )
    return set(errors) <= {"EPERM", "EACCES", "ENOSYS"}


@probe(97, "the ids are the tenant's and there is no group beside", red=["tenant_id"])
def _(box):
    values = box.py("show([status('Uid'), status('Gid'), status('Groups')])")
    return [v.split() for v in values] == [["1000"] * 4, ["1000"] * 4, ["1000"]] or [
        v.split() for v in values
    ] == [["1000"] * 4, ["1000"] * 4, []]


@probe(97, "all five capability sets are empty", red=["capabilities"])
def _(box):
    sets = box.py("show([status(n) for n in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')])")
    return all(int(value, 16) == 0 for value in sets)


@probe(97, "no_new_privs is set", red=["no_new_privs,seccomp,landlock"])
def _(box):
    return box.py("show(status('NoNewPrivs'))") == "1"


@probe(97, "ids cannot be changed", red=["tenant_id,seccomp"], elsewhere=["seccomp"])
def _(box):
    return "ok" not in box.py(
        "show([in_child(lambda: tries(f, *a)) for f, a in ((os.setuid, (0,)), (os.setgid, (0,)),"
        " (os.setresuid, (0, 0, 0)), (os.setgroups, ([0],)), (os.setreuid, (0, 0)))])"
    )


# ---- Kernel surface ----------------------------------------------------------------------------


@probe(98, "no new user namespace", red=["seccomp,user_limit"], elsewhere=["seccomp", "user_limit"])
def _(box):
    return box.py("show(in_child(lambda: call(272, 0x10000000)))") != "ok"


@probe(98, "clone with a namespace flag is refused", red=["seccomp,user_limit"], elsewhere=["user_limit"])
def _(box):
    return box.py(
        "import ctypes\n"
        "def clone():\n"
        "    r = ctypes.CDLL(None, use_errno=True).syscall(56, 0x10000000 | 17, 0, 0, 0, 0)\n"
        "    if r == 0: os._exit(0)\n"
        "    return 'ok' if r > 0 else 'refused'\n"
        "show(in_child(clone))\n"
    ) == "refused"


@probe(106, "only sockets of the known families", red=["seccomp"])
def _(box):
    opened = box.py(
        "import socket\n"
        "opened = []\n"
        "for family in range(47):\n"
        "    for kind in (1, 2, 3, 5):\n"
        "        for protocol in (0, 6, 15, 16, 17, 255):\n"
        "            try:\n"
        "                s = socket.socket(family, kind, protocol)\n"
        "            except (OSError, ValueError):\n"
        "                continue\n"
        "            opened.append([family, kind, protocol]); s.close()\n"
        "show(opened)\n"
    )
    # UNIX of any kind; internet stream and datagram with their own protocol; netlink route alone.
    allowed = {(1, k, p) for k in (1, 2, 3, 5) for p in (0, 1)}
    allowed |= {(f, 1, p) for f in (2, 10) for p in (0, 6)}
    allowed |= {(f, 2, p) for f in (2, 10) for p in (0, 17)}
    allowed |= {(16, k, 0) for k in (2, 3)}
    extra = {tuple(entry) for entry in opened} - allowed
    assert (2, 1, 0) in {tuple(entry) for entry in opened}
    return not extra


@probe(109, "the network cannot be configured", red=["capabilities,tenant_id,seccomp"], elsewhere=["seccomp"])
def _(box):
    return box.py(
        "import socket, struct\n"
        "s = socket.socket(16, 3, 0)\n"
        "s.bind((0, 0))\n"
        # RTM_NEWADDR of 127.9.9.9/32 on interface 1, acknowledged.
        "body = struct.pack('BBBBI', 2, 32, 0, 0, 1) + struct.pack('HH4s', 8, 2, bytes([127, 9, 9, 9]))\n"
        "s.send(struct.pack('IHHII', 16 + len(body), 20, 0x605, 1, 0) + body)\n"
        "answer = s.recv(4096)\n"
        "show(struct.unpack_from('i', answer, 16)[0])\n"
    ) == -1


@probe(110, "options that reach into routing are refused", red=["capabilities,tenant_id,seccomp"],
       elsewhere=["seccomp"])
def _(box):
    return box.py(
        "import socket\n"
        "s = socket.socket()\n"
        "show([tries(s.setsockopt, 1, 36, 1), tries(s.setsockopt, 1, 25, b'eth0\\0')])\n"
    )[0] in ("EPERM", "ENOPROTOOPT")


# The servers are started in a session that has a key.
_libc = ctypes.CDLL(None)
_libc.syscall(250, 1, None)
_libc.syscall(248, b"user", b"airlock-canary", b"secret", 6, -3)


@probe(103, "keys of the session that started the server are not found",
       why="the filter has a switch, the keyring of its own behind it has none", elsewhere=["seccomp"])
def _(box):
    assert _libc.syscall(250, 10, -3, b"user", b"airlock-canary", 0) > 0
    return box.py("show(call(250, 10, -3, b'user', b'airlock-canary', 0))") in ("EPERM", "ENOKEY")


@probe(110, "urgent data on local sockets is refused", red=["seccomp"])
def _(box):
    return set(
        box.py(
            "import socket\n"
            "a, b = socket.socketpair()\n"
            "show([tries(a.send, b'x', 1), tries(a.sendmsg, [b'x'], [], 1), tries(b.recv, 1, 1 | 64)])\n"
        )
    ) == {"ENOTSUP"}


@probe(110, "requests that load modules of the network are refused", red=["seccomp"])
def _(box):
    return set(
        box.py(
            "import socket\n"
            "s = socket.socket()\n"
            "show([call(16, s.fileno(), r, bytes(64)) for r in (0x8940, 0x8941, 0x8982, 0x8983,"
            " 0x89a0, 0x89a2)])\n"
        )
    ) == {"EPERM"}


@probe(146, "nobody makes the host write everything out", red=["seccomp"])
def _(box):
    assert box.sh("sync; echo x > f; sync f; echo $?")["stdout"] == "0\n"
    return box.py("show(call(162))") == "EPERM"


@probe(113, "the 32-bit entry is closed", red=["seccomp"])
def _(box):
    # mov eax, 20 (getpid); int 0x80; ret
    got = box.py("show(in_child(lambda: machine_code(bytes.fromhex('b814000000cd80c3')) > 0))")
    return got is not True


@probe(113, "the x32 entry is closed", why="the kernel here is built without it; the filter refuses it first")
def _(box):
    return box.py("show(in_child(lambda: call(0x40000000 + 39)))") == "ENOSYS"


@probe(115, "numbers beyond the newest call do not exist", why="the kernel says the same without a filter")
def _(box):
    return set(box.py("show([call(n) for n in (600, 5000, 0x3fffffff, -1)])")) == {"ENOSYS"}


@probe(116, "high bits do not get a terminal request past the filter", red=["seccomp"])
def _(box):
    return set(
        box.py(
            "fd = os.open('/dev/null', os.O_RDWR)\n"
            "show([call(16, fd, high | request, 0) for request in (0x5412, 0x541c, 0x5423)"
            " for high in (0, 1 << 32, 0xdead << 32)])\n"
        )
    ) == {"EPERM"}


@probe(116, "high bits do not get a socket family past the filter", red=["seccomp"])
def _(box):
    return "ok" not in box.py(
        "show([call(41, high | 16, 3, 15) for high in (0, 1 << 32, 0xffff << 32)])"
    )


@probe(118, "file system requests are refused", red=["seccomp"])
def _(box):
    requests = {
        "FSSETXATTR": 0x401C5820, "FREEZE": 0xC0045877, "THAW": 0xC0045878, "TRIM": 0xC0185879,
        "SHUTDOWN": 0x8004587D, "SUBVOL_CREATE": 0x5000940E, "SNAP_CREATE": 0x50009401,
        "TREE_SEARCH": 0xD0009411, "QUOTA_CTL": 0xC0109428, "DEFRAG": 0x50009402,
        "SET_RECEIVED": 0xC0C89425, "INO_LOOKUP": 0xD0009412, "SETFLAGS": 0x40086602,
    }
    return set(
        box.py(
            "import ctypes\n"
            "fd = os.open('.', os.O_RDONLY)\n"
            "show([call(16, fd, r, bytes(4096)) for r in %r])\n" % (list(requests.values()),)
        )
    ) == {"EPERM"}


@probe(118, "no nested volume escapes the quota", red=["seccomp"])
def _(box):
    box.py(
        "fd = os.open('.', os.O_RDONLY)\n"
        "show(call(16, fd, 0x5000940E, bytes(8) + b'nested' + bytes(4082)))\n"
    )
    return box.sh("test -e nested; echo $?")["stdout"] == "1\n"


@probe(119, "ordinary requests and calls work", why="a test of the allow-list's completeness")
def _(box):
    return box.py(
        "import fcntl, termios, array, signal, select, pty, threading, multiprocessing\n"
        "r, w = os.pipe(); os.write(w, b'abc')\n"
        "n = array.array('i', [0]); fcntl.ioctl(r, termios.FIONREAD, n)\n"
        "m, s = pty.openpty(); os.write(m, b'x\\n')\n"
        "p = select.epoll(); p.register(r, select.EPOLLIN)\n"
        "e = os.eventfd(1); d = os.memfd_create('m'); f = os.pidfd_open(os.getpid())\n"
        "t = threading.Thread(target=lambda: None); t.start(); t.join()\n"
        "open('from', 'w').write('x' * 20)\n"
        "os.copy_file_range(os.open('from', 0), os.open('copy', os.O_CREAT | os.O_WRONLY), 10)\n"
        "q = multiprocessing.get_context('fork').Pool(2); x = q.map(abs, [-1, -2]); q.close()\n"
        "show([n[0], os.read(s, 10).decode(), len(p.poll(0)), x])\n"
    ) == [3, "x\n", 1, [1, 2]]


@probe(121, "tools may tighten their own sandbox", why="a test of the allow-list's completeness")
def _(box):
    # Landlock's version as the kernel says it, and a filter from where there is none.
    return box.py(
        "show([call(444, 0, 0, 1), in_child(lambda: call(157, 22, 2, 0, 0, 0))])"
    ) == [inside.call(444, 0, 0, 1), "EFAULT"]


@probe(127, "shared memory of System V does not leave the sandbox", red=["ipc"])
def _(box):
    key = 0x41524C00 | int.from_bytes(os.urandom(1), "big")
    made = box.py("show(call(29, %d, 4096, 0o1666))" % key)
    assert made == "ok"
    other = Box(box.server, KEYS["b"])
    found = other.py("show(call(29, %d, 0, 0))" % key)
    other.close()
    if found == "ok" or box.server.env.get("AIRLOCK_TEST_OFF"):
        # Without the layer the segment lies on the host: take it away again.
        _libc = inside._libc
        segment = _libc.shmget(key, 0, 0)
        if segment >= 0:
            _libc.shmctl(segment, 0, None)
    return found == "ENOENT"


@probe(131, "bombs of nested descriptors are bounded", red=["rlimits"])
def _(box):
    return box.py(
        "made = 0\n"
        "try:\n"
        "    while made < 100000:\n"
        "        os.eventfd(0); made += 1\n"
        "except OSError:\n"
        "    pass\n"
        "show(made)\n"
    ) < 1024


@probe(131, "the host and a neighbour keep their inotify instances",
       why="whom the kernel counts them against is fixed when the sandbox is made")
def _(box):
    take = "n = 0\nwhile n < 1000 and call(294, 0) == 'ok':\n    n += 1\n"
    other = Box(box.server, KEYS["b"])
    hold = take + "open('taken', 'w').close()\nwhile not os.path.exists('enough'):\n    pass\nshow(n)"
    with harness.in_background(box.py, hold) as held:
        harness.wait_until(lambda: box.read("taken").json["content"] == "", "instances are taken")
        mine = [_libc.inotify_init() for _ in range(16)]
        theirs = other.py(take + "show(n)")
        box.write("enough", "")
    other.close()
    for fd in mine:
        if fd >= 0:
            os.close(fd)
    (taken,) = held
    assert 16 <= taken < 1000
    return min(mine) >= 0 and theirs >= 16


@probe(131, "terminals are bounded", why="their number is in the layout and has no switch")
def _(box):
    return box.py(
        "made = 0\n"
        "try:\n"
        "    while made < 1000:\n"
        "        os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY); made += 1\n"
        "except OSError:\n"
        "    pass\n"
        "show(made)\n"
    ) == 32


@probe(133, "landlock is in force and the posture says so", red=["landlock"])
def _(box):
    box.sh("true")
    return box.posture()["landlock"] is True


# ---- Resources ---------------------------------------------------------------------------------


def ended_at_the_limit(result):
    """Killed there. Now and then the kernel goes on looking for memory, and the time-out ends it."""
    ended = result["oom_killed"] or result["timed_out"]
    return ended and result["peak_memory_bytes"] <= 256 << 20


@probe(134, "memory is limited, at once and slowly", red=["memory"])
def _(box):
    at_once = box.sh("python3 -c \"b = b'x' * (400 << 20)\"")
    slowly = box.sh(
        "python3 -c \"l = []\nfor i in range(400): l.append(b'x' * (1 << 20))\n\""
    )
    killed = [result["exit_code"] for result in (at_once, slowly) if result["oom_killed"]]
    return (
        ended_at_the_limit(at_once)
        and ended_at_the_limit(slowly)
        and killed
        and all(code == 137 for code in killed)
    )


@probe(134, "swap is no way around", red=["memory"])
def _(box):
    results = [box.sh("python3 -c \"b = b'x' * (300 << 20)\"") for _ in range(5)]
    return all(map(ended_at_the_limit, results)) and any(result["oom_killed"] for result in results)


@probe(136, "memory files are charged", red=["memory"])
def _(box):
    result = box.sh(
        "python3 -c \"import os\nfd = os.memfd_create('m')\n"
        "for i in range(400): os.write(fd, bytes(1 << 20))\nprint('all')\""
    )
    return ended_at_the_limit(result) and result["stdout"] == ""


@probe(136, "/dev/shm is small", why="its size is in the layout and has no switch")
def _(box):
    result = box.sh("head -c 64M /dev/zero > /dev/shm/f; stat -c %s /dev/shm/f")
    return int(result["stdout"]) <= 16 << 20


@probe(137, "files larger than the memory limit are no reason to be killed", why="the page cache is given back")
def _(box):
    # A file system with room may still say now and then that it has none.
    result = box.sh("until head -c 400M /dev/zero > f; do :; done; cat f f | wc -c; rm f", 60)
    return result["stdout"] == "838860800\n" and not result["oom_killed"]


@probe(139, "a storm of memory kills leaves the server quick", red=["memory"])
def _(box):
    results, took = [], []
    for _ in range(10):
        results.append(box.sh("python3 -c \"b = b'x' * (400 << 20)\""))
        for _ in range(10):
            began = awake.seconds()
            assert box.server.get("/healthz", key=None).status == 200
            took.append(awake.seconds() - began)
    # Of a hundred one may take longer.
    assert sorted(took)[-2] < 0.2, sorted(took)[-5:]
    killed = sum(result["oom_killed"] for result in results)
    return all(map(ended_at_the_limit, results)) and killed > 5


def idle_ms():
    """That all processors had nothing to do for."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[4]) * 1000 / os.sysconf("SC_CLK_TCK")


@probe(142, "two busy loops get one processor", red=["cpu"])
def _(box):
    if len(os.sched_getaffinity(0)) < 2:
        raise NotExercised("one processor only")
    # The machine may be busy with other things: the best of some tries counts.
    best = could = 0
    for _ in range(4):
        idle = idle_ms()
        # By the command's own clock: duration_ms begins when airlockd has heard of its start.
        result = box.sh(
            "cat /proc/uptime; timeout 1 sh -c 'while :; do :; done' &"
            " timeout 1 sh -c 'while :; do :; done'; wait; cat /proc/uptime"
        )
        idle = idle_ms() - idle
        began, _, ended, _ = map(float, result["stdout"].split())
        took = (ended - began) * 1000
        best = max(best, result["cpu_ms"] / took)
        could = max(could, (result["cpu_ms"] + idle) / took)
    if best < 1.25 and could < 1.5 and box.server.env.get("AIRLOCK_TEST_OFF"):
        raise NotExercised("other programs leave no more than one processor")
    return best < 1.25


@probe(143, "threads count as processes", red=["pids"])
def _(box):
    return box.py(
        "import threading, time\n"
        "made = 0\n"
        "try:\n"
        "    while made < 200:\n"
        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); made += 1\n"
        "except RuntimeError:\n"
        "    pass\n"
        "sys.stdout.write(json.dumps(made)); sys.stdout.flush(); os._exit(0)\n"
    ) < 64


@probe(145, "inodes in /tmp are bounded", red=["tmp_size"])
def _(box):
    return box.py(
        "made = 0\n"
        "try:\n"
        "    while made < 60000:\n"
        "        os.close(os.open('/tmp/%d' % made, os.O_CREAT | os.O_WRONLY)); made += 1\n"
        "except OSError:\n"
        "    pass\n"
        "show(made)\n",
        timeout=60,
    ) <= 64 * 256


@probe(145, "/tmp is bounded", red=["tmp_size"])
def _(box):
    result = box.sh("head -c 100M /dev/zero > /tmp/f; stat -c %s /tmp/f")
    return "No space left" in result["stderr"] and int(result["stdout"]) <= 64 << 20


SMALL = {"SANDBOX_WORKSPACE_QUOTA_MB": "8"}


@probe(146, "the workspace is bounded, and answers stay true when it is full", red=["quota"], env=SMALL)
def _(box):
    result = box.sh("head -c 64M /dev/zero > fill; stat -c %s fill", 60)
    held = int(result["stdout"]) <= 16 << 20
    if held:
        answer = box.write("more", "x" * 100000)
        assert answer.status == 413 and "quota" in answer.detail
        assert box.sh("echo still; rm fill")["stdout"] == "still\n"
        # The file system may still say now and then that there is no room.
        harness.wait_until(lambda: box.write("more", "x" * 100000).status == 200, "there is room")
    return held


@probe(148, "allocation tricks do not get around the quota", red=["quota"], env=SMALL)
def _(box):
    result = box.sh(
        "fallocate -l 64M a; truncate -s 1T b; head -c 4M /dev/urandom > c;"
        " for i in 1 2 3 4 5 6 7 8; do cp --reflink=always c d$i; done; head -c 64M /dev/zero > e;"
        " stat -c %s a c e | awk '{ s += $1 } END { print s }'",
        60,
    )
    # What is shared counts once: allocated, written, and no more.
    return int(result["stdout"]) <= 17 << 20


@probe(151, "a flood of output is bounded and counted", why="the pipes are read by airlockd, which has no switch")
def _(box):
    pid = box.server.process_of("airlockd")[0]
    before = harness.rss_kib(pid)
    result = box.sh("yes | head -c 1000000000 | cat; echo end >&2", 60)
    grown = harness.rss_kib(pid) - before
    assert len(result["stdout"]) < 17 << 20 and result["stderr"] == "end\n"
    assert any("bytes were dropped" in warning for warning in result["warnings"])
    return grown < 100 << 10


@probe(152, "output without line ends, with NULs, cut characters", why="decoding is airlockd's, which has no switch")
def _(box):
    result = box.sh("head -c 1000000 /dev/zero; printf '\\xe2\\x82'; sleep 0.1; printf '\\xac\\xf0\\x9f'")
    return result["stdout"] == "\0" * 1000000 + "€\ufffd"


@probe(157, "huge environments are refused with a 4xx", why="request validation")
def _(box):
    for env in (
        {"A%d" % i: "x" for i in range(33)},
        {"A": "x" * 8193},
        {"A%d" % i: "x" * 8192 for i in range(10)},
        {"A=B": "x"},
        {"": "x"},
        {"A": "x\0y"},
    ):
        answer = box.server.post(
            box.path + "/exec", {"command": "true", "env": env}, key=box.key
        )
        assert (answer.status, answer.code) in ((400, "too_many_secrets"), (422, "invalid_request")), answer
    return True


@probe(158, "a storm of sessions leaves nothing", why="the names and slots have no switch")
def _(box):
    def storm():
        for _ in range(15):
            name = box.server.create(KEYS["c"])
            box.server.exec(name, "true", key=KEYS["c"])
            box.server.delete("/v1/sessions/" + name, key=KEYS["c"])

    threads = [threading.Thread(target=storm) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return box.server.get("/v1/usage", key=KEYS["c"]).json["sessions_open"] == 0


# ---- Network -----------------------------------------------------------------------------------


@probe(164, "nothing on the host can be reached", red=["net"])
def _(box):
    contacts = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.2)
        box.py(
            "import socket\n"
            "s = socket.socket(); s.settimeout(1)\n"
            "show(s.connect_ex(('127.0.0.1', %d)))\n" % listener.getsockname()[1]
        )
        try:
            contacts.append(listener.accept()[1])
        except socket.timeout:
            pass
    return not contacts


@probe(166, "there is no interface but loopback", red=["net"])
def _(box):
    names = box.py("import socket; show([n for _, n in socket.if_nameindex()])")
    host = {name for _, name in socket.if_nameindex()}
    if host == {"lo"} and box.server.env.get("AIRLOCK_TEST_OFF"):
        raise NotExercised("this host has loopback only")
    return names == ["lo"]


EGRESS = {"SANDBOX_EGRESS_POLICY": '{"a": ["allowed.example"]}', "SANDBOX_EGRESS_DNS": "192.0.2.53"}


@contextlib.contextmanager
def with_egress(box):
    """A box of the same server whose session has egress."""
    if not os.access(os.path.join(box.server.build, "airlock-gateway"), os.X_OK):
        raise NotExercised("airlock-gateway is not built")
    opened = Box(box.server, box.key, box.canaries, egress=["allowed.example"])
    try:
        yield opened
    finally:
        opened.close()


@probe(164, "with egress nothing on the host or beside it can be reached", env=EGRESS,
       why="without a network namespace of its own no sandbox with egress is built")
def _(box):
    contacts = []
    with socket.socket(socket.AF_INET6) as stream, socket.socket(
        socket.AF_INET6, socket.SOCK_DGRAM
    ) as datagram:
        for listener in (stream, datagram):
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(("::", 0))
            listener.settimeout(0.2)
        stream.listen()
        ports = stream.getsockname()[1], datagram.getsockname()[1]
        own = {"127.0.0.1", "::1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "ff02::1"}
        own |= {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None)}
        with with_egress(box) as inside_box:
            inside_box.py(
                "import socket\n"
                "for host in %r:\n"
                "    family = socket.AF_INET6 if ':' in host else socket.AF_INET\n"
                "    s = socket.socket(family); s.settimeout(1); tries(s.connect, (host, %d))\n"
                "    s = socket.socket(family, socket.SOCK_DGRAM)\n"
                "    tries(s.setsockopt, 1, socket.SO_BROADCAST, 1)\n"
                "    tries(s.sendto, b'x', (host, %d))\n"
                "show(0)\n" % (sorted(own), *ports)
            )
        for listener, receive in ((stream, stream.accept), (datagram, lambda: datagram.recv(1))):
            try:
                contacts.append(receive())
            except socket.timeout:
                pass
    return not contacts


@probe(166, "with egress routes, loopback and settings stay as they are", env=EGRESS,
       red=["capabilities,tenant_id,seccomp"], elsewhere=["seccomp"])
def _(box):
    with with_egress(box) as inside_box:
        changed, answers = inside_box.py(
            "import socket, struct, fcntl\n"
            "def netlink(kind, flags, body):\n"
            "    s = socket.socket(16, 3, 0)\n"
            "    s.send(struct.pack('IHHII', 16 + len(body), kind, 5 | flags, 1, 0) + body)\n"
            "    return struct.unpack_from('i', s.recv(4096), 16)[0]\n"
            "def route(kind, flags, family):\n"
            # The local route to everywhere on interface 1, in the local table.
            "    body = struct.pack('BBBBBBBBI', family, 0, 0, 0, 255, 3, 254, 2, 0)\n"
            "    return netlink(kind, flags, body + struct.pack('HHI', 8, 4, 1))\n"
            "def down():\n"
            "    with socket.socket() as s:\n"
            "        fcntl.ioctl(s, 0x8914, struct.pack('16sh22x', b'lo', 0))\n"
            "def write(name):\n"
            "    with open('/proc/sys/net/ipv4/' + name, 'w') as file:\n"
            "        file.write('0')\n"
            "changed = [route(25, 0, 2), route(25, 0, 10), route(24, 0x600, 2)]\n"
            # A link of type dummy.
            "kind = struct.pack('HH5sxxx', 9, 1, b'dummy')\n"
            "changed += [netlink(16, 0x600, bytes(16) + struct.pack('HH', 4 + len(kind), 18) + kind)]\n"
            "changed += [tries(down), tries(write, 'ip_unprivileged_port_start'), tries(write, 'ip_forward')]\n"
            "answers = []\n"
            "for family, host in ((2, '198.51.100.7'), (10, '2001:db8::5')):\n"
            "    s = socket.socket(family); s.settimeout(5)\n"
            "    answers.append(tries(s.connect, (host, 443)))\n"
            "show([changed, answers])\n"
        )
    return (
        all(value in (-1, "EPERM", "EACCES", "EROFS") for value in changed)
        and answers == ["ok"] * 2
    )


@probe(166, "with egress the places of the gateway cannot be taken", env=EGRESS,
       why="its sockets are older than any code of a tenant; nothing switches that off")
def _(box):
    with with_egress(box) as inside_box:
        taken = inside_box.py(
            "import socket\n"
            "def take(family, kind, host, port, option):\n"
            "    s = socket.socket(family, kind)\n"
            "    if option: s.setsockopt(1, option, 1)\n"
            "    s.bind((host, port))\n"
            "    if kind == 1: s.listen()\n"
            "show(sorted({tries(take, family, kind, host, port, option)\n"
            "    for port in (53, 80, 443) for option in (0, 2, 15) for kind in (1, 2)\n"
            "    for family, host in ((2, '0.0.0.0'), (2, '127.0.0.1'), (2, '198.51.100.7'),\n"
            "                         (10, '::'), (10, '::1'), (10, '2001:db8::5'))}))\n"
        )
    return bool(taken) and set(taken) <= {"EACCES", "EADDRINUSE"}


# ---- Running them ------------------------------------------------------------------------------


def name_of(entry):
    return "%d %s" % (entry.number, entry.name)


RED = sorted(
    [(p, off) for p in PROBES for off in p.red], key=lambda pair: (pair[1], str(pair[0].env))
)
ELSEWHERE = sorted(
    [(p, off) for p in PROBES for off in p.elsewhere], key=lambda pair: (pair[1], str(pair[0].env))
)


@pytest.fixture(scope="module")
def held_servers(servers):
    return servers


@pytest.mark.parametrize("entry", PROBES, ids=name_of)
def test_held(entry, request, server, held_servers, canaries):
    if entry.env:
        box = Box(held_servers.get(entry.env), canaries=canaries)
    else:
        box = request.getfixturevalue("box")
    try:
        assert entry.function(box)
    except NotExercised as why:
        pytest.skip("not exercised: %s" % why)
    finally:
        if entry.env:
            box.close()


@pytest.mark.parametrize(
    "entry, off", RED, ids=["%s: %s off" % (name_of(p), off) for p, off in RED]
)
def test_red(entry, off, knob_servers):
    box = Box(knob_servers.get(off, entry.env))
    try:
        assert not entry.function(box), "it holds although the layer is off: it tests nothing"
    except NotExercised as why:
        pytest.skip("not exercised: %s" % why)
    finally:
        box.close()


@pytest.mark.parametrize(
    "entry, off", ELSEWHERE, ids=["%s: %s off" % (name_of(p), off) for p, off in ELSEWHERE]
)
def test_held_elsewhere(entry, off, knob_servers):
    box = Box(knob_servers.get(off, entry.env))
    try:
        assert entry.function(box), "one layer alone stood between the attack and its aim"
    except NotExercised as why:
        pytest.skip("not exercised: %s" % why)
    finally:
        box.close()


# ---- The system calls, one by one --------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def on_the_host(name):
    """What the kernel itself says to an ordinary user, without any sandbox."""

    def as_nobody():
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        return inside.call(*inside.CALLS[name])

    return inside.in_child(as_nobody)


@pytest.fixture(scope="module")
def surface(shared_server):
    box = Box(shared_server)
    yield box.py("show(surface())", timeout=60)
    box.close()


@pytest.fixture(scope="module")
def open_surface(knob_servers):
    box = Box(knob_servers.get("seccomp"))
    yield box.py("show(surface())", timeout=60)
    box.close()


@pytest.mark.parametrize("name", inside.CALLS)
def test_call_is_refused(surface, name):
    # vmsplice says that the descriptors do not support it, so that programs fall back to copying.
    assert surface[name] in inside.DENIED or (name, surface[name]) == ("vmsplice", "EINVAL")


@pytest.mark.parametrize("name", inside.CALLS)
def test_call_reaches_the_kernel_without_the_filter(surface, open_surface, name):
    if on_the_host(name) == "ENOSYS":
        pytest.skip("not exercised: the kernel lacks %s" % name)
    if open_surface[name] == surface[name] and on_the_host(name) == surface[name]:
        pytest.skip("not exercised: the kernel itself says %s to everybody" % surface[name])
    assert open_surface[name] != surface[name]


def test_release_programs_do_not_know_the_switch():
    for program in ("airlock", "airlockd", "airlock-launcher", "airlock-init", "airlock-gateway"):
        with open(os.path.join(harness.BUILD, program), "rb") as file:
            assert b"AIRLOCK_TEST_OFF" not in file.read()
    with open(os.path.join(KNOBS_BUILD, "airlock-launcher"), "rb") as file:
        assert b"AIRLOCK_TEST_OFF" in file.read()
