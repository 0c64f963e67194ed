// SPDX-License-Identifier: Apache-2.0
/*
 * Two passes over the end of the file. The first goes backwards, line by line, and picks the lines
 * that will be events: a refusal as it is; an allowed connection at the place of its first line,
 * by its closing line where one was met before. It stops with the last of the wanted events. The
 * second parses what was picked once more and writes it. So what is kept per line is an offset, not
 * an object.
 */
#include "api/egress-log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/json-out.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"
#include "egress/event.h"

#define TS_MAX 1e11
/* The names of the fields that must be there are longer than that. */
#define LINE_MIN 64u

/* What is read first; mostly it is enough. */
static const size_t windows[] = { 256u * 1024, 2u * 1024 * 1024, EGRESS_LOG_WINDOW };

/* ---- One line ---- */

enum event_type { EVENT_TIME, EVENT_TEXT, EVENT_INT, EVENT_BOOL, EVENT_TEXTS };
enum event_when { ALWAYS, ALLOW, DENY, MAYBE, MAYBE_ALLOW };

/* In the order of the contract. */
static const struct event_field {
	const char *name;
	enum event_type type;
	enum event_when when; /* it must be there, or may be there */
} fields[] = {
	{ "ts", EVENT_TIME, ALWAYS },
	{ "decision", EVENT_TEXT, ALWAYS },
	{ "session", EVENT_TEXT, ALWAYS },
	{ "tenant", EVENT_TEXT, ALWAYS },
	{ "host", EVENT_TEXT, ALWAYS },
	{ "port", EVENT_INT, MAYBE },
	{ "target", EVENT_TEXT, MAYBE },
	{ "reason", EVENT_TEXT, DENY },
	{ "code", EVENT_TEXT, DENY },
	{ "ips", EVENT_TEXTS, MAYBE },
	{ "ip", EVENT_TEXT, MAYBE },
	{ "bytes_up", EVENT_INT, MAYBE_ALLOW },
	{ "bytes_down", EVENT_INT, MAYBE_ALLOW },
	{ "duration_ms", EVENT_INT, MAYBE },
	{ "open", EVENT_BOOL, ALLOW },
	{ "via", EVENT_TEXT, MAYBE },
	{ "dest", EVENT_TEXT, MAYBE },
	{ "repeat", EVENT_INT, MAYBE },
};

struct event {
	json_t *root; /* owned */
	bool allow, open;
	uint64_t conn; /* 0: none */
	int64_t ts_ms;
};

static void event_fini(struct event *e)
{
	json_decref(e->root);
}

#define _cleanup_event_ __attribute__((cleanup(event_fini)))

static bool is_text(const json_t *value, const char *text)
{
	return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static bool fits(enum event_type type, const json_t *value)
{
	const json_t *item;
	size_t i;

	switch (type) {
	case EVENT_TIME:
		return json_is_number(value) && json_number_value(value) >= 0 &&
		       json_number_value(value) < TS_MAX;
	case EVENT_TEXT:
		return json_is_string(value);
	case EVENT_INT:
		return json_is_integer(value) && json_integer_value(value) >= 0;
	case EVENT_BOOL:
		return json_is_boolean(value);
	case EVENT_TEXTS:
		json_array_foreach(value, i, item)
		{
			if (!json_is_string(item))
				return false;
		}
		return json_is_array(value) && json_array_size(value) <= EGRESS_IPS_MAX;
	}
	return false;
}

static bool check_fields(const struct event *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct event_field *f = &fields[i];
		const json_t *value = json_object_get(e->root, f->name);
		bool must = f->when == ALWAYS || f->when == (e->allow ? ALLOW : DENY);
		if (value ? !fits(f->type, value) : must)
			return false;
	}
	return true;
}

/* False: not an event of this session. */
static bool parse(const struct egress_log_query *q, struct str line, struct event *ret)
{
	json_error_t ignored;

	*ret = (struct event){ .root = NULL };
	if (line.len < LINE_MIN || line.len > EGRESS_LOG_LINE_MAX)
		return false;
	ret->root = json_loadb(line.data, line.len, JSON_REJECT_DUPLICATES, &ignored);
	const json_t *decision = json_object_get(ret->root, "decision");
	const json_t *conn = json_object_get(ret->root, "conn");
	ret->allow = is_text(decision, "allow");
	if (!ret->allow && !is_text(decision, "deny"))
		return false;
	if (!check_fields(ret) || !is_text(json_object_get(ret->root, "session"), q->session) ||
	    !is_text(json_object_get(ret->root, "tenant"), q->tenant))
		return false;
	if (conn && (!fits(EVENT_INT, conn) || !json_integer_value(conn)))
		return false;
	ret->conn = conn ? (uint64_t)json_integer_value(conn) : 0;
	ret->open = ret->allow && json_is_true(json_object_get(ret->root, "open"));
	ret->ts_ms = (int64_t)(json_number_value(json_object_get(ret->root, "ts")) * 1000 + 0.5);
	return true;
}

/* ---- Writing ---- */

static const struct runtime_live *find_live(const struct egress_log_query *q, uint64_t conn)
{
	for (size_t i = 0; i < q->n_live; i++) {
		if (q->live[i].conn == conn)
			return &q->live[i];
	}
	return NULL;
}

static int64_t clip(uint64_t n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static void put_field(struct json_out *o, const char *name, enum event_type type,
		      const json_t *value, const struct event *e)
{
	const json_t *item;
	size_t i;

	switch (type) {
	case EVENT_TIME:
		json_out_seconds(o, name, (uint64_t)e->ts_ms);
		break;
	case EVENT_TEXT:
		json_out_str(o, name,
			     (struct str){ json_string_value(value), json_string_length(value) });
		break;
	case EVENT_INT:
		json_out_int(o, name, json_integer_value(value));
		break;
	case EVENT_BOOL:
		json_out_bool(o, name, json_is_true(value));
		break;
	case EVENT_TEXTS:
		json_out_list(o, name);
		json_array_foreach(value, i, item) json_out_str(
			o, NULL, (struct str){ json_string_value(item), json_string_length(item) });
		json_out_end_list(o);
		break;
	}
}

/* Brings what is open in the file up to date. */
static void refresh(const struct egress_log_query *q, const struct event *e)
{
	const struct runtime_live *live = find_live(q, e->conn);

	if (live) {
		json_object_set_new(e->root, "bytes_up", json_integer(clip(live->bytes_up)));
		json_object_set_new(e->root, "bytes_down", json_integer(clip(live->bytes_down)));
	} else if (q->answered && e->ts_ms < q->asked_ms) {
		json_object_set_new(e->root, "open", json_false());
	}
}

static bool belongs(const struct event_field *f, const struct event *e)
{
	return e->allow ? f->when != DENY : f->when != ALLOW && f->when != MAYBE_ALLOW;
}

static void put_event(const struct egress_log_query *q, struct str line, struct json_out *o)
{
	_cleanup_event_ struct event e;

	if (!parse(q, line, &e))
		return; /* it was an event a moment ago */
	if (e.open && e.conn)
		refresh(q, &e);
	if (e.allow && !json_object_get(e.root, "bytes_up"))
		json_object_set_new(e.root, "bytes_up", json_integer(0));
	if (e.allow && !json_object_get(e.root, "bytes_down"))
		json_object_set_new(e.root, "bytes_down", json_integer(0));
	json_out_object(o, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const json_t *value = json_object_get(e.root, fields[i].name);
		if (value && belongs(&fields[i], &e))
			put_field(o, fields[i].name, fields[i].type, value, &e);
	}
	json_out_end_object(o);
}

/* ---- Picking ---- */

/* A closing line whose first line is not found yet. */
struct closing {
	uint64_t conn; /* 0: free */
	struct str line;
};

struct scan {
	const struct egress_log_query *q;
	struct closing *closings; /* owned; open addressing, at most half full */
	unsigned bits;		  /* of its size */
	uint64_t key;		  /* odd, random: whoever writes the file does not choose places */
	struct str *picked;	  /* owned; newest first */
	size_t n_picked;
	size_t skipped;
};

static void scan_init(struct scan *s, const struct egress_log_query *q, struct str text)
{
	size_t events = text.len / LINE_MIN + 1;

	*s = (struct scan){ .q = q, .bits = 4 };
	while (events * 2 > (size_t)1 << s->bits)
		s->bits++;
	s->closings = mem_new((size_t)1 << s->bits, sizeof(s->closings[0]));
	s->picked = mem_new(q->limit, sizeof(s->picked[0]));
	random_bytes(&s->key, sizeof(s->key));
	s->key |= 1;
}

static void scan_fini(struct scan *s)
{
	free(s->closings);
	free(s->picked);
}

/* The place of a connection, or the free one that it would take. */
static struct closing *place(struct scan *s, uint64_t conn)
{
	size_t mask = ((size_t)1 << s->bits) - 1;
	size_t at = (size_t)((conn * s->key) >> (64 - s->bits));

	while (s->closings[at].conn && s->closings[at].conn != conn)
		at = (at + 1) & mask;
	return &s->closings[at];
}

static void pick(struct scan *s, struct str line)
{
	if (s->n_picked < s->q->limit)
		s->picked[s->n_picked++] = line;
}

static void look_at(struct scan *s, struct str line)
{
	_cleanup_event_ struct event e;

	if (!parse(s->q, line, &e)) {
		s->skipped++;
		return;
	}
	if (!e.conn) {
		pick(s, line);
		return;
	}
	struct closing *c = place(s, e.conn);
	if (!e.open) {
		/* The last line of a connection is what became of it. */
		if (!c->conn || !c->line.data)
			*c = (struct closing){ e.conn, line };
		return;
	}
	pick(s, c->conn && c->line.data ? c->line : line);
	/* A place is not given back, since others may lie behind it; the number may come again. */
	*c = (struct closing){ e.conn, { NULL, 0 } };
}

/* Where the line begins that has its end, or no end yet, at this place. */
static size_t line_start(struct str text, size_t at)
{
	while (at && text.data[at - 1] != '\n')
		at--;
	return at;
}

/* Lines of text, last one first, until there are enough. What follows the last line end is not
 * written yet. */
static void scan_back(struct scan *s, struct str text)
{
	size_t end = line_start(text, text.len);

	while (end && s->n_picked < s->q->limit) {
		size_t start = line_start(text, end - 1);
		look_at(s, (struct str){ text.data + start, end - 1 - start });
		end = start;
	}
}

static int by_place(const void *a, const void *b)
{
	const struct closing *x = a, *y = b;

	return x->line.data < y->line.data ? 1 : x->line.data > y->line.data ? -1 : 0;
}

/* Connections that began before what was read: older than everything that was picked. */
static void pick_old(struct scan *s)
{
	size_t n = 0;

	for (size_t i = 0; i < (size_t)1 << s->bits; i++) {
		if (s->closings[i].line.data)
			s->closings[n++] = s->closings[i];
	}
	qsort(s->closings, n, sizeof(s->closings[0]), by_place);
	for (size_t i = 0; i < n; i++)
		pick(s, s->closings[i].line);
}

/* ---- The file ---- */

static int open_log(const char *path, int *ret_fd, uint64_t *ret_size, struct err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "the egress log");
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "the egress log is not a regular file");
	*ret_size = (uint64_t)st.st_size;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Whole lines from the end of the file, at most window bytes. *ret_whole: nothing lies before. */
static int read_end(int fd, uint64_t size, size_t window, struct buf *text, bool *ret_whole,
		    struct err *err)
{
	uint64_t from = size > window ? size - window : 0;
	size_t len = (size_t)(size - from);
	char *room;

	buf_clear(text);
	*ret_whole = from == 0;
	if (!len)
		return 0;
	room = buf_reserve(text, len);
	while (text->len < len) {
		ssize_t n = pread(fd, room + text->len, len - text->len, (off_t)(from + text->len));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "the egress log");
		if (n == 0)
			break;
		text->len += (size_t)n;
	}
	/* The first line of a part has lost its beginning. */
	const char *first = from ? memchr(text->data, '\n', text->len) : NULL;
	if (from)
		buf_consume(text, first ? (size_t)(first - text->data) + 1 : text->len);
	return 0;
}

static void put_picked(const struct scan *s, struct buf *out)
{
	struct json_out o = JSON_OUT(out);

	json_out_list(&o, NULL);
	for (size_t i = s->n_picked; i-- > 0;)
		put_event(s->q, s->picked[i], &o);
	json_out_end_list(&o);
}

int egress_log_read(const struct egress_log_query *q, struct buf *out, size_t *ret_skipped,
		    struct err *err)
{
	_cleanup_buf_ struct buf text = BUF(EGRESS_LOG_WINDOW + 1);
	_cleanup_fd_ int fd = -1;
	uint64_t size = 0;
	bool whole = false, done = false;
	int r = open_log(q->path, &fd, &size, err);

	for (size_t i = 0; r >= 0 && !done; i++) {
		struct scan s;
		bool last = i + 1 == ARRAY_SIZE(windows);
		r = read_end(fd, size, windows[i], &text, &whole, err);
		if (r < 0)
			break;
		scan_init(&s, q, text.len ? buf_str(&text) : STR(""));
		scan_back(&s, text.len ? buf_str(&text) : STR(""));
		done = whole || last || s.n_picked == q->limit;
		if (done) {
			pick_old(&s);
			put_picked(&s, out);
			*ret_skipped = s.skipped;
			if (buf_is_full(out))
				r = err_set(err, EOVERFLOW, "the events are too long");
		}
		scan_fini(&s);
	}
	return r;
}
