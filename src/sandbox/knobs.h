// SPDX-License-Identifier: Apache-2.0
/*
 * knobs: removes one layer of isolation, so that a test of that layer can be seen failing. Exists
 * in builds with -Dtest_knobs=true only, where AIRLOCK_TEST_OFF names the layers (comma list); in
 * every other build knob_off() is the constant false and neither the variable's name nor the
 * layers' names are in the binary. The launcher reads the variable and hands init and the
 * gateway a bit set as an argument. The gateway of such a build also gets AIRLOCK_TEST_HURRY, a
 * number that its time-outs are divided by.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum knob {
	KNOB_SECCOMP,
	KNOB_LANDLOCK,
	KNOB_CAPABILITIES, /* the tenant keeps the capabilities of its user namespace */
	KNOB_NO_NEW_PRIVS,
	KNOB_TENANT_ID, /* the tenant runs as init's uid */
	KNOB_MASK_PROC,
	KNOB_READ_ONLY,	 /* the root stays writable */
	KNOB_NODEV,	 /* /tmp without noexec, nosuid, nodev */
	KNOB_USER_LIMIT, /* user namespaces may be nested */
	KNOB_NET,	 /* the host's network namespace */
	KNOB_IPC,
	KNOB_PID_KILL, /* what a command left behind is not killed when it ends */
	KNOB_MEMORY,
	KNOB_PIDS,
	KNOB_CPU,
	KNOB_TMP_SIZE,
	KNOB_QUOTA,
	KNOB_BENEATH,	     /* file jobs follow links out of the workspace */
	KNOB_NOFOLLOW,	     /* and links in the place of what was not one when they looked */
	KNOB_HASTE,	     /* no layer: they wait before each open, so that races are won */
	KNOB_ARCHIVE_NAMES,  /* unpacking takes any name, kind and link */
	KNOB_ARCHIVE_LIMITS, /* and any size, ratio, number and time */
	KNOB_ARCHIVE_STREAM, /* and a stream that breaks as one that ends there */
	KNOB_PACK_WHOLE,     /* packing ends well what it ended in the middle */
	KNOB_QUOTA_COUNT,    /* the worker does not count by itself; the volume has its quota */
	KNOB_RLIMITS,
	KNOB_FDS,	     /* descriptors are not closed before the tenant runs */
	KNOB_TENANT_MATCH,   /* hand-over attaches another tenant's volume */
	KNOB_EGRESS_RULES,   /* the gateway: names without a rule, and addresses, pass (rung 4) */
	KNOB_EGRESS_ADDRESS, /* addresses that are not public pass (rung 6) */
	KNOB_EGRESS_SNI,     /* whatever the first bytes are (rung 10) */
	KNOB_FETCH_TLS,	     /* downloads trust any certificate */
	KNOB_COUNT,
};

#ifdef AIRLOCK_TEST_KNOBS
extern uint64_t knob_bits;
static inline bool knob_off(enum knob k)
{
	return (knob_bits >> k) & 1;
}
/* Parses a comma list of names; false when one is unknown. */
bool knob_parse(const char *list);
#else
static inline bool knob_off(enum knob k)
{
	(void)k;
	return false;
}
#endif
