// SPDX-License-Identifier: Apache-2.0
/*
 * rules-args: conditions on arguments. Read each list from the top: the first line that fits
 * decides, the last one (in the LIST) is for everything else. Values are written out where Debian
 * 12's headers lack them; all of them are the same on every architecture of the table.
 */
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "sandbox/rules.h"

#define SANDBOX (RULE_TENANT | RULE_INIT)
#define TENANT RULE_TENANT
#define INIT RULE_INIT
#define DAEMON RULE_DAEMON
#define ALL (SANDBOX | DAEMON)

/* clang-format off */
#define IS(arg, value) { (arg), RULE_EQ, UINT32_MAX, (uint32_t)(value) }
#define MASKED(arg, mask, value) { (arg), RULE_EQ, (uint32_t)(mask), (uint32_t)(value) }
#define ANY(arg, mask) { (arg), RULE_NE, (uint32_t)(mask), 0 }
#define AT_LEAST(arg, value) { (arg), RULE_GE, UINT32_MAX, (uint32_t)(value) }
#define ALLOW(who, ...) { (who), 0, { __VA_ARGS__ } }
#define REFUSE(who, errno_code, ...) { (who), (errno_code), { __VA_ARGS__ } }
#define LIST(name, errno_code) \
	const struct rule_args args_##name = { \
		(errno_code), sizeof(clauses_##name) / sizeof(clauses_##name[0]), clauses_##name \
	}

/* ---- Files ------------------------------------------------------------------------------------ */

/* Leases and directory notifications let one process stall or watch another's opens on the same inode;
 * pipe sizes are a budget of the host (airlockd chose them). Locks stay: inodes are not shared. */
#define F_SETDELEG_ 1040 /* include/uapi/linux/fcntl.h, 6.19 */
static const struct rule_clause clauses_fcntl[] = {
	REFUSE(ALL, EPERM, IS(1, F_SETLEASE)),
	REFUSE(ALL, EPERM, IS(1, F_NOTIFY)),
	REFUSE(ALL, EPERM, IS(1, F_SETPIPE_SZ)),
	REFUSE(ALL, EPERM, IS(1, F_SETDELEG_)),
};
LIST(fcntl, 0);

/* An allow-list would break programs at random: requests belong to whatever file is open, and the
 * sandbox has few kinds. Refused by type (bits 8 to 15) are those that change a whole file system, reach
 * namespaces, or reach into a terminal. btrfs: subvolumes escape the quota, and INHERIT breaks it for
 * everybody; copies by reference stay. */
#define IOC_TYPE(type) MASKED(1, 0xff00, (type) << 8)
static const struct rule_clause clauses_ioctl[] = {
	ALLOW(DAEMON, IS(1, FIONBIO)),
	ALLOW(DAEMON, IS(1, FIONREAD)),
	ALLOW(DAEMON, IS(1, FIOCLEX)),
	ALLOW(DAEMON, IS(1, FIONCLEX)),
	ALLOW(DAEMON, IS(1, TCGETS)),
	ALLOW(DAEMON, IS(1, TIOCGWINSZ)),
	REFUSE(DAEMON, EPERM),
	/* What programs ask most, first. */
	ALLOW(SANDBOX, IS(1, TCGETS)),
	ALLOW(SANDBOX, IS(1, FIOCLEX)),
	REFUSE(SANDBOX, EPERM, IS(1, TIOCSTI)),        /* types into the terminal */
	REFUSE(SANDBOX, EPERM, IS(1, TIOCLINUX)),
	REFUSE(SANDBOX, EPERM, IS(1, TIOCSETD)),       /* loads line disciplines */
	REFUSE(SANDBOX, EPERM, IS(1, TIOCCONS)),
	REFUSE(SANDBOX, EPERM, IS(1, TIOCVHANGUP)),
	ALLOW(SANDBOX, IS(1, FICLONE)),
	ALLOW(SANDBOX, IS(1, FICLONERANGE)),
	ALLOW(SANDBOX, IS(1, FIDEDUPERANGE)),
	REFUSE(SANDBOX, EPERM, IOC_TYPE(0x94)),        /* btrfs */
	ALLOW(SANDBOX, IS(1, FS_IOC_FSGETXATTR)),
	REFUSE(SANDBOX, EPERM, IOC_TYPE('X')),         /* project ids, freeze, thaw, trim, shutdown */
	ALLOW(SANDBOX, IS(1, FS_IOC_GETFLAGS)),
	ALLOW(SANDBOX, IS(1, FS_IOC_FIEMAP)),
	REFUSE(SANDBOX, EPERM, IOC_TYPE('f')),         /* inode flags, encryption, verity, ext4, move extents */
	REFUSE(SANDBOX, EPERM, IS(1, FS_IOC_SETVERSION)),
	REFUSE(SANDBOX, EPERM, IOC_TYPE(0x15)),        /* file system's uuid and sysfs path */
	REFUSE(SANDBOX, EPERM, IS(1, FIBMAP)),
	REFUSE(SANDBOX, EPERM, IOC_TYPE(0xb7)),        /* NS_GET_...: opens namespaces */
	REFUSE(SANDBOX, ENOTTY, IOC_TYPE(0xff)),       /* the same through a pidfd; as on 6.1 */
	REFUSE(SANDBOX, EPERM, IOC_TYPE(0xaa)),        /* userfaultfd */
	REFUSE(SANDBOX, EPERM, IOC_TYPE(0x12)),        /* block devices */
};
LIST(ioctl, 0);

/* Device nodes and overlay whiteouts (character device 0:0) need no capability everywhere. */
static const struct rule_clause clauses_mknod[] = {
	ALLOW(ALL, MASKED(1, S_IFMT, 0)),
	ALLOW(ALL, MASKED(1, S_IFMT, S_IFREG)),
	ALLOW(ALL, MASKED(1, S_IFMT, S_IFIFO)),
	ALLOW(ALL, MASKED(1, S_IFMT, S_IFSOCK)),
};
LIST(mknod, EPERM);

static const struct rule_clause clauses_mknodat[] = {
	ALLOW(ALL, MASKED(2, S_IFMT, 0)),
	ALLOW(ALL, MASKED(2, S_IFMT, S_IFREG)),
	ALLOW(ALL, MASKED(2, S_IFMT, S_IFIFO)),
	ALLOW(ALL, MASKED(2, S_IFMT, S_IFSOCK)),
};
LIST(mknodat, EPERM);

/* ---- Memory ----------------------------------------------------------------------------------- */

/* Huge pages come from a pool of the whole host that no memory limit covers; the answer is the one of
 * an empty pool. airlockd never makes memory executable after its start. */
static const struct rule_clause clauses_mmap[] = {
	REFUSE(SANDBOX, ENOMEM, ANY(3, MAP_HUGETLB)),
	REFUSE(DAEMON, EPERM, ANY(2, PROT_EXEC)),
	REFUSE(DAEMON, ENOMEM, ANY(3, MAP_HUGETLB)),
};
LIST(mmap, 0);

static const struct rule_clause clauses_mprotect[] = {
	REFUSE(DAEMON, EPERM, ANY(2, PROT_EXEC)),
};
LIST(mprotect, 0);

/* Merging pages (KSM) tells one tenant what another one has in memory; the other two break memory. */
#define MADV_HWPOISON_ 100
#define MADV_SOFT_OFFLINE_ 101
static const struct rule_clause clauses_madvise[] = {
	REFUSE(ALL, EINVAL, IS(2, MADV_MERGEABLE)),
	REFUSE(ALL, EPERM, IS(2, MADV_HWPOISON_)),
	REFUSE(ALL, EPERM, IS(2, MADV_SOFT_OFFLINE_)),
};
LIST(madvise, 0);

static const struct rule_clause clauses_memfd_create[] = {
	REFUSE(ALL, EINVAL, ANY(1, MFD_HUGETLB)),
};
LIST(memfd_create, 0);

static const struct rule_clause clauses_shmget[] = {
	REFUSE(ALL, EPERM, ANY(2, SHM_HUGETLB)),
};
LIST(shmget, 0);

/* ---- Processes -------------------------------------------------------------------------------- */

/* No new namespace: a user namespace gives capabilities in it, and with them most of the kernel's young
 * code. CLONE_NEWTIME lies in the exit signal's byte here and has no effect. airlockd makes threads. */
#define CLONE_NEW_ANY                                                                               \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
	 CLONE_NEWNET)
static const struct rule_clause clauses_clone[] = {
	REFUSE(ALL, EPERM, ANY(0, CLONE_NEW_ANY)),
	REFUSE(DAEMON, EPERM, MASKED(0, CLONE_THREAD, 0)),
};
LIST(clone, 0);

/* Values that change names or sizes that programs see, and 0xffffffff, which asks. READ_IMPLIES_EXEC
 * and ADDR_NO_RANDOMIZE take protections away. */
static const struct rule_clause clauses_personality[] = {
	ALLOW(SANDBOX, IS(0, PER_LINUX)),
	ALLOW(SANDBOX, IS(0, PER_LINUX32)),
	ALLOW(SANDBOX, IS(0, UNAME26)),
	ALLOW(SANDBOX, IS(0, PER_LINUX32 | UNAME26)),
	ALLOW(SANDBOX, IS(0, 0xffffffff)),
};
LIST(personality, EPERM);

/* An unknown option is EINVAL, as from an older kernel. */
#define PR_SET_MEMORY_MERGE_ 67 /* 6.4 */
#define PR_GET_MEMORY_MERGE_ 68
#define PR_SET_MDWE_ 65 /* 6.3 */
#define PR_GET_MDWE_ 66
#define PR_GET_AUXV_ 0x41555856 /* 6.4 */
static const struct rule_clause clauses_prctl[] = {
	ALLOW(ALL, IS(0, PR_SET_NAME)),
	ALLOW(ALL, IS(0, PR_GET_NAME)),
	ALLOW(ALL, IS(0, PR_SET_VMA)),
	ALLOW(ALL, IS(0, PR_SET_NO_NEW_PRIVS)),
	ALLOW(ALL, IS(0, PR_GET_NO_NEW_PRIVS)),
	ALLOW(ALL, IS(0, PR_GET_SECCOMP)),
	ALLOW(ALL, IS(0, PR_SET_DUMPABLE)),
	ALLOW(ALL, IS(0, PR_GET_DUMPABLE)),
	ALLOW(ALL, IS(0, PR_CAPBSET_READ)),
	REFUSE(DAEMON, EPERM),
	ALLOW(SANDBOX, IS(0, PR_SET_PDEATHSIG)),
	ALLOW(SANDBOX, IS(0, PR_GET_PDEATHSIG)),
	ALLOW(SANDBOX, IS(0, PR_SET_CHILD_SUBREAPER)),
	ALLOW(SANDBOX, IS(0, PR_GET_CHILD_SUBREAPER)),
	ALLOW(SANDBOX, IS(0, PR_SET_SECCOMP)), /* only tightens; has no listener */
	ALLOW(SANDBOX, IS(0, PR_SET_TIMERSLACK)),
	ALLOW(SANDBOX, IS(0, PR_GET_TIMERSLACK)),
	ALLOW(SANDBOX, IS(0, PR_GET_TIMING)),
	ALLOW(SANDBOX, IS(0, PR_GET_TSC)),
	ALLOW(SANDBOX, IS(0, PR_GET_TID_ADDRESS)),
	ALLOW(SANDBOX, IS(0, PR_GET_KEEPCAPS)),
	ALLOW(SANDBOX, IS(0, PR_GET_SECUREBITS)),
	ALLOW(SANDBOX, IS(0, PR_MCE_KILL_GET)),
	ALLOW(SANDBOX, IS(0, PR_SET_THP_DISABLE)),
	ALLOW(SANDBOX, IS(0, PR_GET_THP_DISABLE)),
	ALLOW(SANDBOX, IS(0, PR_SET_PTRACER)),
	ALLOW(SANDBOX, IS(0, PR_SET_MDWE_)),
	ALLOW(SANDBOX, IS(0, PR_GET_MDWE_)),
	ALLOW(SANDBOX, IS(0, PR_GET_MEMORY_MERGE_)),
	ALLOW(SANDBOX, IS(0, PR_GET_AUXV_)),
	ALLOW(SANDBOX, IS(0, PR_SVE_SET_VL)), /* aarch64 */
	ALLOW(SANDBOX, IS(0, PR_SVE_GET_VL)),
	ALLOW(SANDBOX, IS(0, PR_PAC_RESET_KEYS)),
	ALLOW(SANDBOX, IS(0, PR_SET_TAGGED_ADDR_CTRL)),
	ALLOW(SANDBOX, IS(0, PR_GET_TAGGED_ADDR_CTRL)),
	/* Mitigations against speculation may be asked for, not given up. */
	ALLOW(SANDBOX, IS(0, PR_GET_SPECULATION_CTRL)),
	ALLOW(SANDBOX, IS(0, PR_SET_SPECULATION_CTRL), IS(2, PR_SPEC_DISABLE)),
	ALLOW(SANDBOX, IS(0, PR_SET_SPECULATION_CTRL), IS(2, PR_SPEC_FORCE_DISABLE)),
	/* Capabilities: init gives its own up, a tenant has none to give up. */
	ALLOW(SANDBOX, IS(0, PR_CAP_AMBIENT), IS(1, PR_CAP_AMBIENT_IS_SET)),
	ALLOW(SANDBOX, IS(0, PR_CAP_AMBIENT), IS(1, PR_CAP_AMBIENT_CLEAR_ALL)),
	ALLOW(INIT, IS(0, PR_CAPBSET_DROP)),
	ALLOW(INIT, IS(0, PR_SET_SECUREBITS)),
	ALLOW(INIT, IS(0, PR_SET_KEEPCAPS)),
	REFUSE(SANDBOX, EPERM, IS(0, PR_CAP_AMBIENT)),
	REFUSE(TENANT, EPERM, IS(0, PR_CAPBSET_DROP)),
	REFUSE(TENANT, EPERM, IS(0, PR_SET_SECUREBITS)),
	REFUSE(TENANT, EPERM, IS(0, PR_SET_KEEPCAPS)),
	REFUSE(SANDBOX, EPERM, IS(0, PR_SET_SPECULATION_CTRL)),
	REFUSE(SANDBOX, EPERM, IS(0, PR_SET_MM)),
	REFUSE(SANDBOX, EPERM, IS(0, PR_SET_MEMORY_MERGE_)),
};
LIST(prctl, EINVAL);

/* x86-64 alone: segment bases, shadow stacks, wide vector state. */
static const struct rule_clause clauses_arch_prctl[] = {
	ALLOW(ALL, MASKED(0, 0xfffffff8, 0x1000)), /* ARCH_SET_GS, SET_FS, GET_FS, GET_GS */
	ALLOW(ALL, IS(0, 0x1011)),                 /* ARCH_GET_CPUID */
	ALLOW(ALL, MASKED(0, 0xfffffffc, 0x1020)), /* ARCH_GET_XCOMP_SUPP, GET_PERM, REQ_PERM */
	ALLOW(ALL, IS(0, 0x3001)),                 /* asked by every start of a glibc program */
	ALLOW(ALL, IS(0, 0x4001)),                 /* ARCH_GET_UNTAG_MASK */
	ALLOW(ALL, MASKED(0, 0xfffffff8, 0x5000)), /* ARCH_SHSTK_... */
};
LIST(arch_prctl, EINVAL);

/* Own filters only tighten. A listener would let a tenant judge its own calls in user space. */
static const struct rule_clause clauses_seccomp[] = {
	REFUSE(SANDBOX, EPERM, ANY(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)),
};
LIST(seccomp, 0);

/* ---- Identity --------------------------------------------------------------------------------- */

/* Many programs "drop" to the user they are; that user is 1000 in every sandbox. */
#define TENANT_ID 1000
static const struct rule_clause clauses_set_one_id[] = {
	ALLOW(INIT),
	ALLOW(TENANT, IS(0, TENANT_ID)),
};
LIST(set_one_id, EPERM);

static const struct rule_clause clauses_set_two_ids[] = {
	ALLOW(INIT),
	ALLOW(TENANT, IS(0, TENANT_ID), IS(1, TENANT_ID)),
	ALLOW(TENANT, IS(0, -1), IS(1, TENANT_ID)),
};
LIST(set_two_ids, EPERM);

static const struct rule_clause clauses_set_three_ids[] = {
	ALLOW(INIT),
	ALLOW(TENANT, IS(0, TENANT_ID), IS(1, TENANT_ID), IS(2, TENANT_ID)),
	ALLOW(TENANT, IS(0, -1), IS(1, TENANT_ID), IS(2, -1)),
};
LIST(set_three_ids, EPERM);

/* ---- Sockets ---------------------------------------------------------------------------------- */

/* Local, TCP, UDP, and the netlink family that lists interfaces. Every other family and protocol is
 * code that nobody in a sandbox needs and that keeps having holes. */
#define TYPE_IS(type) MASKED(1, ~(uint32_t)(SOCK_CLOEXEC | SOCK_NONBLOCK), (type))
static const struct rule_clause clauses_socket[] = {
	ALLOW(SANDBOX, IS(0, AF_UNIX)),
	ALLOW(SANDBOX, IS(0, AF_INET), TYPE_IS(SOCK_STREAM), IS(2, 0)),
	ALLOW(SANDBOX, IS(0, AF_INET), TYPE_IS(SOCK_STREAM), IS(2, IPPROTO_TCP)),
	ALLOW(SANDBOX, IS(0, AF_INET), TYPE_IS(SOCK_DGRAM), IS(2, 0)),
	ALLOW(SANDBOX, IS(0, AF_INET), TYPE_IS(SOCK_DGRAM), IS(2, IPPROTO_UDP)),
	ALLOW(SANDBOX, IS(0, AF_INET6), TYPE_IS(SOCK_STREAM), IS(2, 0)),
	ALLOW(SANDBOX, IS(0, AF_INET6), TYPE_IS(SOCK_STREAM), IS(2, IPPROTO_TCP)),
	ALLOW(SANDBOX, IS(0, AF_INET6), TYPE_IS(SOCK_DGRAM), IS(2, 0)),
	ALLOW(SANDBOX, IS(0, AF_INET6), TYPE_IS(SOCK_DGRAM), IS(2, IPPROTO_UDP)),
	ALLOW(SANDBOX, IS(0, AF_NETLINK), TYPE_IS(SOCK_RAW), IS(2, NETLINK_ROUTE)),
	ALLOW(SANDBOX, IS(0, AF_NETLINK), TYPE_IS(SOCK_DGRAM), IS(2, NETLINK_ROUTE)),
	REFUSE(SANDBOX, EPERM, IS(0, AF_INET), TYPE_IS(SOCK_RAW)),
	REFUSE(SANDBOX, EPERM, IS(0, AF_INET6), TYPE_IS(SOCK_RAW)),
	REFUSE(SANDBOX, EPROTONOSUPPORT, IS(0, AF_INET)),
	REFUSE(SANDBOX, EPROTONOSUPPORT, IS(0, AF_INET6)),
	REFUSE(SANDBOX, EPROTONOSUPPORT, IS(0, AF_NETLINK)),
};
LIST(socket, EAFNOSUPPORT);

static const struct rule_clause clauses_socketpair[] = {
	ALLOW(ALL, IS(0, AF_UNIX)),
};
LIST(socketpair, EAFNOSUPPORT);

/* Levels by allow-list, and in them the options that load code, attach programs, tag or redirect
 * traffic, or belong to packet filters (64 and above at the IP levels). */
#define OPTION(level, name) IS(1, (level)), IS(2, (name))
static const struct rule_clause clauses_setsockopt[] = {
	REFUSE(ALL, EPERM, OPTION(SOL_SOCKET, SO_ATTACH_FILTER)),
	REFUSE(ALL, EPERM, OPTION(SOL_SOCKET, SO_ATTACH_BPF)),
	REFUSE(ALL, EPERM, OPTION(SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF)),
	REFUSE(ALL, EPERM, OPTION(SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF)),
	REFUSE(ALL, EPERM, OPTION(SOL_SOCKET, SO_MARK)),
	REFUSE(ALL, EPERM, OPTION(SOL_SOCKET, SO_BINDTODEVICE)),
	REFUSE(ALL, EPERM, OPTION(SOL_SOCKET, 62)),          /* SO_BINDTOIFINDEX */
	REFUSE(ALL, ENOPROTOOPT, OPTION(SOL_SOCKET, SO_ZEROCOPY)),
	ALLOW(ALL, IS(1, SOL_SOCKET)),
	REFUSE(ALL, ENOPROTOOPT, OPTION(IPPROTO_TCP, 31)),   /* TCP_ULP: tls, espintcp, smc */
	REFUSE(ALL, EPERM, OPTION(IPPROTO_TCP, 19)),         /* TCP_REPAIR */
	REFUSE(ALL, ENOPROTOOPT, OPTION(IPPROTO_TCP, 14)),   /* TCP_MD5SIG */
	REFUSE(ALL, ENOPROTOOPT, OPTION(IPPROTO_TCP, 32)),   /* TCP_MD5SIG_EXT */
	REFUSE(ALL, ENOPROTOOPT, IS(1, IPPROTO_TCP), AT_LEAST(2, 38)), /* TCP_AO_... and later ones */
	ALLOW(ALL, IS(1, IPPROTO_TCP)),
	REFUSE(SANDBOX, ENOPROTOOPT, OPTION(IPPROTO_UDP, 100)), /* UDP_ENCAP */
	ALLOW(SANDBOX, IS(1, IPPROTO_UDP)),
	REFUSE(SANDBOX, EPERM, IS(1, IPPROTO_IP), AT_LEAST(2, 64)),
	REFUSE(SANDBOX, EPERM, OPTION(IPPROTO_IP, 16)),      /* IP_IPSEC_POLICY */
	REFUSE(SANDBOX, EPERM, OPTION(IPPROTO_IP, 17)),      /* IP_XFRM_POLICY */
	REFUSE(SANDBOX, EPERM, OPTION(IPPROTO_IP, 19)),      /* IP_TRANSPARENT */
	ALLOW(SANDBOX, OPTION(IPPROTO_IP, 42)),              /* MCAST_JOIN_GROUP */
	ALLOW(SANDBOX, OPTION(IPPROTO_IP, 45)),              /* MCAST_LEAVE_GROUP */
	ALLOW(SANDBOX, OPTION(IPPROTO_IP, 49)),              /* IP_MULTICAST_ALL */
	ALLOW(SANDBOX, OPTION(IPPROTO_IP, 50)),              /* IP_UNICAST_IF */
	ALLOW(SANDBOX, OPTION(IPPROTO_IP, 51)),              /* IP_LOCAL_PORT_RANGE */
	REFUSE(SANDBOX, ENOPROTOOPT, IS(1, IPPROTO_IP), AT_LEAST(2, 37)), /* source filters */
	ALLOW(SANDBOX, IS(1, IPPROTO_IP)),
	ALLOW(SANDBOX, IS(1, IPPROTO_IPV6), MASKED(2, 0xfffffff0, 16)), /* 16 to 31, not ADDRFORM, 2292... */
	ALLOW(SANDBOX, OPTION(IPPROTO_IPV6, 33)),            /* IPV6_FLOWINFO_SEND */
	ALLOW(SANDBOX, OPTION(IPPROTO_IPV6, 42)),            /* MCAST_JOIN_GROUP */
	ALLOW(SANDBOX, OPTION(IPPROTO_IPV6, 45)),            /* MCAST_LEAVE_GROUP */
	ALLOW(SANDBOX, OPTION(IPPROTO_IPV6, 49)),            /* IPV6_RECVPKTINFO; 48 is a source filter */
	ALLOW(SANDBOX, IS(1, IPPROTO_IPV6), MASKED(2, 0xfffffffe, 50)), /* PKTINFO, RECVHOPLIMIT */
	ALLOW(SANDBOX, OPTION(IPPROTO_IPV6, 52)),            /* IPV6_HOPLIMIT; then extension headers */
	ALLOW(SANDBOX, IS(1, IPPROTO_IPV6), MASKED(2, 0xfffffffc, 60)), /* RECVPATHMTU to DONTFRAG */
	REFUSE(SANDBOX, EPERM, OPTION(IPPROTO_IPV6, 75)),    /* IPV6_TRANSPARENT */
	REFUSE(SANDBOX, ENOPROTOOPT, IS(1, IPPROTO_IPV6), AT_LEAST(2, 80)),
	ALLOW(SANDBOX, IS(1, IPPROTO_IPV6), AT_LEAST(2, 66)), /* RECVTCLASS to FREEBIND */
	ALLOW(SANDBOX, IS(1, SOL_NETLINK)),
};
LIST(setsockopt, ENOPROTOOPT);

static const struct rule_clause clauses_getsockopt[] = {
	ALLOW(ALL, IS(1, SOL_SOCKET)),
	REFUSE(ALL, ENOPROTOOPT, OPTION(IPPROTO_TCP, 35)),   /* TCP_ZEROCOPY_RECEIVE: maps packets */
	ALLOW(ALL, IS(1, IPPROTO_TCP)),
	ALLOW(SANDBOX, IS(1, IPPROTO_UDP)),
	REFUSE(SANDBOX, EPERM, IS(1, IPPROTO_IP), AT_LEAST(2, 64)),
	ALLOW(SANDBOX, IS(1, IPPROTO_IP)),
	ALLOW(SANDBOX, IS(1, IPPROTO_IPV6)),
	ALLOW(SANDBOX, IS(1, SOL_NETLINK)),
};
LIST(getsockopt, ENOPROTOOPT);
