// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"

#include "api/json-out.h"
#include "api/request.h"
#include "api/session-json.h"
#include "base/limits.h"
#include "ipc/posture.h"

#define EGRESS_MAX 20

static void put_egress(struct json_out *o, const struct session *s)
{
	json_out_list(o, "egress");
	for (size_t i = 0; i < s->egress.n; i++)
		json_out_text(o, NULL, s->egress.rules[i]);
	json_out_end_list(o);
}

static void put_empty_list(struct json_out *o, const char *key)
{
	json_out_list(o, key);
	json_out_end_list(o);
}

/* What create, list and show have in common. */
static void put_session(struct json_out *o, struct core *c, const struct session *s)
{
	json_out_text(o, "session_id", s->id);
	json_out_text(o, "tenant_id", s->tenant->name);
	put_egress(o, s);
	json_out_int(o, "disk_quota_mb", (int64_t)(s->quota_bytes / MIB));
	json_out_time(o, "created_at", s->created_us);
	json_out_time(o, "expires_at", session_expires_us(c, s));
	json_out_bool(o, "persistent", s->persistent);
	json_out_text(o, "template", s->template_name);
}

const char *create_feature_off(const struct request *r)
{
	const struct value *v = r->values;

	if (v[CREATE_SNAPSHOT].set && snapshots_off(r))
		return snapshots_off(r);
	return json_object_size(v[CREATE_SECRETS].json) ? "secrets_off" : NULL;
}

/* What the request asks for; egress has room for all of its items. */
static struct session_params take_params(const struct request *r, struct str egress[EGRESS_MAX])
{
	const struct value *v = r->values;
	struct session_params params = { .template_name = v[CREATE_TEMPLATE].text,
					 .egress = egress,
					 .n_egress = json_array_size(v[CREATE_EGRESS].json),
					 .persistent = v[CREATE_PERSISTENT].number != 0 };

	if (v[CREATE_SNAPSHOT].set)
		params.snapshot_id = v[CREATE_SNAPSHOT].text;
	for (size_t i = 0; i < params.n_egress; i++) {
		const json_t *item = json_array_get(v[CREATE_EGRESS].json, i);
		egress[i] = (struct str){ json_string_value(item), json_string_length(item) };
	}
	return params;
}

/* Lists of templates or hosts may be more than an error of the core can hold. */
static void refuse(struct request *r, const struct err *err)
{
	_cleanup_buf_ struct buf text = BUF(64 * KIB);
	struct str egress[EGRESS_MAX];
	const struct session_params params = take_params(r, egress);

	session_refusal(r->api->core, r->tenant, &params, err->slug, &text);
	if (text.len)
		request_fail(r, err->slug, text.data);
	else
		request_fail_err(r, err);
}

void session_json_created(struct json_out *o, struct core *c, const struct session *s,
			  struct str snapshot_id)
{
	put_session(o, c, s);
	json_out_text(o, "status", "ready");
	if (snapshot_id.data)
		json_out_str(o, "snapshot_id", snapshot_id);
	else
		json_out_null(o, "snapshot_id");
	put_empty_list(o, "secret_names");
	json_out_text(o, "runtime", core_config_get(c)->runtime_name);
}

static void created(void *data, struct session *s, const struct err *err)
{
	struct request *r = data;

	if (!r->api) {
		request_free(r);
		return;
	}
	if (err) {
		refuse(r, err);
		return;
	}
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	const struct value *from = &r->values[CREATE_SNAPSHOT];
	session_json_created(&o, r->api->core, s, from->set ? from->text : (struct str){ NULL, 0 });
	json_out_end_object(&o);
	request_reply(r, 201, buf_str(o.buf));
}

void handle_session_create(struct request *r)
{
	struct str egress[EGRESS_MAX];
	const struct session_params params = take_params(r, egress);

	session_create(r->api->core, r->tenant, &params, created, r);
}

void handle_session_list(struct request *r)
{
	struct core *c = r->api->core;
	struct json_out o = request_json(r);

	json_out_object(&o, NULL);
	json_out_text(&o, "tenant_id", r->tenant->name);
	json_out_list(&o, "sessions");
	for (struct session *s = session_next(c, r->tenant, NULL); s;
	     s = session_next(c, r->tenant, s)) {
		json_out_object(&o, NULL);
		put_session(&o, c, s);
		json_out_time(&o, "last_accessed_at", s->accessed_us);
		json_out_end_object(&o);
	}
	json_out_end_list(&o);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

static void put_posture(struct json_out *o, struct core *c, const struct session *s)
{
	uint32_t bits = runtime_posture(core_runtime(c), s->id, s->tenant->number);

	json_out_object(o, "posture");
	for (unsigned i = 0; i < POSTURE_BITS; i++)
		json_out_bool(o, posture_name(i), (bits >> i & 1) != 0);
	json_out_end_object(o);
}

static void measured(void *data, uint64_t used_bytes, const struct err *err)
{
	struct request *r = data;
	struct session *s;

	if (!r->api) {
		request_free(r);
		return;
	}
	struct core *c = r->api->core;
	s = session_find(c, str_of(r->session_id));
	if (!s) {
		request_fail(r, "session_not_found", "Session not found or expired");
		return;
	}
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	put_session(&o, c, s);
	json_out_time(&o, "last_accessed_at", s->accessed_us);
	if (err)
		json_out_null(&o, "disk_used_bytes");
	else
		json_out_int(&o, "disk_used_bytes", (int64_t)used_bytes);
	put_empty_list(&o, "secret_names");
	put_empty_list(&o, "previews");
	json_out_text(&o, "runtime", core_config_get(c)->runtime_name);
	put_posture(&o, c, s);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_session_show(struct request *r)
{
	memcpy(r->session_id, r->session->id, sizeof(r->session_id));
	session_disk_used(r->api->core, r->session, measured, r);
}

static void deleted(void *data, struct session *s, const struct err *err)
{
	struct request *r = data;

	if (!r->api) {
		request_free(r);
		return;
	}
	if (err) {
		request_fail_err(r, err);
		return;
	}
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_text(&o, "status", "terminated");
	json_out_text(&o, "session_id", r->session_id);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_session_delete(struct request *r)
{
	memcpy(r->session_id, r->session->id, sizeof(r->session_id));
	session_delete(r->api->core, r->session, deleted, r);
}
