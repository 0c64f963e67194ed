// SPDX-License-Identifier: Apache-2.0
/*
 * logs: the directory that holds the log files of all sessions, as a whole: whether there is room
 * on its file system, and which files are too old. One per gateway; a journal asks it before it
 * writes a denial.
 */
#pragma once

#include <stdbool.h>

/* Little room: less than one block in so many is free. */
#define LOGS_LOW_PART 20u
/* Between two looks. */
#define LOGS_LOOK_MS 1000
/* Entries of the directory that a sweep looks at in one turn of the loop. */
#define LOGS_STEP 1000u

struct gateway;
struct logs;

/* Of g->log_dir. */
struct logs *logs_new(struct gateway *g);
void logs_free(struct logs *l);

/* There is little room: what may be left out of the logs is left out. */
bool logs_are_low(struct logs *l);

/* Removes the files of ended sessions that are older than the configured days, some in each turn of
 * the loop. While that goes on, another call does nothing. */
void logs_sweep(struct logs *l);
