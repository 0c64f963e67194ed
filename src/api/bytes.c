// SPDX-License-Identifier: Apache-2.0
/*
 * Uploads, downloads, archives. The server's stream and the core's call hold each other back; a
 * request in between has nothing of the bytes.
 *
 * An upload's body is asked for when its turn has come: one that waits in line has sent nothing but
 * what its socket holds. A download that breaks after its head
 * was sent ends by breaking the connection, never with the last chunk.
 */
#include "api/handlers.h"

#include "api/json-out.h"
#include "api/path.h"
#include "api/request.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

/* The client or the server gives up; nobody is told. */
static void let_go(struct request *r)
{
	files_detach(take_ptr(r->file));
	http_abort(r->x);
	request_free(r);
}

/* ---- Up ---- */

static bool body_piece(void *data, struct str bytes)
{
	struct request *r = data;

	return files_give(r->file, bytes);
}

static void body_end(void *data, int status)
{
	struct request *r = data;

	r->reading = false;
	if (!status) {
		files_give_end(r->file);
		return;
	}
	files_detach(take_ptr(r->file));
	request_failf(r, "upload_too_large", "Upload is larger than the %llu MB limit.",
		      (unsigned long long)(r->api->config.upload_max / MIB));
}

static void body_gone(void *data)
{
	struct request *r = data;

	files_detach(take_ptr(r->file));
	request_free(r);
}

static void upload_wanted(void *data)
{
	struct request *r = data;

	if (r->streaming) {
		http_body_resume(r->x);
		return;
	}
	r->streaming = r->reading = true;
	http_body_stream(r->x, &(struct http_body_flow){ .max = r->api->config.upload_max,
							 .piece = body_piece,
							 .end = body_end,
							 .gone = body_gone,
							 .data = r });
}

static void upload_done(void *data, uint64_t size, const struct err *err)
{
	struct request *r = data;

	r->file = NULL;
	r->reading = false;
	if (err) {
		request_fail_err(r, err);
		return;
	}
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_str(&o, "path", r->values[BYTES_PATH].text);
	json_out_int(&o, "size_bytes", (int64_t)size);
	json_out_text(&o, "status", "success");
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_upload(struct request *r)
{
	static const struct files_upload_ops ops = { upload_wanted, upload_done };
	const struct http_head *head = http_exchange_head(r->x);

	r->file = files_upload(r->api->core, r->session, r->values[BYTES_PATH].text,
			       head->chunked ? RUNTIME_SIZE_UNKNOWN : head->content_length, &ops,
			       r);
}

/* ---- Down ---- */

static void drained(void *data)
{
	struct request *r = data;

	if (!r->api)
		return;
	if (http_exchange_is_gone(r->x))
		let_go(r);
	else
		files_resume(r->file);
}

static bool send_bytes(void *data, struct str bytes)
{
	struct request *r = data;

	if (http_exchange_is_gone(r->x)) {
		let_go(r);
		return false;
	}
	if (http_write(r->x, bytes))
		return true;
	http_on_drained(r->x, drained, r);
	return false;
}

static void send_done(void *data, const struct err *err)
{
	struct request *r = data;

	r->file = NULL;
	if (err && !r->begun) {
		request_fail_err(r, err);
		return;
	}
	if (err) {
		log_event(LOG_INFO, "answer_broken", LOG_STR("request", http_exchange_id(r->x)),
			  LOG_STR("word", err->slug));
		http_abort(r->x);
	} else {
		http_end(r->x);
	}
	request_free(r);
}

/* The value of the parameter filename* (RFC 8187): attr-char stays, the rest is escaped. */
static void put_name(struct buf *out, struct str name)
{
	static const char plain[] = "!#$&+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz";

	buf_put_text(out, "attachment; filename*=UTF-8''");
	for (size_t i = 0; i < name.len; i++) {
		if (memchr(plain, name.data[i], sizeof(plain) - 1))
			buf_put_char(out, name.data[i]);
		else
			buf_printf(out, "%%%02X", (unsigned char)name.data[i]);
	}
}

static void download_begun(void *data, uint64_t size)
{
	struct request *r = data;
	_cleanup_buf_ struct buf name = BUF(64 + 3 * LIMIT_PATH_PART);

	put_name(&name, path_last(r->values[BYTES_PATH].text));
	struct http_header header = { STR("Content-Disposition"), buf_str(&name) };
	struct http_reply reply = { .status = 200,
				    .content_type = r->match.route->type,
				    .headers = &header,
				    .n_headers = 1 };
	r->begun = true;
	http_begin(r->x, &reply, (int64_t)size);
}

static void archive_begun(void *data, uint64_t size)
{
	struct request *r = data;
	struct http_reply reply = { .status = 200, .content_type = r->match.route->type };

	r->begun = true;
	http_begin(r->x, &reply, -1);
}

void handle_download(struct request *r)
{
	static const struct files_download_ops ops = { download_begun, send_bytes, send_done };

	r->file = files_download(r->api->core, r->session, r->values[BYTES_PATH].text, &ops, r);
}

void handle_archive(struct request *r)
{
	static const struct files_download_ops ops = { archive_begun, send_bytes, send_done };

	r->file = files_archive(r->api->core, r->session, r->values[BYTES_PATH].text, &ops, r);
}
