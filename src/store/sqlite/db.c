// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/db.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"
#include "store/sqlite/wal.h"

/* Small: what is stored is small, and it is read once. WAL with FULL: a commit that was reported is
 * on the disk. The checkpoint is every 256 pages, so that the commit that pays for it pays little. */
static const char settings[] = "PRAGMA journal_mode=WAL;"
			       "PRAGMA synchronous=FULL;"
			       "PRAGMA foreign_keys=ON;"
			       "PRAGMA trusted_schema=OFF;"
			       "PRAGMA cell_size_check=ON;"
			       "PRAGMA temp_store=MEMORY;"
			       "PRAGMA mmap_size=0;"
			       "PRAGMA cache_size=-256;"
			       "PRAGMA wal_autocheckpoint=256;"
			       "PRAGMA journal_size_limit=4194304;";

/* What version 1 had. A new database begins as one of that time and is brought up to date in the
 * same steps as an old one. */
static const char schema[] =
	"BEGIN IMMEDIATE;"
	"CREATE TABLE schema(version INTEGER NOT NULL) STRICT;"
	"CREATE TABLE tenant(number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE)"
	" STRICT;"
	"CREATE TABLE session(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, template TEXT NOT NULL,"
	" egress TEXT NOT NULL, persistent INTEGER NOT NULL, quota_bytes INTEGER NOT NULL,"
	" created_us INTEGER NOT NULL, accessed_us INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE volume_journal(id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;"
	"CREATE TABLE usage(tenant TEXT NOT NULL, period TEXT NOT NULL, sessions INTEGER NOT NULL,"
	" commands INTEGER NOT NULL, command_ms INTEGER NOT NULL, PRIMARY KEY(tenant, period))"
	" STRICT, WITHOUT ROWID;"
	"INSERT INTO schema(version) VALUES(1);"
	"COMMIT;";

/* Each whole or not at all: what makes version n + 1 of version n. */
static const char *const upgrades[] = {
	[1] = "BEGIN IMMEDIATE;"
	      "CREATE TABLE snapshot(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL,"
	      " path TEXT NOT NULL, session TEXT NOT NULL, template TEXT NOT NULL,"
	      " size_bytes INTEGER NOT NULL, created_us INTEGER NOT NULL,"
	      " expires_us INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	      "ALTER TABLE session ADD COLUMN shared_bytes INTEGER NOT NULL DEFAULT 0;"
	      "ALTER TABLE session ADD COLUMN forked_bytes INTEGER NOT NULL DEFAULT 0;"
	      "UPDATE schema SET version=2;"
	      "COMMIT;",
	[2] = "BEGIN IMMEDIATE;"
	      "CREATE TABLE key(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL,"
	      " hash TEXT NOT NULL, created_us INTEGER NOT NULL, revoked_us INTEGER NOT NULL)"
	      " STRICT, WITHOUT ROWID;"
	      "CREATE TABLE audit(id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL,"
	      " tenant TEXT NOT NULL, session TEXT NOT NULL, actor TEXT NOT NULL,"
	      " kind TEXT NOT NULL, command TEXT NOT NULL, truncated INTEGER NOT NULL,"
	      " exit_code INTEGER, duration_ms INTEGER, timed_out INTEGER NOT NULL,"
	      " oom_killed INTEGER NOT NULL, detail TEXT, open INTEGER NOT NULL) STRICT;"
	      "CREATE INDEX audit_page ON audit(tenant, at_us, id) WHERE open=0;"
	      "CREATE INDEX audit_age ON audit(at_us) WHERE open=0;"
	      "CREATE INDEX audit_open ON audit(open) WHERE open=1;"
	      "UPDATE schema SET version=3;"
	      "COMMIT;",
};

static const char *const texts[DB_STATEMENTS] = {
	[DB_BEGIN] = "BEGIN IMMEDIATE",
	[DB_COMMIT] = "COMMIT",
	[DB_ROLLBACK] = "ROLLBACK",
	[DB_PUT_SESSION] = "INSERT INTO session(id, tenant, template, egress, persistent,"
			   " quota_bytes, created_us, accessed_us, shared_bytes, forked_bytes)"
			   " VALUES(?,?,?,?,?,?,?,?,?,?)",
	[DB_DROP_SESSION] = "DELETE FROM session WHERE id=?",
	[DB_TOUCH_SESSION] = "UPDATE session SET accessed_us=?2 WHERE id=?1",
	[DB_SHARE_SESSION] = "UPDATE session SET shared_bytes=?2, forked_bytes=?3 WHERE id=?1",
	[DB_PUT_SNAPSHOT] = "INSERT INTO snapshot(id, tenant, name, path, session, template,"
			    " size_bytes, created_us, expires_us) VALUES(?,?,?,?,?,?,?,?,?)",
	[DB_DROP_SNAPSHOT] = "DELETE FROM snapshot WHERE id=?",
	[DB_ADD_JOURNAL] = "INSERT OR IGNORE INTO volume_journal(id) VALUES(?)",
	[DB_CLEAR_JOURNAL] = "DELETE FROM volume_journal WHERE id=?",
	[DB_ADD_USAGE] = "INSERT INTO usage(tenant, period, sessions, commands, command_ms)"
			 " VALUES(?,?,?,?,?) ON CONFLICT DO UPDATE SET"
			 " sessions=sessions+excluded.sessions,"
			 " commands=commands+excluded.commands,"
			 " command_ms=command_ms+excluded.command_ms",
	[DB_PUT_KEY] = "INSERT INTO key(id, tenant, name, hash, created_us, revoked_us)"
		       " VALUES(?,?,?,?,?,?)",
	[DB_REVOKE_KEY] = "UPDATE key SET revoked_us=?2 WHERE id=?1 AND revoked_us=0",
	[DB_DROP_KEY] = "DELETE FROM key WHERE id=?",
	[DB_PUT_AUDIT] = "INSERT OR REPLACE INTO audit(id, at_us, tenant, session, actor, kind,"
			 " command, truncated, exit_code, duration_ms, timed_out, oom_killed,"
			 " detail, open) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[DB_DROP_AUDIT] = "DELETE FROM audit WHERE id=?",
	[DB_CLOSE_AUDIT] = "UPDATE audit SET open=0, at_us=?1, detail=?2 WHERE open=1",
	[DB_LAST_AUDIT] = "SELECT coalesce(max(id), 0) FROM audit",
	[DB_PAGE_AUDIT] = "SELECT id, at_us, session, actor, kind, command, truncated, exit_code,"
			  " duration_ms, timed_out, oom_killed, detail FROM audit"
			  " WHERE open=0 AND tenant=?1 AND at_us BETWEEN ?2 AND ?3"
			  " AND NOT (at_us=?3 AND (id & 0xffffffff)>=?4)"
			  " ORDER BY at_us DESC, id DESC LIMIT ?5",
	[DB_PRUNE_AUDIT] = "DELETE FROM audit WHERE id IN (SELECT id FROM audit"
			   " WHERE open=0 AND at_us<?1 ORDER BY at_us LIMIT ?2)",
	[DB_LOAD_SESSIONS] = "SELECT id, tenant, template, egress, persistent, quota_bytes,"
			     " created_us, accessed_us, shared_bytes, forked_bytes FROM session"
			     " ORDER BY created_us, id",
	[DB_LOAD_SNAPSHOTS] = "SELECT id, tenant, name, path, session, template, size_bytes,"
			      " created_us, expires_us FROM snapshot ORDER BY created_us, id",
	[DB_LOAD_JOURNAL] = "SELECT id FROM volume_journal",
	[DB_LOAD_USAGE] = "SELECT tenant, period, sessions, commands, command_ms FROM usage",
	[DB_LOAD_KEYS] = "SELECT id, tenant, name, hash, created_us, revoked_us FROM key"
			 " ORDER BY created_us, id",
	[DB_FIND_TENANT] = "SELECT number FROM tenant WHERE name=?",
	[DB_ADD_TENANT] = "INSERT INTO tenant(name) VALUES(?)",
};

/* ---- Running ---- */

static int explain(struct db *db, int code, struct err *err)
{
	const char *text = db->sqlite ? sqlite3_errmsg(db->sqlite) : sqlite3_errstr(code);
	int kernel = sqlite3_system_errno(db->sqlite);

	if (code == SQLITE_CANTOPEN_SYMLINK)
		return err_set(err, ELOOP, "a symbolic link is on its path; name the real one");
	switch (code & 0xff) {
	case SQLITE_FULL:
		return err_set(err, ENOSPC, "%s", text);
	case SQLITE_BUSY:
		return err_set(err, EBUSY, "another program holds it: %s", text);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return err_set(err, EUCLEAN, "%s", text);
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		errno = kernel;
		return kernel ? err_errno(err, "%s", text) : err_set(err, EIO, "%s", text);
	}
	return err_set(err, EIO, "%s", text);
}

sqlite3_stmt *db_bind(struct db *db, enum db_statement which, const char *types, ...)
{
	sqlite3_stmt *stmt = db->statements[which];
	va_list ap;
	int r = SQLITE_OK;

	va_start(ap, types);
	for (int i = 0; types[i] && r == SQLITE_OK; i++) {
		if (types[i] == 't')
			r = sqlite3_bind_text(stmt, i + 1, va_arg(ap, const char *), -1,
					      SQLITE_STATIC);
		else
			r = sqlite3_bind_int64(stmt, i + 1, va_arg(ap, int64_t));
	}
	va_end(ap);
	assert(r == SQLITE_OK);
	return stmt;
}

int db_step(struct db *db, sqlite3_stmt *stmt, struct err *err)
{
	int r = sqlite3_step(stmt);

	if (r == SQLITE_ROW)
		return 1;
	int failed = 0;

	if (r != SQLITE_DONE) {
		explain(db, r, err);
		failed = err_wrap(err, "%s", sqlite3_db_filename(db->sqlite, "main"));
	}
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return failed;
}

int db_run(struct db *db, enum db_statement which, struct err *err)
{
	return db_step(db, db->statements[which], err);
}

/* ---- Opening ---- */

/* The descriptor stays open as long as sqlite uses the file: closing any descriptor of a file drops
 * the process's fcntl locks on it, which are sqlite's. flock is another lock, and ours. */
static int lock_file(const char *path, int *ret_fd, bool *ret_made, struct err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	bool is_missing = fd < 0 && errno == ENOENT;
	struct stat st;

	if (is_missing)
		fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "opening the state database %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "the state database %s is not a regular file", path);
	if (st.st_uid != geteuid())
		return err_set(err, EPERM, "the state database %s belongs to another user", path);
	if ((st.st_mode & 07777) != 0600 && fchmod(fd, 0600) < 0)
		return err_errno(err, "making the state database %s private", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? err_set(err, EBUSY, "another server uses the state database %s",
					 path)
			       : err_errno(err, "locking the state database %s", path);
	*ret_fd = take_fd(&fd);
	*ret_made = is_missing;
	return 0;
}

static int exec_text(struct db *db, const char *text, struct err *err)
{
	int r = sqlite3_exec(db->sqlite, text, NULL, NULL, NULL);

	return r == SQLITE_OK ? 0 : explain(db, r, err);
}

/* The first column of the first row as text ("" when there is none). */
static int query(struct db *db, const char *text, char *ret, size_t len, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	int r = sqlite3_prepare_v2(db->sqlite, text, -1, &stmt, NULL);

	if (r == SQLITE_OK)
		r = sqlite3_step(stmt);
	if (r == SQLITE_ROW)
		snprintf(ret, len, "%s", (const char *)sqlite3_column_text(stmt, 0));
	else if (r == SQLITE_DONE)
		ret[0] = '\0';
	int failed = r == SQLITE_ROW || r == SQLITE_DONE ? 0 : explain(db, r, err);
	sqlite3_finalize(stmt);
	return failed;
}

static int upgrade(struct db *db, uint64_t version, struct err *err)
{
	int r = 0;

	for (; version < ARRAY_SIZE(upgrades) && r >= 0; version++)
		r = exec_text(db, upgrades[version], err);
	return r;
}

/* The number is in the file's header and sqlite's to keep, not to use. */
#define MARK_EMPTIED "PRAGMA user_version=1"
#define MARK_NOTHING "PRAGMA user_version=0"

static int look_for_mark(struct db *db, struct err *err)
{
	char mark[32];
	int r = query(db, "PRAGMA user_version", mark, sizeof(mark), err);

	db->was_emptied = r >= 0 && strcmp(mark, "0") != 0;
	return r;
}

int db_accept_emptied(struct db *db, struct err *err)
{
	int r = exec_text(db, MARK_NOTHING, err);

	if (r >= 0)
		db->was_emptied = false;
	return r;
}

static int check_schema(struct db *db, bool made, struct err *err)
{
	char count[32], version[32];
	uint64_t number;
	int r = query(db, "SELECT count(*) FROM sqlite_schema", count, sizeof(count), err);

	if (r < 0)
		return r;
	if (strcmp(count, "0") == 0) {
		r = made ? 0 : exec_text(db, MARK_EMPTIED, err);
		if (r >= 0)
			r = exec_text(db, schema, err);
		return r < 0 ? r : upgrade(db, 1, err);
	}
	r = query(db, "SELECT version FROM schema", version, sizeof(version), err);
	if (r < 0)
		return err_set(err, EUCLEAN, "it is not a state database of this program");
	if (num_parse(str_of(version), 1, ARRAY_SIZE(upgrades) - 1, &number))
		return upgrade(db, number, err);
	if (strcmp(version, DB_SCHEMA) != 0)
		return err_set(err, EPROTO,
			       "its schema is version %s and this program knows version %s; use "
			       "the program that wrote it",
			       version, DB_SCHEMA);
	return 0;
}

static int check_file(struct db *db, struct err *err)
{
	char result[200];
	int r = query(db, "PRAGMA quick_check(1)", result, sizeof(result), err);

	if (r < 0)
		return r;
	for (char *at = result; *at; at++) {
		if (*at == '\n')
			*at = ' ';
	}
	if (strcmp(result, "ok") != 0)
		return err_set(err, EUCLEAN, "%s", result);
	return 0;
}

static int prepare(struct db *db, struct err *err)
{
	for (size_t i = 0; i < DB_STATEMENTS; i++) {
		int r = sqlite3_prepare_v3(db->sqlite, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
					   &db->statements[i], NULL);
		if (r != SQLITE_OK)
			return explain(db, r, err);
	}
	return 0;
}

static int set_up(struct db *db, const char *path, bool made, struct err *err)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
		    SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
	int r = sqlite3_open_v2(path, &db->sqlite, flags, NULL);

	if (r != SQLITE_OK)
		return explain(db, r, err);
	sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_LOOKASIDE, NULL, 0, 0);
	sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_busy_timeout(db->sqlite, 1000);
	r = exec_text(db, settings, err);
	if (r >= 0)
		r = check_file(db, err);
	if (r >= 0)
		r = check_schema(db, made, err);
	if (r >= 0)
		r = look_for_mark(db, err);
	if (r >= 0)
		r = prepare(db, err);
	/* Whoever only reads would learn at the first write that another program holds it. */
	if (r >= 0)
		r = exec_text(db, "BEGIN IMMEDIATE", err);
	if (r < 0)
		return r;
	wal_lengthen(path);
	return exec_text(db, "ROLLBACK", err);
}

int db_open(struct db *db, const char *path, struct err *err)
{
	struct db made = DB_CLOSED;
	bool is_new;
	int r = lock_file(path, &made.lock_fd, &is_new, err);

	if (r < 0)
		return r;
	r = wal_check(path, err);
	/* An empty one would be taken for one that was emptied. */
	if (r < 0 && is_new)
		unlink(path);
	if (r >= 0)
		r = set_up(&made, path, is_new, err);
	if (r == -EUCLEAN)
		err_wrap(err,
			 "the state database %s is damaged; put a backup in its place (airlock "
			 "restore), or move it and its -wal away to begin without sessions",
			 path);
	else if (r < 0)
		err_wrap(err, "the state database %s", path);
	if (r < 0) {
		db_close(&made);
		return r;
	}
	*db = made;
	return 0;
}

void db_close(struct db *db)
{
	for (size_t i = 0; i < DB_STATEMENTS; i++)
		sqlite3_finalize(db->statements[i]);
	sqlite3_close(db->sqlite);
	fd_close(&db->lock_fd);
	*db = DB_CLOSED;
}
