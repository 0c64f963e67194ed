// SPDX-License-Identifier: Apache-2.0
/* Snapshots, restoring and forking (the contract, section 9). */
#include "core/snapshot.h"

#include "api/handlers.h"
#include "api/json-out.h"
#include "api/request.h"
#include "api/session-json.h"
#include "base/limits.h"

const char *snapshots_off(const struct request *r)
{
	return r->api->config.snapshots ? NULL : "snapshots_off";
}

bool snapshot_limit(struct request *r)
{
	struct err err;

	if (snapshot_check_limit(r->api->core, r->tenant, &err) >= 0)
		return true;
	request_fail_err(r, &err);
	return false;
}

static void put_record(struct json_out *o, const char *key, const struct snapshot *snap)
{
	json_out_object(o, key);
	json_out_text(o, "id", snap->id);
	json_out_text(o, "name", snap->name);
	json_out_int(o, "size_bytes", (int64_t)snap->size_bytes);
	json_out_text(o, "session_id", snap->session_id);
	json_out_time(o, "created_at", snap->created_us);
	if (snap->expires_us)
		json_out_time(o, "expires_at", snap->expires_us);
	else
		json_out_null(o, "expires_at");
	json_out_text(o, "path", snap->path);
	json_out_text(o, "template", snap->template_name);
	json_out_end_object(o);
}

/* ---- Making ---- */

static void taken(void *data, const struct snapshot *snap, const struct err *err)
{
	struct request *r = data;

	if (!request_goes_on(r, err))
		return;
	struct json_out o = request_json(r);
	put_record(&o, NULL, snap);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_snapshot_create(struct request *r)
{
	const struct value *name = &r->values[SNAPSHOT_NAME];

	snapshot_create(r->api->core, r->session, name->set ? name->text : (struct str){ NULL, 0 },
			r->values[SNAPSHOT_PATH].text, request_actor(r), taken, r);
}

/* ---- Restoring ---- */

/* "/workspace" and the parts that mean something. */
static void put_path(struct buf *out, struct str path)
{
	struct str part;

	buf_put_text(out, "/workspace");
	while (str_split(&path, '/', &part)) {
		if (!part.len || str_eq(part, STR(".")))
			continue;
		buf_put_char(out, '/');
		buf_put_str(out, part);
	}
}

static void restored(void *data, const struct snapshot *snap, const struct err *err)
{
	_cleanup_buf_ struct buf path = BUF(2 * LIMIT_PATH);
	struct request *r = data;

	if (!request_goes_on(r, err))
		return;
	put_path(&path, r->values[RESTORE_PATH].text);
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	put_record(&o, "restored", snap);
	json_out_str(&o, "path", buf_str(&path));
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_restore(struct request *r)
{
	snapshot_restore(r->api->core, r->session, r->values[RESTORE_ID].text,
			 r->values[RESTORE_PATH].text, request_actor(r), restored, r);
}

/* ---- The stored ones ---- */

void handle_snapshot_list(struct request *r)
{
	struct core *c = r->api->core;
	struct json_out o = request_json(r);

	json_out_object(&o, NULL);
	json_out_text(&o, "tenant_id", r->tenant->name);
	json_out_list(&o, "snapshots");
	for (struct snapshot *snap = snapshot_next(c, r->tenant, NULL); snap;
	     snap = snapshot_next(c, r->tenant, snap))
		put_record(&o, NULL, snap);
	json_out_end_list(&o);
	json_out_int(&o, "retention_days", r->api->config.snapshot_days);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

static void dropped(void *data, const struct snapshot *snap, const struct err *err)
{
	struct request *r = data;

	if (!request_goes_on(r, err))
		return;
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_text(&o, "status", "deleted");
	json_out_text(&o, "id", snap->id);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_snapshot_delete(struct request *r)
{
	struct snapshot *snap = snapshot_find(r->api->core, r->tenant, r->match.params[0]);

	if (snap)
		snapshot_delete(r->api->core, snap, dropped, r);
	else
		request_fail(r, "snapshot_not_found", NULL);
}

/* ---- Forking ---- */

static void forked(void *data, struct session *const *sessions, size_t n, const struct err *err)
{
	struct request *r = data;

	if (!request_goes_on(r, err))
		return;
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	json_out_list(&o, "sessions");
	for (size_t i = 0; i < n; i++) {
		json_out_object(&o, NULL);
		session_json_created(&o, r->api->core, sessions[i], (struct str){ NULL, 0 });
		json_out_end_object(&o);
	}
	json_out_end_list(&o);
	json_out_end_object(&o);
	request_reply(r, 201, buf_str(o.buf));
}

/* FORK_SECRETS has nothing to act on: sessions have no secrets here. */
void handle_fork(struct request *r)
{
	session_fork(r->api->core, r->session, (unsigned)r->values[FORK_COUNT].number,
		     request_actor(r), forked, r);
}
