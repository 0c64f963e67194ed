// SPDX-License-Identifier: Apache-2.0
#include "worker/sorted.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "worker/job.h"

#define BATCH_TEXT (192 * KIB)
#define BATCH_NAMES 16384u

struct key {
	bool slash;
	uint8_t len;
	char name[NAME_MAX + 1];
};

/* A name in a batch: its slash (0 or 1), its length, its bytes. */
#define RECORD_HEAD 2u

struct batch {
	unsigned owner; /* level */
	bool loaded, complete;
	uint32_t n, at, text_len;
	uint32_t names[BATCH_NAMES]; /* offsets into text, sorted when loaded */
	char text[BATCH_TEXT];
};

static struct batch batches[TREE_OPEN];
static struct key last[TREE_DEPTH]; /* the one given last, per level */
static unsigned max_depth;
static bool hide_own, whole;

static struct batch *batch_of(unsigned level)
{
	return &batches[level % TREE_OPEN];
}

static struct batch *own(unsigned level)
{
	struct batch *b = batch_of(level);

	if (b->owner != level) {
		b->owner = level;
		b->loaded = false;
	}
	return b;
}

/* As if the slash were written behind the name, which has none itself. */
static int compare(const char *a, size_t a_len, bool a_slash, const char *b, size_t b_len,
		   bool b_slash)
{
	size_t len = a_len < b_len ? a_len : b_len;
	int r = memcmp(a, b, len);

	if (r)
		return r;
	int a_next = a_len > len ? (unsigned char)a[len] : a_slash ? '/' : -1;
	int b_next = b_len > len ? (unsigned char)b[len] : b_slash ? '/' : -1;
	if (a_next != b_next)
		return a_next - b_next;
	return (int)(a_len + a_slash) - (int)(b_len + b_slash);
}

static bool name_less(const struct batch *b, uint32_t x, uint32_t y)
{
	const char *p = b->text + x, *q = b->text + y;

	return compare(p + RECORD_HEAD, (uint8_t)p[1], p[0], q + RECORD_HEAD, (uint8_t)q[1], q[0]) <
	       0;
}

static bool offset_less(const struct batch *b, uint32_t x, uint32_t y)
{
	(void)b;
	return x < y;
}

typedef bool less_fn(const struct batch *b, uint32_t x, uint32_t y);

static void sift(struct batch *b, size_t at, size_t n, less_fn *less)
{
	uint32_t *a = b->names, value = a[at];

	for (size_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && less(b, a[child], a[child + 1]))
			child++;
		if (!less(b, value, a[child]))
			break;
		a[at] = a[child];
	}
	a[at] = value;
}

/* A heap sort: in place, and no order of names makes it slow. */
static void sort(struct batch *b, size_t n, less_fn *less)
{
	for (size_t i = n / 2; i > 0; i--)
		sift(b, i - 1, n, less);
	for (size_t i = n; i > 1; i--) {
		uint32_t value = b->names[0];
		b->names[0] = b->names[i - 1];
		b->names[i - 1] = value;
		sift(b, 0, i - 1, less);
	}
}

static void read_key(const char *record, struct key *ret)
{
	ret->slash = record[0];
	ret->len = (uint8_t)record[1];
	memcpy(ret->name, record + RECORD_HEAD, ret->len);
	ret->name[ret->len] = '\0';
}

/* Keeps the smaller half; *limit becomes the largest that is kept. */
static void halve(struct batch *b, struct key *limit)
{
	uint32_t to = 0;

	sort(b, b->n, name_less);
	b->n /= 2;
	read_key(b->text + b->names[b->n - 1], limit);
	/* In the order of the text, so that each record moves to the left. */
	sort(b, b->n, offset_less);
	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t from = b->names[i];
		uint32_t len = RECORD_HEAD + (uint8_t)b->text[from + 1];
		memmove(b->text + to, b->text + from, len);
		b->names[i] = to;
		to += len;
	}
	b->text_len = to;
	b->complete = false;
}

static void add(struct batch *b, const char *name, size_t len, bool slash, struct key *limit)
{
	const struct key *k = &last[b->owner];

	if (compare(name, len, slash, k->name, k->len, k->slash) <= 0)
		return;
	if (!b->complete && compare(name, len, slash, limit->name, limit->len, limit->slash) > 0)
		return;
	if (b->n == BATCH_NAMES || b->text_len + RECORD_HEAD + len > BATCH_TEXT) {
		halve(b, limit);
		if (compare(name, len, slash, limit->name, limit->len, limit->slash) > 0)
			return;
	}
	b->names[b->n++] = b->text_len;
	b->text[b->text_len++] = slash;
	b->text[b->text_len++] = (char)len;
	memcpy(b->text + b->text_len, name, len);
	b->text_len += (uint32_t)len;
}

static bool is_folder(const struct tree_entry *e)
{
	struct stat st;

	if (e->type != DT_UNKNOWN)
		return e->type == DT_DIR;
	return fstatat(tree_fd(&job_tree), e->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

static int load(struct batch *b)
{
	static struct key limit;
	const struct tree_entry *e;
	int r = tree_rewind(&job_tree);

	b->n = b->at = b->text_len = 0;
	b->complete = true;
	while (r >= 0 && (r = tree_next(&job_tree, &e)) > 0) {
		size_t len = strlen(e->name);
		if (len > NAME_MAX || (b->owner == 0 && hide_own && job_is_own(e->name)))
			continue;
		add(b, e->name, len, false, &limit);
		if (b->owner + 1 < max_depth && is_folder(e))
			add(b, e->name, len, true, &limit);
	}
	sort(b, b->n, name_less);
	b->loaded = r == 0;
	return r;
}

static void begin_level(void)
{
	unsigned level = job_tree.depth - 1;

	last[level].len = 0;
	last[level].slash = false;
	own(level)->loaded = false;
}

/* 1: in a level below; 0: not. */
static int go_down(const char *name)
{
	int r = tree_descend(&job_tree, name);

	if (!whole && (r == -EACCES || r == -EXDEV))
		return 0;
	if (r == 1)
		begin_level();
	return r;
}

/* Everything up to and including the cursor counts as given. */
static int skip_to(const char *after)
{
	int r = 0;

	while (*after) {
		size_t len = strcspn(after, "/");
		struct key *k = &last[job_tree.depth - 1];
		k->len = (uint8_t)(len > NAME_MAX ? NAME_MAX : len);
		memcpy(k->name, after, k->len);
		k->name[k->len] = '\0';
		k->slash = after[len] == '/';
		after += len + k->slash;
		if (!k->slash || job_tree.depth >= max_depth || len > NAME_MAX)
			break;
		r = go_down(k->name);
		if (r <= 0)
			break;
	}
	return r < 0 ? r : 0;
}

int sorted_start(int *fd, const char *after, unsigned depth, bool hide)
{
	whole = depth == 0;
	max_depth = whole ? TREE_DEPTH + 1 : depth;
	hide_own = hide;
	for (unsigned i = 0; i < TREE_OPEN; i++)
		batches[i].owner = UINT_MAX;
	tree_init(&job_tree);
	int r = tree_enter(&job_tree, fd, "");
	if (r < 0)
		return r;
	begin_level();
	return skip_to(after);
}

int sorted_next(const char **ret_name)
{
	for (;;) {
		unsigned level = job_tree.depth - 1;
		struct batch *b = own(level);
		int r = b->loaded ? 0 : load(b);
		if (r < 0)
			return r;
		if (b->at == b->n) {
			b->loaded = b->complete;
			if (!b->complete)
				continue;
			if (level == 0)
				return 0;
			r = tree_leave(&job_tree);
			if (r < 0)
				return r;
			continue;
		}
		read_key(b->text + b->names[b->at++], &last[level]);
		if (!last[level].slash) {
			*ret_name = last[level].name;
			return 1;
		}
		r = go_down(last[level].name);
		if (r < 0)
			return r;
	}
}

void sorted_end(void)
{
	tree_fini(&job_tree);
}
