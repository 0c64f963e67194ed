// SPDX-License-Identifier: Apache-2.0
/*
 * Importing a repository (the contract, section 13). A client that hangs up, or ends its side of
 * the connection, while nothing is unpacked yet has its import ended.
 */
#include "api/handlers.h"

#include "api/json-out.h"
#include "api/request.h"
#include "base/mem.h"
#include "core/repository.h"

static void put_path(struct json_out *o, const char *path)
{
	char whole[sizeof("/workspace/") + REPOSITORY_PATH_MAX];

	snprintf(whole, sizeof(whole), "/workspace/%s", path);
	json_out_text(o, "path", whole);
	json_out_text(o, "dest", path);
}

static void put_repository(struct json_out *o, const struct repository *repository)
{
	char name[REPOSITORY_OWNER_MAX + REPOSITORY_NAME_MAX + 2];

	snprintf(name, sizeof(name), "%s/%s", repository->owner, repository->name);
	json_out_text(o, "repo", name);
	json_out_text(o, "ref", repository->ref);
	put_path(o, repository->path);
}

static void imported(void *data, const struct import_result *result, const struct err *err)
{
	struct request *r = data;

	r->import = NULL;
	if (err) {
		request_fail_err(r, err);
		return;
	}
	struct json_out o = request_json(r);
	json_out_object(&o, NULL);
	put_repository(&o, result->repository);
	json_out_int(&o, "files", (int64_t)result->files);
	json_out_int(&o, "archive_bytes", (int64_t)result->archive_bytes);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

static void hung_up(void *data)
{
	struct request *r = data;

	import_detach(take_ptr(r->import));
	http_abort(r->x);
	request_free(r);
}

void handle_import(struct request *r)
{
	const struct value *v = r->values;
	const struct import_params params = { .repo = v[IMPORT_REPO].text,
					      .ref = v[IMPORT_REF].text,
					      .path = v[IMPORT_PATH].text,
					      .actor = request_actor(r) };
	struct err err;

	if (import_start(r->api->core, r->session, &params, imported, r, &r->import, &err) < 0)
		request_fail_err(r, &err);
	else
		http_on_hangup(r->x, hung_up, r);
}
