// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "cli/sse.h"

static void note(void *user, const char *event, struct str data)
{
	struct buf *out = user;

	buf_printf(out, "%s=", event);
	buf_put_str(out, data);
	buf_put_char(out, ';');
}

static const struct {
	const char *stream, *events;
} rows[] = {
	{ "event: stdout\ndata: {\"text\": \"hi\"}\n\n", "stdout={\"text\": \"hi\"};" },
	{ ": ping\n\nevent: result\ndata: {}\n\n", "result={};" },
	{ "data: a\ndata: b\n\n", "message=a\nb;" },
	{ "data:x\n\ndata:  y\n\n", "message=x;message= y;" },
	{ "data\n\n", "message=;" },
	{ "data:\ndata:\n\n", "message=\n;" },
	{ "event: a\r\ndata: 1\r\n\r\nevent: b\rdata: 2\r\r", "a=1;b=2;" },
	{ "event: lost\n\ndata: x\n\n", "message=x;" },
	{ "id: 5\nretry: 9\nother: y\ndata: x\n\n", "message=x;" },
	{ "data: never ended\n", "" },
	{ "data: a:b: c\n\n", "message=a:b: c;" },
	{ "event: 0123456789012345678901234567890123456789\ndata: x\n\n", "unknown=x;" },
	{ "event:\ndata: x\n\n", "message=x;" },
};

static void check_cut(size_t row, size_t size)
{
	const char *stream = rows[row].stream;
	_cleanup_buf_ struct buf out = BUF(4096);
	size_t len = strlen(stream);
	struct sse sse;

	sse_init(&sse, note, &out);
	for (size_t at = 0; at < len; at += size)
		assert_true(sse_feed(&sse, stream + at, len - at < size ? len - at : size));
	sse_fini(&sse);
	if (strcmp(out.data ? out.data : "", rows[row].events) != 0)
		fail_msg("row %zu in pieces of %zu: '%s'", row, size, out.data);
}

static void events_are_the_same_however_the_stream_is_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t size = 1; size <= 64; size++)
			check_cut(i, size);
}

static void a_line_over_the_maximum_is_refused(void **state)
{
	_cleanup_buf_ struct buf out = BUF(4096);
	struct sse sse;

	(void)state;
	sse_init(&sse, note, &out);
	sse.line.max = 10;
	assert_true(sse_feed(&sse, "data: 1\n\n", 9));
	assert_false(sse_feed(&sse, "data: 12345678", 14));
	sse_fini(&sse);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_are_the_same_however_the_stream_is_cut),
		cmocka_unit_test(a_line_over_the_maximum_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
