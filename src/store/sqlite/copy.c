// SPDX-License-Identifier: Apache-2.0
#include "store/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/sqlite/db.h"
#include "store/sqlite/wal.h"

static int explain(struct err *err, const char *path, sqlite3 *db, int code)
{
	return err_set(err, EIO, "%s: %s", path, db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
}

static int sync_path(const char *path, int flags, struct err *err)
{
	_cleanup_fd_ int fd = open(path, flags | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? err_errno(err, "%s", path) : 0;
}

static int sync_folder(const char *path, struct err *err)
{
	_cleanup_free_ char *folder = mem_dup(path);
	char *slash = strrchr(folder, '/');

	if (!slash)
		return sync_path(".", O_RDONLY | O_DIRECTORY, err);
	slash[slash == folder] = '\0';
	return sync_path(folder, O_RDONLY | O_DIRECTORY, err);
}

/* All pages in one step: then it is one instant, whatever a server writes meanwhile. */
static int copy_pages(sqlite3 *from, sqlite3 *into, const char *path, const char *to,
		      struct err *err)
{
	sqlite3_backup *backup = sqlite3_backup_init(into, "main", from, "main");

	if (!backup)
		return explain(err, to, into, 0);
	int r = sqlite3_backup_step(backup, -1);
	int end = sqlite3_backup_finish(backup);
	if (r != SQLITE_DONE)
		return explain(err, path, NULL, r);
	if (end != SQLITE_OK)
		return explain(err, to, into, end);
	return 0;
}

/* The same file, in a folder that is named without symbolic links: then sqlite can be told to
 * follow none. Owned by the caller; NULL with *err. */
static char *plain_path(const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *folder = slash ? mem_dup_n(path, (size_t)(slash - path) + 1)
					    : mem_dup(".");
	_cleanup_free_ char *real = realpath(folder, NULL);

	if (!real) {
		err_errno(err, "%s", folder);
		return NULL;
	}
	return mem_printf("%s/%s", real, slash ? slash + 1 : path);
}

static int copy_database(const char *path, const char *to, struct err *err)
{
	_cleanup_free_ char *made = plain_path(to, err);
	sqlite3 *from = NULL, *into = NULL;

	if (!made)
		return -err->code;
	int code = sqlite3_open_v2(path, &from, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW, NULL);
	int r = code == SQLITE_OK ? 0 : explain(err, path, from, code);

	if (r >= 0) {
		sqlite3_busy_timeout(from, 10000);
		code = sqlite3_open_v2(made, &into, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW,
				       NULL);
		r = code == SQLITE_OK ? copy_pages(from, into, path, to, err)
				      : explain(err, to, into, code);
	}
	sqlite3_close(into);
	sqlite3_close(from);
	return r;
}

int store_copy(const char *path, const char *to, struct err *err)
{
	_cleanup_fd_ int fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_errno(err, "%s", to);
	fd_close(&fd);
	int r = copy_database(path, to, err);
	if (r >= 0)
		r = sync_path(to, O_RDONLY, err);
	if (r >= 0)
		r = sync_folder(to, err);
	if (r < 0)
		unlink(to);
	return r;
}

/* ---- Putting one back ---- */

/* The folder is the server's, whose user must not be given somebody else's file. */
static int give_to_owner(const char *made, const char *path, struct err *err)
{
	_cleanup_fd_ int fd = open(made, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_free_ char *folder = mem_dup(path);
	struct stat st, owner;

	*strrchr(folder, '/') = '\0';
	if (stat(*folder ? folder : "/", &owner) < 0)
		return err_errno(err, "%s", folder);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "%s", made);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
		return err_set(err, EPERM, "%s was replaced meanwhile", made);
	if (fchmod(fd, 0600) < 0 || fchown(fd, owner.st_uid, owner.st_gid) < 0)
		return err_errno(err, "%s", made);
	return 0;
}

/* Whether a server would start with it; an older schema is brought up to date. What its journal
 * knows is no longer so: a session that was made since may have one of these names, and its
 * workspace must not be taken for one that nobody was told of. */
static int adopt(const char *path, struct err *err)
{
	struct db db = DB_CLOSED;
	int r = db_open(&db, path, err);

	if (r < 0)
		return r;
	int code = sqlite3_exec(db.sqlite, "DELETE FROM volume_journal", NULL, NULL, NULL);
	if (code != SQLITE_OK)
		r = explain(err, path, db.sqlite, code);
	db_close(&db);
	return r < 0 ? r : sync_path(path, O_RDONLY, err);
}

/* What its log has goes into the database. A log that is damaged is put aside as it is, so that
 * nothing of it is taken for the new one's and somebody may still read it. */
static int settle_log(const char *path, const char *replaced, struct err *err)
{
	_cleanup_free_ char *wal = mem_printf("%s-wal", path);
	_cleanup_free_ char *shm = mem_printf("%s-shm", path);
	_cleanup_free_ char *kept = mem_printf("%s-wal", replaced);
	struct err damage;
	sqlite3 *db = NULL;

	if (wal_check(path, &damage) >= 0 &&
	    sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL) ==
		    SQLITE_OK)
		sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	sqlite3_close(db);
	unlink(kept);
	if (rename(wal, kept) < 0 && errno != ENOENT)
		return err_errno(err, "%s", wal);
	if (unlink(shm) < 0 && errno != ENOENT)
		return err_errno(err, "%s", shm);
	return 0;
}

static int replace(const char *made, const char *path, struct err *err)
{
	_cleanup_free_ char *replaced = mem_printf("%s.replaced", path);
	_cleanup_fd_ int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT)
		return err_errno(err, "%s", path);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, EBUSY, "a server uses %s; stop it first", path);
	if (fd >= 0) {
		int r = settle_log(path, replaced, err);
		if (r < 0)
			return r;
		unlink(replaced);
		if (link(path, replaced) < 0)
			return err_errno(err, "%s", replaced);
	}
	if (rename(made, path) < 0)
		return err_errno(err, "%s", path);
	return sync_folder(path, err);
}

int store_restore(const char *copy, const char *path, struct err *err)
{
	_cleanup_free_ char *made = mem_printf("%s.restoring", path);
	static const char *const ends[] = { "", "-wal", "-shm" };

	if (path[0] != '/')
		return err_set(err, EINVAL, "%s is not an absolute path", path);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_free_ char *left = mem_printf("%s%s", made, ends[i]);
		unlink(left);
	}
	int r = wal_check(copy, err);
	if (r >= 0)
		r = store_copy(copy, made, err);
	if (r >= 0)
		r = adopt(made, err);
	if (r >= 0)
		r = give_to_owner(made, path, err);
	if (r >= 0)
		r = replace(made, path, err);
	if (r < 0)
		unlink(made);
	return r;
}
