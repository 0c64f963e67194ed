// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a chunked body, against llhttp.
 *
 * Whatever the input: the decoder says the same byte by byte and in one piece; what it takes for a
 * whole body llhttp takes too, ending at the same byte with the same data; what it finds unfinished
 * llhttp does not refuse. (The other way round llhttp takes more: that is why the decoder is there.)
 */
#include <assert.h>
#include <llhttp.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "http/chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BODY_MAX (1u << 20)

struct outcome {
	enum chunk_result result;
	size_t used;
	struct buf body;
};

static void decode(struct str in, size_t step, struct outcome *out)
{
	struct chunk chunk = { .left = 0 };
	struct str piece;

	out->result = CHUNK_MORE;
	out->used = 0;
	buf_clear(&out->body);
	while (out->used < in.len && out->result == CHUNK_MORE) {
		size_t left = in.len - out->used;
		struct str part = { in.data + out->used, left < step ? left : step };
		size_t had = part.len;
		while ((out->result = chunk_take(&chunk, &part, &piece)) == CHUNK_DATA) {
			assert(piece.len && piece.data >= in.data &&
			       piece.data + piece.len <= in.data + in.len);
			buf_put_str(&out->body, piece);
		}
		assert(out->result != CHUNK_MORE || !part.len);
		out->used += had - part.len;
	}
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
	buf_put(parser->data, at, len);
	return 0;
}

static int on_complete(llhttp_t *parser)
{
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = { .on_body = on_body,
					    .on_message_complete = on_complete };

static void check_llhttp(struct str in, const struct outcome *want)
{
	static const char head[] =
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
	static struct buf body;
	llhttp_t parser;

	body.max = BODY_MAX;
	buf_clear(&body);
	llhttp_init(&parser, HTTP_REQUEST, &settings);
	parser.data = &body;
	assert(llhttp_execute(&parser, head, sizeof(head) - 1) == HPE_OK);
	llhttp_errno_t error = llhttp_execute(&parser, in.data, want->used);
	assert(error == (want->result == CHUNK_END ? HPE_PAUSED : HPE_OK));
	assert(str_eq(buf_str(&body), buf_str(&want->body)));
	if (want->result == CHUNK_END)
		assert(llhttp_get_error_pos(&parser) == in.data + want->used);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct outcome whole, bytes;
	struct str in = { (const char *)data, size };

	if (size > BODY_MAX)
		return 0;
	whole.body.max = bytes.body.max = BODY_MAX;
	decode(in, size ? size : 1, &whole);
	decode(in, 1, &bytes);
	assert(whole.result == bytes.result);
	if (whole.result == CHUNK_BAD)
		return 0;
	assert(whole.used == bytes.used && str_eq(buf_str(&whole.body), buf_str(&bytes.body)));
	check_llhttp(in, &whole);
	return 0;
}
