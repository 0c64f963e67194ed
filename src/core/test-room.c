// SPDX-License-Identifier: Apache-2.0
/* How many workspaces a volume takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/disk.h"
#include "core/parts.h"
#include "core/rig.h"
#include "core/snapshot.h"

#define BASE STR("sandbox-base:latest")
#define FITS 4u /* workspaces */
#define MANY 9u

struct outcomes {
	unsigned made, refused, other;
	struct session *last;
	char text[1024];
};

static void note(struct outcomes *o, const struct err *err, unsigned n)
{
	if (!err)
		o->made += n;
	else if (strcmp(err->slug, "no_capacity") == 0)
		o->refused++;
	else
		o->other++;
	snprintf(o->text, sizeof(o->text), "%s", err ? err->text : "");
}

static void on_session(void *data, struct session *s, const struct err *err)
{
	struct outcomes *o = data;

	note(o, err, 1);
	o->last = s;
}

static void on_fork(void *data, struct session *const *sessions, size_t n, const struct err *err)
{
	note(data, err, (unsigned)n);
}

static void on_snapshot(void *data, const struct snapshot *snap, const struct err *err)
{
	assert_null(err);
	snprintf(data, SNAPSHOT_ID_LEN + 1, "%s", snap->id);
}

/* A volume on which FITS workspaces may be promised. */
static int setup(void **state)
{
	rig_setup(state);
	struct rig *r = *state;

	r->runtime.hard_quota = true;
	r->runtime.space.bytes = FITS * disk_hard_limit(r->core, r->config.quota_bytes) /
				 r->config.volume_overcommit;
	r->runtime.space.free = r->runtime.space.bytes / 20;
	return 0;
}

static void ask(struct rig *r, struct outcomes *o, unsigned n)
{
	const struct session_params p = { .template_name = BASE };
	unsigned before = o->made + o->refused + o->other;

	for (unsigned i = 0; i < n; i++)
		session_create(r->core, r->a, &p, on_session, o);
	assert_int_equal(o->made + o->refused + o->other, before);
}

static void delete (struct rig *r, struct session *s)
{
	session_delete(r->core, s, NULL, NULL);
	rig_settle(r);
}

static void check(const struct rig *r, const struct outcomes *o, unsigned made, unsigned refused)
{
	assert_int_equal(o->made, made);
	assert_int_equal(o->refused, refused);
	assert_int_equal(o->other, 0);
	assert_int_equal(r->runtime.disk->n_volumes, made);
	assert_int_equal(r->a->sessions_open, made);
	assert_int_equal(r->core->room.in_flight, 0);
}

static void check_refused(const struct outcomes *o, unsigned refused)
{
	assert_int_equal(o->refused, refused);
	assert_int_equal(o->made + o->other, 0);
}

static void one_after_the_other_get_what_there_is(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	for (unsigned i = 0; i < FITS + 2; i++) {
		assert_int_equal(core_room(r->core),
				 i < FITS ? CORE_ROOM_OPEN : CORE_ROOM_PROMISED);
		ask(r, &o, 1);
		rig_settle(r);
	}
	check(r, &o, FITS, 2);
	assert_string_equal(o.text, "All sandbox workspaces are in use; try again shortly.");
	/* Nothing was made for those. */
	assert_int_equal(r->runtime.calls[RIG_CREATE], FITS);
}

static void many_at_once_get_no_more_and_no_less(void **state)
{
	static const enum rig_kind holds[] = { RIG_KINDS, RIG_SPACE, RIG_CREATE };
	struct rig *r = *state;

	for (size_t i = 0; i < ARRAY_SIZE(holds); i++) {
		struct outcomes o = { 0 };

		if (holds[i] < RIG_KINDS)
			r->runtime.hold[holds[i]] = true;
		ask(r, &o, MANY / 2);
		rig_settle(r);
		ask(r, &o, MANY - MANY / 2);
		rig_settle(r);
		rig_answer(r);
		check(r, &o, FITS, MANY - FITS);
		while (r->core->newest)
			delete (r, r->core->newest);
		rig_advance(r, RIG_SECOND);
	}
}

static void what_was_deleted_before_counts_no_more(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	ask(r, &o, FITS);
	rig_settle(r);
	for (unsigned i = 0; i < 3; i++) {
		delete (r, r->core->newest);
		o.made--;
		ask(r, &o, 2);
		rig_settle(r);
		check(r, &o, FITS, i + 1);
	}
}

static void figures_that_were_under_way_refuse_nobody(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	ask(r, &o, FITS);
	rig_settle(r);
	/* The second comes too late for what the first has asked, which is not taken for its no. */
	r->runtime.hold[RIG_SPACE] = true;
	ask(r, &o, 1);
	unsigned asked = r->runtime.calls[RIG_SPACE];
	ask(r, &o, 1);
	assert_int_equal(r->runtime.calls[RIG_SPACE], asked);
	rig_answer(r);
	assert_int_equal(r->runtime.calls[RIG_SPACE], asked + 1);
	check(r, &o, FITS, 2);
}

static void little_free_refuses_whatever_is_promised(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	r->runtime.space.free--;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(core_room(r->core), CORE_ROOM_FULL);
		ask(r, &o, 1);
		rig_settle(r);
		r->runtime.hard_quota = false;
	}
	check(r, &o, 0, 2);
	r->runtime.space.free++;
	ask(r, &o, 1);
	rig_settle(r);
	check(r, &o, 1, 2);
}

static void again(struct rig *r)
{
	room_again(r->core);
	rig_settle(r);
}

static void space_that_comes_back_is_waited_for(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	r->runtime.space.free--;
	r->runtime.space.frees = true;
	ask(r, &o, 2);
	rig_settle(r);
	rig_advance(r, ROOM_WAIT_US / 2);
	again(r);
	assert_int_equal(o.made + o.refused, 0);
	r->runtime.space.free++;
	while (o.made < 2)
		uv_run(&r->loop, UV_RUN_ONCE);
	rig_settle(r);
	check(r, &o, 2, 0);
	/* It is all there is that comes back. */
	r->runtime.space.free--;
	rig_advance(r, 3 * RIG_SECOND);
	ask(r, &o, 1);
	rig_settle(r);
	r->runtime.space.frees = false;
	again(r);
	check(r, &o, 2, 1);
}

static void it_is_not_waited_for_for_ever(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	r->runtime.space.free--;
	r->runtime.space.frees = true;
	ask(r, &o, 1);
	rig_settle(r);
	rig_advance(r, ROOM_WAIT_US - 1);
	ask(r, &o, 1);
	rig_settle(r);
	check_refused(&o, 0);
	/* Nor does a launcher that says nothing let them in. */
	r->runtime.fail[RIG_SPACE] = "busy";
	again(r);
	r->runtime.fail[RIG_SPACE] = NULL;
	check_refused(&o, 0);
	rig_advance(r, 1);
	again(r);
	check_refused(&o, 1);
	rig_advance(r, ROOM_WAIT_US - 1);
	again(r);
	check(r, &o, 0, 2);
}

static void who_closes_waits_for_no_space(void **state)
{
	static struct outcomes o;
	struct rig *r = *state;

	r->runtime.space.free--;
	r->runtime.space.frees = true;
	ask(r, &o, 1);
	rig_settle(r);
	check_refused(&o, 0);
	rig_close(r);
	check_refused(&o, 1);
	rig_open(r);
}

static void a_promise_is_not_waited_for(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	r->runtime.space.frees = true;
	ask(r, &o, FITS + 1);
	rig_settle(r);
	check(r, &o, FITS, 1);
}

static void without_hard_limits_nothing_is_promised(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	r->runtime.hard_quota = false;
	ask(r, &o, MANY);
	rig_settle(r);
	check(r, &o, MANY, 0);
}

static void old_figures_are_not_trusted(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	ask(r, &o, 1);
	rig_settle(r);
	r->runtime.space.free = 0;
	rig_advance(r, 2 * RIG_SECOND);
	ask(r, &o, 1);
	rig_settle(r);
	check(r, &o, 2, 0);
	rig_advance(r, 1);
	ask(r, &o, 1);
	rig_settle(r);
	check(r, &o, 2, 1);
}

static void who_fails_gives_the_room_back(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	for (unsigned i = 0; i < MANY; i++) {
		r->runtime.fail[RIG_CREATE] = "internal";
		ask(r, &o, 1);
		rig_settle(r);
	}
	assert_int_equal(o.other, MANY);
	o.other = 0;
	r->runtime.fail[RIG_CREATE] = NULL;
	ask(r, &o, MANY);
	rig_settle(r);
	check(r, &o, FITS, MANY - FITS);
}

static void a_launcher_that_says_nothing_refuses_nobody(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	r->runtime.fail[RIG_SPACE] = "busy";
	ask(r, &o, FITS + 1);
	rig_settle(r);
	check(r, &o, FITS + 1, 0);
}

static void forks_fit_all_or_none_is_made(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };

	ask(r, &o, 1);
	rig_settle(r);
	unsigned copies = r->runtime.calls[RIG_COPY];
	session_fork(r->core, o.last, FITS, "static key", on_fork, &o);
	rig_settle(r);
	check(r, &o, 1, 1);
	assert_int_equal(r->runtime.calls[RIG_COPY], copies);
	/* A copy that fails. */
	r->runtime.fail[RIG_COPY] = "internal";
	session_fork(r->core, o.last, FITS - 1, "static key", on_fork, &o);
	rig_settle(r);
	assert_int_equal(o.other, 1);
	o.other = 0;
	r->runtime.fail[RIG_COPY] = NULL;
	/* One that is asked for at the same time gets nothing of what they have. */
	session_fork(r->core, o.last, FITS - 1, "static key", on_fork, &o);
	rig_settle(r);
	ask(r, &o, 1);
	rig_settle(r);
	check(r, &o, FITS, 2);
}

static void a_start_from_a_snapshot_is_refused_alike(void **state)
{
	struct rig *r = *state;
	struct outcomes o = { 0 };
	char id[SNAPSHOT_ID_LEN + 1] = "";

	ask(r, &o, FITS);
	rig_settle(r);
	snapshot_create(r->core, o.last, STR("one"), STR("."), "static key", on_snapshot, id);
	rig_settle(r);
	const struct session_params p = { .template_name = BASE, .snapshot_id = str_of(id) };
	session_create(r->core, r->a, &p, on_session, &o);
	rig_settle(r);
	assert_int_equal(o.refused, 1);
	delete (r, r->core->newest);
	session_create(r->core, r->a, &p, on_session, &o);
	rig_settle(r);
	assert_int_equal(o.made, FITS + 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(one_after_the_other_get_what_there_is),
		T(many_at_once_get_no_more_and_no_less),
		T(what_was_deleted_before_counts_no_more),
		T(figures_that_were_under_way_refuse_nobody),
		T(little_free_refuses_whatever_is_promised),
		T(space_that_comes_back_is_waited_for),
		T(it_is_not_waited_for_for_ever),
		T(who_closes_waits_for_no_space),
		T(a_promise_is_not_waited_for),
		T(without_hard_limits_nothing_is_promised),
		T(old_figures_are_not_trusted),
		T(who_fails_gives_the_room_back),
		T(a_launcher_that_says_nothing_refuses_nobody),
		T(forks_fit_all_or_none_is_made),
		T(a_start_from_a_snapshot_is_refused_alike),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
