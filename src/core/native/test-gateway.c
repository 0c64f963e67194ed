// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "core/native/fake.h"
#include "egress/decide.h"

/* ---- A session, a command ---- */

static struct runtime_egress *open_session(struct fake *f, const char *session)
{
	static const char *const rules[] = { "pypi.org", "*.example.com" };
	const struct runtime_egress_spec spec = {
		.session = session, .tenant = "acme", .rules = rules, .n_rules = 2
	};

	return runtime_egress_open(f->rt, &spec);
}

struct call {
	struct runtime_exec *exec;
	unsigned done, n_denied;
	char denied[4096]; /* separated by commas */
	struct err err;
};

static void on_done(void *data, struct runtime_exec_result *result, const struct err *err)
{
	struct call *c = data;

	c->done++;
	if (err) {
		c->err = *err;
		return;
	}
	const char *host = result->denied;
	c->n_denied = (unsigned)result->n_denied;
	for (size_t i = 0; i < result->n_denied; i++, host += strlen(host) + 1) {
		size_t at = strlen(c->denied);
		snprintf(c->denied + at, sizeof(c->denied) - at, "%s%s", i ? "," : "", host);
	}
}

static const struct runtime_exec_ops ops = { .done = on_done };

static struct fake_sandbox *run(struct fake *f, struct call *c, struct runtime_egress *e)
{
	static const char *const env[] = { "HOME=/tmp" };
	const struct runtime_exec_spec spec = {
		.volume = FAKE_VOLUME,
		.tenant = 1,
		.image = FAKE_IMAGE,
		.egress = e,
		.command = STR("true"),
		.cwd = STR(""),
		.env = env,
		.n_env = 1,
		.timeout_ms = 15000,
		.output_max = 1000,
	};

	*c = (struct call){ 0 };
	c->exec = runtime_exec_start(f->rt, &spec, &ops, c);
	fake_turn(f);
	struct fake_sandbox *s = fake_busy(f);
	assert_non_null(s);
	fake_started(s);
	fake_turn(f);
	return s;
}

static void finish(struct fake *f, struct call *c, struct fake_sandbox *s)
{
	fake_exited(s, 0);
	fake_turn(f);
	assert_int_equal(c->done, 1);
	fake_gone(f, s);
	fake_turn(f);
}

/* ---- What the gateway hears ---- */

static void expect(struct fake *f, uint8_t type, struct wire_msg *msg)
{
	struct wire_msg ignored;
	struct wire_msg *m = msg ? msg : &ignored;

	assert_true(fake_gateway_receive(f, m));
	assert_int_equal(m->head.type, type);
	if (!msg)
		wire_msg_fini(m);
}

static void expect_nothing(struct fake *f)
{
	struct wire_msg msg;

	assert_false(fake_gateway_receive(f, &msg));
}

static uint32_t session_of(const struct wire_msg *msg)
{
	struct dg_session body;

	memcpy(&body, msg->body, sizeof(body));
	return body.session;
}

/* Takes DG_SESSION, checks its specification; returns the number. */
static uint32_t expect_session(struct fake *f, const char *session)
{
	static const char rest[] = "acme\0pypi.org\0*.example.com";
	struct egress_spec head;
	struct wire_msg msg;
	char raw[256];

	expect(f, DG_SESSION, &msg);
	ssize_t n = pread(msg.fds[0], raw, sizeof(raw), 0);
	assert_int_equal(n, sizeof(head) + strlen(session) + 1 + sizeof(rest));
	assert_int_equal(fcntl(msg.fds[0], F_GET_SEALS),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	memcpy(&head, raw, sizeof(head));
	assert_int_equal(head.magic, EGRESS_SPEC_MAGIC);
	assert_int_equal(head.n_rules, 2);
	assert_int_equal(head.session_len, strlen(session));
	assert_int_equal(head.tenant_len, 4);
	assert_int_equal(head.rules_len, sizeof("pypi.org") + sizeof("*.example.com"));
	assert_string_equal(raw + sizeof(head), session);
	assert_memory_equal(raw + sizeof(head) + strlen(session) + 1, rest, sizeof(rest));
	wire_msg_fini(&msg);
	return session_of(&msg);
}

static void expect_bind(struct fake *f, const struct fake_sandbox *s, uint32_t session)
{
	struct dg_bind body;
	struct wire_msg msg;

	expect(f, DG_BIND, &msg);
	memcpy(&body, msg.body, sizeof(body));
	assert_int_equal(body.sandbox.slot, s->id.slot);
	assert_int_equal(body.sandbox.generation, s->id.generation);
	assert_int_equal(body.session, session);
}

static void start(struct fake *f)
{
	fake_start(f, &fake_config);
	fake_gateway(f, true);
	fake_turn(f);
	expect(f, DG_HELLO, NULL);
	expect(f, DG_READY, NULL);
}

static void everything_is_said_again_to_each_gateway(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct runtime_egress *first = open_session(&f, "sbx_000000000001");
	struct runtime_egress *second = open_session(&f, "sbx_000000000002");
	struct fake_sandbox *s = run(&f, &c, first);
	assert_int_equal(s->egress, 1);
	for (int life = 0; life < 3; life++) {
		fake_gateway(&f, true);
		fake_turn(&f);
		expect(&f, DG_HELLO, NULL);
		uint32_t a = expect_session(&f, "sbx_000000000001");
		uint32_t b = expect_session(&f, "sbx_000000000002");
		assert_int_not_equal(a, 0);
		assert_int_not_equal(a, b);
		expect_bind(&f, s, a);
		expect(&f, DG_READY, NULL);
		expect_nothing(&f);
	}
	finish(&f, &c, s);
	runtime_egress_close(f.rt, first);
	fake_turn(&f);
	expect(&f, DG_SESSION_END, NULL);
	/* Neither what is gone nor what has ended. */
	fake_gateway(&f, true);
	fake_turn(&f);
	expect(&f, DG_HELLO, NULL);
	expect_session(&f, "sbx_000000000002");
	expect(&f, DG_READY, NULL);
	expect_nothing(&f);
	runtime_egress_close(f.rt, second);
	fake_stop(&f);
}

static void a_living_gateway_hears_of_each_change(void **state)
{
	struct fake f;
	struct call c;
	struct wire_msg msg;

	start(&f);
	struct runtime_egress *e = open_session(&f, "sbx_000000000001");
	uint32_t number = expect_session(&f, "sbx_000000000001");
	struct fake_sandbox *s = run(&f, &c, e);
	expect_bind(&f, s, number);
	assert_string_equal(s->volume, FAKE_VOLUME);
	finish(&f, &c, s);
	runtime_egress_close(f.rt, e);
	expect(&f, DG_SESSION_END, &msg);
	assert_int_equal(session_of(&msg), number);
	expect_nothing(&f);
	fake_stop(&f);
}

static void a_command_without_egress_binds_nothing(void **state)
{
	struct fake f;
	struct call c;

	start(&f);
	struct fake_sandbox *s = run(&f, &c, NULL);
	assert_int_equal(s->egress, 0);
	fake_deny(&f, s, "evil.example.com");
	finish(&f, &c, s);
	assert_int_equal(c.n_denied, 0);
	expect_nothing(&f);
	fake_stop(&f);
}

static void a_session_that_ends_under_its_command_is_bound_no_more(void **state)
{
	struct fake f;
	struct call c = { 0 };

	start(&f);
	f.builds = false;
	struct runtime_egress *e = open_session(&f, "sbx_000000000001");
	const struct runtime_exec_spec spec = {
		.volume = FAKE_VOLUME,
		.tenant = 1,
		.image = FAKE_IMAGE,
		.egress = e,
		.cwd = STR(""),
		.command = STR("true"),
		.timeout_ms = 1000,
		.output_max = 1000,
	};
	runtime_exec_start(f.rt, &spec, &ops, &c);
	fake_turn(&f);
	runtime_egress_close(f.rt, e);
	expect(&f, DG_SESSION, NULL);
	expect(&f, DG_SESSION_END, NULL);
	f.builds = true;
	while (f.building)
		fake_build(&f);
	fake_turn(&f);
	struct fake_sandbox *s = fake_busy(&f);
	assert_non_null(s);
	fake_started(s);
	fake_turn(&f);
	finish(&f, &c, s);
	expect_nothing(&f);
	fake_stop(&f);
}

static void without_a_gateway_no_sandbox_is_asked_for(void **state)
{
	struct fake f;
	struct call c = { 0 };

	fake_start(&f, &fake_config);
	f.rt->host.gateway = 0;
	struct runtime_egress *e = open_session(&f, "sbx_000000000001");
	const struct runtime_exec_spec spec = { .volume = FAKE_VOLUME,
						.tenant = 1,
						.image = FAKE_IMAGE,
						.egress = e,
						.cwd = STR(""),
						.command = STR("true"),
						.timeout_ms = 1000,
						.output_max = 1000 };
	runtime_warm(f.rt, 1, FAKE_IMAGE, true);
	runtime_exec_start(f.rt, &spec, &ops, &c);
	fake_turn(&f);
	fake_advance(&f, 0);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.err.slug, "internal");
	assert_int_equal(f.n, 0);
	fake_stop(&f);
}

static void rules_beyond_the_specification_are_left_out(void **state)
{
	struct runtime_egress_spec spec = { .session = "sbx_000000000001", .tenant = "acme" };
	const char *rules[EGRESS_SPEC_RULES_MAX + 7];
	struct egress_spec head;
	struct wire_msg msg;
	struct fake f;

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		rules[i] = "a.org";
	spec.rules = rules;
	spec.n_rules = ARRAY_SIZE(rules);
	start(&f);
	runtime_egress_open(f.rt, &spec);
	expect(&f, DG_SESSION, &msg);
	assert_int_equal(pread(msg.fds[0], &head, sizeof(head), 0), sizeof(head));
	assert_int_equal(head.n_rules, EGRESS_SPEC_RULES_MAX);
	wire_msg_fini(&msg);
	fake_stop(&f);
}

/* ---- A gateway that does not read ---- */

#define MANY 600

static void what_a_full_socket_has_no_room_for_comes_later_in_order(void **state)
{
	struct runtime_egress *e[MANY];
	struct fake f;
	struct call c;
	char id[24];

	start(&f);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(id, sizeof(id), "sbx_%012u", i);
		e[i] = open_session(&f, id);
	}
	/* One that was never told of needs no end, one that was needs one. */
	runtime_egress_close(f.rt, e[0]);
	runtime_egress_close(f.rt, e[MANY - 2]);
	struct fake_sandbox *s = run(&f, &c, e[MANY - 1]);
	uint32_t last = 0;
	/* Bound to one that the gateway will never hear of: no word of either. */
	struct call gone;
	runtime_egress_open(f.rt, &(struct runtime_egress_spec){ .session = "sbx_aaaaaaaaaaaa",
								 .tenant = "acme" });
	struct runtime_egress *late = open_session(&f, "sbx_bbbbbbbbbbbb");
	struct fake_sandbox *t = run(&f, &gone, late);
	runtime_egress_close(f.rt, late);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(id, sizeof(id), "sbx_%012u", i);
		if (i != MANY - 2)
			last = expect_session(&f, id);
		fake_turn(&f);
	}
	expect(&f, DG_SESSION_END, NULL);
	expect_bind(&f, s, last);
	expect(&f, DG_SESSION, NULL);
	fake_turn(&f);
	expect_nothing(&f);
	finish(&f, &c, s);
	finish(&f, &gone, t);
	fake_stop(&f);
}

static void a_sandbox_that_went_needs_no_word(void **state)
{
	struct runtime_egress *e = NULL;
	struct fake f;
	struct call c;
	char id[24];

	start(&f);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(id, sizeof(id), "sbx_%012u", i);
		e = open_session(&f, id);
	}
	struct fake_sandbox *s = run(&f, &c, e);
	finish(&f, &c, s);
	for (unsigned i = 0; i < MANY; i++) {
		expect(&f, DG_SESSION, NULL);
		fake_turn(&f);
	}
	expect_nothing(&f);
	/* A gateway that never reads takes nothing down at the end. */
	for (unsigned i = 0; i < MANY; i++)
		open_session(&f, "sbx_000000000001");
	fake_stop(&f);
}

/* ---- What a command was refused ---- */

static void the_answer_names_what_was_refused(void **state)
{
	struct fake f;
	struct call c, other;

	start(&f);
	struct runtime_egress *e = open_session(&f, "sbx_000000000001");
	struct fake_sandbox *s = run(&f, &c, e), *t = run(&f, &other, e);
	fake_deny(&f, s, "b.org");
	fake_deny(&f, s, "");
	fake_deny(&f, t, "c.org");
	fake_deny(&f, s, "b.org");
	fake_turn(&f);
	/* Said just before the command ended: there when the end is seen. */
	fake_deny(&f, s, "a.org");
	finish(&f, &c, s);
	assert_string_equal(c.denied, "b.org,a.org");
	fake_deny(&f, s, "late.org");
	finish(&f, &other, t);
	assert_string_equal(other.denied, "c.org");
	assert_false(fake_gateway_is_lost(&f));
	fake_stop(&f);
}

static void the_last_words_count_whatever_ends_the_command(void **state)
{
	struct fake f;
	struct call c;

	start(&f);
	struct runtime_egress *e = open_session(&f, "sbx_000000000001");
	struct fake_sandbox *s = run(&f, &c, e);
	fake_deny(&f, s, "a.org");
	f.kills = false;
	fake_advance(&f, 15000); /* the time-out */
	assert_true(s->killed);
	fake_deny(&f, s, "b.org");
	fake_gone(&f, s);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.denied, "a.org,b.org");
	fake_stop(&f);
}

static void the_longest_name_is_whole(void **state)
{
	char name[EGRESS_HOST_MAX + 1] = "", want[2 * sizeof(name)];
	struct fake f;
	struct call c;

	start(&f);
	struct fake_sandbox *s = run(&f, &c, open_session(&f, "sbx_000000000001"));
	memset(name, 'a', EGRESS_HOST_MAX);
	fake_deny(&f, s, name);
	name[EGRESS_HOST_MAX - 1] = 'b';
	fake_deny(&f, s, name);
	finish(&f, &c, s);
	snprintf(want, sizeof(want), "%s,%s", name, name);
	want[EGRESS_HOST_MAX - 1] = 'a';
	assert_string_equal(c.denied, want);
	fake_stop(&f);
}

static void twenty_are_enough(void **state)
{
	struct fake f;
	struct call c;
	char host[300];

	start(&f);
	struct fake_sandbox *s = run(&f, &c, open_session(&f, "sbx_000000000001"));
	for (unsigned i = 0; i < 25; i++) {
		memset(host, 'a' + (int)i, sizeof(host));
		host[sizeof(((struct gd_denied *)NULL)->host) - 1] = '\0';
		fake_deny(&f, s, host);
	}
	finish(&f, &c, s);
	assert_int_equal(c.n_denied, RUNTIME_DENIED_MAX);
	fake_stop(&f);
}

/* ---- Tunnels ---- */

struct asked {
	unsigned calls;
	bool answered;
	struct runtime_live live[8];
	size_t n;
};

static void on_live(void *data, const struct runtime_live *live, size_t n)
{
	struct asked *a = data;

	a->calls++;
	a->answered = live != NULL;
	a->n = n;
	if (n)
		memcpy(a->live, live, n * sizeof(live[0]));
}

static int live_file(const struct egress_live *live, size_t n)
{
	int fd = memfd_create("live", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, live, n * sizeof(live[0])), n * sizeof(live[0]));
	return fd;
}

static void answer_live(struct fake *f, uint32_t id, uint32_t n, int fd)
{
	const struct gd_live body = { .n = n };

	fake_gateway_say(f, GD_LIVE, id, &body, sizeof(body), fd);
	close(fd);
	fake_turn(f);
}

/* Asks; the id of the question. */
static uint32_t ask(struct fake *f, struct asked *a, struct runtime_egress *e)
{
	struct wire_msg msg;

	*a = (struct asked){ 0 };
	runtime_egress_live(f->rt, e, on_live, a);
	assert_int_equal(a->calls, 0);
	fake_turn(f);
	expect(f, DG_LIVE, &msg);
	return msg.head.id;
}

static void tunnels_are_told_with_their_bytes(void **state)
{
	const struct egress_live live[] = { { 7, 100, 2000 }, { 9, UINT64_MAX, 0 } };
	struct asked a, b;
	struct fake f;

	start(&f);
	struct runtime_egress *e = open_session(&f, "sbx_000000000001");
	expect(&f, DG_SESSION, NULL);
	uint32_t first = ask(&f, &a, e), second = ask(&f, &b, e);
	answer_live(&f, second, 0, live_file(live, 0));
	assert_int_equal(a.calls, 0);
	assert_true(b.calls == 1 && b.answered && b.n == 0);
	answer_live(&f, first, 2, live_file(live, 2));
	assert_true(a.calls == 1 && a.answered && a.n == 2);
	assert_int_equal(a.live[0].conn, 7);
	assert_int_equal(a.live[0].bytes_up, 100);
	assert_int_equal(a.live[0].bytes_down, 2000);
	assert_int_equal(a.live[1].conn, 9);
	/* The same again is too late, and no fault. */
	answer_live(&f, first, 2, live_file(live, 2));
	assert_int_equal(a.calls, 1);
	assert_false(fake_gateway_is_lost(&f));
	fake_stop(&f);
}

static void nobody_waits_for_a_gateway_longer_than_a_second(void **state)
{
	struct asked a;
	struct fake f;

	fake_start(&f, &fake_config);
	struct runtime_egress *e = open_session(&f, "sbx_000000000001");
	a = (struct asked){ 0 };
	runtime_egress_live(f.rt, e, on_live, &a);
	assert_int_equal(a.calls, 0);
	fake_turn(&f);
	fake_advance(&f, 0);
	assert_true(a.calls == 1 && !a.answered);

	fake_gateway(&f, true);
	fake_turn(&f);
	fake_gateway_skip(&f);
	ask(&f, &a, e);
	fake_advance(&f, GATEWAY_LIVE_MS - 1);
	assert_int_equal(a.calls, 0);
	fake_advance(&f, 1);
	assert_true(a.calls == 1 && !a.answered);

	/* Nor for one that is gone. */
	ask(&f, &a, e);
	fd_close(&f.gateway);
	fake_turn(&f);
	fake_advance(&f, 0);
	assert_true(a.calls == 1 && !a.answered);
	/* The end of the runtime answers, too. */
	fake_gateway(&f, true);
	fake_turn(&f);
	fake_gateway_skip(&f);
	ask(&f, &a, e);
	fake_stop(&f);
	assert_true(a.calls == 1 && !a.answered);
}

/* ---- A gateway that was taken over ---- */

static void say_raw(struct fake *f, uint8_t type, const void *body, size_t len)
{
	fake_gateway_say(f, type, 0, body, len, -1);
}

static void break_hello_twice(struct fake *f, uint32_t id)
{
	struct msg_hello hello = { 0 };

	memcpy(hello.build, ipc_build_id, strlen(ipc_build_id));
	say_raw(f, GD_HELLO, &hello, sizeof(hello));
}

static void break_unterminated(struct fake *f, uint32_t id)
{
	struct gd_denied body = { .sandbox = { 0, 1 } };

	memset(body.host, 'a', sizeof(body.host));
	say_raw(f, GD_DENIED, &body, sizeof(body));
}

static void break_noise(struct fake *f, uint32_t id)
{
	say_raw(f, 99, "noise", 5);
}

static void break_short(struct fake *f, uint32_t id)
{
	const struct egress_live live = { 1, 2, 3 };

	answer_live(f, id, 2, live_file(&live, 1));
}

static void break_long(struct fake *f, uint32_t id)
{
	const struct egress_live live[2] = { { 1, 2, 3 } };

	answer_live(f, id, 1, live_file(live, 2));
}

static void break_many(struct fake *f, uint32_t id)
{
	static const struct egress_live live[EGRESS_TUNNELS_ALL + 1];

	answer_live(f, id, ARRAY_SIZE(live), live_file(live, ARRAY_SIZE(live)));
}

static void break_huge(struct fake *f, uint32_t id)
{
	const struct egress_live live = { 1, 2, 3 };

	answer_live(f, id, UINT32_MAX, live_file(&live, 1));
}

static void break_pipe(struct fake *f, uint32_t id)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	answer_live(f, id, 1, fds[0]);
	close(fds[1]);
}

static void break_file(struct fake *f, uint32_t id)
{
	answer_live(f, id, 0, open("/dev/null", O_RDONLY));
}

static void a_gateway_that_breaks_the_rules_loses_its_socket_alone(void **state)
{
	static void (*const breaks[])(struct fake * f, uint32_t id) = {
		break_hello_twice, break_unterminated, break_noise, break_short, break_long,
		break_many,	   break_huge,	       break_pipe,  break_file,
	};

	for (size_t i = 0; i < ARRAY_SIZE(breaks); i++) {
		struct asked a;
		struct fake f;
		struct call c;
		start(&f);
		struct runtime_egress *e = open_session(&f, "sbx_000000000001");
		struct fake_sandbox *s = run(&f, &c, e);
		fake_gateway_skip(&f);
		uint32_t id = ask(&f, &a, e);
		breaks[i](&f, id);
		fake_turn(&f);
		if (!fake_gateway_is_lost(&f))
			fail_msg("row %zu", i);
		assert_false(f.lost);
		fake_advance(&f, 0);
		assert_true(a.calls == 1 && !a.answered);
		fake_gateway(&f, true);
		fake_turn(&f);
		fake_deny(&f, s, "a.org");
		finish(&f, &c, s);
		assert_string_equal(c.denied, "a.org");
		fake_stop(&f);
	}
}

static void nothing_comes_before_a_hello_of_the_same_build(void **state)
{
	struct msg_hello hello = { .build = "another" };
	const struct fake_sandbox nobody = { .id = { 0, 1 } };
	struct runtime_info info;
	struct fake f;

	fake_start(&f, &fake_config);
	fake_gateway(&f, false);
	fake_turn(&f);
	fake_deny(&f, &nobody, "a.org");
	fake_turn(&f);
	assert_true(fake_gateway_is_lost(&f));
	fake_gateway(&f, false);
	fake_turn(&f);
	say_raw(&f, GD_HELLO, &hello, sizeof(hello));
	fake_turn(&f);
	assert_true(fake_gateway_is_lost(&f));
	runtime_info_get(f.rt, &info);
	assert_false(info.gateway);
	fake_gateway(&f, true);
	fake_turn(&f);
	runtime_info_get(f.rt, &info);
	assert_true(info.gateway);
	fake_stop(&f);
}

static void say_counted(struct fake *f, uint64_t ok, uint64_t no_rule)
{
	struct gd_counted body = { .codes = { [EGRESS_OK] = ok, [EGRESS_NO_RULE] = no_rule } };

	say_raw(f, GD_COUNTED, &body, sizeof(body));
	fake_turn(f);
}

static void attempts_are_summed_over_the_lives_of_the_gateway(void **state)
{
	struct fake f;

	fake_start(&f, &fake_config);
	fake_gateway(&f, true);
	fake_turn(&f);
	say_counted(&f, 5, 1);
	say_counted(&f, 7, 1);
	assert_int_equal(runtime_egress_count(f.rt, EGRESS_OK), 7);
	/* One that has been taken over takes nothing back. */
	say_counted(&f, 3, 2);
	assert_int_equal(runtime_egress_count(f.rt, EGRESS_OK), 7);
	assert_int_equal(runtime_egress_count(f.rt, EGRESS_NO_RULE), 2);
	fake_gateway(&f, true);
	fake_turn(&f);
	assert_int_equal(runtime_egress_count(f.rt, EGRESS_OK), 7);
	say_counted(&f, 1, 0);
	assert_int_equal(runtime_egress_count(f.rt, EGRESS_OK), 8);
	assert_int_equal(runtime_egress_count(f.rt, EGRESS_NO_RULE), 2);
	assert_int_equal(runtime_egress_count(f.rt, EGRESS_PORT), 0);
	fake_stop(&f);
}

/* ---- A new policy ---- */

struct policy_call {
	unsigned calls;
	bool has_file;
	uint32_t which, code, answer;
};

static struct policy_call policy_call;

static uint32_t on_policy(void *data, uint32_t which, int fd, uint32_t code)
{
	policy_call.which = which;
	policy_call.calls++;
	policy_call.has_file = fd >= 0 && fcntl(fd, F_GETFD) >= 0;
	policy_call.code = code;
	return policy_call.answer;
}

static void tell_policy(struct fake *f, uint32_t which, uint32_t code, bool with_file)
{
	const struct ld_policy body = { .code = code, .which = which };
	int fd = open("/dev/null", O_RDONLY);

	assert_int_equal(wire_send(f->launcher, LD_POLICY, 0, &body, sizeof(body), &fd, with_file),
			 0);
	close(fd);
	fake_turn(f);
}

static void a_new_policy_is_handed_on_and_answered(void **state)
{
	struct native_config config = fake_config;
	struct fake f;

	config.policy = on_policy;
	fake_start(&f, &config);
	policy_call = (struct policy_call){ 0 };
	tell_policy(&f, POLICY_EGRESS, 0, true);
	assert_true(policy_call.has_file);
	assert_int_equal(f.policies, 1);
	assert_int_equal(f.policy_code, 0);
	policy_call.answer = EINVAL;
	tell_policy(&f, POLICY_LIMITS, ENOENT, false);
	assert_int_equal(policy_call.which, POLICY_LIMITS);
	assert_int_equal(f.policy_which, POLICY_LIMITS);
	assert_false(policy_call.has_file);
	assert_int_equal(policy_call.code, ENOENT);
	assert_int_equal(f.policies, 2);
	assert_int_equal(f.policy_code, EINVAL);
	tell_policy(&f, POLICY_EGRESS, 0, false);
	assert_true(f.lost);
	assert_int_equal(policy_call.calls, 2);
	fake_stop(&f);
}

static void a_file_that_there_is_not_is_a_broken_launcher(void **state)
{
	struct native_config config = fake_config;
	struct fake f;

	config.policy = on_policy;
	fake_start(&f, &config);
	policy_call = (struct policy_call){ 0 };
	tell_policy(&f, POLICIES, 0, true);
	assert_true(f.lost);
	assert_int_equal(policy_call.calls, 0);
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_said_again_to_each_gateway),
		cmocka_unit_test(a_living_gateway_hears_of_each_change),
		cmocka_unit_test(a_command_without_egress_binds_nothing),
		cmocka_unit_test(a_session_that_ends_under_its_command_is_bound_no_more),
		cmocka_unit_test(without_a_gateway_no_sandbox_is_asked_for),
		cmocka_unit_test(rules_beyond_the_specification_are_left_out),
		cmocka_unit_test(what_a_full_socket_has_no_room_for_comes_later_in_order),
		cmocka_unit_test(a_sandbox_that_went_needs_no_word),
		cmocka_unit_test(the_answer_names_what_was_refused),
		cmocka_unit_test(the_last_words_count_whatever_ends_the_command),
		cmocka_unit_test(the_longest_name_is_whole),
		cmocka_unit_test(twenty_are_enough),
		cmocka_unit_test(tunnels_are_told_with_their_bytes),
		cmocka_unit_test(nobody_waits_for_a_gateway_longer_than_a_second),
		cmocka_unit_test(a_gateway_that_breaks_the_rules_loses_its_socket_alone),
		cmocka_unit_test(nothing_comes_before_a_hello_of_the_same_build),
		cmocka_unit_test(attempts_are_summed_over_the_lives_of_the_gateway),
		cmocka_unit_test(a_new_policy_is_handed_on_and_answered),
		cmocka_unit_test(a_file_that_there_is_not_is_a_broken_launcher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
