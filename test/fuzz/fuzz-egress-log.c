// SPDX-License-Identifier: Apache-2.0
/*
 * A file of events as a gateway that was taken over could leave it. Whatever is in it: reading it
 * succeeds; what comes out is a JSON list of at most the wanted number of objects, each of this
 * session and tenant, decided one way or the other, without the gateway's own numbers.
 *
 * Input: 1 byte limit, 1 byte number of open tunnels, then the file. "\x01" stands for the fields
 * that every line needs to belong to this session.
 */
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/egress-log.h"
#include "base/fd.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WHO "\"session\":\"sbx_0123456789ab\",\"tenant\":\"a\",\"host\":\"x.org\""
#define FILE_MAX (1u << 20)

static const char *text_of(const json_t *event, const char *name)
{
	const char *text = json_string_value(json_object_get(event, name));

	assert(text);
	return text;
}

static void check_event(const json_t *event)
{
	bool allow = strcmp(text_of(event, "decision"), "allow") == 0;

	assert(allow || strcmp(text_of(event, "decision"), "deny") == 0);
	assert(strcmp(text_of(event, "session"), "sbx_0123456789ab") == 0);
	assert(strcmp(text_of(event, "tenant"), "a") == 0);
	assert(text_of(event, "host") && !json_object_get(event, "conn"));
	assert(json_is_number(json_object_get(event, "ts")));
	assert(allow == json_is_boolean(json_object_get(event, "open")));
	assert(allow == json_is_integer(json_object_get(event, "bytes_up")));
	assert(allow || (text_of(event, "reason") && text_of(event, "code")));
	assert(!allow || !json_object_get(event, "reason"));
}

static void put_file(int fd, const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf text = BUF(FILE_MAX);

	for (size_t i = 0; i < size; i++) {
		if (data[i] == 1)
			buf_put_text(&text, WHO);
		else
			buf_put_char(&text, (char)data[i]);
	}
	assert(ftruncate(fd, 0) == 0);
	assert(pwrite(fd, text.data, text.len, 0) == (ssize_t)text.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct runtime_live live[] = { { 1, 2, 3 },
						    { 4, UINT64_MAX, 0 },
						    { 7, 0, 0 } };
	char path[] = "/tmp/airlock-fuzz-log-XXXXXX";
	_cleanup_buf_ struct buf out = BUF(64u << 20);
	size_t skipped = 0, i;
	json_t *list, *event;
	struct err err;

	if (size < 2)
		return 0;
	_cleanup_fd_ int fd = mkstemp(path);
	assert(fd >= 0);
	put_file(fd, data + 2, size - 2);
	const struct egress_log_query q = {
		.path = path,
		.session = "sbx_0123456789ab",
		.tenant = "a",
		.limit = 1 + data[0],
		.answered = data[1] & 1,
		.live = live,
		.n_live = data[1] & 1 ? data[1] % 4 : 0,
		.asked_ms = 1000000,
	};
	assert(egress_log_read(&q, &out, &skipped, &err) == 0);
	unlink(path);
	list = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
	assert(json_is_array(list) && json_array_size(list) <= q.limit);
	json_array_foreach(list, i, event) check_event(event);
	json_decref(list);
	return 0;
}
