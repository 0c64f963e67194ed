// SPDX-License-Identifier: Apache-2.0
/*
 * The table of everything that the REST interface answers, in the order of the contract. Rows whose
 * feature this server does not have yet say so with their 501; a path without a row is a 404.
 */
#include "api/env-name.h"
#include "api/handlers.h"
#include "api/path.h"
#include "api/route.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"

/* ---- Checks of single texts ---- */

static const char *check_command(struct str text)
{
	return text.len > LIMIT_COMMAND ? "a command has at most 131071 bytes" : NULL;
}

static const char *check_stdin(struct str text)
{
	return text.len > LIMIT_STDIN ? "stdin has at most 1048576 bytes" : NULL;
}

static const char *check_no_controls(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (utf8_control(str_from(text, i)))
			return "control characters are not allowed";
	}
	return NULL;
}

/* Blanks at the ends do not count, and a tab is one. */
static const char *check_trimmed_name(struct str text)
{
	return check_no_controls(str_trim(text));
}

/* A path in hexadecimal, as the list gives it. */
static const char *check_after(struct str text)
{
	bool ok = text.len % 2 == 0 && text.len <= 2 * LIMIT_PATH;

	for (size_t i = 0; i < text.len; i++) {
		ok &= memchr("0123456789abcdef", text.data[i], 16) != NULL;
		ok &= i % 2 == 0 || text.data[i] != '0' || text.data[i - 1] != '0';
	}
	return ok ? NULL : "malformed cursor";
}

/* ---- Fields ---- */

static const struct field create_fields[] = {
	[CREATE_TEMPLATE] = { "template", "Root image of the sandbox.", .type = FIELD_STRING,
			      .preset_text = "sandbox-base:latest",
			      .max_chars = LIMIT_TEMPLATE_NAME },
	[CREATE_EGRESS] = { "egress", "Hosts, wildcards and presets that may be reached.",
			    .type = FIELD_STRINGS, .max_items = 20, .max_chars = 253 },
	[CREATE_METADATA] = { "metadata", "Accepted and not kept.", .type = FIELD_MAP,
			      .nullable = true },
	[CREATE_SNAPSHOT] = { "snapshot_id", "Start with the files of this snapshot.",
			      .type = FIELD_STRING, .nullable = true },
	[CREATE_PERSISTENT] = { "persistent", "One sandbox for the whole session.",
				.type = FIELD_BOOL },
	[CREATE_SECRETS] = { "secrets", "Environment variables that are masked in output.",
			     .type = FIELD_MAP, .nullable = true, .hidden = true,
			     .check_name = secret_name_check, .check = secret_value_check },
};

static const struct field exec_fields[] = {
	[EXEC_COMMAND] = { "command", "One argument to /bin/bash -c.", .type = FIELD_STRING,
			   .required = true, .check = check_command },
	[EXEC_TIMEOUT] = { "timeout_seconds", "Everything of the command is killed after it.",
			   .type = FIELD_INT, .preset = 15, .min = 1, .max = 60 },
	[EXEC_CWD] = { "cwd", "Folder to start in, relative to /workspace.", .type = FIELD_STRING,
		       .check = path_check },
	[EXEC_ENV] = { "env", "Environment variables of this command.", .type = FIELD_MAP,
		       .hidden = true, .check_name = env_name_check, .check = env_value_check },
	[EXEC_STDIN] = { "stdin", "What the command reads; nothing when not given.",
			 .type = FIELD_STRING, .hidden = true, .check = check_stdin },
};

static const struct field write_fields[] = {
	[WRITE_PATH] = { "path", "Relative to /workspace.", .type = FIELD_STRING, .required = true,
			 .check = path_check },
	[WRITE_CONTENT] = { "content", "The whole new text of the file.", .type = FIELD_STRING,
			    .required = true, .nul_ok = true },
};

static const struct field read_fields[] = {
	[READ_PATH] = { "path", "Relative to /workspace.", IN_QUERY, FIELD_STRING, .required = true,
			.check = path_check },
};

static const struct field bytes_fields[] = {
	[BYTES_PATH] = { "path", "Relative to /workspace.", IN_QUERY, FIELD_STRING,
			 .required = true, .check = path_check },
};

static const struct field archive_fields[] = {
	[BYTES_PATH] = { "path", "The folder, relative to /workspace.", IN_QUERY, FIELD_STRING,
			 .preset_text = ".", .check = path_check },
};

static const struct field list_fields[] = {
	[LIST_PATH] = { "path", "The folder, relative to /workspace.", IN_QUERY, FIELD_STRING,
			.preset_text = ".", .check = path_check },
	[LIST_DEPTH] = { "depth", "Levels of folders.", IN_QUERY, FIELD_INT, .preset = 1, .min = 1,
			 .max = 16 },
	[LIST_AFTER] = { "after", "The next of the answer before.", IN_QUERY, FIELD_STRING,
			 .preset_text = "", .check = check_after },
};

static const struct field remove_fields[] = {
	[REMOVE_PATH] = { "path", "Relative to /workspace.", IN_QUERY, FIELD_STRING,
			  .required = true, .check = path_check },
	[REMOVE_RECURSIVE] = { "recursive", "A folder with all that is in it.", IN_QUERY,
			       FIELD_BOOL },
};

static const struct field move_fields[] = {
	[MOVE_FROM] = { "from", "Relative to /workspace.", .type = FIELD_STRING, .required = true,
			.check = path_check },
	[MOVE_TO] = { "to", "The new path; its folders are made.", .type = FIELD_STRING,
		      .required = true, .check = path_check },
	[MOVE_REPLACE] = { "replace", "Whether a file that is there may be replaced.",
			   .type = FIELD_BOOL },
};

static const struct field mkdir_fields[] = {
	[MKDIR_PATH] = { "path", "Relative to /workspace; parents are made.", .type = FIELD_STRING,
			 .required = true, .check = path_check },
};

static const struct field import_fields[] = {
	[IMPORT_REPO] = { "repo", "owner/repo or https://github.com/owner/repo.",
			  .type = FIELD_STRING, .required = true, .max_chars = 300 },
	[IMPORT_REF] = { "ref", "Branch, tag or commit; HEAD when not given.", .type = FIELD_STRING,
			 .nullable = true, .max_chars = 200 },
	[IMPORT_PATH] = { "path", "The folder to make; the repository's name when not given.",
			  .type = FIELD_STRING, .nullable = true, .max_chars = 200 },
};

static const struct field egress_log_fields[] = {
	[EGRESS_LOG_LIMIT] = { "limit", "The last so many events.", IN_QUERY, FIELD_INT,
			       .clamp = true, .preset = 200, .min = 1, .max = 1000 },
};

static const struct field audit_fields[] = {
	[AUDIT_LIMIT] = { "limit", "Entries in one answer.", IN_QUERY, FIELD_INT, .clamp = true,
			  .preset = 100, .min = 1, .max = 500 },
	[AUDIT_BEFORE] = { "before", "The next of the answer before.", IN_QUERY, FIELD_STRING,
			   .check = audit_check_cursor },
};

static const struct field key_fields[] = {
	[KEY_NAME] = { "name", "What the key is for.", .type = FIELD_STRING, .preset_text = "",
		       .max_chars = 100, .check = check_trimmed_name },
};

static const struct field admin_key_fields[] = {
	[ADMIN_KEY_TENANT] = { "tenant", "Whose key it will be.", .type = FIELD_STRING,
			       .required = true },
	[ADMIN_KEY_NAME] = { "name", "What the key is for.", .type = FIELD_STRING,
			     .preset_text = "", .max_chars = 100, .check = check_trimmed_name },
};

static const struct field admin_list_fields[] = {
	[ADMIN_LIST_TENANT] = { "tenant", "Only this tenant's keys.", IN_QUERY, FIELD_STRING },
};

static const struct field snapshot_fields[] = {
	[SNAPSHOT_NAME] = { "name", "A name for people.", .type = FIELD_STRING, .nullable = true,
			    .max_chars = 100, .check = check_trimmed_name },
	[SNAPSHOT_PATH] = { "path", "The folder to keep.", .type = FIELD_STRING, .preset_text = ".",
			    .check = path_check },
};

static const struct field restore_fields[] = {
	[RESTORE_ID] = { "snapshot_id", "Which snapshot.", .type = FIELD_STRING, .required = true },
	[RESTORE_PATH] = { "path", "The folder to put it into.", .type = FIELD_STRING,
			   .preset_text = ".", .check = path_check },
};

static const struct field fork_fields[] = {
	[FORK_COUNT] = { "count", "How many new sessions.", .type = FIELD_INT, .preset = 1,
			 .min = 1, .max = 16 },
	[FORK_SECRETS] = { "secrets", "Whether they get the secrets, too.", .type = FIELD_BOOL },
};

static const struct field preview_fields[] = {
	{ "port", "Port that a program inside listens on.", .type = FIELD_INT, .required = true,
	  .min = 1, .max = 65535 },
};

static const struct field preview_port_fields[] = {
	{ "port", "The port to close.", IN_PATH, FIELD_INT, .required = true, .min = 1,
	  .max = 65535 },
};

/* ---- Answers, for the description ---- */

#define SESSION_ANSWERS \
	{ "session_id", "string" }, { "tenant_id", "string" }, { "egress", "array" }, \
		{ "disk_quota_mb", "integer" }, { "created_at", "number" }, \
		{ "expires_at", "number" }, { "persistent", "boolean" }, \
	{ \
		"template", "string" \
	}
#define KEY_ANSWERS \
	{ "key_id", "string" }, { "tenant_id", "string" }, { "name", "string" }, \
		{ "created_at", "number" }, { "revoked_at", "number|null" }, \
		{ "active", "boolean" }, \
	{ \
		"prefix", "string" \
	}
#define SNAPSHOT_ANSWERS \
	{ "id", "string" }, { "name", "string" }, { "size_bytes", "integer" }, \
		{ "session_id", "string" }, { "created_at", "number" }, \
		{ "expires_at", "number|null" }, { "path", "string" }, \
	{ \
		"template", "string" \
	}
#define END \
	{ \
		NULL, NULL \
	}

static const struct route_answer create_answers[] = {
	SESSION_ANSWERS,
	{ "status", "string" },
	{ "snapshot_id", "string|null" },
	{ "secret_names", "array" },
	{ "runtime", "string" },
	END,
};
static const struct route_answer list_answers[] = {
	{ "tenant_id", "string" },
	{ "sessions", "array" },
	END,
};
static const struct route_answer show_answers[] = {
	SESSION_ANSWERS,
	{ "last_accessed_at", "number" },
	{ "disk_used_bytes", "integer|null" },
	{ "secret_names", "array" },
	{ "previews", "array" },
	{ "runtime", "string" },
	{ "posture", "object" },
	END,
};
static const struct route_answer delete_answers[] = {
	{ "status", "string" },
	{ "session_id", "string" },
	END,
};
static const struct route_answer exec_answers[] = {
	{ "command", "string" },      { "output", "string" },
	{ "stdout", "string" },	      { "stderr", "string" },
	{ "exit_code", "integer" },   { "timed_out", "boolean" },
	{ "oom_killed", "boolean" },  { "pids_limit_hit", "boolean" },
	{ "warnings", "array" },      { "duration_ms", "integer|null" },
	{ "cpu_ms", "integer|null" }, { "peak_memory_bytes", "integer|null" },
	{ "egress_denied", "array" }, END,
};
static const struct route_answer write_answers[] = {
	{ "status", "string" },
	{ "message", "string" },
	END,
};
static const struct route_answer read_answers[] = {
	{ "path", "string" },
	{ "content", "string" },
	END,
};
static const struct route_answer upload_answers[] = {
	{ "path", "string" },
	{ "size_bytes", "integer" },
	{ "status", "string" },
	END,
};
static const struct route_answer entries_answers[] = {
	{ "path", "string" },
	{ "entries", "array" },
	{ "next", "string|null" },
	END,
};
static const struct route_answer removed_answers[] = {
	{ "path", "string" },
	{ "deleted", "integer" },
	END,
};
static const struct route_answer moved_answers[] = {
	{ "from", "string" },
	{ "to", "string" },
	END,
};
static const struct route_answer made_answers[] = {
	{ "path", "string" },
	{ "created", "boolean" },
	END,
};
static const struct route_answer import_answers[] = {
	{ "repo", "string" },
	{ "ref", "string" },
	{ "path", "string" },
	{ "dest", "string" },
	{ "files", "integer" },
	{ "archive_bytes", "integer" },
	END,
};
static const struct route_answer events_answers[] = {
	{ "session_id", "string" },
	{ "events", "array" },
	END,
};
static const struct route_answer policy_answers[] = {
	{ "tenant_id", "string" },
	{ "allowed", "array" },
	END,
};
static const struct route_answer usage_answers[] = {
	{ "tenant_id", "string" },
	{ "limits", "object" },
	{ "sessions_open", "integer" },
	{ "commands_running", "integer" },
	{ "requests_available", "integer" },
	{ "persistent_open", "integer" },
	{ "snapshots_stored", "integer" },
	{ "snapshot_bytes", "integer" },
	{ "month", "object" },
	END,
};
static const struct route_answer health_answers[] = {
	{ "status", "string" },
	{ "active_sessions", "integer" },
	END,
};
static const struct route_answer audit_answers[] = {
	{ "tenant_id", "string" },
	{ "entries", "array" },
	{ "next", "string|null" },
	{ "retention_days", "integer" },
	END,
};
static const struct route_answer key_answers[] = { KEY_ANSWERS, END };
static const struct route_answer new_key_answers[] = {
	KEY_ANSWERS,
	{ "api_key", "string" },
	{ "note", "string" },
	END,
};
static const struct route_answer keys_answers[] = {
	{ "tenant_id", "string" },
	{ "keys", "array" },
	END,
};
static const struct route_answer admin_keys_answers[] = { { "keys", "array" }, END };
static const struct route_answer snapshot_answers[] = { SNAPSHOT_ANSWERS, END };
static const struct route_answer snapshots_answers[] = {
	{ "tenant_id", "string" },
	{ "snapshots", "array" },
	{ "retention_days", "integer" },
	END,
};
static const struct route_answer restore_answers[] = {
	{ "restored", "object" },
	{ "path", "string" },
	END,
};
static const struct route_answer fork_answers[] = {
	{ "sessions", "array" },
	END,
};
static const struct route_answer dropped_answers[] = {
	{ "status", "string" },
	{ "id", "string" },
	END,
};
static const struct route_answer preview_answers[] = {
	{ "port", "integer" },
	{ "url", "string" },
	{ "created_at", "number" },
	END,
};
static const struct route_answer previews_answers[] = {
	{ "session_id", "string" },
	{ "previews", "array" },
	END,
};
static const struct route_answer closed_answers[] = {
	{ "port", "integer" },
	{ "closed", "boolean" },
	END,
};

/* ---- Features that are not part of this server ---- */

static const char *previews_off(const struct request *r)
{
	return "previews_off";
}

/* ---- Routes ---- */

#define FIELDS(table) .fields = (table), .n_fields = ARRAY_SIZE(table)

const struct route routes[] = {
	{ "POST", "/v1/sessions", CALLER_TENANT, BODY_JSON, .secret = true, FIELDS(create_fields),
	  .feature_off = create_feature_off, .handle = handle_session_create, .status = 201,
	  .id = "createSession",
	  .summary = "Start a session with an empty workspace or with a snapshot's files",
	  .answers = create_answers, .also = "400 403 404 409 501 503" },
	{ "GET", "/v1/sessions", CALLER_TENANT, .handle = handle_session_list, .status = 200,
	  .id = "listSessions", .summary = "The caller's sessions, newest first",
	  .answers = list_answers },
	{ "GET", "/v1/sessions/{session_id}", CALLER_TENANT, .target = TARGET_LOOK,
	  .handle = handle_session_show, .status = 200, .id = "showSession",
	  .summary = "One session, what it uses and what holds it in", .answers = show_answers },
	{ "DELETE", "/v1/sessions/{session_id}", CALLER_TENANT, .target = TARGET_REMOVE,
	  .handle = handle_session_delete, .status = 200, .id = "deleteSession",
	  .summary = "End a session and wipe its files", .answers = delete_answers },
	{ "POST", "/v1/sessions/{session_id}/exec", CALLER_TENANT, BODY_JSON, TARGET_USE,
	  FIELDS(exec_fields), .limit = exec_limit, .handle = handle_exec, .status = 200,
	  .id = "exec", .summary = "Run a command and wait for its end", .answers = exec_answers,
	  .also = "400 503", .events = true },
	{ "POST", "/v1/sessions/{session_id}/write", CALLER_TENANT, BODY_WRITE, TARGET_USE,
	  FIELDS(write_fields), .handle = handle_write, .status = 200, .id = "writeFile",
	  .summary = "Write a text file", .answers = write_answers, .also = "400 503" },
	{ "GET", "/v1/sessions/{session_id}/read", CALLER_TENANT, .target = TARGET_USE,
	  FIELDS(read_fields), .handle = handle_read, .status = 200, .id = "readFile",
	  .summary = "Read a text file; a missing one is a sentence in content",
	  .answers = read_answers, .also = "400 413 503" },
	{ "PUT", "/v1/sessions/{session_id}/files", CALLER_TENANT, BODY_BYTES, TARGET_USE,
	  FIELDS(bytes_fields), .handle = handle_upload, .status = 200, .id = "uploadFile",
	  .summary = "Write a file of any bytes", .answers = upload_answers, .also = "400 503" },
	{ "GET", "/v1/sessions/{session_id}/files", CALLER_TENANT, .target = TARGET_USE,
	  FIELDS(bytes_fields), .handle = handle_download, .status = 200, .id = "downloadFile",
	  .summary = "A file's bytes", .type = "application/octet-stream", .also = "400 413 503" },
	{ "DELETE", "/v1/sessions/{session_id}/files", CALLER_TENANT, .target = TARGET_USE,
	  FIELDS(remove_fields), .handle = handle_remove, .status = 200, .id = "deleteFile",
	  .summary = "Delete a file or folder; a missing one is 0 deleted",
	  .answers = removed_answers, .also = "400 409 503" },
	{ "GET", "/v1/sessions/{session_id}/archive", CALLER_TENANT, .target = TARGET_USE,
	  FIELDS(archive_fields), .handle = handle_archive, .status = 200, .id = "downloadArchive",
	  .summary = "A folder as a tar in gzip", .type = "application/gzip",
	  .also = "400 413 503" },
	{ "GET", "/v1/sessions/{session_id}/list", CALLER_TENANT, .target = TARGET_USE,
	  FIELDS(list_fields), .handle = handle_list, .status = 200, .id = "listFiles",
	  .summary = "What is in a folder, sorted by path", .answers = entries_answers,
	  .also = "400 503" },
	{ "POST", "/v1/sessions/{session_id}/move", CALLER_TENANT, BODY_JSON, TARGET_USE,
	  FIELDS(move_fields), .handle = handle_move, .status = 200, .id = "moveFile",
	  .summary = "Rename a file or folder", .answers = moved_answers, .also = "400 409 503" },
	{ "POST", "/v1/sessions/{session_id}/mkdir", CALLER_TENANT, BODY_JSON, TARGET_USE,
	  FIELDS(mkdir_fields), .handle = handle_mkdir, .status = 200, .id = "makeFolder",
	  .summary = "Make a folder and its parents", .answers = made_answers,
	  .also = "400 409 503" },
	{ "POST", "/v1/sessions/{session_id}/import", CALLER_TENANT, BODY_JSON, TARGET_USE,
	  FIELDS(import_fields), .handle = handle_import, .status = 200, .id = "importRepository",
	  .summary = "Unpack a GitHub repository into a new folder", .answers = import_answers,
	  .also = "400 409 502 503" },
	{ "GET", "/v1/sessions/{session_id}/egress", CALLER_TENANT, .target = TARGET_USE,
	  FIELDS(egress_log_fields), .handle = handle_egress_log, .status = 200,
	  .id = "listEgressEvents", .summary = "What the session tried to reach",
	  .answers = events_answers },
	{ "GET", "/v1/egress/policy", CALLER_TENANT, .handle = handle_egress_policy, .status = 200,
	  .id = "showEgressPolicy", .summary = "What the caller's sessions may be allowed to reach",
	  .answers = policy_answers },
	{ "GET", "/v1/usage", CALLER_TENANT, .handle = handle_usage, .status = 200,
	  .id = "showUsage", .summary = "Limits and what is used of them",
	  .answers = usage_answers },
	{ "GET", "/v1/audit", CALLER_TENANT, FIELDS(audit_fields), .feature_off = audit_off,
	  .handle = handle_audit, .status = 200, .id = "listAudit",
	  .summary = "What ran, newest first", .answers = audit_answers, .also = "501" },
	{ "POST", "/v1/sessions/{session_id}/snapshots", CALLER_TENANT, BODY_JSON, TARGET_USE,
	  FIELDS(snapshot_fields), .feature_off = snapshots_off, .limit = snapshot_limit,
	  .handle = handle_snapshot_create, .status = 200, .id = "createSnapshot",
	  .summary = "Keep a copy of a folder", .answers = snapshot_answers,
	  .also = "400 501 503" },
	{ "POST", "/v1/sessions/{session_id}/restore", CALLER_TENANT, BODY_JSON, TARGET_USE,
	  FIELDS(restore_fields), .feature_off = snapshots_off, .handle = handle_restore,
	  .status = 200, .id = "restoreSnapshot", .summary = "Put a snapshot's files into a folder",
	  .answers = restore_answers, .also = "400 409 501 503" },
	{ "POST", "/v1/sessions/{session_id}/fork", CALLER_TENANT, BODY_JSON, TARGET_USE,
	  FIELDS(fork_fields), .handle = handle_fork, .status = 201, .id = "forkSession",
	  .summary = "New sessions that begin with this one's files", .answers = fork_answers,
	  .also = "503" },
	{ "GET", "/v1/snapshots", CALLER_TENANT, .feature_off = snapshots_off,
	  .handle = handle_snapshot_list, .status = 200, .id = "listSnapshots",
	  .summary = "The caller's snapshots, newest first", .answers = snapshots_answers,
	  .also = "501" },
	{ "DELETE", "/v1/snapshots/{snapshot_id}", CALLER_TENANT, .feature_off = snapshots_off,
	  .handle = handle_snapshot_delete, .status = 200, .id = "deleteSnapshot",
	  .summary = "Delete a snapshot", .answers = dropped_answers, .also = "404 501" },
	{ "POST", "/v1/sessions/{session_id}/previews", CALLER_TENANT, BODY_JSON, TARGET_USE,
	  FIELDS(preview_fields), .feature_off = previews_off, .status = 200, .id = "openPreview",
	  .summary = "A URL that reaches a port inside", .answers = preview_answers,
	  .also = "409 501" },
	{ "GET", "/v1/sessions/{session_id}/previews", CALLER_TENANT, .target = TARGET_USE,
	  .feature_off = previews_off, .status = 200, .id = "listPreviews",
	  .summary = "Ports that are open", .answers = previews_answers, .also = "501" },
	{ "DELETE", "/v1/sessions/{session_id}/previews/{port}", CALLER_TENANT,
	  .target = TARGET_USE, FIELDS(preview_port_fields), .feature_off = previews_off,
	  .status = 200, .id = "closePreview", .summary = "Close a port", .answers = closed_answers,
	  .also = "501" },
	{ "GET", "/v1/keys", CALLER_TENANT, .feature_off = keys_off, .handle = handle_key_list,
	  .status = 200, .id = "listKeys", .summary = "The caller's stored keys",
	  .answers = keys_answers, .also = "501" },
	{ "POST", "/v1/keys", CALLER_TENANT, BODY_JSON, FIELDS(key_fields), .feature_off = keys_off,
	  .handle = handle_key_issue, .status = 201, .id = "createKey", .summary = "A new key",
	  .answers = new_key_answers, .also = "400 409 501" },
	{ "DELETE", "/v1/keys/{key_id}", CALLER_TENANT, .feature_off = keys_off,
	  .handle = handle_key_revoke, .status = 200, .id = "revokeKey", .summary = "Revoke a key",
	  .answers = key_answers, .also = "404 409 501" },
	{ "GET", "/v1/admin/keys", CALLER_ADMIN, FIELDS(admin_list_fields), .feature_off = keys_off,
	  .handle = handle_admin_key_list, .status = 200, .id = "adminListKeys",
	  .summary = "Stored keys of all tenants", .answers = admin_keys_answers,
	  .also = "404 501" },
	{ "POST", "/v1/admin/keys", CALLER_ADMIN, BODY_JSON, FIELDS(admin_key_fields),
	  .feature_off = keys_off, .handle = handle_admin_key_issue, .status = 201,
	  .id = "adminCreateKey", .summary = "A new key for a tenant", .answers = new_key_answers,
	  .also = "400 404 409 501" },
	{ "DELETE", "/v1/admin/keys/{key_id}", CALLER_ADMIN, .feature_off = keys_off,
	  .handle = handle_admin_key_revoke, .status = 200, .id = "adminRevokeKey",
	  .summary = "Revoke any key", .answers = key_answers, .also = "404 501" },
	{ "GET", "/healthz", CALLER_ANYONE, .handle = handle_health, .status = 200, .id = "health",
	  .summary = "Whether the server serves", .answers = health_answers, .also = "503" },
	{ "HEAD", "/healthz", CALLER_ANYONE, .handle = handle_health, .status = 200 },
	{ "GET", "/openapi.json", CALLER_ANYONE, .handle = handle_description, .status = 200 },
};

const size_t n_routes = ARRAY_SIZE(routes);
