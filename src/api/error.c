// SPDX-License-Identifier: Apache-2.0
#include "api/error.h"

#include <string.h>

#include "base/mem.h"

/* In the order of the contract, but for the first. */
const struct error_row error_rows[] = {
	{ "internal", 500, .text = "Internal Server Error" },
	{ "malformed_request", 400, .close = true, .text = "Malformed request." },
	{ "template_not_permitted", 400 },
	{ "is_folder", 400 },
	{ "not_regular_file", 400 },
	{ "not_in_folder", 400 },
	{ "not_utf8", 400 },
	{ "not_folder", 400 },
	{ "secret_name_reserved", 400 },
	{ "too_many_secrets", 400 },
	{ "bad_repo", 400 },
	{ "bad_ref", 400 },
	{ "bad_destination", 400 },
	{ "bad_tenant", 400,
	  .text = "Tenant names are 1-63 chars of lowercase letters, digits, '-' or '_'." },
	{ "unauthenticated", 401, .text = "Invalid or missing X-API-Key header" },
	{ "bad_admin_key", 401, .text = "Invalid or missing admin key" },
	{ "not_your_session", 403 },
	{ "egress_not_permitted", 403 },
	{ "path_outside", 403 },
	{ "permission_denied", 403 },
	{ "not_found", 404, .text = "Not Found" },
	{ "session_not_found", 404 },
	{ "file_not_found", 404 },
	{ "snapshot_not_found", 404, .text = "Snapshot not found" },
	{ "key_not_found", 404 },
	{ "repo_not_found", 404 },
	{ "admin_off", 404, .text = "The admin API is not enabled on this server." },
	{ "method_not_allowed", 405, .text = "Method Not Allowed" },
	{ "request_timeout", 408, .close = true, .text = "Request timed out." },
	{ "last_key", 409,
	  .text = "This is the tenant's last active key; create a new one before revoking it." },
	{ "too_many_keys", 409 },
	{ "destination_exists", 409 },
	{ "restore_conflict", 409 },
	{ "not_persistent", 409 },
	{ "persistent_unavailable", 409,
	  .text = "Persistent sandboxes are not available on this server." },
	{ "not_empty", 409 },
	{ "exists", 409 },
	{ "body_too_large", 413 },
	{ "upload_too_large", 413 },
	{ "file_too_large", 413 },
	{ "quota", 413 },
	{ "too_many_files", 413, .text = "The workspace has too many files." },
	{ "too_deep", 413, .text = "The workspace has more than 8,192 levels of folders." },
	{ "changed", 409,
	  .text = "The workspace was changed while it was being looked at; try again." },
	{ "snapshot_too_large", 413 },
	{ "snapshot_storage", 413 },
	{ "import_too_large", 413 },
	{ "import_no_space", 413 },
	{ "target_too_long", 414, .close = true, .text = "Request target too long." },
	{ "headers_too_large", 431, .close = true, .text = "Request headers too large." },
	{ "bad_content_type", 415, .text = "Content-Type must be application/json." },
	{ "invalid_request", 422 },
	{ "unpack_failed", 422 },
	{ "upgrade_required", 426, .text = "Use a WebSocket." },
	{ "rate_limited", 429 },
	{ "session_limit", 429 },
	{ "persistent_limit", 429 },
	{ "exec_limit", 429 },
	{ "snapshot_limit", 429 },
	{ "preview_limit", 429 },
	{ "keystore_off", 501,
	  .text = "Self-service keys are not enabled on this server (SANDBOX_KEYSTORE)." },
	{ "audit_off", 501,
	  .text = "The audit log is not enabled on this server (SANDBOX_AUDIT)." },
	{ "snapshots_off", 501,
	  .text = "Snapshots are not enabled on this server (SANDBOX_SNAPSHOTS)." },
	{ "previews_off", 501,
	  .text = "Previews are not enabled on this server (SANDBOX_PREVIEW_DOMAIN)." },
	{ "secrets_off", 501, .text = "Secrets are not enabled on this server." },
	{ "github_failed", 502 },
	{ "no_capacity", 503, .retry_after = 5,
	  .text = "All sandbox workspaces are in use; try again shortly." },
	{ "busy", 503, .retry_after = 5, .text = "The server is busy; try again shortly." },
	{ "snapshot_space", 503, .retry_after = 30,
	  .text = "Snapshot storage is full; try again later." },
	{ "too_many_connections", 503, .retry_after = 1, .close = true,
	  .text = "Too many connections; try again shortly." },
	{ "stopping", 503, .retry_after = 1, .close = true,
	  .text = "The server is stopping; try again shortly." },
	{ "http_version", 505, .close = true, .text = "Use HTTP/1.1." },
};

const size_t error_n_rows = ARRAY_SIZE(error_rows);

const struct error_row *error_find(const char *slug)
{
	for (size_t i = 0; slug && i < ARRAY_SIZE(error_rows); i++) {
		if (strcmp(error_rows[i].slug, slug) == 0)
			return &error_rows[i];
	}
	return &error_rows[0];
}
