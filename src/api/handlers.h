// SPDX-License-Identifier: Apache-2.0
/*
 * handlers: what the rows of the route table do once the ladder let a request pass. Each answers
 * exactly once (api/request.h). Their fields are rows of the tables beside them, in this order.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

struct request;

/* sessions.c */
enum {
	CREATE_TEMPLATE,
	CREATE_EGRESS,
	CREATE_METADATA,
	CREATE_SNAPSHOT,
	CREATE_PERSISTENT,
	CREATE_SECRETS,
	CREATE_FIELDS
};
const char *create_feature_off(const struct request *r);
void handle_session_create(struct request *r);
void handle_session_list(struct request *r);
void handle_session_show(struct request *r);
void handle_session_delete(struct request *r);

/* run.c */
enum { EXEC_COMMAND, EXEC_TIMEOUT, EXEC_CWD, EXEC_ENV, EXEC_STDIN, EXEC_FIELDS };
bool exec_limit(struct request *r);
void handle_exec(struct request *r);

/* texts.c */
enum { WRITE_PATH, WRITE_CONTENT, WRITE_FIELDS };
enum { READ_PATH, READ_FIELDS };
void handle_write(struct request *r);
void handle_read(struct request *r);

/* bytes.c */
enum { BYTES_PATH, BYTES_FIELDS };
void handle_upload(struct request *r);
void handle_download(struct request *r);
void handle_archive(struct request *r);

/* tree.c */
enum { LIST_PATH, LIST_DEPTH, LIST_AFTER, LIST_FIELDS };
enum { REMOVE_PATH, REMOVE_RECURSIVE, REMOVE_FIELDS };
enum { MOVE_FROM, MOVE_TO, MOVE_REPLACE, MOVE_FIELDS };
enum { MKDIR_PATH, MKDIR_FIELDS };
void handle_list(struct request *r);
void handle_remove(struct request *r);
void handle_move(struct request *r);
void handle_mkdir(struct request *r);

/* import.c */
enum { IMPORT_REPO, IMPORT_REF, IMPORT_PATH, IMPORT_FIELDS };
void handle_import(struct request *r);

/* snapshots.c */
enum { SNAPSHOT_NAME, SNAPSHOT_PATH, SNAPSHOT_FIELDS };
enum { RESTORE_ID, RESTORE_PATH, RESTORE_FIELDS };
enum { FORK_COUNT, FORK_SECRETS, FORK_FIELDS };
const char *snapshots_off(const struct request *r);
bool snapshot_limit(struct request *r);
void handle_snapshot_create(struct request *r);
void handle_restore(struct request *r);
void handle_snapshot_list(struct request *r);
void handle_snapshot_delete(struct request *r);
void handle_fork(struct request *r);

/* keys.c */
enum { KEY_NAME, KEY_FIELDS };
enum { ADMIN_KEY_TENANT, ADMIN_KEY_NAME, ADMIN_KEY_FIELDS };
enum { ADMIN_LIST_TENANT, ADMIN_LIST_FIELDS };
const char *keys_off(const struct request *r);
void handle_key_list(struct request *r);
void handle_key_issue(struct request *r);
void handle_key_revoke(struct request *r);
void handle_admin_key_list(struct request *r);
void handle_admin_key_issue(struct request *r);
void handle_admin_key_revoke(struct request *r);

/* audit.c */
enum { AUDIT_LIMIT, AUDIT_BEFORE, AUDIT_FIELDS };
const char *audit_off(const struct request *r);
const char *audit_check_cursor(struct str text);
void handle_audit(struct request *r);

/* account.c */
void handle_usage(struct request *r);
void handle_egress_policy(struct request *r);

/* egress.c */
enum { EGRESS_LOG_LIMIT, EGRESS_LOG_FIELDS };
void handle_egress_log(struct request *r);

/* health.c */
void handle_health(struct request *r);
void handle_description(struct request *r);
