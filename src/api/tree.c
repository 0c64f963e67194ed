// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"

#include <sys/stat.h>

#include "api/json-out.h"
#include "api/path.h"
#include "api/request.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"

/* ---- Listing ---- */

/* A whole path, and its cursor. */
#define SHOWN_MAX (16u * LIMIT_PATH)

/* What is not UTF-8 byte by byte as \xNN, and the backslash too, so that it can be told apart. */
static void put_raw(struct buf *out, struct str bytes)
{
	while (bytes.len) {
		size_t n = 1;
		while (n <= 4 && n <= bytes.len && !utf8_valid((struct str){ bytes.data, n }))
			n++;
		bool valid = n <= 4 && n <= bytes.len;
		if (valid && bytes.data[0] != '\\') {
			buf_put(out, bytes.data, n);
		} else {
			buf_printf(out, "\\x%02x", (unsigned char)bytes.data[0]);
			n = 1;
		}
		bytes = str_from(bytes, n);
	}
}

static void put_path(struct json_out *o, const char *key, struct str before, struct str path,
		     bool raw)
{
	_cleanup_buf_ struct buf text = BUF(SHOWN_MAX);

	buf_put_str(&text, before);
	if (raw)
		put_raw(&text, path);
	else
		buf_put_str(&text, path);
	json_out_str(o, key, buf_str(&text));
}

static const char *type_name(uint32_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "folder" : S_ISLNK(mode) ? "link" : "other";
}

static void put_entry(struct json_out *o, struct str before, const struct runtime_entry *e)
{
	bool raw = !utf8_valid(e->path) || !utf8_valid(e->target);

	json_out_object(o, NULL);
	put_path(o, "path", before, e->path, raw);
	json_out_text(o, "type", type_name(e->mode));
	json_out_int(o, "size_bytes", e->size > INT64_MAX ? INT64_MAX : (int64_t)e->size);
	json_out_int(o, "mode", e->mode & 07777);
	json_out_int(o, "mtime", e->mtime_s);
	if (S_ISLNK(e->mode))
		put_path(o, "target", STR(""), e->target, raw);
	if (raw)
		json_out_bool(o, "raw", true);
	json_out_end_object(o);
}

/* Entries are named from the folder; answers name them from the workspace. */
static void put_folder(struct buf *out, struct str path)
{
	struct str part;

	while (str_split(&path, '/', &part)) {
		if (!part.len || str_eq(part, STR(".")))
			continue;
		buf_put_str(out, part);
		buf_put_char(out, '/');
	}
}

static void put_next(struct json_out *o, struct str last)
{
	_cleanup_buf_ struct buf text = BUF(2 * LIMIT_PATH + 1);

	for (size_t i = 0; i < last.len; i++)
		buf_printf(&text, "%02x", (unsigned char)last.data[i]);
	json_out_str(o, "next", buf_str(&text));
}

static void list_done(void *data, const struct runtime_entry *entries, size_t n, bool more,
		      const struct err *err)
{
	struct request *r = data;
	_cleanup_buf_ struct buf before = BUF(LIMIT_PATH + 1);

	r->file = NULL;
	if (err) {
		request_fail_err(r, err);
		return;
	}
	put_folder(&before, r->values[LIST_PATH].text);
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_str(&o, "path", r->values[LIST_PATH].text);
	json_out_list(&o, "entries");
	for (size_t i = 0; i < n; i++)
		put_entry(&o, buf_str(&before), &entries[i]);
	json_out_end_list(&o);
	if (more)
		put_next(&o, entries[n - 1].path);
	else
		json_out_null(&o, "next");
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

static unsigned hex_digit(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* The path in the cursor, which was checked; in the request's arena. */
static struct str cursor_path(struct request *r, struct str text)
{
	char *path = arena_alloc(&r->arena, text.len / 2 + 1);

	for (size_t i = 0; i < text.len / 2; i++)
		path[i] =
			(char)(hex_digit(text.data[2 * i]) << 4 | hex_digit(text.data[2 * i + 1]));
	return (struct str){ path, text.len / 2 };
}

void handle_list(struct request *r)
{
	const struct value *v = r->values;

	r->file = files_list(r->api->core, r->session, v[LIST_PATH].text,
			     cursor_path(r, v[LIST_AFTER].text), (uint32_t)v[LIST_DEPTH].number,
			     list_done, r);
}

/* ---- Changes ---- */

/* True: it has failed, and the answer is given. */
static bool changed(struct request *r, const struct err *err)
{
	r->file = NULL;
	if (err)
		request_fail_err(r, err);
	return err != NULL;
}

static void remove_done(void *data, uint64_t number, const struct err *err)
{
	struct request *r = data;

	if (changed(r, err))
		return;
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_str(&o, "path", r->values[REMOVE_PATH].text);
	json_out_int(&o, "deleted", number > INT64_MAX ? INT64_MAX : (int64_t)number);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_remove(struct request *r)
{
	struct str path = r->values[REMOVE_PATH].text;

	if (path_is_workspace(path)) {
		struct str shown = path_echo(path);
		request_failf(r, "is_folder", "'%.*s' is the workspace itself.", (int)shown.len,
			      shown.data);
		return;
	}
	r->file = files_remove(r->api->core, r->session, path,
			       r->values[REMOVE_RECURSIVE].number != 0, remove_done, r);
}

static void move_done(void *data, uint64_t number, const struct err *err)
{
	struct request *r = data;

	if (changed(r, err))
		return;
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_str(&o, "from", r->values[MOVE_FROM].text);
	json_out_str(&o, "to", r->values[MOVE_TO].text);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_move(struct request *r)
{
	const struct value *v = r->values;

	r->file = files_move(r->api->core, r->session, v[MOVE_FROM].text, v[MOVE_TO].text,
			     v[MOVE_REPLACE].number != 0, move_done, r);
}

static void mkdir_done(void *data, uint64_t number, const struct err *err)
{
	struct request *r = data;

	if (changed(r, err))
		return;
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_str(&o, "path", r->values[MKDIR_PATH].text);
	json_out_bool(&o, "created", number != 0);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_mkdir(struct request *r)
{
	r->file = files_mkdir(r->api->core, r->session, r->values[MKDIR_PATH].text, mkdir_done, r);
}
