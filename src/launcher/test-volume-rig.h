// SPDX-License-Identifier: Apache-2.0
/*
 * test-volume-rig: a state directory of a volume for tests. Needs root, loop devices and btrfs;
 * without them rig_need_host skips with the reason. Everything lies below one folder made by
 * mkdtemp; the group's teardown fails when a loop device is left.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "launcher/volume-backend.h"

#define VOLUME_SIZE (640ull * MIB)

extern struct volumes v;
extern struct err err;
extern char top[200];

/* A call that must succeed: prints the sentence when it does not. */
#define ok(call) \
	do { \
		if ((call) < 0) \
			fail_msg("%s: %s", #call, err.text); \
	} while (0)

void need_host(void);
void path_of(char path[static 256], const char *name);
/* Opens into v the state directory of that name; it must exist. */
void open_state(const char *name, int kind);
void close_state(const char *name);
/* A volume.img with full qgroups, whatever the kernel would take. */
void make_full(const char *name);
int create(const char *name, uint32_t tenant, uint64_t limit_bytes);
int create_from(const char *source, const char *name, uint32_t tenant, uint64_t limit_bytes);
/* Runs act in a child that is uid and gid 1000 and whose working directory is the volume; returns
 * what act returned, an errno. */
int as_tenant(const char *name, int (*act)(void));
/* For as_tenant: writes "big" until it can't, and leaves it there. */
int fill(void);
int names_in(int folder);
void delete_all(void);

/* Of the group; the state directory "btrfs" is open between them. */
int rig_setup(void **state);
int rig_teardown(void **state);
