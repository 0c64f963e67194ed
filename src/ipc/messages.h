// SPDX-License-Identifier: Apache-2.0
/*
 * messages: every message that our processes send each other, by pair and direction.
 *
 *   airlockd -> launcher   DL_   (launcher is the hand-over role and the supervisor)
 *   launcher -> airlockd   LD_
 *   launcher -> builder    LB_   builder  -> launcher  BL_
 *   launcher -> sweeper    LS_   sweeper  -> launcher  SL_
 *   launcher -> init       LI_   (one message, then the socket is closed)
 *   airlockd -> init       DI_   init     -> airlockd  ID_
 *   launcher -> gateway    LG_   gateway  -> launcher  GL_
 *   airlockd -> gateway    DG_   gateway  -> airlockd  GD_
 *
 * Bodies are fixed-size structs in host byte order; both ends are always the same build (the hello
 * says so). Numbers: tenants and volumes are named by airlockd, slots and generations by the
 * launcher. A sandbox is (slot, generation); a generation is never used twice while the launcher
 * lives. Sizes are bytes, times are as the field says.
 */
#pragma once

#include <stdint.h>

#include "ipc/wire.h"

/* "sbx_" + 12 hex of a workspace, "snp_" + 12 hex of a snapshot; NUL-padded and NUL-terminated */
#define MSG_VOLUME_NAME 24
#define MSG_IMAGE_NAME 64 /* NUL-padded and NUL-terminated */
#define MSG_BUILD_ID 41	  /* NUL-terminated */
#define MSG_TEXT 200	  /* one sentence for a log, NUL-terminated */

struct msg_sandbox {
	uint32_t slot;
	uint32_t generation;
};

struct msg_hello {
	char build[MSG_BUILD_ID];
};

/* The answer to any request: code 0 or an errno, text for the log. */
struct msg_done {
	uint32_t code;
	char text[MSG_TEXT];
};

/* ---- airlockd -> launcher -------------------------------------------------------------------- */
enum dl_type {
	DL_HELLO = 1, /* struct msg_hello; first */
	DL_BUILD = 2, /* struct dl_build; answered by LD_SANDBOX or LD_BUILD_FAILED with the id */
	DL_HANDOVER = 3, /* struct dl_handover; no answer but LD_HANDOVER_FAILED */
	DL_KILL = 4,	 /* struct msg_sandbox; LD_GONE follows, also when it was gone already */
	DL_VOLUME_CREATE = 5, /* struct dl_volume_create; LD_DONE */
	DL_VOLUME_DELETE = 6, /* struct dl_volume, a snapshot's too; LD_DONE when the name is gone,
				 space is freed behind */
	DL_VOLUME_STAT = 7,   /* struct dl_volume, a workspace; LD_VOLUME_STAT */
	DL_STATUS = 8,	      /* empty; LD_STATUS, or LD_DONE when nobody can say now */
	DL_SNAPSHOT_CREATE = 10, /* struct dl_snapshot_create; LD_DONE. A copy-on-write copy of the
				    volume as it is at that instant, writable until it is sealed */
	DL_SNAPSHOT_SEAL = 11, /* struct dl_volume; LD_DONE: nothing can be written to it any more.
				  One that a start finds unsealed is deleted */
	DL_POLICY = 9,	       /* struct dl_policy: what came of the last LD_POLICY */
	DL_VOLUME_LIMIT = 12,  /* struct dl_volume_limit; LD_DONE */
};

struct dl_build {
	uint32_t tenant;
	uint32_t egress; /* 0 or 1; 1 needs a server with a gateway */
	char image[MSG_IMAGE_NAME];
};

struct dl_handover {
	struct msg_sandbox sandbox;
	char volume[MSG_VOLUME_NAME]; /* also an unsealed snapshot, for file sandboxes */
	/* "": none. Else a snapshot or volume of the same tenant that is attached as well,
	 * read-only, at LAYOUT_SOURCE; for file sandboxes. */
	char source[MSG_VOLUME_NAME];
};

/* With plain directories nothing can be cloned: a create with a source and DL_SNAPSHOT_CREATE are
 * EOPNOTSUPP. Then the volume, or the snapshot, is made empty by DL_VOLUME_CREATE without a source
 * and filled by a file sandbox (FILE_MERGE). EACCES: the source is another tenant's. */
struct dl_volume_create {
	uint32_t tenant;
	/* Hard quota of all that the tenant's volumes, also those that are gone, have written and
	 * that is still on disk; 0 = as before. Only simple quotas have it, and with them it is
	 * what bounds a chain of copies. */
	uint32_t tenant_limit_mb;
	uint64_t limit_bytes; /* hard quota; 0 = none */
	char volume[MSG_VOLUME_NAME];
	/* "": empty. Else a sealed snapshot or a volume of the same tenant that it begins as a copy
	 * of. */
	char source[MSG_VOLUME_NAME];
};

/* A new hard quota. With simple quotas a volume goes on being charged for what it wrote and a
 * snapshot holds, so its limit has to rise by a snapshot's size, and to fall when that is gone. */
struct dl_volume_limit {
	uint64_t limit_bytes;
	char volume[MSG_VOLUME_NAME];
};

struct dl_snapshot_create {
	uint32_t tenant;
	uint32_t reserved;
	char volume[MSG_VOLUME_NAME];
	char snapshot[MSG_VOLUME_NAME];
};

struct dl_volume {
	char volume[MSG_VOLUME_NAME];
};

/* Files of the operator that SIGHUP has read anew. */
enum policy_file { POLICY_EGRESS, POLICY_LIMITS, POLICIES };

struct dl_policy {
	uint32_t code; /* 0: taken; else an errno: what was in the file before holds */
	uint32_t which;
};

/* ---- launcher -> airlockd -------------------------------------------------------------------- */
enum ld_type {
	LD_HELLO = 1, /* struct ld_hello; first. Then LD_SLOT and LD_SANDBOX for all that is alive,
			 then LD_READY */
	LD_SLOT = 2, /* struct ld_slot + LD_SLOT_FDS descriptors, before the first sandbox of a slot
			and again whenever the slot's cgroup was made anew */
	LD_SANDBOX = 3,		/* struct ld_sandbox + the control socket */
	LD_BUILD_FAILED = 4,	/* struct msg_done */
	LD_GONE = 5,		/* struct msg_sandbox: no process of it lives */
	LD_HANDOVER_FAILED = 6, /* struct ld_handover_failed; the sandbox is being killed */
	LD_DONE = 7,		/* struct msg_done */
	LD_READY = 8,		/* struct ld_ready + memfd with n struct ld_volume, sealed (shrink,
				   grow, write, seal): the list is complete */
	LD_VOLUME_STAT = 9,	/* struct ld_volume_stat */
	LD_POLICY = 10,	 /* struct ld_policy [+ the policy file, open for reading, when code is 0];
			    after SIGHUP, and after LD_READY when an earlier one was taken;
			    answered by DL_POLICY */
	LD_STATUS = 11,	 /* struct ld_status */
	LD_GATEWAY = 12, /* empty + a new socket to the gateway, after LD_READY and whenever the
			    gateway was started anew; the one of before is of no use any more */
};

/* Descriptors of LD_SLOT, to be read with pread from offset 0. O_RDONLY, but for the peak of cgroup
 * v2 where the kernel resets it through the same open file (6.12). */
enum ld_slot_fd {
	SLOT_FD_OOM =
		0, /* v1 memory.oom_control, v2 memory.events: line "oom_kill <n>", cumulative */
	SLOT_FD_PEAK = 1, /* v1 memory.max_usage_in_bytes, v2 memory.peak: bytes */
	SLOT_FD_CPU =
		2, /* v1 cpuacct.usage (nanoseconds), v2 cpu.stat ("usage_usec <n>"): cumulative */
	SLOT_FD_PIDS = 3, /* pids.events: line "max <n>", cumulative */
	LD_SLOT_FDS = 4,
};

struct ld_hello {
	char build[MSG_BUILD_ID];
	uint8_t cgroup_version; /* 1 or 2 */
	uint8_t volumes;	/* enum msg_volumes */
	uint8_t quota;		/* enum msg_quota */
	uint8_t gateway;	/* 1: there is one */
	uint8_t all_ports;	/* 1: connections to every port are caught and leave an event */
	uint8_t reserved[2];
	uint32_t server;   /* n of /run/airlock/<n> */
	uint32_t layers;   /* bits of ipc/posture.h that this host offers */
	uint32_t required; /* bits that multi-tenant mode requires */
	uint32_t at_once;  /* sandboxes at their limits that the host has memory and pids for */
};

enum msg_volumes { MSG_VOLUMES_PLAIN = 0, MSG_VOLUMES_BTRFS = 1 };
enum msg_quota { MSG_QUOTA_NONE = 0, MSG_QUOTA_FULL = 1, MSG_QUOTA_SIMPLE = 2 };

struct ld_slot {
	uint32_t slot;
	uint32_t cgroup_version;
};

struct ld_sandbox {
	struct msg_sandbox sandbox;
	uint32_t tenant;
	uint32_t egress;
	uint32_t posture; /* bits of ipc/posture.h, measured from outside when it was built */
	uint32_t used; /* 1: a hand-over was done already (seen only after a restart of airlockd) */
	char image[MSG_IMAGE_NAME];
};

struct ld_handover_failed {
	struct msg_sandbox sandbox;
	uint32_t code;
};

struct ld_ready {
	uint32_t n;
	uint32_t reserved;
};

struct ld_volume {
	uint32_t tenant;
	uint32_t reserved;
	char volume[MSG_VOLUME_NAME];
};

struct ld_volume_stat {
	uint32_t code; /* 0 or errno */
	uint32_t reserved;
	uint64_t used_bytes;
	uint64_t limit_bytes;
};

struct ld_policy {
	uint32_t code;	/* errno of the opening */
	uint32_t which; /* enum policy_file */
};

struct ld_status {
	uint32_t slots_used;
	uint32_t slots_max;
	uint32_t building;
	uint32_t builder_restarts;
	uint32_t sweeper_restarts;
	uint32_t gateway_restarts;
	uint64_t volume_bytes; /* size of the file system that holds the workspaces */
	uint64_t volume_free;
	uint64_t volume_promised; /* sum of the hard quotas of all workspaces */
	uint32_t volume_frees;	  /* 1: deleted volumes are about to give their space back */
	uint32_t reserved;
};

/* ---- launcher <-> builder -------------------------------------------------------------------- */
enum lb_type {
	LB_BUILD = 1,  /* struct lb_build */
	LB_RETIRE = 2, /* struct lb_retire: the tenant is idle, forget its template and its slots */
};

struct lb_build {
	struct msg_sandbox sandbox;
	uint32_t tenant;
	uint32_t egress;
	char image[MSG_IMAGE_NAME];
};

struct lb_retire {
	uint32_t tenant;
};

enum bl_type {
	BL_SLOT = 1,   /* struct ld_slot + LD_SLOT_FDS; before BL_BUILT when new */
	BL_BUILT = 2,  /* struct bl_built + pidfd, airlockd's control socket, hand-over's socket,
			  user namespace */
	BL_FAILED = 3, /* struct bl_failed */
	BL_NET = 4,    /* struct msg_sandbox + NET_FDS sockets [+ link of the all-ports catch]:
			  before BL_BUILT of a sandbox with egress */
};

struct bl_built {
	struct msg_sandbox sandbox;
	uint32_t pid;
	uint32_t posture;
};

struct bl_failed {
	struct msg_sandbox sandbox;
	uint32_t code;
	char text[MSG_TEXT];
};

/* ---- launcher <-> sweeper -------------------------------------------------------------------- */

/* The id is the launcher's own; answers come in any order. */
enum ls_type {
	LS_VOLUME_CREATE = 1,	/* struct dl_volume_create */
	LS_VOLUME_DELETE = 2,	/* struct dl_volume */
	LS_VOLUME_STAT = 3,	/* struct dl_volume */
	LS_STATUS = 4,		/* empty */
	LS_SNAPSHOT_CREATE = 5, /* struct dl_snapshot_create */
	LS_SNAPSHOT_SEAL = 6,	/* struct dl_volume */
	LS_VOLUME_LIMIT = 7,	/* struct dl_volume_limit */
	LS_STOP = 8,		/* empty, not answered: no answer is held back any more */
};

enum sl_type {
	SL_DONE = 1,	    /* struct msg_done */
	SL_VOLUME_STAT = 2, /* struct ld_volume_stat */
	SL_STATUS = 3,	    /* struct ld_status, the volume fields only */
};

/* ---- launcher <-> gateway -------------------------------------------------------------------- */

/* Listening sockets inside the network namespace of a sandbox. They are made there by the
 * launcher's own code, as root of that namespace, before init is executed; copies are held by the
 * hand-over role so that a new gateway gets them back. Which one accepted tells who calls. */
enum net_fd {
	NET_PROXY = 0,	 /* TCP 127.0.0.1:3128 */
	NET_TLS = 1,	 /* TCP [::]:443, and every other port where the all-ports catch is on: the
			    local address and port of an accepted socket are what was dialled */
	NET_HTTP = 2,	 /* TCP [::]:80 */
	NET_DNS_TCP = 3, /* TCP [::]:53 */
	NET_DNS_UDP = 4, /* UDP [::]:53, with IPV6_RECVPKTINFO and IP_PKTINFO */
	NET_FDS = 5,
};

enum lg_type {
	LG_SANDBOX = 1, /* struct msg_sandbox + NET_FDS: all that live after GL_HELLO, then each as
			   it is built, before airlockd hears of it */
	LG_GONE = 2,	/* struct msg_sandbox: close everything that belongs to it */
	LG_DAEMON = 3,	/* empty + a new socket to airlockd; the one of before has ended */
};

enum gl_type {
	GL_HELLO = 1, /* struct msg_hello; first */
};

/* ---- airlockd <-> gateway -------------------------------------------------------------------- */

/* After every LD_GATEWAY: DG_HELLO, DG_SESSION for each session with egress, DG_BIND for each
 * sandbox in use, DG_READY. A session of before that was not named until DG_READY has ended. */
enum dg_type {
	DG_HELLO = 1,	    /* struct msg_hello; first */
	DG_SESSION = 2,	    /* struct dg_session + specification memfd */
	DG_SESSION_END = 3, /* struct dg_session: its tunnels are closed, its log file too */
	DG_BIND = 4,	    /* struct dg_bind: the sandbox is about to be used by that session. May
			       come before LG_SANDBOX; replaces an earlier one */
	DG_READY = 5,	    /* empty */
	DG_LIVE = 6,	    /* struct dg_session; GD_LIVE */
	DG_FETCH = 7,	    /* struct dg_fetch + specification memfd, file that is open for writing:
			       GET an URL into it from offset 0; GD_FETCHED with the id */
	DG_FETCH_END = 8,   /* empty; the id of a DG_FETCH, which may be over: no answer follows one
			       that is not */
};

struct dg_session {
	uint32_t session; /* number, chosen by airlockd, not 0, never used twice by it */
	uint32_t reserved;
};

struct dg_bind {
	struct msg_sandbox sandbox;
	uint32_t session;
	uint32_t reserved;
};

/* The specification memfd of DG_SESSION, sealed (shrink, grow, write, seal): this head, then
 * session id, tenant name and n_rules rules, each with its NUL. Rules are expanded and normalised
 * (egress/rule.h). */
#define EGRESS_SPEC_MAGIC 0x31475841u /* "AXG1" */
#define EGRESS_SPEC_RULES_MAX 512u
#define EGRESS_SPEC_MAX (160u * 1024u)

struct egress_spec {
	uint32_t magic;
	uint32_t n_rules;
	uint32_t session_len; /* without NUL */
	uint32_t tenant_len;  /* without NUL */
	uint32_t rules_len;   /* all rules with their NULs */
	uint32_t reserved;
};

struct dg_fetch {
	uint64_t max_bytes;
	uint32_t timeout_ms; /* of all of it */
	uint32_t reserved;
};

/* The specification memfd of DG_FETCH, sealed (shrink, grow, write, seal): this head, then the URL
 * and n_hosts hosts, each with its NUL. A host is a name in lower case or an address without
 * brackets. */
#define FETCH_SPEC_MAGIC 0x31465841u /* "AXF1" */
#define FETCH_SPEC_HOSTS_MAX 8u
#define FETCH_SPEC_URL_MAX 2048u
#define FETCH_SPEC_MAX (8u * 1024u)

struct fetch_spec {
	uint32_t magic;
	uint32_t n_hosts;
	uint32_t url_len;   /* without NUL */
	uint32_t hosts_len; /* all hosts with their NULs */
};

enum gd_type {
	GD_HELLO = 1,	/* struct msg_hello; first */
	GD_DENIED = 2,	/* struct gd_denied, sent before the tenant can see the refusal: whoever
			   reads this socket after the end of a command has every refusal of it */
	GD_LIVE = 3,	/* struct gd_live + memfd with n struct egress_live */
	GD_FETCHED = 4, /* struct gd_fetched: the file is not written to any more */
	GD_COUNTED = 5, /* struct gd_counted; when airlockd has connected, and at most once a second
			   while there is something new */
};

struct gd_denied {
	struct msg_sandbox sandbox;
	char host[256]; /* as in the event; NUL-terminated; the address where none is known */
};

#define GD_CODES_MAX 24u

/* Attempts to reach something since the gateway's start, by their code (egress/decide.h). */
struct gd_counted {
	uint64_t codes[GD_CODES_MAX];
};

struct gd_live {
	uint32_t n;
	uint32_t reserved;
};

/* One open tunnel, so far. */
struct egress_live {
	uint64_t conn; /* number of the log */
	uint64_t bytes_up;
	uint64_t bytes_down;
};

enum fetch_end {
	FETCH_OK = 0,	     /* bytes are in the file */
	FETCH_STATUS = 1,    /* the last answer was no 200: status */
	FETCH_TOO_LARGE = 2, /* than max_bytes */
	FETCH_REDIRECT = 3,  /* text: where to, which is not allowed */
	FETCH_FAILED = 4,    /* text: why */
	FETCH_NO_SPACE = 5,  /* the file could not be written */
	FETCH_ENDS = 6,
};

struct gd_fetched {
	uint32_t end;	 /* enum fetch_end */
	uint32_t status; /* of the last answer; 0: there was none */
	uint64_t bytes;
	char text[MSG_TEXT]; /* "" or as above */
};

/* ---- launcher -> init ------------------------------------------------------------------------ */
enum li_type {
	LI_ATTACH =
		1, /* struct li_attach + detached mount of /workspace [+ one of LAYOUT_SOURCE] */
};

struct li_attach {
	uint32_t flags; /* 0 */
};

/* ---- airlockd -> init ------------------------------------------------------------------------ */
enum di_type {
	DI_EXEC = 1,   /* struct di_exec + specification memfd, stdout, stderr, [stdin]. The end of
			  the command ends the sandbox; ID_EXITED is the last message */
	DI_FILE = 2,   /* struct di_file + specification memfd, [pipe for the bytes] */
	DI_KILL = 3,   /* struct di_kill: end the command and all its children */
	DI_END = 4,    /* empty: end the sandbox */
	DI_COMMIT = 5, /* struct di_commit, with the id of a FILE_WRITE of unknown size: so many
			  bytes were sent; the pipe's end without it changes nothing, and
			  FILE_SIZE_UNKNOWN says that there is nothing more to wait for */
};

struct di_commit {
	uint64_t size;
};

#define FILE_SIZE_UNKNOWN UINT64_MAX

struct di_exec {
	uint32_t flags; /* 0 */
	uint32_t reserved;
};

struct di_kill {
	uint32_t id;
	uint32_t reserved;
};

/* The specification memfd of DI_EXEC, sealed (shrink, grow, write, seal): this head, then cwd,
 * n_env strings "NAME=value" and the command, each with its NUL. cwd is "" for /workspace or a path
 * beneath it. argv is always /bin/bash -c <command>. */
#define EXEC_SPEC_MAGIC 0x31455841u /* "AXE1" */
#define EXEC_SPEC_ENV_MAX 96u
#define EXEC_SPEC_MAX (1024u * 1024u)

struct exec_spec {
	uint32_t magic;
	uint32_t n_env;
	uint32_t cwd_len;     /* without NUL */
	uint32_t env_len;     /* all strings with their NULs */
	uint32_t command_len; /* without NUL */
	uint32_t reserved;
};

enum file_op {
	FILE_READ = 1,	/* pipe: write end, the worker writes the bytes; ID_FILE first (size, mode),
			   then ID_FILE_END */
	FILE_WRITE = 2, /* pipe: read end, the worker reads to the end, commits only when exactly
			   size bytes came; ID_FILE_END (size) */
	FILE_STAT = 3,	/* no pipe; FILE_NO_FOLLOW; ID_FILE_END (size, mode) */
	FILE_USAGE = 4, /* no pipe; allocated bytes and inodes of the whole tree; ID_FILE_END */
	FILE_LIST = 5,	/* pipe: write end, struct file_entry and its texts for each entry beneath
			   the  folder, sorted by path in byte order, those behind the second path
			   (the  cursor, "" from the start), at most max of them, depth levels deep;
			   ID_FILE_END (size: how many, used: 1 when there are more) */
	FILE_REMOVE = 6, /* no pipe; FILE_RECURSIVE; ID_FILE_END (size: how many names were removed,
			    0 when there was none) */
	FILE_MOVE = 7,	 /* no pipe; two paths; FILE_REPLACE; ID_FILE_END (used, of an error: 1 when
			    it is   about the second path) */
	FILE_MKDIR = 8,	 /* no pipe; ID_FILE_END (size: 1 when it was made) */
	FILE_PACK = 9,	 /* pipe: write end, a tar in gzip of the folder, at most max bytes; ID_FILE
			    first, then the bytes, then ID_FILE_END (size: bytes) */
	FILE_UNPACK = 10, /* pipe: read end, a tar in gzip, unpacked without its first component
			     into the folder, which must not exist; ID_FILE_END (size: regular
			     files, used: bytes that it added, at most); nothing is left of one that
			     failed */
	FILE_TRIM = 11,	  /* no pipe; the workspace becomes what the folder holds (snapshots);
			     ID_FILE_END (as FILE_USAGE) */
	FILE_MERGE = 12,  /* pipe: write end, for the path of FILE_ERR_CONFLICT; what LAYOUT_SOURCE
			     holds goes into the folder, which is made; checked whole before
			     anything is changed; ID_FILE_END (size: allocated bytes it needed) */
};

enum file_flag {
	FILE_RECURSIVE = 1u << 0,
	FILE_REPLACE = 1u << 1,
	FILE_NO_FOLLOW = 1u << 2, /* what the path itself names, a link too */
};

/* One entry of FILE_LIST; then path_len and target_len bytes, without NUL. */
struct file_entry {
	uint32_t path_len;   /* relative to the folder */
	uint32_t target_len; /* of a link */
	uint32_t mode;	     /* with the type bits */
	uint32_t reserved;
	uint64_t size;
	int64_t mtime; /* seconds */
};

/* The specification memfd of DI_FILE, sealed: the path with its NUL, of FILE_LIST and FILE_MOVE a
 * second one with its, and nothing else. */
struct di_file {
	uint32_t op;
	uint32_t mode; /* FILE_WRITE: of a new file; an old file keeps its own */
	uint64_t size; /* FILE_WRITE: announced bytes, or FILE_SIZE_UNKNOWN; FILE_UNPACK: bytes
			  that must fit beside what is there before anything is unpacked */
	uint64_t max;  /* FILE_READ: larger files are refused with FILE_ERR_TOO_LARGE; FILE_WRITE of
			  unknown size: the same; FILE_LIST, FILE_PACK: see there */
	uint64_t quota; /* FILE_WRITE, FILE_UNPACK, FILE_MERGE: bytes that the tree may use; 0 =
			   none */
	uint32_t flags; /* enum file_flag */
	uint32_t depth; /* FILE_LIST: 1 to 16 */
};

/* ---- init -> airlockd ------------------------------------------------------------------------ */
enum id_type {
	ID_HELLO = 1,	 /* struct msg_hello; first, sent when the sandbox is ready */
	ID_STARTED = 2,	 /* struct id_started: the shell has been started */
	ID_EXITED = 3,	 /* struct id_exited */
	ID_FILE = 4,	 /* struct id_file: answer to FILE_READ before its bytes */
	ID_FILE_END = 5, /* struct id_file: the job is over */
	ID_REFUSED = 6,	 /* struct id_refused: the command could not be started */
};

struct id_started {
	uint32_t landlock; /* ABI in force, 0 = none */
	uint32_t reserved;
};

struct id_exited {
	uint32_t status; /* as of waitpid(2) */
	uint32_t reserved;
	uint64_t wall_us; /* from the start of the shell to its end, on init's clock */
};

/* Where a start can fail. */
enum exec_stage {
	EXEC_STAGE_SPEC = 1,
	EXEC_STAGE_CWD = 2, /* code ENOENT, ENOTDIR, EACCES, EXDEV (leaves /workspace) */
	EXEC_STAGE_LOCKDOWN = 3,
	EXEC_STAGE_EXEC = 4,
	EXEC_STAGE_FORK = 5,
};

struct id_refused {
	uint32_t stage;
	uint32_t code; /* errno */
};

enum file_code {
	FILE_OK = 0,
	FILE_ERR_MISSING = 1,	    /* no such file */
	FILE_ERR_OUTSIDE = 2,	    /* leaves /workspace */
	FILE_ERR_FOLDER = 3,	    /* a folder where a file is needed */
	FILE_ERR_NOT_REGULAR = 4,   /* FIFO, socket, device */
	FILE_ERR_NOT_IN_FOLDER = 5, /* a parent is a file */
	FILE_ERR_DENIED = 6,
	FILE_ERR_TOO_LARGE = 7,
	FILE_ERR_QUOTA = 8, /* used and need say how much */
	FILE_ERR_INODES = 9,
	FILE_ERR_SHORT = 10,  /* fewer or more bytes than announced came; nothing was changed */
	FILE_ERR_NAME = 11,   /* a name is too long */
	FILE_ERR_SYSTEM = 12, /* see errno_code */
	FILE_ERR_EXISTS = 13,
	FILE_ERR_NOT_EMPTY = 14,
	FILE_ERR_CONFLICT =
		15,	       /* a folder and a file have the same name: its path is in the pipe */
	FILE_ERR_ARCHIVE = 16, /* errno_code: enum file_archive_fault */
	FILE_ERR_NOT_FOLDER = 17,
	FILE_ERR_CHANGED = 18, /* the tree changed whenever it was looked at */
	FILE_ERR_DEEP = 19,    /* more levels of folders than a walk goes down */
};

enum file_archive_fault {
	FILE_ARCHIVE_BROKEN = 1,  /* not a tar in gzip, or cut short */
	FILE_ARCHIVE_NAME = 2,	  /* absolute, "..", too long */
	FILE_ARCHIVE_KIND = 3,	  /* a device or another thing that is no file, folder or link */
	FILE_ARCHIVE_LINK = 4,	  /* a hard link to outside of the archive */
	FILE_ARCHIVE_LIMIT = 5,	  /* too many entries, or too large when unpacked */
	FILE_ARCHIVE_TIME = 6,	  /* it takes too long */
	FILE_ARCHIVE_MEMORY = 7,  /* its reader found no memory */
	FILE_ARCHIVE_KILLED = 8,  /* its reader got SIGKILL; airlockd knows whether for memory */
	FILE_ARCHIVE_CRASHED = 9, /* or another signal */
};

struct id_file {
	uint32_t code; /* enum file_code */
	uint32_t errno_code;
	uint32_t mode;
	uint32_t reserved;
	uint64_t size; /* of the file, or what was written; FILE_USAGE: allocated bytes */
	uint64_t used; /* FILE_ERR_QUOTA: what the tree would use, of FILE_UNPACK what it used
			  before; FILE_USAGE: inodes */
	uint64_t reserved2;
};

/* The tables of each direction, for wire_recv. */
extern const struct wire_pair wire_dl, wire_ld, wire_lb, wire_bl, wire_ls, wire_sl, wire_li,
	wire_di, wire_id, wire_lg, wire_gl, wire_dg, wire_gd;

/* The build id that all binaries of one build share. */
extern const char *const ipc_build_id;
