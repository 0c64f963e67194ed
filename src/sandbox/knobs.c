// SPDX-License-Identifier: Apache-2.0
#include "sandbox/knobs.h"

#ifdef AIRLOCK_TEST_KNOBS
#include "base/str.h"

uint64_t knob_bits;

static const char *const names[KNOB_COUNT] = {
	[KNOB_SECCOMP] = "seccomp",
	[KNOB_LANDLOCK] = "landlock",
	[KNOB_CAPABILITIES] = "capabilities",
	[KNOB_NO_NEW_PRIVS] = "no_new_privs",
	[KNOB_TENANT_ID] = "tenant_id",
	[KNOB_MASK_PROC] = "mask_proc",
	[KNOB_READ_ONLY] = "read_only",
	[KNOB_NODEV] = "nodev",
	[KNOB_USER_LIMIT] = "user_limit",
	[KNOB_NET] = "net",
	[KNOB_IPC] = "ipc",
	[KNOB_PID_KILL] = "pid_kill",
	[KNOB_MEMORY] = "memory",
	[KNOB_PIDS] = "pids",
	[KNOB_CPU] = "cpu",
	[KNOB_TMP_SIZE] = "tmp_size",
	[KNOB_QUOTA] = "quota",
	[KNOB_BENEATH] = "beneath",
	[KNOB_NOFOLLOW] = "nofollow",
	[KNOB_HASTE] = "haste",
	[KNOB_ARCHIVE_NAMES] = "archive_names",
	[KNOB_ARCHIVE_LIMITS] = "archive_limits",
	[KNOB_ARCHIVE_STREAM] = "archive_stream",
	[KNOB_PACK_WHOLE] = "pack_whole",
	[KNOB_QUOTA_COUNT] = "quota_count",
	[KNOB_RLIMITS] = "rlimits",
	[KNOB_FDS] = "fds",
	[KNOB_TENANT_MATCH] = "tenant_match",
	[KNOB_EGRESS_RULES] = "egress_rules",
	[KNOB_EGRESS_ADDRESS] = "egress_address",
	[KNOB_EGRESS_SNI] = "egress_sni",
	[KNOB_FETCH_TLS] = "fetch_tls",
};

bool knob_parse(const char *list)
{
	struct str rest = str_of(list), part;

	while (str_split(&rest, ',', &part)) {
		unsigned k = 0;
		while (k < KNOB_COUNT && !str_eq(part, str_of(names[k])))
			k++;
		if (k == KNOB_COUNT && part.len)
			return false;
		if (k < KNOB_COUNT)
			knob_bits |= UINT64_C(1) << k;
	}
	return true;
}
#endif
