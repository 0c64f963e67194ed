// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "core/native/fake.h"

#define URL "https://github.com/a/b/archive/main.tar.gz"
#define TIMEOUT_MS 30000

struct call {
	struct runtime_fetch *fetch;
	unsigned calls;
	struct runtime_fetch_result result;
	char host[256], reason[256];
};

static void on_done(void *data, const struct runtime_fetch_result *result)
{
	struct call *c = data;

	c->calls++;
	c->result = *result;
	snprintf(c->host, sizeof(c->host), "%s", result->host);
	snprintf(c->reason, sizeof(c->reason), "%s", result->reason);
}

static void begin(struct fake *f, struct call *c)
{
	static const char *const hosts[] = { "github.com", "codeload.github.com" };
	_cleanup_fd_ int file = memfd_create("file", MFD_CLOEXEC);
	const struct runtime_fetch_spec spec = { .url = URL,
						 .hosts = hosts,
						 .n_hosts = ARRAY_SIZE(hosts),
						 .max_bytes = 1000,
						 .fd = file,
						 .timeout_ms = TIMEOUT_MS };

	*c = (struct call){ 0 };
	assert_true(file >= 0);
	c->fetch = runtime_fetch_start(f->rt, &spec, on_done, c);
	assert_int_equal(c->calls, 0);
}

static void expect(struct fake *f, uint8_t type, struct wire_msg *msg)
{
	assert_true(fake_gateway_receive(f, msg));
	assert_int_equal(msg->head.type, type);
}

static void expect_nothing(struct fake *f)
{
	struct wire_msg msg;

	assert_false(fake_gateway_receive(f, &msg));
}

/* A server with a gateway that has nothing to read. */
static void start(struct fake *f)
{
	fake_start(f, &fake_config);
	fake_gateway(f, true);
	fake_turn(f);
	fake_gateway_skip(f);
}

/* Begins one that the gateway has heard of; its id. */
static uint32_t ask(struct fake *f, struct call *c)
{
	struct wire_msg msg;

	begin(f, c);
	fake_turn(f);
	expect(f, DG_FETCH, &msg);
	wire_msg_fini(&msg);
	assert_int_not_equal(msg.head.id, 0);
	return msg.head.id;
}

static void answer(struct fake *f, uint32_t id, struct gd_fetched body)
{
	fake_gateway_say(f, GD_FETCHED, id, &body, sizeof(body), -1);
	fake_turn(f);
	fake_advance(f, 0);
}

static void the_gateway_hears_all_that_it_needs(void **state)
{
	static const char rest[] = URL "\0github.com\0codeload.github.com";
	struct wire_msg msg;
	struct fetch_spec head;
	struct dg_fetch body;
	struct stat given;
	char raw[512];
	struct fake f;
	struct call c;

	start(&f);
	begin(&f, &c);
	fake_turn(&f);
	expect(&f, DG_FETCH, &msg);
	memcpy(&body, msg.body, sizeof(body));
	assert_int_equal(body.max_bytes, 1000);
	assert_int_equal(body.timeout_ms, TIMEOUT_MS);
	ssize_t n = pread(msg.fds[0], raw, sizeof(raw), 0);
	assert_int_equal(n, sizeof(head) + sizeof(rest));
	assert_int_equal(fcntl(msg.fds[0], F_GET_SEALS),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	memcpy(&head, raw, sizeof(head));
	assert_int_equal(head.magic, FETCH_SPEC_MAGIC);
	assert_int_equal(head.n_hosts, 2);
	assert_int_equal(head.url_len, strlen(URL));
	assert_int_equal(head.hosts_len, sizeof(rest) - sizeof(URL));
	assert_memory_equal(raw + sizeof(head), rest, sizeof(rest));
	/* The caller's own descriptor is closed meanwhile. */
	assert_int_equal(fstat(msg.fds[1], &given), 0);
	assert_true(S_ISREG(given.st_mode));
	assert_int_equal(fcntl(msg.fds[1], F_GETFL) & O_ACCMODE, O_RDWR);
	wire_msg_fini(&msg);
	fake_stop(&f);
	assert_int_equal(c.calls, 1);
	assert_int_equal(c.result.end, RUNTIME_FETCH_FAILED);
}

static void each_end_is_told_once_with_its_text_alone(void **state)
{
	static const struct {
		struct gd_fetched body;
		const char *host, *reason;
	} rows[] = {
		{ { FETCH_OK, 200, 1000, "x" }, "", "" },
		{ { FETCH_STATUS, 404, 0, "x" }, "", "" },
		{ { FETCH_TOO_LARGE, 200, 1000, "" }, "", "" },
		{ { FETCH_REDIRECT, 302, 0, "evil.test" }, "evil.test", "" },
		{ { FETCH_FAILED, 0, 10, "no such name" }, "", "no such name" },
		{ { FETCH_NO_SPACE, 200, 10, "" }, "", "" },
	};
	struct fake f;
	struct call c;

	start(&f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t id = ask(&f, &c);
		answer(&f, id, rows[i].body);
		assert_int_equal(c.calls, 1);
		assert_int_equal(c.result.end, rows[i].body.end);
		assert_int_equal(c.result.status, rows[i].body.status);
		assert_int_equal(c.result.bytes, rows[i].body.bytes);
		assert_string_equal(c.host, rows[i].host);
		assert_string_equal(c.reason, rows[i].reason);
		/* The same again is too late, and no fault. */
		answer(&f, id, rows[i].body);
		assert_int_equal(c.calls, 1);
	}
	expect_nothing(&f);
	assert_false(fake_gateway_is_lost(&f));
	fake_stop(&f);
}

static void answers_find_their_question(void **state)
{
	struct call a, b;
	struct fake f;

	start(&f);
	uint32_t first = ask(&f, &a), second = ask(&f, &b);
	assert_int_not_equal(first, second);
	answer(&f, second, (struct gd_fetched){ .end = FETCH_STATUS, .status = 500 });
	assert_true(a.calls == 0 && b.calls == 1 && b.result.status == 500);
	answer(&f, first, (struct gd_fetched){ .end = FETCH_OK, .bytes = 7 });
	assert_true(a.calls == 1 && a.result.bytes == 7);
	fake_stop(&f);
}

static void without_a_gateway_it_says_what_to_do(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	begin(&f, &c);
	fake_advance(&f, 0);
	assert_int_equal(c.calls, 1);
	assert_string_equal(c.reason, "the gateway is being started; try again");
	f.rt->host.gateway = 0;
	begin(&f, &c);
	fake_advance(&f, 0);
	assert_int_equal(c.result.end, RUNTIME_FETCH_FAILED);
	assert_non_null(strstr(c.reason, "set SANDBOX_EGRESS_DNS"));
	fake_stop(&f);
}

static void a_gateway_that_goes_or_is_replaced_ends_it(void **state)
{
	struct fake f;
	struct call c;

	start(&f);
	for (int replaced = 0; replaced < 2; replaced++) {
		ask(&f, &c);
		if (!replaced)
			fd_close(&f.gateway);
		if (replaced)
			fake_gateway(&f, true);
		fake_turn(&f);
		fake_advance(&f, 0);
		assert_int_equal(c.calls, 1);
		assert_int_equal(c.result.end, RUNTIME_FETCH_FAILED);
		assert_string_equal(c.reason, "the gateway has ended; try again");
		/* The next one is not asked for it. */
		if (!replaced)
			fake_gateway(&f, true);
		fake_turn(&f);
		struct wire_msg msg;
		expect(&f, DG_HELLO, &msg);
		expect(&f, DG_READY, &msg);
		expect_nothing(&f);
	}
	fake_stop(&f);
}

static void a_silent_gateway_is_not_waited_for(void **state)
{
	struct wire_msg msg;
	struct fake f;
	struct call c;

	start(&f);
	uint32_t id = ask(&f, &c);
	fake_advance(&f, TIMEOUT_MS + FETCH_GRACE_MS - 1);
	assert_int_equal(c.calls, 0);
	fake_advance(&f, 1);
	assert_int_equal(c.calls, 1);
	assert_string_equal(c.reason, "the gateway does not answer");
	expect(&f, DG_FETCH_END, &msg);
	assert_int_equal(msg.head.id, id);
	answer(&f, id, (struct gd_fetched){ .end = FETCH_OK });
	assert_int_equal(c.calls, 1);
	fake_stop(&f);
}

static void nothing_is_heard_of_one_that_was_cancelled(void **state)
{
	struct wire_msg msg;
	struct fake f;
	struct call c;

	start(&f);
	uint32_t id = ask(&f, &c);
	runtime_fetch_cancel(c.fetch);
	fake_turn(&f);
	expect(&f, DG_FETCH_END, &msg);
	assert_int_equal(msg.head.id, id);
	answer(&f, id, (struct gd_fetched){ .end = FETCH_OK });
	/* Answered already, and not told yet: nobody need stop. */
	id = ask(&f, &c);
	const struct gd_fetched body = { .end = FETCH_OK };
	fake_gateway_say(&f, GD_FETCHED, id, &body, sizeof(body), -1);
	gateway_drain(f.rt);
	runtime_fetch_cancel(c.fetch);
	fake_advance(&f, TIMEOUT_MS * 2);
	expect_nothing(&f);
	/* Without a gateway. */
	fd_close(&f.gateway);
	fake_turn(&f);
	begin(&f, &c);
	runtime_fetch_cancel(c.fetch);
	fake_advance(&f, TIMEOUT_MS * 2);
	assert_int_equal(c.calls, 0);
	fake_stop(&f);
}

/* More than the socket holds. */
#define MANY 400

static void what_waits_to_be_said_and_is_cancelled_is_never_said(void **state)
{
	static struct call calls[MANY];
	unsigned asked = 0, ended = 0;
	struct wire_msg msg;
	struct fake f;

	start(&f);
	for (size_t i = 0; i < MANY; i++) {
		begin(&f, &calls[i]);
		if (i > MANY / 2)
			runtime_fetch_cancel(calls[i].fetch);
	}
	assert_false(TAILQ_EMPTY(&f.rt->gateway.queue));
	for (size_t i = 0; i <= MANY / 2; i++)
		runtime_fetch_cancel(calls[i].fetch);
	while (fake_gateway_receive(&f, &msg)) {
		asked += msg.head.type == DG_FETCH;
		ended += msg.head.type == DG_FETCH_END;
		wire_msg_fini(&msg);
		fake_turn(&f);
	}
	assert_true(asked > 0 && asked < MANY);
	assert_int_equal(asked, ended);
	fake_stop(&f);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(calls[i].calls, 0);
}

static void a_gateway_that_lies_loses_its_socket(void **state)
{
	struct gd_fetched rows[] = { { .end = FETCH_ENDS },
				     { .end = FETCH_OK, .bytes = 1001 },
				     { .end = FETCH_FAILED } };
	struct fake f;
	struct call c;

	memset(rows[2].text, 'a', sizeof(rows[2].text));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		start(&f);
		uint32_t id = ask(&f, &c);
		answer(&f, id, rows[i]);
		assert_true(fake_gateway_is_lost(&f));
		assert_int_equal(c.calls, 1);
		assert_int_equal(c.result.end, RUNTIME_FETCH_FAILED);
		assert_false(f.lost);
		fake_stop(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_gateway_hears_all_that_it_needs),
		cmocka_unit_test(each_end_is_told_once_with_its_text_alone),
		cmocka_unit_test(answers_find_their_question),
		cmocka_unit_test(without_a_gateway_it_says_what_to_do),
		cmocka_unit_test(a_gateway_that_goes_or_is_replaced_ends_it),
		cmocka_unit_test(a_silent_gateway_is_not_waited_for),
		cmocka_unit_test(nothing_is_heard_of_one_that_was_cancelled),
		cmocka_unit_test(what_waits_to_be_said_and_is_cancelled_is_never_said),
		cmocka_unit_test(a_gateway_that_lies_loses_its_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
