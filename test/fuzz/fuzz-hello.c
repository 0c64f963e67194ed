// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as the start of a direct connection or of a tunnel.
 *
 * Whatever the input: an answer that is final stays the same whatever comes behind it, and what is
 * not final has the same answer in the end however it was cut. The same message gives the same
 * answer in records of every size. A name is one that stands in the bytes as the only entry of a
 * server name extension.
 *
 * Input: 1 byte that cuts, then bytes that are looked at twice: as they are, and as the body of a
 * ClientHello which this file puts into records.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "egress/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct answer {
	enum egress_hello verdict;
	char name[256];
	size_t len;
};

static struct answer parse(const uint8_t *data, size_t size)
{
	struct answer a = { .verdict = EGRESS_HELLO_MORE };

	a.verdict = egress_hello_parse((struct str){ (const char *)data, size }, a.name, &a.len);
	assert(a.verdict == EGRESS_HELLO_NAME ? a.len >= 1 && a.len <= 255 : a.len == 0);
	return a;
}

static void assert_same(const struct answer *a, const struct answer *b)
{
	assert(a->verdict == b->verdict && a->len == b->len);
	assert(memcmp(a->name, b->name, a->len) == 0);
}

static void check_cuts(const uint8_t *data, size_t size, size_t step)
{
	struct answer whole = parse(data, size);

	assert(whole.verdict != EGRESS_HELLO_MORE || size < EGRESS_HELLO_MAX);
	for (size_t n = 0; n < size; n += step) {
		struct answer part = parse(data, n);
		if (part.verdict != EGRESS_HELLO_MORE)
			assert_same(&part, &whole);
	}
}

static size_t put_records(uint8_t *out, const uint8_t *message, size_t len, size_t piece)
{
	size_t at = 0;

	for (size_t n; len; message += n, len -= n) {
		n = piece < len ? piece : len;
		memcpy(out + at, (uint8_t[]){ 22, 3, 1, (uint8_t)(n >> 8), (uint8_t)n }, 5);
		memcpy(out + at + 5, message, n);
		at += 5 + n;
	}
	return at;
}

/* type, length, length of the list, host_name, length of the name, name */
static void assert_name_is_there(const struct answer *a, const uint8_t *body, size_t len)
{
	uint8_t extension[9 + 256] = {
		0, 0, 0, (uint8_t)(a->len + 5), 0, (uint8_t)(a->len + 3), 0, 0, (uint8_t)a->len
	};

	extension[2] = (uint8_t)((a->len + 5) >> 8);
	extension[4] = (uint8_t)((a->len + 3) >> 8);
	memcpy(extension + 9, a->name, a->len);
	assert(memmem(body, len, extension, 9 + a->len));
}

static void check_body(const uint8_t *body, size_t len, size_t piece)
{
	static uint8_t message[4 + EGRESS_HELLO_MAX], records[6 * sizeof(message)];

	if (len > EGRESS_HELLO_MAX - 9)
		return;
	message[0] = 1;
	message[2] = (uint8_t)(len >> 8);
	message[3] = (uint8_t)len;
	memcpy(message + 4, body, len);
	size_t n = put_records(records, message, 4 + len, sizeof(message));
	struct answer one = parse(records, n);
	assert(one.verdict != EGRESS_HELLO_MORE);
	if (one.verdict == EGRESS_HELLO_NAME)
		assert_name_is_there(&one, body, len);
	n = put_records(records, message, 4 + len, piece);
	struct answer many = parse(records, n);
	if (n <= EGRESS_HELLO_MAX)
		assert_same(&one, &many);
	else
		assert(many.verdict == EGRESS_HELLO_NOT_TLS);
	check_cuts(records, n, 1 + n / 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	check_cuts(data + 1, size - 1, 1 + size / 256);
	check_body(data + 1, size - 1, 1u + data[0]);
	return 0;
}
