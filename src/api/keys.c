// SPDX-License-Identifier: Apache-2.0
/* Stored keys, for their tenant and for the operator (the contract, sections 1.2 and 1.3). */
#include "core/key.h"

#include "api/handlers.h"
#include "api/json-out.h"
#include "api/request.h"

static const char note[] = "Store this key now: it is shown only once.";

const char *keys_off(const struct request *r)
{
	return keys_are_stored(r->api->core) ? NULL : "keystore_off";
}

/* ---- Records ---- */

static void put_fields(struct json_out *o, const struct key *k)
{
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "asb_%s_\xe2\x80\xa6", k->id);
	json_out_text(o, "key_id", k->id);
	json_out_text(o, "tenant_id", k->tenant->name);
	json_out_text(o, "name", k->name);
	json_out_time(o, "created_at", k->created_us);
	if (k->revoked_us)
		json_out_time(o, "revoked_at", k->revoked_us);
	else
		json_out_null(o, "revoked_at");
	json_out_bool(o, "active", !k->revoked_us);
	json_out_text(o, "prefix", prefix);
}

/* tenant NULL: of all. */
static void put_list(struct json_out *o, const struct core *c, const struct tenant *tenant)
{
	json_out_list(o, "keys");
	for (const struct key *k = key_next(c, tenant, NULL); k; k = key_next(c, tenant, k)) {
		json_out_object(o, NULL);
		put_fields(o, k);
		json_out_end_object(o);
	}
	json_out_end_list(o);
}

void handle_key_list(struct request *r)
{
	struct json_out o = request_json(r);

	json_out_object(&o, NULL);
	json_out_text(&o, "tenant_id", r->tenant->name);
	put_list(&o, r->api->core, r->tenant);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_admin_key_list(struct request *r)
{
	const struct value *name = &r->values[ADMIN_LIST_TENANT];
	const struct tenant *tenant = name->set ? tenant_find(r->api->core, name->text) : NULL;
	struct json_out o = request_json(r);

	json_out_object(&o, NULL);
	if (!name->set || tenant) {
		put_list(&o, r->api->core, tenant);
	} else {
		json_out_list(&o, "keys");
		json_out_end_list(&o);
	}
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

/* ---- Issuing ---- */

static void issued(void *data, const struct key *key, const char *text, const struct err *err)
{
	struct request *r = data;

	if (!request_goes_on(r, err))
		return;
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	put_fields(&o, key);
	json_out_text(&o, "api_key", text);
	json_out_text(&o, "note", note);
	json_out_end_object(&o);
	request_reply_secret(r, 201, &o);
}

void handle_key_issue(struct request *r)
{
	key_issue(r->api->core, str_of(r->tenant->name), r->values[KEY_NAME].text, issued, r);
}

void handle_admin_key_issue(struct request *r)
{
	key_issue(r->api->core, r->values[ADMIN_KEY_TENANT].text, r->values[ADMIN_KEY_NAME].text,
		  issued, r);
}

/* ---- Revoking ---- */

static void revoked(void *data, const struct key *key, const struct err *err)
{
	struct request *r = data;

	if (!request_goes_on(r, err))
		return;
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	put_fields(&o, key);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_key_revoke(struct request *r)
{
	/* Whoever gives up the key that it came with hears that it is gone. */
	r->key = NULL;
	key_revoke(r->api->core, r->tenant, r->match.params[0], revoked, r);
}

void handle_admin_key_revoke(struct request *r)
{
	key_revoke(r->api->core, NULL, r->match.params[0], revoked, r);
}
