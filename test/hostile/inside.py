# SPDX-License-Identifier: Apache-2.0
"""What the probes have at hand inside a sandbox, in front of their own lines. Standard library only."""

import ctypes
import errno
import json
import mmap
import os
import sys

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
DENIED = ("EPERM", "ENOSYS")

# x86-64. Arguments that reach into each call as far as they do no harm.
CALLS = {
    "ptrace": (101, 0, 0, 0, 0),
    "process_vm_readv": (310, -1, 0, 0, 0, 0, 0),
    "process_vm_writev": (311, -1, 0, 0, 0, 0, 0),
    "process_madvise": (440, -1, 0, 0, 0, 0),
    "pidfd_getfd": (438, -1, 0, 0),
    "kcmp": (312, -1, -1, 0, 0, 0),
    "add_key": (248, b"user", b"probe", b"x", 1, -2),
    "request_key": (249, b"user", b"nothing", 0, 0),
    "keyctl": (250, 0, -3, 0, 0, 0),
    "io_uring_setup": (425, 1, 0),
    "io_uring_enter": (426, -1, 0, 0, 0, 0, 0),
    "io_uring_register": (427, -1, 0, 0, 0),
    "userfaultfd": (323, 1),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "setns": (308, -1, 0),
    "unshare_user": (272, 0x10000000),
    "unshare_mount": (272, 0x00020000),
    "unshare_net": (272, 0x40000000),
    "unshare_pid": (272, 0x20000000),
    "unshare_ipc": (272, 0x08000000),
    "unshare_uts": (272, 0x04000000),
    "unshare_cgroup": (272, 0x02000000),
    "clone3": (435, 0, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "umount2": (166, 0, 0),
    "pivot_root": (155, 0, 0),
    "open_tree": (428, -1, b"", 0x1000),
    "move_mount": (429, -1, 0, -1, 0, 0),
    "fsopen": (430, b"tmpfs", 0),
    "fsconfig": (431, -1, 0, 0, 0, 0),
    "fsmount": (432, -1, 0, 0),
    "fspick": (433, -1, b"/", 0),
    "mount_setattr": (442, -1, b"/", 0, 0, 0),
    "statmount": (457, 0, 0, 0, 0),
    "listmount": (458, 0, 0, 0, 0),
    "chroot": (161, b"/tmp"),
    "name_to_handle_at": (303, -100, b"/", 0, 0, 0),
    "open_by_handle_at": (304, -1, 0, 0),
    "fanotify_init": (300, 0x200, 0),
    "quotactl": (179, 0, 0, 0, 0),
    "quotactl_fd": (443, -1, 0, 0, 0),
    "acct": (163, 0),
    "swapon": (167, 0, 0),
    "swapoff": (168, 0),
    "reboot": (169, 0, 0, 0, 0),
    "init_module": (175, 0, 0, 0),
    "finit_module": (313, -1, 0, 0),
    "delete_module": (176, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "kexec_file_load": (320, -1, -1, 0, 0, 0),
    "personality_no_randomize": (135, 0x0040000),
    "personality_read_implies_exec": (135, 0x0400000),
    "modify_ldt": (154, 0, 0, 0),
    "iopl": (172, 3),
    "ioperm": (173, 0, 1, 1),
    "mbind": (237, 0, 0, 0, 0, 0, 0),
    "set_mempolicy": (238, 0, 0, 0),
    "migrate_pages": (256, 0, 0, 0, 0),
    "move_pages": (279, 0, 0, 0, 0, 0, 0),
    "remap_file_pages": (216, 0, 0, 0, 0, 0),
    "vmsplice": (278, -1, 0, 0, 0),
    "memfd_secret": (447, 0),
    "syslog": (103, 2, 0, 0),
    "settimeofday": (164, 0, 0),
    "clock_settime": (227, 0, 0),
    "adjtimex": (159, 0),
    "sethostname": (170, b"x", 1),
    "setdomainname": (171, b"x", 1),
    "vhangup": (153,),
    "lookup_dcookie": (212, 0, 0, 0),
    "uselib": (134, 0),
    "ustat": (136, 0, 0),
    "sysfs": (139, 3),
}


def call(number, *args):
    """The name of the error, or "ok"."""
    packed = [a if isinstance(a, bytes) else ctypes.c_long(a) for a in args]
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(number), *packed)
    return "ok" if result >= 0 else errno.errorcode.get(ctypes.get_errno(), "?")


def in_child(function):
    """Runs it in a child; its result, or the signal that ended it as "SIG<n>"."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.write(writer, json.dumps(function()).encode())
        os._exit(0)
    os.close(writer)
    text = b""
    while True:
        piece = os.read(reader, 65536)
        if not piece:
            break
        text += piece
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return "SIG%d" % os.WTERMSIG(status)
    return json.loads(text)


def surface():
    """Every call of the table, each in a child of its own."""
    return {name: in_child(lambda: call(*spec)) for name, spec in CALLS.items()}


def machine_code(code):
    """Runs bytes of machine code; the integer that they leave in eax."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()


def tries(function, *args):
    """The name of the error that Python raises, or "ok"."""
    try:
        function(*args)
    except OSError as error:
        return errno.errorcode.get(error.errno, "?")
    return "ok"


def readable(path):
    """How many bytes of a file can be had, at most 4,096; an error name otherwise."""
    try:
        with open(path, "rb") as file:
            return len(file.read(4096))
    except OSError as error:
        return errno.errorcode.get(error.errno, "?")


def status(field, pid="self"):
    with open("/proc/%s/status" % pid) as file:
        for line in file:
            if line.startswith(field + ":"):
                return line.split(":", 1)[1].strip()
    return None


def show(value):
    json.dump(value, sys.stdout)
