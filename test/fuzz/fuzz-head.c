// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as the head of a request.
 *
 * Whatever the input: the scan says the same wherever the input is cut; a status is one of the
 * contract; a head that passes is what a plain reading by lines makes of it (this file's own, which
 * shares nothing with the parser): the same method, target and fields in the same order, no control
 * byte in any, one host, and one way to tell where the body ends.
 *
 * Input: 2 bytes where to cut, then the head and what follows.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "http/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int scan_cut(struct str in, size_t cut)
{
	struct head_scan scan = { .at = 0 };
	int r = head_scan(&scan, (struct str){ in.data, cut });

	return r ? r : head_scan(&scan, in);
}

/* The text up to CR LF; what is behind stays in *rest. */
static struct str take_line(struct str *rest)
{
	const char *end = memmem(rest->data, rest->len, "\r\n", 2);

	assert(end);
	struct str line = { rest->data, (size_t)(end - rest->data) };
	for (size_t i = 0; i < line.len; i++) {
		unsigned char c = (unsigned char)line.data[i];
		assert(c == '\t' || (c >= ' ' && c != 0x7f));
	}
	*rest = str_from(*rest, line.len + 2);
	return line;
}

static struct str take_until(struct str *rest, char sep)
{
	const char *at = memchr(rest->data, sep, rest->len);

	assert(at);
	struct str part = { rest->data, (size_t)(at - rest->data) };
	*rest = str_from(*rest, part.len + 1);
	return part;
}

static unsigned count(const struct http_head *head, const char *name)
{
	size_t n;

	http_head_find(head, name, &n);
	return (unsigned)n;
}

static void check_fields(struct str rest, const struct http_head *head)
{
	for (size_t i = 0; i < head->n_headers; i++) {
		struct str line = take_line(&rest);
		struct str name = take_until(&line, ':');
		assert(name.len && !memchr(name.data, ' ', name.len) &&
		       !memchr(name.data, '\t', name.len));
		assert(str_eq(head->headers[i].name, name));
		assert(str_eq(head->headers[i].value, str_trim(line)));
	}
	assert(str_eq(rest, STR("\r\n")));
}

static void check(struct str in, const struct head_info *info)
{
	const struct http_head *head = &info->head;
	struct str rest = in, line = take_line(&rest);
	struct str method = take_until(&line, ' ');
	struct str target = take_until(&line, ' ');

	assert(str_eq(head->method, method) && str_eq(head->target, target));
	assert(str_eq(line, info->is_http10 ? STR("HTTP/1.0") : STR("HTTP/1.1")));
	assert(head->method.len >= 1 && head->method.len <= LIMIT_METHOD);
	assert(head->target.len <= LIMIT_TARGET && head->target.data[0] == '/');
	assert(head->path.len + (head->query.data ? head->query.len + 1 : 0) == head->target.len);
	assert(head->n_headers <= LIMIT_HEADER_FIELDS && rest.len <= LIMIT_HEAD);
	check_fields(rest, head);
	assert(count(head, "host") == 1 || (info->is_http10 && count(head, "host") == 0));
	assert(count(head, "content-length") + count(head, "transfer-encoding") == head->has_body);
	assert(head->chunked == (count(head, "transfer-encoding") == 1));
	assert(!head->chunked || head->content_length == 0);
	assert(head->content_length <= INT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct arena arena;

	if (size < 2)
		return 0;
	struct str in = { (const char *)data + 2, size - 2 };
	size_t cut = in.len ? ((size_t)data[0] << 8 | data[1]) % (in.len + 1) : 0;
	struct head_scan scan = { .at = 0 };
	int n = head_scan(&scan, in);
	assert(scan_cut(in, cut) == n);
	assert(n >= 0 || n == -400 || n == -414 || n == -431);
	if (n <= 0)
		return 0;
	struct str head = { in.data, (size_t)n };
	struct head_info info;
	int status = head_parse(&scan, head, &arena, &info);
	assert(status == 0 || status == 400 || status == 505);
	if (!status)
		check(head, &info);
	arena_reset(&arena);
	return 0;
}
