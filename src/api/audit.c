// SPDX-License-Identifier: Apache-2.0
/* The audit log (the contract, 14.3). */
#include "core/audit.h"

#include <inttypes.h>

#include "api/handlers.h"
#include "api/json-out.h"
#include "api/request.h"

const char *audit_off(const struct request *r)
{
	return audit_is_on(r->api->core) ? NULL : "audit_off";
}

static bool take_hex(struct str *text, size_t n_digits, uint64_t *ret)
{
	*ret = 0;
	if (text->len < n_digits)
		return false;
	for (size_t i = 0; i < n_digits; i++) {
		char c = text->data[i];
		if (c >= '0' && c <= '9')
			*ret = *ret << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			*ret = *ret << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*text = str_from(*text, n_digits);
	return true;
}

static bool parse_cursor(struct str text, int64_t *ret_us, uint32_t *ret_id)
{
	uint64_t us, id;

	if (!take_hex(&text, 16, &us) || us > INT64_MAX || !text.len || text.data[0] != '-')
		return false;
	text = str_from(text, 1);
	if (!take_hex(&text, 8, &id) || text.len)
		return false;
	*ret_us = (int64_t)us;
	*ret_id = (uint32_t)id;
	return true;
}

const char *audit_check_cursor(struct str text)
{
	int64_t us;
	uint32_t id;

	return parse_cursor(text, &us, &id) ? NULL : "malformed cursor";
}

static void put_entry(struct json_out *o, const struct store_audit *row)
{
	json_out_object(o, NULL);
	json_out_time(o, "ts", row->at_us);
	json_out_text(o, "session_id", row->session);
	json_out_text(o, "actor", row->actor);
	json_out_text(o, "kind", row->kind);
	json_out_text(o, "command", row->command);
	json_out_bool(o, "truncated", row->truncated);
	if (row->failed)
		json_out_null(o, "exit_code");
	else
		json_out_int(o, "exit_code", row->exit_code);
	if (row->duration_ms < 0)
		json_out_null(o, "duration_s");
	else
		json_out_seconds(o, "duration_s", (uint64_t)row->duration_ms);
	json_out_bool(o, "timed_out", row->timed_out);
	json_out_bool(o, "oom_killed", row->oom_killed);
	if (row->detail)
		json_out_text(o, "detail", row->detail);
	else
		json_out_null(o, "detail");
	json_out_end_object(o);
}

static void on_page(void *data, const struct store_audit_page *page, const struct err *err)
{
	struct request *r = data;
	char cursor[32];

	if (!request_goes_on(r, err))
		return;
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_text(&o, "tenant_id", r->tenant->name);
	json_out_list(&o, "entries");
	for (size_t i = 0; i < page->n; i++)
		put_entry(&o, &page->rows[i]);
	json_out_end_list(&o);
	if (page->more) {
		const struct store_audit *last = &page->rows[page->n - 1];
		snprintf(cursor, sizeof(cursor), "%016" PRIx64 "-%08" PRIx32, last->at_us,
			 (uint32_t)last->id);
		json_out_text(&o, "next", cursor);
	} else {
		json_out_null(&o, "next");
	}
	json_out_int(&o, "retention_days", r->api->config.audit_days);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_audit(struct request *r)
{
	const struct value *before = &r->values[AUDIT_BEFORE];
	int64_t us = INT64_MAX;
	uint32_t id = 0;

	if (before->set)
		parse_cursor(before->text, &us, &id);
	audit_page(r->api->core, r->tenant, us, id, (size_t)r->values[AUDIT_LIMIT].number, on_page,
		   r);
}
