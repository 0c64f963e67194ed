# SPDX-License-Identifier: Apache-2.0
"""The kernel's surface from inside: what the filter refuses in the middle of calls that it allows, and
that ordinary programs do not notice it.

Each entry of REFUSED is a snippet that shows [[what, outcome], ...]; outcomes must all be among those
named. With the layers in `red` off at least one must differ, so that the entry is known to test
something. Numbers are those of the attack catalogue.
"""

import collections
import json

import pytest

from box import INSIDE, Box

Refused = collections.namedtuple("Refused", "number name code outcomes red why")
REFUSED = []
HIGH = "HIGH = (0, 1 << 32, 0xdeadbeef << 32)\n"


def refused(number, name, code, outcomes, red="seccomp", why=None):
    REFUSED.append(Refused(number, name, code, outcomes.split(), red, why))


refused(100, "namespaces cannot be opened through their own files", """
p = os.pidfd_open(os.getpid())
out = [['pidfd %d' % n, call(16, p, 0xff00 + n, 0)] for n in range(1, 11)]
out.append(['setns pidfd', call(308, p, 0x40000000)])
for name in ('user', 'net', 'mnt'):
    fd = os.open('/proc/self/ns/' + name, os.O_RDONLY)
    out += [['%s %x' % (name, r), call(16, fd, r, bytes(64))] for r in (0xb701, 0xb702)]
    out.append(['setns ' + name, call(308, fd, 0)])
show(out)
""", "EPERM ENOTTY")

refused(107, "families with a history do not exist", """
import socket
families = dict(AX25=3, IPX=4, APPLETALK=5, X25=9, KEY=15, PACKET=17, RDS=21, PPPOX=24, LLC=26, IB=27,
                CAN=29, TIPC=30, BLUETOOTH=31, RXRPC=33, PHONET=35, IEEE802154=36, CAIF=37, ALG=38,
                NFC=39, VSOCK=40, KCM=41, QIPCRTR=42, SMC=43, XDP=44, MCTP=45)
show([[n + str(k), tries(socket.socket, f, k, 0)] for n, f in families.items() for k in (1, 2, 3, 5)])
""", "EAFNOSUPPORT")

refused(109, "netlink speaks of routes alone", """
import socket
show([[str(p), tries(socket.socket, 16, k, p)] for p in range(1, 32) for k in (2, 3)])
""", "EPROTONOSUPPORT")

refused(110, "options that load code or attach programs", """
import socket
t, u, s6 = socket.socket(), socket.socket(2, 2), socket.socket(10, 1)
options = [(t, 6, 31, b'tls'), (t, 6, 31, b'espintcp'), (t, 6, 31, b'smc'), (t, 6, 14, bytes(216)),
           (t, 6, 19, bytes(4)), (t, 6, 38, bytes(288)),
           (t, 1, 26, bytes(16)), (t, 1, 50, bytes(4)), (t, 1, 51, bytes(16)), (t, 1, 52, bytes(4)),
           (t, 1, 36, b'\\1\\0\\0\\0'), (t, 1, 25, b'lo\\0'), (t, 1, 62, b'\\1\\0\\0\\0'),
           (t, 1, 60, b'\\1\\0\\0\\0'), (u, 17, 100, b'\\2\\0\\0\\0'),
           (t, 0, 64, bytes(96)), (t, 0, 65, bytes(96)), (t, 0, 96, bytes(96)), (t, 0, 128, bytes(96)),
           (t, 0, 1152, bytes(96)), (t, 0, 17, bytes(200)), (t, 0, 39, bytes(12)), (t, 0, 41, bytes(16)),
           (t, 0, 48, bytes(144)), (s6, 41, 1, b'\\2\\0\\0\\0'), (s6, 41, 64, bytes(96)),
           (s6, 41, 35, bytes(200)), (s6, 41, 48, bytes(144)), (s6, 41, 57, bytes(8)),
           (t, 282, 1, bytes(40)), (t, 279, 1, bytes(16)), (t, 284, 1, bytes(8))]
show([['%d/%d' % (l, o), tries(s.setsockopt, l, o, v)] for s, l, o, v in options])
""", "EPERM ENOPROTOOPT")

refused(112, "descriptor tables and looser memory", """
show([['modify_ldt', call(154, 0, bytes(16), 16)], ['set_thread_area', call(205, bytes(16))],
      ['no randomization', call(135, 0x0040000)], ['read implies exec', call(135, 0x0400000)],
      ['both', call(135, 0x0440000)], ['mmap page zero', call(135, 0x0100000)],
      ['tagged addresses', call(158, 0x4002, 6)], ['cpuid faults', call(158, 0x1012, 1)]])
""", "EPERM EINVAL")

refused(116, "high halves of arguments change nothing", HIGH + """
fd = os.open('.', os.O_RDONLY)
r, w = os.pipe()
out = []
for h in HIGH:
    out += [['ioctl %x' % q, call(16, fd, h | q, bytes(4096))]
            for q in (0x5412, 0x541c, 0x5423, 0x5000940e, 0x401c5820, 0xc0045877, 0xb701)]
    out += [['socket %d' % f, call(41, h | f, 3, 0)] for f in (17, 38, 40)]
    out += [['raw', call(41, 2, h | 3, 1)], ['protocol', call(41, h | 2, 1, h | 262)]]
    out += [['fcntl', call(72, w, h | 1031, 4096)], ['lease', call(72, fd, h | 1024, 0)]]
    out += [['clone', in_child(lambda: call(56, h | 0x10000000 | 17, 0, 0, 0, 0))]]
    out += [['prctl', call(157, h | 35, 1, 0, 0, 0)], ['personality', call(135, h | 0x0040000)]]
    out += [['mknod', call(133, b'node', h | 0o020666, 0)], ['option', call(54, 0, h | 6, h | 31, 0, 0)]]
show(out)
""", "EPERM EAFNOSUPPORT EPROTONOSUPPORT ENOPROTOOPT")

refused(118, "requests that reach past one's own files", """
open('f', 'w').write('x' * 8192)
fd = os.open('f', os.O_RDWR)
requests = dict(FSUUID=0x80111500, SYSFSPATH=0x80811501, SHUTDOWN=0x8004587d, FREEZE=0xc0045877,
                THAW=0xc0045878, TRIM=0xc0185879, SETXATTR=0x401c5820, SETFLAGS=0x40086602,
                SETVERSION=0x40087602, VERITY=0x40806685, ENCRYPT=0x800c6613, ADDKEY=0xc0506617,
                EXT4_MOVE=0xc028660f, FIBMAP=1, SNAP_V2=0x50009417, DEFRAG_RANGE=0x40309410,
                SYNC=0x9408, START_SYNC=0x80089418, SUBVOL_GETFLAGS=0x80089419, SETFLAGS_SUB=0x4008941a,
                INO_PATHS=0xc0389423, LOGICAL_INO=0xc0389424, SETLABEL=0x41009432, BLKDISCARD=0x1277,
                GETFSMAP=0xc0c0583b, UFFD=0xaa00)
show([[n, call(16, fd, q, bytes(4096))] for n, q in requests.items()])
""", "EPERM")

refused(122, "memory of the host's pools, and merged memory", """
a = mmap.mmap(-1, 65536)
import ctypes
at = ctypes.addressof(ctypes.c_char.from_buffer(a))
show([['poison', call(28, at, 4096, 100)], ['offline', call(28, at, 4096, 101)],
      ['merge', call(28, at, 4096, 12)], ['merge all', call(157, 67, 1, 0, 0, 0)],
      ['huge pages', call(9, 0, 1 << 21, 3, 0x40022, -1, 0)],
      ['a huge memory file', call(319, b'x', 4)], ['a huge segment', call(29, 0, 1 << 21, 0o5600)],
      ['process_madvise', call(440, os.pidfd_open(os.getpid()), bytes(16), 1, 20, 0)],
      ['memfd_secret', call(447, 0)], ['mbind', call(237, at, 4096, 0, 0, 0, 0)]])
""", "EPERM EINVAL ENOMEM ENOSYS")

refused(121, "a filter with a listener", """
import ctypes
code = ctypes.create_string_buffer(bytes.fromhex('06000000') + (0x7fff0000).to_bytes(4, 'little'))
prog = (1).to_bytes(8, 'little') + ctypes.addressof(code).to_bytes(8, 'little')
call(157, 38, 1, 0, 0, 0)
show([['listener', in_child(lambda: call(317, 1, 8, prog))],
      ['with a high bit', in_child(lambda: call(317, 1, 1 << 32 | 8, prog))]])
""", "EPERM")

refused(46, "leases and notifications on files", """
fd = os.open('/usr/bin/env', os.O_RDONLY)
d = os.open('.', os.O_RDONLY)
r, w = os.pipe()
show([['lease', call(72, fd, 1024, 0)], ['notify', call(72, d, 1026, 2)],
      ['delegation', call(72, d, 1040, bytes(8))], ['pipe size', call(72, w, 1031, 1 << 20)]])
""", "EPERM")

refused(125, "clocks cannot be set", """
show([['settimeofday', call(164, bytes(16), 0)], ['clock_settime', call(227, 0, bytes(16))],
      ['adjtimex', call(159, bytes(208))], ['clock_adjtime', call(305, 0, bytes(208))]])
""", "EPERM")

refused(128, "settings of the network cannot be written", """
names = ('ipv4/ping_group_range', 'ipv4/ip_unprivileged_port_start', 'ipv4/ip_forward', 'core/somaxconn')
show([[n, tries(open, '/proc/sys/net/' + n, 'w')] for n in names if os.path.exists('/proc/sys/net/' + n)])
""", "EACCES EROFS EPERM", None, why="the files belong to another user and /proc/sys is read-only")

refused(110, "pages of the page cache do not move by reference", """
fd = os.open('/usr/bin/env', os.O_RDONLY)
r, w = os.pipe()
r2, w2 = os.pipe()
os.write(w, b'x')
show([['splice', call(275, fd, 0, w, 0, 4096, 0)], ['tee', call(276, r, w2, 10, 0)],
      ['vmsplice', call(278, w, bytes(16), 0, 0)]])
""", "EINVAL")


def name_of(entry):
    return "%d %s" % (entry.number, entry.name)


def wrong(box, entry):
    shown = box.py(entry.code, timeout=30)
    assert shown
    return [pair for pair in shown if pair[1] not in entry.outcomes]


@pytest.mark.parametrize("entry", REFUSED, ids=name_of)
def test_refused(box, entry):
    assert wrong(box, entry) == []


@pytest.mark.parametrize("entry", [e for e in REFUSED if e.red], ids=name_of)
def test_reaches_the_kernel_without_the_filter(knob_servers, entry):
    box = Box(knob_servers.get(entry.red))
    try:
        assert wrong(box, entry), "it is refused although the layer is off: it tests nothing"
    finally:
        box.close()


# ---- Bombs that the filter lets through; limits hold them ---------------------------------------


def test_timers_are_bounded(box):
    """125"""
    made = box.py(
        "import ctypes\n"
        "made = 0\n"
        "while made < 200000 and call(222, 1, 0, bytes(4)) == 'ok': made += 1\n"
        "show(made)\n"
    )
    assert made < 100000


def test_locked_memory_is_bounded(box):
    """122"""
    assert box.py(
        "m = mmap.mmap(-1, 64 << 20)\n"
        "import ctypes\n"
        "show(call(149, ctypes.addressof(ctypes.c_char.from_buffer(m)), 64 << 20))\n"
    ) in ("ENOMEM", "EPERM", "EAGAIN")


def test_nested_epolls_end_early(box):
    """131"""
    outcome = box.py(
        "import select\n"
        "chain, outcome = [select.epoll()], 'ok'\n"
        "while outcome == 'ok' and len(chain) < 400:\n"
        "    chain.append(select.epoll())\n"
        "    outcome = tries(chain[-1].register, chain[-2].fileno(), 1)\n"
        "show([outcome, len(chain)])\n"
    )
    assert outcome[0] in ("EINVAL", "ELOOP") and outcome[1] < 20


def test_descriptors_in_flight_are_bounded(box):
    """131. The box's last command shows that nothing is slow afterwards."""
    outcome = box.py(
        "import socket\n"
        "sent, outcome = 0, 'ok'\n"
        "while outcome == 'ok' and sent < 200000:\n"
        "    try:\n"
        "        a, b = socket.socketpair()\n"
        "        fds = [a.fileno(), b.fileno()]\n"
        "        for _ in range(20):\n"
        "            socket.send_fds(a, [b'x'], fds); sent += 2\n"
        "        a.close(); b.close()\n"
        "    except OSError as e:\n"
        "        outcome = errno.errorcode[e.errno]\n"
        "show([outcome, sent])\n",
        timeout=30,
    )
    assert outcome[0] in ("ETOOMANYREFS", "ENOBUFS", "ENOMEM") and outcome[1] < 100000


def test_text_of_programs_is_written_in_the_own_process_alone(box):
    """124. /proc/self/mem writes a private copy; the file and other processes keep theirs."""
    code = (
        "import ctypes\n"
        "line = next(l for l in open('/proc/self/maps') if 'libc.so' in l and 'r-xp' in l)\n"
        "at = int(line.split('-')[0], 16)\n"
        "def poke():\n"
        "    with open('/proc/self/mem', 'r+b', 0) as m:\n"
        "        m.seek(at); old = m.read(8); m.seek(at); m.write(bytes(8))\n"
        "        return old.hex()\n"
        "before = in_child(lambda: tries(poke))\n"
        "show(ctypes.string_at(at, 8).hex() != '00' * 8)\n"
    )
    assert box.py(code) is True
    assert box.sh("echo still here")["stdout"] == "still here\n"


# ---- Ordinary programs ---------------------------------------------------------------------------

PROGRAMS = {
    "git": ("git init -q r && cd r && git config user.email a@example.invalid && git config user.name a"
            " && echo x >f && git add f && git commit -qm m && cd .. && git clone -q r c && cat c/f && git -C c gc -q",
            "x\n"),
    "curl": ("mkdir w; echo hello >w/f; cd w; python3 -m http.server --bind 127.0.0.1 8080 >/dev/null 2>&1 &"
             " curl -s --retry 30 --retry-connrefused --retry-delay 1 http://127.0.0.1:8080/w/f"
             " || curl -s http://127.0.0.1:8080/f; kill %1", None),
    "venv": ("python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'",
             "/workspace/v\n"),
    "pip": ("python3 -m pip --version | cut -d' ' -f1", "pip\n"),
    "sqlite": ("python3 -c \"import sqlite3; d = sqlite3.connect('d'); d.execute('pragma journal_mode=wal');"
               " d.execute('create table t (x)'); d.execute('insert into t values (1)'); d.commit();"
               " print(sqlite3.connect('d').execute('select * from t').fetchall())\"", "[(1,)]\n"),
    "archives": ("echo x >f; tar cf a.tar f; xz -k a.tar; zstd -q a.tar; gzip -k a.tar; zip -q a.zip f;"
                 " rm f; unzip -q a.zip; tar xJf a.tar.xz; cat f", "x\n"),
    "search": ("echo '{\"a\": [1, 2]}' >j; jq -c .a j; rg -c a j; find . -name j; grep -c a j",
               "[1,2]\n1\n./j\n1\n"),
    "shell": ("set -m; sleep 0.1 & wait %1; diff <(echo 1) <(echo 1) && cat <<<x; ulimit -n 100;"
              " coproc cat; echo y >&${COPROC[1]}; read z <&${COPROC[0]}; echo $z; nice true; echo e >/dev/stderr"
              " 2>/dev/null; echo done", "x\ny\ndone\n"),
    "tools": ("timeout 0.2 sleep 5; echo $?; flock f echo locked; taskset 1 echo bound; nohup echo no 2>/dev/null;"
              " mkfifo p; (echo fifo >p &); cat p; setsid echo session; chrt -o 0 echo other; ionice -c3 echo idle",
              "124\nlocked\nbound\nno\nfifo\nsession\nother\nidle\n"),
    "files": ("truncate -s 1M s; fallocate -l 1M l; cp --reflink=always l l2 && echo reflink; dd if=/dev/zero"
              " of=d bs=4k count=4 conv=fsync 2>/dev/null; ln d h; ln -s d y; touch -d @0 d; stat -c %Y d;"
              " chmod 640 d; mv d e; rm -f s l l2; sync e; realpath y; df . >/dev/null && echo df",
              "reflink\n0\n/workspace/d\ndf\n"),
    "processes": ("ps -e -o comm= | grep -c ps; top -b -n1 | head -1 | cut -c1-3; free | head -1 | wc -w >/dev/null;"
                  " kill -0 $$; pgrep -x bash >/dev/null && echo found", "1\ntop\nfound\n"),
    "terminal": ("script -qec 'tty; stty -a | head -1 | cut -c1-5' /dev/null | tr -d '\\r'", None),
    "perl": ("perl -e 'pipe(R, W); if (fork == 0) { print W \"p\\n\"; exit } wait; close W; print <R>'", "p\n"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_ordinary_program(box, name):
    command, expected = PROGRAMS[name]
    result = box.sh(command, timeout=60)
    if expected is None:
        assert result["exit_code"] == 0 and result["stdout"], result
    else:
        assert result["stdout"] == expected, result


PYTHON = {
    "multiprocessing by every way": """
import multiprocessing as m
if __name__ == '__main__':
    out = []
    for way in ('fork', 'spawn', 'forkserver'):
        c = m.get_context(way)
        with c.Pool(2) as pool:
            out.append(pool.map(abs, [-1, -2]))
    q, l = m.Queue(), m.Lock()
    with l: q.put(7)
    out.append(q.get())
    show(out)
""",
    "shared memory": """
from multiprocessing import shared_memory
s = shared_memory.SharedMemory(create=True, size=4096)
s.buf[0] = 5
t = shared_memory.SharedMemory(s.name)
show(t.buf[0]); t.close(); s.close(); s.unlink()
""",
    "asyncio with sockets and children": """
import asyncio
async def main():
    async def serve(r, w):
        w.write((await r.readline()).upper()); await w.drain(); w.close()
    server = await asyncio.start_server(serve, '127.0.0.1', 0)
    r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
    w.write(b'abc\\n'); got = (await r.readline()).decode()
    p = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)
    out, _ = await p.communicate(b'x')
    return [got, out.decode()]
show(asyncio.run(main()))
""",
    "watching, timing, waiting": """
import ctypes, select, signal, time
c = ctypes.CDLL(None, use_errno=True)
i = c.inotify_init1(0); c.inotify_add_watch(i, b'.', 0x100)
open('new', 'w').close()
t = c.timerfd_create(1, 0); c.timerfd_settime(t, 0, bytes(24) + (1).to_bytes(8, 'little'), None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
s = signal.sigtimedwait([signal.SIGUSR1], 1).si_signo == signal.SIGUSR1
f = select.poll(); f.register(i, 1); f.register(t, 1)
time.sleep(0.01)
show([len(f.poll(1000)), s])
""",
    "threads, affinity, limits": """
import threading, resource, concurrent.futures as f
with f.ThreadPoolExecutor(8) as e: n = sum(e.map(len, ['ab'] * 100))
os.sched_setaffinity(0, os.sched_getaffinity(0))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
os.setuid(os.getuid()); os.setresgid(1000, 1000, 1000); os.nice(1)
show([n, os.sched_getscheduler(0)])
""",
    "memory files and descriptors": """
import socket, fcntl
m = os.memfd_create('m', os.MFD_ALLOW_SEALING); os.write(m, b'abc')
fcntl.fcntl(m, 1033, 2)
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
socket.send_fds(a, [b'x'], [m]); _, fds, _, _ = socket.recv_fds(b, 1, 1)
d = os.open('.', os.O_TMPFILE | os.O_RDWR); os.write(d, b'0123456789')
e = os.open('copied', os.O_CREAT | os.O_RDWR)
n = os.copy_file_range(d, e, 10, 0)
s = os.sendfile(e, d, 0, 10)
show([os.pread(fds[0], 3, 0).decode(), n, s])
""",
    "addresses and names of the own machine": """
import socket
show([socket.gethostname() != '', [i for _, i in socket.if_nameindex()], socket.getaddrinfo('127.0.0.1', 80)[0][4][0]])
""",
}
ANSWERS = {
    "multiprocessing by every way": [[1, 2], [1, 2], [1, 2], 7],
    "shared memory": 5,
    "asyncio with sockets and children": ["ABC\n", "x"],
    "watching, timing, waiting": [2, True],
    "threads, affinity, limits": [200, 0],
    "memory files and descriptors": ["abc", 10, 10],
    "addresses and names of the own machine": [True, ["lo"], "127.0.0.1"],
}


@pytest.mark.parametrize("name", PYTHON)
def test_ordinary_python(box, name):
    # A file of its own: processes that start anew read their program again.
    assert box.write("program.py", INSIDE + "\n\n" + PYTHON[name]).status == 200
    result = box.sh("python3 program.py", timeout=60)
    assert result["exit_code"] == 0, result["stderr"][-1000:]
    assert json.loads(result["stdout"]) == ANSWERS[name]


NESTED = {
    "strace": ("strace true", "Operation not permitted"),
    "unshare": ("unshare --user --map-root-user true", "Operation not permitted"),
    "mount": ("mount -t tmpfs x /tmp", ""),
    "chroot": ("chroot / true", "Operation not permitted"),
    "nsenter": ("nsenter --target $$ --net true", "Operation not permitted"),
    "dmesg": ("dmesg", "Operation not permitted"),
}


@pytest.mark.parametrize("name", NESTED)
def test_what_cannot_work_says_so_at_once(box, name):
    """101: a clean failure, no hang and no crash."""
    command, words = NESTED[name]
    result = box.sh(command, timeout=10)
    assert result["exit_code"] in range(1, 128), result
    assert words in result["stderr"], result
