// SPDX-License-Identifier: Apache-2.0
/*
 * FILE_PACK: a folder as a tar in gzip, made while it is sent. POSIX pax (IEEE 1003.1, "pax
 * Interchange Format"): a ustar header, and in front of it a record for what that has no room for:
 * a long name or target, a large size, an odd time. The same tree gives the same bytes: entries in
 * byte order, owner 0 without names, whole seconds, no set-id bits; links as links; each name of a
 * file as a file of its own; FIFOs, sockets and devices are left out. Why this is written here:
 * docs/decisions/archive.md.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/utf8.h"
#include "sandbox/knobs.h"
#include "worker/job.h"
#include "worker/sorted.h"
#include "worker/zip.h"

#define BLOCK 512u
#define MODE_BITS 01777u
#define PREFIX_MAX 155u
#define OCTAL_11 ((UINT64_C(1) << 33) - 1)
/* The folder's name, then the path beneath it with a slash, and its name. */
#define NAME_SIZE (TREE_PATH + 2 * (NAME_MAX + 2))
#define RECORDS_SIZE (NAME_SIZE + PATH_MAX + 256)

struct header {
	char name[100];
	char mode[8], uid[8], gid[8];
	char size[12], mtime[12];
	char checksum[8];
	char type;
	char link[100];
	char magic[6], version[2]; /* "ustar" NUL "00" */
	char uname[32], gname[32];
	char major[8], minor[8];
	char prefix[PREFIX_MAX];
	char pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is a block");

struct member {
	char type; /* '0' file, '5' folder, '2' link */
	unsigned mode;
	uint64_t size;
	int64_t mtime;
	size_t name_len, link_len;
};

static struct {
	char name[NAME_SIZE];
	char link[PATH_MAX];
	size_t root_len; /* of what every name begins with */
	char records[RECORDS_SIZE];
	size_t records_len;
} pack;

/* ---- headers --------------------------------------------------------------------------------- */

/* Octal digits and a NUL. */
static void put_octal(char *field, size_t size, uint64_t value)
{
	field[size - 1] = '\0';
	for (size_t i = size - 1; i > 0; i--, value >>= 3)
		field[i - 1] = (char)('0' + (value & 7));
}

static size_t format_decimal(char ret[21], uint64_t value)
{
	char digits[20];
	size_t n = 0, len;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	for (len = 0; n > 0; len++)
		ret[len] = digits[--n];
	ret[len] = '\0';
	return len;
}

static void append(const void *data, size_t len)
{
	memcpy(pack.records + pack.records_len, data, len);
	pack.records_len += len;
}

/* "<length> <key>=<value>\n", where the length counts its own digits. */
static void add_record(const char *key, const char *value, size_t value_len)
{
	char digits[21];
	size_t key_len = strlen(key), rest = key_len + value_len + 3;
	size_t n = format_decimal(digits, rest);

	n = format_decimal(digits, rest + n);
	n = format_decimal(digits, rest + n);
	append(digits, n);
	append(" ", 1);
	append(key, key_len);
	append("=", 1);
	append(value, value_len);
	append("\n", 1);
}

static void add_number(const char *key, bool negative, uint64_t value)
{
	char text[22] = "-";
	size_t len = format_decimal(text + negative, value);

	add_record(key, text, len + negative);
}

/* The name in one field, or cut at a slash into two. */
static bool place_name(struct header *h, const char *name, size_t len)
{
	if (len <= sizeof(h->name)) {
		memcpy(h->name, name, len);
		return true;
	}
	for (size_t at = len - 1; at > 0; at--) {
		size_t rest = len - at - 1;
		if (rest > sizeof(h->name))
			return false;
		if (name[at] == '/' && rest > 0 && at <= sizeof(h->prefix)) {
			memcpy(h->prefix, name, at);
			memcpy(h->name, name + at + 1, rest);
			return true;
		}
	}
	return false;
}

static int put_header(struct header *h, const struct member *m, uint64_t size)
{
	const unsigned char *bytes = (const void *)h;
	unsigned sum = 0;

	put_octal(h->mode, sizeof(h->mode), m->mode);
	put_octal(h->uid, sizeof(h->uid), 0);
	put_octal(h->gid, sizeof(h->gid), 0);
	put_octal(h->size, sizeof(h->size), size <= OCTAL_11 ? size : 0);
	put_octal(h->mtime, sizeof(h->mtime),
		  m->mtime >= 0 && (uint64_t)m->mtime <= OCTAL_11 ? (uint64_t)m->mtime : 0);
	put_octal(h->major, sizeof(h->major), 0);
	put_octal(h->minor, sizeof(h->minor), 0);
	memcpy(h->magic, "ustar", sizeof(h->magic));
	memcpy(h->version, "00", sizeof(h->version));
	memset(h->checksum, ' ', sizeof(h->checksum));
	for (size_t i = 0; i < sizeof(*h); i++)
		sum += bytes[i];
	put_octal(h->checksum, sizeof(h->checksum) - 1, sum);
	return zip_put(h, sizeof(*h));
}

static int put_padding(uint64_t size)
{
	static const char zeros[2 * BLOCK];

	return zip_put(zeros, (BLOCK - size % BLOCK) % BLOCK);
}

/* The records of a member as a member of their own, before it. */
static int put_records(void)
{
	static const char name[] = "PaxHeaders/entry";
	const struct member m = { .mode = 0644 };
	struct header h = { .type = 'x' };

	memcpy(h.name, name, sizeof(name));
	int r = put_header(&h, &m, pack.records_len);
	if (r >= 0)
		r = zip_put(pack.records, pack.records_len);
	return r < 0 ? r : put_padding(pack.records_len);
}

static int put_member(const struct member *m)
{
	struct header h = { .type = m->type };
	bool long_link = m->link_len > sizeof(h.link), name_fits;

	pack.records_len = 0;
	name_fits = place_name(&h, pack.name, m->name_len);
	/* What a record holds is UTF-8, unless this one says otherwise. */
	if ((!name_fits && !utf8_valid((struct str){ pack.name, m->name_len })) ||
	    (long_link && !utf8_valid((struct str){ pack.link, m->link_len })))
		add_record("hdrcharset", "BINARY", strlen("BINARY"));
	if (!name_fits) {
		memcpy(h.name, pack.name, sizeof(h.name));
		add_record("path", pack.name, m->name_len);
	}
	memcpy(h.link, pack.link, long_link ? sizeof(h.link) : m->link_len);
	if (long_link)
		add_record("linkpath", pack.link, m->link_len);
	if (m->size > OCTAL_11)
		add_number("size", false, m->size);
	if (m->mtime < 0 || (uint64_t)m->mtime > OCTAL_11)
		add_number("mtime", m->mtime < 0,
			   m->mtime < 0 ? 0 - (uint64_t)m->mtime : (uint64_t)m->mtime);
	int r = pack.records_len ? put_records() : 0;
	return r < 0 ? r : put_header(&h, m, m->size);
}

/* ---- members --------------------------------------------------------------------------------- */

/* Exactly as many bytes as the header says: growth is not sent, less is an error. */
static int put_bytes(int fd, uint64_t size)
{
	for (uint64_t left = size; left > 0;) {
		size_t want = left < sizeof(job_chunk) ? (size_t)left : sizeof(job_chunk);
		ssize_t n = read(fd, job_chunk, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -JOB_SHORT;
		int r = zip_put(job_chunk, (size_t)n);
		if (r < 0)
			return r;
		left -= (uint64_t)n;
	}
	return put_padding(size);
}

static void set_member(struct member *m, char type, const struct stat *st, size_t name_len)
{
	*m = (struct member){ .type = type,
			      .mode = st->st_mode & MODE_BITS,
			      .mtime = st->st_mtim.tv_sec,
			      .name_len = name_len };
}

static bool is_gone(int r)
{
	return r == -ENOENT || r == -ELOOP || r == -ENXIO;
}

static int put_file(const char *name, size_t name_len)
{
	struct member m;
	struct stat st;
	_cleanup_fd_ int fd = file_open(tree_fd(&job_tree), name,
					O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);

	if (fd < 0)
		return is_gone(fd) ? 0 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	set_member(&m, '0', &st, name_len);
	m.size = (uint64_t)st.st_size;
	int r = put_member(&m);
	return r < 0 ? r : put_bytes(fd, m.size);
}

static int put_link(const char *name, const struct stat *st, size_t name_len)
{
	struct member m;
	ssize_t n = readlinkat(tree_fd(&job_tree), name, pack.link, sizeof(pack.link));

	if (n < 0)
		return errno == ENOENT || errno == EINVAL ? 0 : -errno;
	set_member(&m, '2', st, name_len);
	m.mode = 0777;
	m.link_len = (size_t)n;
	return put_member(&m);
}

static int put_folder(const struct stat *st, size_t name_len)
{
	struct member m;

	pack.name[name_len++] = '/';
	set_member(&m, '5', st, name_len);
	return put_member(&m);
}

static int put_entry(const char *name)
{
	size_t dir_len = job_tree.path_len, len = strlen(name);
	struct stat st;

	if (job_tree.path_cut)
		return -ENAMETOOLONG;
	memcpy(pack.name + pack.root_len, job_tree.path, dir_len);
	memcpy(pack.name + pack.root_len + dir_len, name, len);
	len += pack.root_len + dir_len;
	if (fstatat(tree_fd(&job_tree), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISREG(st.st_mode))
		return put_file(name, len);
	if (S_ISLNK(st.st_mode))
		return put_link(name, &st, len);
	return S_ISDIR(st.st_mode) ? put_folder(&st, len) : 0;
}

static int put_all(void)
{
	static const char end[2 * BLOCK];
	const char *name;
	struct stat st;
	int r = 0;

	if (pack.root_len > 0) {
		if (fstat(tree_fd(&job_tree), &st) < 0)
			return -errno;
		r = put_folder(&st, pack.root_len - 1);
	}
	while (r >= 0 && (r = sorted_next(&name)) > 0)
		r = put_entry(name);
	if (r >= 0 || knob_off(KNOB_PACK_WHOLE))
		r = zip_put(end, sizeof(end));
	return r < 0 ? r : zip_finish();
}

/* The folder's own name with a slash: the last component as it was written, or where that is dots,
 * as the kernel knows it. */
static int name_root(const struct file_path *p, int fd, bool top)
{
	static char real[PATH_MAX];
	char self[FILE_SELF];
	size_t end = p->len, at;
	const char *text = p->text;

	pack.root_len = 0;
	if (top)
		return 0;
	while (end > 0 && (text[end - 1] == '/' ||
			   (text[end - 1] == '.' && (end == 1 || text[end - 2] == '/'))))
		end--;
	if (end >= 2 && text[end - 1] == '.' && text[end - 2] == '.' &&
	    (end == 2 || text[end - 3] == '/'))
		end = 0;
	if (end == 0) {
		file_self(fd, self);
		ssize_t n = readlink(self, real, sizeof(real));
		if (n <= 0)
			return n < 0 ? -errno : -ENOENT;
		text = real;
		end = (size_t)n;
	}
	for (at = end; at > 0 && text[at - 1] != '/'; at--)
		;
	if (end - at > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(pack.name, text + at, end - at);
	pack.name[end - at] = '/';
	pack.root_len = end - at + 1;
	return 0;
}

int job_pack(struct job *j)
{
	bool top;
	int r;

	if (j->pipe < 0)
		return -EINVAL;
	int fd = job_open_folder(j, &top);
	if (fd < 0)
		return fd;
	r = name_root(&job_path, fd, top);
	if (r >= 0)
		r = zip_start(j->pipe, j->ask->max);
	if (r < 0) {
		fd_close(&fd);
		return r;
	}
	r = sorted_start(&fd, "", 0, top);
	if (r >= 0) {
		job_answer(j, ID_FILE);
		r = put_all();
	}
	sorted_end();
	j->answer.size = zip_sent();
	return r;
}
