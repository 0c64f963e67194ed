// SPDX-License-Identifier: Apache-2.0
/*
 * options: the launcher's command line. `airlock serve` writes it after it has checked the
 * configuration; every value is checked again here, strictly. Strings are borrowed from argv.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define OPTIONS_IMAGES_MAX 16

struct launcher_options {
	const char *state_dir; /* absolute */
	const char *user;      /* airlockd's */
	int config_fd;	       /* sealed memfd for airlockd */
	int listen_fd;
	int metrics_fd; /* -1: there is none */
	uint64_t memory_mb;
	uint64_t pids;
	uint64_t cpu_milli;
	uint64_t tmp_mb;
	uint64_t stop_seconds;	 /* that airlockd takes at most to let commands end */
	uint64_t volume_size_mb; /* 0: the default */
	int volumes;		 /* VOLUMES_... */
	bool single;
	/* The gateway's; NULL: there is none, and no sandbox of this server has egress. */
	const char *egress_user;
	const char *egress_log_dir;	/* absolute */
	const char *egress_dns;		/* comma list of addresses */
	const char *egress_policy_file; /* NULL: SIGHUP reads no policy */
	uint64_t egress_log_days;
	const char *import_base;		/* for the gateway alone; NULL: the contract's */
	const char *tenant_limits_file;		/* NULL: SIGHUP reads no limits */
	const char *images[OPTIONS_IMAGES_MAX]; /* "NAME=TARFILE" */
	unsigned n_images;
};

int launcher_options_parse(int argc, char **argv, struct launcher_options *ret, struct err *err);
