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

#define TENANT RULE_TENANT
#define GATEWAY RULE_GATEWAY
#define DAEMON (RULE_DAEMON | RULE_GATEWAY) /* ours, both */
#define BOTH (TENANT | DAEMON)

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
 * pipe sizes are a budget of the host (ours are chosen by airlockd and the gateway). Locks stay: inodes
 * are not shared. */
#define F_SETDELEG_ 1040 /* include/uapi/linux/fcntl.h, 6.19 */
static const struct rule_clause clauses_fcntl[] = {
	REFUSE(BOTH, EPERM, IS(1, F_SETLEASE)),
	REFUSE(BOTH, EPERM, IS(1, F_NOTIFY)),
	REFUSE(TENANT, EPERM, IS(1, F_SETPIPE_SZ)),
	REFUSE(BOTH, EPERM, IS(1, F_SETDELEG_)),
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
	ALLOW(TENANT, IS(1, TCGETS)),
	ALLOW(TENANT, IS(1, FIOCLEX)),
	REFUSE(TENANT, EPERM, IS(1, TIOCSTI)),        /* types into the terminal */
	REFUSE(TENANT, EPERM, IS(1, TIOCLINUX)),
	REFUSE(TENANT, EPERM, IS(1, TIOCSETD)),       /* loads line disciplines */
	REFUSE(TENANT, EPERM, IS(1, TIOCCONS)),
	REFUSE(TENANT, EPERM, IS(1, TIOCVHANGUP)),
	ALLOW(TENANT, IS(1, FICLONE)),
	ALLOW(TENANT, IS(1, FICLONERANGE)),
	ALLOW(TENANT, IS(1, FIDEDUPERANGE)),
	REFUSE(TENANT, EPERM, IOC_TYPE(0x94)),        /* btrfs */
	ALLOW(TENANT, IS(1, FS_IOC_FSGETXATTR)),
	REFUSE(TENANT, EPERM, IOC_TYPE('X')),         /* project ids, freeze, thaw, trim, shutdown */
	ALLOW(TENANT, IS(1, FS_IOC_GETFLAGS)),
	REFUSE(TENANT, EOPNOTSUPP, IS(1, FS_IOC_FIEMAP)), /* walks shared extents without a bound */
	REFUSE(TENANT, EPERM, IOC_TYPE('f')),         /* inode flags, encryption, verity, ext4, move extents */
	REFUSE(TENANT, EPERM, IS(1, FS_IOC_SETVERSION)),
	REFUSE(TENANT, EPERM, IOC_TYPE(0x15)),        /* file system's uuid and sysfs path */
	REFUSE(TENANT, EPERM, IS(1, FIBMAP)),
	REFUSE(TENANT, EPERM, IOC_TYPE(0xb7)),        /* NS_GET_...: opens namespaces */
	REFUSE(TENANT, ENOTTY, IOC_TYPE(0xff)),       /* the same through a pidfd; as on 6.1 */
	REFUSE(TENANT, EPERM, IOC_TYPE(0xaa)),        /* userfaultfd */
	REFUSE(TENANT, EPERM, IOC_TYPE(0x12)),        /* block devices */
	/* These load modules into the kernel before anybody's rights are looked at. */
	REFUSE(TENANT, EPERM, MASKED(1, 0xfffffffe, 0x8940)), /* bridges */
	REFUSE(TENANT, EPERM, MASKED(1, 0xffffffc0, 0x8980)), /* VLANs, bonds, bridges, time stamps */
};
LIST(ioctl, 0);

/* Device nodes and overlay whiteouts (character device 0:0) need no capability everywhere. */
static const struct rule_clause clauses_mknod[] = {
	ALLOW(BOTH, MASKED(1, S_IFMT, 0)),
	ALLOW(BOTH, MASKED(1, S_IFMT, S_IFREG)),
	ALLOW(BOTH, MASKED(1, S_IFMT, S_IFIFO)),
	ALLOW(BOTH, MASKED(1, S_IFMT, S_IFSOCK)),
};
LIST(mknod, EPERM);

static const struct rule_clause clauses_mknodat[] = {
	ALLOW(BOTH, MASKED(2, S_IFMT, 0)),
	ALLOW(BOTH, MASKED(2, S_IFMT, S_IFREG)),
	ALLOW(BOTH, MASKED(2, S_IFMT, S_IFIFO)),
	ALLOW(BOTH, MASKED(2, S_IFMT, S_IFSOCK)),
};
LIST(mknodat, EPERM);

/* ---- Memory ----------------------------------------------------------------------------------- */

/* Huge pages come from a pool of the whole host that no memory limit covers; the answer is the one of
 * an empty pool. airlockd never makes memory executable after its start. */
static const struct rule_clause clauses_mmap[] = {
	REFUSE(TENANT, ENOMEM, ANY(3, MAP_HUGETLB)),
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
	REFUSE(BOTH, EINVAL, IS(2, MADV_MERGEABLE)),
	REFUSE(BOTH, EPERM, IS(2, MADV_HWPOISON_)),
	REFUSE(BOTH, EPERM, IS(2, MADV_SOFT_OFFLINE_)),
};
LIST(madvise, 0);

static const struct rule_clause clauses_memfd_create[] = {
	REFUSE(BOTH, EINVAL, ANY(1, MFD_HUGETLB)),
};
LIST(memfd_create, 0);

static const struct rule_clause clauses_shmget[] = {
	REFUSE(BOTH, EPERM, ANY(2, SHM_HUGETLB)),
};
LIST(shmget, 0);

/* ---- Processes -------------------------------------------------------------------------------- */

/* No new namespace: a user namespace gives capabilities in it, and with them most of the kernel's young
 * code. CLONE_NEWTIME lies in the exit signal's byte here and has no effect. airlockd makes threads. */
#define CLONE_NEW_ANY                                                                               \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
	 CLONE_NEWNET)
static const struct rule_clause clauses_clone[] = {
	REFUSE(BOTH, EPERM, ANY(0, CLONE_NEW_ANY)),
	REFUSE(DAEMON, EPERM, MASKED(0, CLONE_THREAD, 0)),
};
LIST(clone, 0);

/* Values that change names or sizes that programs see, and 0xffffffff, which asks. READ_IMPLIES_EXEC
 * and ADDR_NO_RANDOMIZE take protections away. */
static const struct rule_clause clauses_personality[] = {
	ALLOW(TENANT, IS(0, PER_LINUX)),
	ALLOW(TENANT, IS(0, PER_LINUX32)),
	ALLOW(TENANT, IS(0, UNAME26)),
	ALLOW(TENANT, IS(0, PER_LINUX32 | UNAME26)),
	ALLOW(TENANT, IS(0, 0xffffffff)),
};
LIST(personality, EPERM);

/* An unknown option is EINVAL, as from an older kernel. */
#define PR_SET_MEMORY_MERGE_ 67 /* 6.4 */
#define PR_GET_MEMORY_MERGE_ 68
#define PR_SET_MDWE_ 65 /* 6.3 */
#define PR_GET_MDWE_ 66
#define PR_GET_AUXV_ 0x41555856 /* 6.4 */
static const struct rule_clause clauses_prctl[] = {
	ALLOW(BOTH, IS(0, PR_SET_NAME)),
	ALLOW(BOTH, IS(0, PR_GET_NAME)),
	ALLOW(BOTH, IS(0, PR_SET_VMA)),
	ALLOW(BOTH, IS(0, PR_SET_NO_NEW_PRIVS)),
	ALLOW(BOTH, IS(0, PR_GET_NO_NEW_PRIVS)),
	ALLOW(BOTH | RULE_INIT, IS(0, PR_GET_SECCOMP)), /* after loading a filter */
	ALLOW(BOTH, IS(0, PR_SET_DUMPABLE)),
	ALLOW(BOTH, IS(0, PR_GET_DUMPABLE)),
	ALLOW(BOTH, IS(0, PR_CAPBSET_READ)),
	REFUSE(DAEMON, EPERM),
	ALLOW(TENANT, IS(0, PR_SET_PDEATHSIG)),
	ALLOW(TENANT, IS(0, PR_GET_PDEATHSIG)),
	ALLOW(TENANT, IS(0, PR_SET_CHILD_SUBREAPER)),
	ALLOW(TENANT, IS(0, PR_GET_CHILD_SUBREAPER)),
	ALLOW(TENANT, IS(0, PR_SET_SECCOMP)), /* only tightens; has no listener */
	ALLOW(TENANT, IS(0, PR_SET_TIMERSLACK)),
	ALLOW(TENANT, IS(0, PR_GET_TIMERSLACK)),
	ALLOW(TENANT, IS(0, PR_GET_TIMING)),
	ALLOW(TENANT, IS(0, PR_GET_TSC)),
	ALLOW(TENANT, IS(0, PR_GET_TID_ADDRESS)),
	ALLOW(TENANT, IS(0, PR_GET_KEEPCAPS)),
	ALLOW(TENANT, IS(0, PR_GET_SECUREBITS)),
	ALLOW(TENANT, IS(0, PR_MCE_KILL_GET)),
	ALLOW(TENANT, IS(0, PR_SET_THP_DISABLE)),
	ALLOW(TENANT, IS(0, PR_GET_THP_DISABLE)),
	ALLOW(TENANT, IS(0, PR_SET_PTRACER)),
	ALLOW(TENANT, IS(0, PR_SET_MDWE_)),
	ALLOW(TENANT, IS(0, PR_GET_MDWE_)),
	ALLOW(TENANT, IS(0, PR_GET_MEMORY_MERGE_)),
	ALLOW(TENANT, IS(0, PR_GET_AUXV_)),
	ALLOW(TENANT, IS(0, PR_SVE_SET_VL)), /* aarch64 */
	ALLOW(TENANT, IS(0, PR_SVE_GET_VL)),
	ALLOW(TENANT, IS(0, PR_PAC_RESET_KEYS)),
	ALLOW(TENANT, IS(0, PR_SET_TAGGED_ADDR_CTRL)),
	ALLOW(TENANT, IS(0, PR_GET_TAGGED_ADDR_CTRL)),
	/* Mitigations against speculation may be asked for, not given up. */
	ALLOW(TENANT, IS(0, PR_GET_SPECULATION_CTRL)),
	ALLOW(TENANT, IS(0, PR_SET_SPECULATION_CTRL), IS(2, PR_SPEC_DISABLE)),
	ALLOW(TENANT, IS(0, PR_SET_SPECULATION_CTRL), IS(2, PR_SPEC_FORCE_DISABLE)),
	/* A tenant has no capabilities to give up. */
	ALLOW(TENANT, IS(0, PR_CAP_AMBIENT), IS(1, PR_CAP_AMBIENT_IS_SET)),
	ALLOW(TENANT, IS(0, PR_CAP_AMBIENT), IS(1, PR_CAP_AMBIENT_CLEAR_ALL)),
	REFUSE(TENANT, EPERM, IS(0, PR_CAP_AMBIENT)),
	REFUSE(TENANT, EPERM, IS(0, PR_CAPBSET_DROP)),
	REFUSE(TENANT, EPERM, IS(0, PR_SET_SECUREBITS)),
	REFUSE(TENANT, EPERM, IS(0, PR_SET_KEEPCAPS)),
	REFUSE(TENANT, EPERM, IS(0, PR_SET_SPECULATION_CTRL)),
	REFUSE(TENANT, EPERM, IS(0, PR_SET_MM)),
	REFUSE(TENANT, EPERM, IS(0, PR_SET_MEMORY_MERGE_)),
};
LIST(prctl, EINVAL);

/* x86-64 alone: segment bases, shadow stacks, wide vector state. */
static const struct rule_clause clauses_arch_prctl[] = {
	ALLOW(BOTH, MASKED(0, 0xfffffff8, 0x1000)), /* ARCH_SET_GS, SET_FS, GET_FS, GET_GS */
	ALLOW(BOTH, IS(0, 0x1011)),                 /* ARCH_GET_CPUID */
	ALLOW(BOTH, MASKED(0, 0xfffffffc, 0x1020)), /* ARCH_GET_XCOMP_SUPP, GET_PERM, REQ_PERM */
	ALLOW(BOTH, IS(0, 0x3001)),                 /* asked by every start of a glibc program */
	ALLOW(BOTH, IS(0, 0x4001)),                 /* ARCH_GET_UNTAG_MASK */
	ALLOW(BOTH, MASKED(0, 0xfffffff8, 0x5000)), /* ARCH_SHSTK_... */
};
LIST(arch_prctl, EINVAL);

/* Own filters only tighten. A listener would let a tenant judge its own calls in user space. */
static const struct rule_clause clauses_seccomp[] = {
	REFUSE(TENANT, EPERM, ANY(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)),
};
LIST(seccomp, 0);

/* ---- Identity --------------------------------------------------------------------------------- */

/* Many programs "drop" to the user they are; that user is 1000 in every sandbox. */
#define TENANT_ID 1000
static const struct rule_clause clauses_set_one_id[] = {
	ALLOW(TENANT, IS(0, TENANT_ID)),
};
LIST(set_one_id, EPERM);

static const struct rule_clause clauses_set_two_ids[] = {
	ALLOW(TENANT, IS(0, TENANT_ID), IS(1, TENANT_ID)),
	ALLOW(TENANT, IS(0, -1), IS(1, TENANT_ID)),
};
LIST(set_two_ids, EPERM);

static const struct rule_clause clauses_set_three_ids[] = {
	ALLOW(TENANT, IS(0, TENANT_ID), IS(1, TENANT_ID), IS(2, TENANT_ID)),
	ALLOW(TENANT, IS(0, -1), IS(1, TENANT_ID), IS(2, -1)),
};
LIST(set_three_ids, EPERM);

/* ---- Sockets ---------------------------------------------------------------------------------- */

/* Local, TCP, UDP, and the netlink family that lists interfaces. Every other family and protocol is
 * code that nobody in a sandbox needs and that keeps having holes. */
#define TYPE_IS(type) MASKED(1, ~(uint32_t)(SOCK_CLOEXEC | SOCK_NONBLOCK), (type))
static const struct rule_clause clauses_socket[] = {
	ALLOW(TENANT, IS(0, AF_UNIX)),
	ALLOW(TENANT, IS(0, AF_INET), TYPE_IS(SOCK_STREAM), IS(2, 0)),
	ALLOW(TENANT, IS(0, AF_INET), TYPE_IS(SOCK_STREAM), IS(2, IPPROTO_TCP)),
	ALLOW(TENANT, IS(0, AF_INET), TYPE_IS(SOCK_DGRAM), IS(2, 0)),
	ALLOW(TENANT, IS(0, AF_INET), TYPE_IS(SOCK_DGRAM), IS(2, IPPROTO_UDP)),
	ALLOW(TENANT, IS(0, AF_INET6), TYPE_IS(SOCK_STREAM), IS(2, 0)),
	ALLOW(TENANT, IS(0, AF_INET6), TYPE_IS(SOCK_STREAM), IS(2, IPPROTO_TCP)),
	ALLOW(TENANT, IS(0, AF_INET6), TYPE_IS(SOCK_DGRAM), IS(2, 0)),
	ALLOW(TENANT, IS(0, AF_INET6), TYPE_IS(SOCK_DGRAM), IS(2, IPPROTO_UDP)),
	ALLOW(TENANT, IS(0, AF_NETLINK), TYPE_IS(SOCK_RAW), IS(2, NETLINK_ROUTE)),
	ALLOW(TENANT, IS(0, AF_NETLINK), TYPE_IS(SOCK_DGRAM), IS(2, NETLINK_ROUTE)),
	ALLOW(GATEWAY, IS(0, AF_INET), TYPE_IS(SOCK_STREAM), IS(2, 0)),
	ALLOW(GATEWAY, IS(0, AF_INET), TYPE_IS(SOCK_DGRAM), IS(2, 0)),
	ALLOW(GATEWAY, IS(0, AF_INET6), TYPE_IS(SOCK_STREAM), IS(2, 0)),
	ALLOW(GATEWAY, IS(0, AF_INET6), TYPE_IS(SOCK_DGRAM), IS(2, 0)),
	REFUSE(TENANT, EPERM, IS(0, AF_INET), TYPE_IS(SOCK_RAW)),
	REFUSE(TENANT, EPERM, IS(0, AF_INET6), TYPE_IS(SOCK_RAW)),
	REFUSE(TENANT, EPROTONOSUPPORT, IS(0, AF_INET)),
	REFUSE(TENANT, EPROTONOSUPPORT, IS(0, AF_INET6)),
	REFUSE(TENANT, EPROTONOSUPPORT, IS(0, AF_NETLINK)),
};
LIST(socket, EAFNOSUPPORT);

static const struct rule_clause clauses_socketpair[] = {
	ALLOW(BOTH, IS(0, AF_UNIX)),
};
LIST(socketpair, EAFNOSUPPORT);

/* Urgent data is refused as by a kernel that is built without it: on local sockets it was a way into the
 * kernel (CVE-2025-38236), and nobody outside can send any. */
static const struct rule_clause clauses_flags_third[] = {
	REFUSE(TENANT, EOPNOTSUPP, ANY(2, MSG_OOB)),
};
LIST(flags_third, 0);

static const struct rule_clause clauses_flags_fourth[] = {
	REFUSE(TENANT, EOPNOTSUPP, ANY(3, MSG_OOB)),
};
LIST(flags_fourth, 0);

/* Levels by allow-list, and in them the options that load code, attach programs, tag or redirect
 * traffic, or belong to packet filters (64 and above at the IP levels). */
#define OPTION(level, name) IS(1, (level)), IS(2, (name))
static const struct rule_clause clauses_setsockopt[] = {
	REFUSE(BOTH, EPERM, OPTION(SOL_SOCKET, SO_ATTACH_FILTER)),
	REFUSE(BOTH, EPERM, OPTION(SOL_SOCKET, SO_ATTACH_BPF)),
	REFUSE(BOTH, EPERM, OPTION(SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF)),
	REFUSE(BOTH, EPERM, OPTION(SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF)),
	REFUSE(BOTH, EPERM, OPTION(SOL_SOCKET, SO_MARK)),
	REFUSE(BOTH, EPERM, OPTION(SOL_SOCKET, SO_BINDTODEVICE)),
	REFUSE(BOTH, EPERM, OPTION(SOL_SOCKET, 62)),          /* SO_BINDTOIFINDEX */
	REFUSE(BOTH, ENOPROTOOPT, OPTION(SOL_SOCKET, SO_ZEROCOPY)),
	ALLOW(BOTH, IS(1, SOL_SOCKET)),
	REFUSE(BOTH, ENOPROTOOPT, OPTION(IPPROTO_TCP, 31)),   /* TCP_ULP: tls, espintcp, smc */
	REFUSE(BOTH, EPERM, OPTION(IPPROTO_TCP, 19)),         /* TCP_REPAIR */
	REFUSE(BOTH, ENOPROTOOPT, OPTION(IPPROTO_TCP, 14)),   /* TCP_MD5SIG */
	REFUSE(BOTH, ENOPROTOOPT, OPTION(IPPROTO_TCP, 32)),   /* TCP_MD5SIG_EXT */
	REFUSE(BOTH, ENOPROTOOPT, IS(1, IPPROTO_TCP), AT_LEAST(2, 38)), /* TCP_AO_... and later ones */
	ALLOW(BOTH, IS(1, IPPROTO_TCP)),
	REFUSE(TENANT, ENOPROTOOPT, OPTION(IPPROTO_UDP, 100)), /* UDP_ENCAP */
	ALLOW(TENANT, IS(1, IPPROTO_UDP)),
	REFUSE(TENANT, EPERM, IS(1, IPPROTO_IP), AT_LEAST(2, 64)),
	REFUSE(TENANT, EPERM, OPTION(IPPROTO_IP, 16)),      /* IP_IPSEC_POLICY */
	REFUSE(TENANT, EPERM, OPTION(IPPROTO_IP, 17)),      /* IP_XFRM_POLICY */
	REFUSE(TENANT, EPERM, OPTION(IPPROTO_IP, 19)),      /* IP_TRANSPARENT */
	ALLOW(TENANT, OPTION(IPPROTO_IP, 42)),              /* MCAST_JOIN_GROUP */
	ALLOW(TENANT, OPTION(IPPROTO_IP, 45)),              /* MCAST_LEAVE_GROUP */
	ALLOW(TENANT, OPTION(IPPROTO_IP, 49)),              /* IP_MULTICAST_ALL */
	ALLOW(TENANT, OPTION(IPPROTO_IP, 50)),              /* IP_UNICAST_IF */
	ALLOW(TENANT, OPTION(IPPROTO_IP, 51)),              /* IP_LOCAL_PORT_RANGE */
	REFUSE(TENANT, ENOPROTOOPT, IS(1, IPPROTO_IP), AT_LEAST(2, 37)), /* source filters */
	ALLOW(TENANT, IS(1, IPPROTO_IP)),
	ALLOW(TENANT, IS(1, IPPROTO_IPV6), MASKED(2, 0xfffffff0, 16)), /* 16 to 31, not ADDRFORM, 2292... */
	ALLOW(TENANT, OPTION(IPPROTO_IPV6, 33)),            /* IPV6_FLOWINFO_SEND */
	ALLOW(TENANT, OPTION(IPPROTO_IPV6, 42)),            /* MCAST_JOIN_GROUP */
	ALLOW(TENANT, OPTION(IPPROTO_IPV6, 45)),            /* MCAST_LEAVE_GROUP */
	ALLOW(TENANT, OPTION(IPPROTO_IPV6, 49)),            /* IPV6_RECVPKTINFO; 48 is a source filter */
	ALLOW(TENANT, IS(1, IPPROTO_IPV6), MASKED(2, 0xfffffffe, 50)), /* PKTINFO, RECVHOPLIMIT */
	ALLOW(TENANT, OPTION(IPPROTO_IPV6, 52)),            /* IPV6_HOPLIMIT; then extension headers */
	ALLOW(TENANT, IS(1, IPPROTO_IPV6), MASKED(2, 0xfffffffc, 60)), /* RECVPATHMTU to DONTFRAG */
	REFUSE(TENANT, EPERM, OPTION(IPPROTO_IPV6, 75)),    /* IPV6_TRANSPARENT */
	REFUSE(TENANT, ENOPROTOOPT, IS(1, IPPROTO_IPV6), AT_LEAST(2, 80)),
	ALLOW(TENANT, IS(1, IPPROTO_IPV6), AT_LEAST(2, 66)), /* RECVTCLASS to FREEBIND */
	ALLOW(TENANT, IS(1, SOL_NETLINK)),
};
LIST(setsockopt, ENOPROTOOPT);

static const struct rule_clause clauses_getsockopt[] = {
	ALLOW(BOTH, IS(1, SOL_SOCKET)),
	REFUSE(BOTH, ENOPROTOOPT, OPTION(IPPROTO_TCP, 35)),   /* TCP_ZEROCOPY_RECEIVE: maps packets */
	ALLOW(BOTH, IS(1, IPPROTO_TCP)),
	ALLOW(TENANT, IS(1, IPPROTO_UDP)),
	REFUSE(TENANT, EPERM, IS(1, IPPROTO_IP), AT_LEAST(2, 64)),
	ALLOW(TENANT, IS(1, IPPROTO_IP)),
	ALLOW(TENANT, IS(1, IPPROTO_IPV6)),
	ALLOW(TENANT, IS(1, SOL_NETLINK)),
};
LIST(getsockopt, ENOPROTOOPT);
