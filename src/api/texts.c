// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"

#include <inttypes.h>

#include "api/json-out.h"
#include "api/path.h"
#include "api/request.h"
#include "api/send.h"
#include "base/mem.h"

static void written(void *data, const struct err *err)
{
	struct request *r = data;
	struct str path = path_echo(r->values[WRITE_PATH].text);

	r->file = NULL;
	if (err) {
		request_fail_err(r, err);
		return;
	}
	_cleanup_buf_ struct buf message = BUF(4096);
	buf_printf(&message, "Successfully wrote %" PRIu64 " characters to ",
		   utf8_count(r->values[WRITE_CONTENT].text));
	buf_put_str(&message, path);
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_text(&o, "status", "success");
	json_out_str(&o, "message", buf_str(&message));
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_write(struct request *r)
{
	r->file = files_write(r->api->core, r->session, r->values[WRITE_PATH].text,
			      r->values[WRITE_CONTENT].text, written, r);
}

/* The text by which every client knows a missing file; it has the path whole. */
static void answer_missing(struct request *r, struct str path)
{
	_cleanup_buf_ struct buf content = BUF(8192);

	buf_put_text(&content, "Error: File '");
	buf_put_str(&content, path);
	buf_put_text(&content, "' does not exist.");
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_str(&o, "path", path);
	json_out_str(&o, "content", buf_str(&content));
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

static void answer_content(struct request *r, struct str path, struct str bytes)
{
	struct answer *a = &r->answer;
	struct json_out o = JSON_OUT(&a->literals);

	answer_init(a);
	/* A long answer is sent after this callback, when the bytes are gone. */
	if (bytes.len > SEND_SHORT) {
		a->owned = mem_dup_n(bytes.data, bytes.len);
		bytes.data = a->owned;
	}
	answer_source_memory(&a->sources[0], bytes);
	json_out_object(&o, NULL);
	json_out_str(&o, "path", path);
	buf_put_text(&a->literals, ",\"content\":\"");
	answer_text(a, &a->sources[0], (struct answer_range){ 0, bytes.len });
	buf_put_text(&a->literals, "\"}");
	answer_literal(a);
	send_answer(r);
}

static void read_done(void *data, bool missing, struct str bytes, const struct err *err)
{
	struct request *r = data;
	struct str path = r->values[READ_PATH].text;

	r->file = NULL;
	if (err)
		request_fail_err(r, err);
	else if (missing)
		answer_missing(r, path);
	else
		answer_content(r, path, bytes);
}

void handle_read(struct request *r)
{
	r->file = files_read(r->api->core, r->session, r->values[READ_PATH].text, read_done, r);
}
