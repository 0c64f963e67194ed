// SPDX-License-Identifier: Apache-2.0
/*
 * logs: the directory that holds the log files of all sessions, as a whole: whether there is room
 * on its file system, how much each tenant has there, and which files are too old. One per gateway;
 * the journals ask it before they write, and say what they wrote.
 *
 * What a tenant has is counted in the files, whose first line names it, when the gateway starts and
 * then once a day; between that, what is written is added and what is swept is taken off. What is
 * written during the count may be counted twice until the next one, and is never left out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Little room: less than one block in so many is free. */
#define LOGS_LOW_PART 20u
/* Between two looks. */
#define LOGS_LOOK_MS 1000
/* Entries of the directory that a sweep looks at in one turn of the loop, and for how long. */
#define LOGS_STEP 1000u
#define LOGS_STEP_MS 5
/* Of so many sweeps one counts anew what each tenant has. */
#define LOGS_COUNT_EVERY 24u
/* What a file takes is counted in these. */
#define LOGS_PAGE 4096u

struct gateway;
struct logs;
struct logs_tenant;

/* Of g->log_dir. */
struct logs *logs_new(struct gateway *g);
void logs_free(struct logs *l);

/* There is little room: what may be left out of the logs is left out. */
bool logs_are_low(struct logs *l);

/* A reference, made when new. Every one is dropped before the end of l. */
struct logs_tenant *logs_tenant(struct logs *l, const char *name);
void logs_tenant_drop(struct logs_tenant *t);
/* What its files take, in bytes. */
uint64_t logs_bytes(const struct logs_tenant *t);
/* A file of its has another size now. */
void logs_grew(struct logs_tenant *t, uint64_t from, uint64_t to);

/* Removes the files of ended sessions that are older than the configured days, some in each turn of
 * the loop. While that goes on, another call does nothing. */
void logs_sweep(struct logs *l);
