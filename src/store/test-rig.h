// SPDX-License-Identifier: Apache-2.0
/*
 * test-rig: for each test of the store a loop and a folder for a database, which the test opens.
 * Brings cmocka.h along.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/store.h"

struct fixture {
	uv_loop_t loop;
	char dir[64];
	char path[96];
	struct store *store;
};

int setup(void **state);
int teardown(void **state);
/* A test in the table of a group. */
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

void must_open(struct fixture *f);
void must_close(struct fixture *f);
void run_until(struct fixture *f, const unsigned *n, unsigned want);

/* Told of a write: it went well, or it failed; data counts them. */
void count(void *data, const struct err *err);
void expect_failure(void *data, const struct err *err);

struct number {
	unsigned n;
	uint32_t value;
};

void on_number(void *data, uint32_t value, const struct err *err);

struct seen {
	unsigned n;
	char ids[8][32];
	char first[32];
	struct store_session last;
};

/* A session; sessions_of fails the test when what comes back has other values. */
struct store_session row_of(const char *id, int64_t created_us);
/* What is stored: the number, and the last eight ids. */
struct seen sessions_of(struct fixture *f);
struct seen journal_of(struct fixture *f);
struct seen snapshots_of(struct fixture *f);

/* What another program does to the file while no server has it. */
void change(struct fixture *f, const char *sql);
