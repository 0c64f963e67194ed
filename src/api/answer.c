// SPDX-License-Identifier: Apache-2.0
#include "api/answer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/json-out.h"
#include "core/runtime.h"

/* Without the command's own words: numbers, names, warnings, the command as sent. */
#define LITERALS_MAX (4u * 1024 * 1024)

void answer_source_memory(struct answer_source *s, struct str memory)
{
	*s = (struct answer_source){ .memory = memory, .head = memory.len, .size = memory.len };
}

/* The line stands alone: a head that ends in the middle of a line gets a line end. */
static void make_gap(struct answer_source *s, uint64_t dropped)
{
	char last = '\n';

	if (s->head)
		runtime_output_read(s->output, s->head - 1, &last, 1);
	s->gap_len = (unsigned)snprintf(s->gap, sizeof(s->gap),
					"%s[... %" PRIu64 " bytes dropped ...]\n",
					last == '\n' ? "" : "\n", dropped);
}

void answer_source_output(struct answer_source *s, struct runtime_output *output)
{
	*s = (struct answer_source){ .output = output };
	if (!output)
		return;
	s->size = runtime_output_size(output);
	s->head = s->size;
	uint64_t dropped = runtime_output_dropped(output);
	if (!dropped)
		return;
	s->head = runtime_output_head(output);
	make_gap(s, dropped);
}

uint64_t answer_source_size(const struct answer_source *s)
{
	return s->size + s->gap_len;
}

static size_t least(uint64_t a, size_t b)
{
	return a < b ? (size_t)a : b;
}

/* Of the captured bytes, without the gap. */
static ssize_t read_captured(const struct answer_source *s, uint64_t offset, void *data, size_t len)
{
	if (s->output)
		return runtime_output_read(s->output, offset, data, len);
	memcpy(data, s->memory.data + offset, len);
	return (ssize_t)len;
}

/* At most len bytes at the offset; 0 at the end, negative errno. */
static ssize_t read_source(const struct answer_source *s, uint64_t offset, void *data, size_t len)
{
	if (offset >= answer_source_size(s) || !len)
		return 0;
	if (offset < s->head)
		return read_captured(s, offset, data, least(s->head - offset, len));
	offset -= s->head;
	if (offset < s->gap_len) {
		size_t n = least(s->gap_len - offset, len);
		memcpy(data, s->gap + offset, n);
		return (ssize_t)n;
	}
	offset += s->head - s->gap_len;
	return read_captured(s, offset, data, least(s->size - offset, len));
}

/* Reads len bytes or until the end. */
static int read_all(const struct answer_source *s, uint64_t offset, char *data, size_t len,
		    size_t *ret, struct err *err)
{
	size_t have = 0;

	while (have < len) {
		ssize_t n = read_source(s, offset + have, data + have, len - have);
		if (n < 0)
			return err_set(err, (int)-n, "captured output cannot be read");
		if (!n)
			break;
		have += (size_t)n;
	}
	*ret = have;
	return 0;
}

/* How many bytes the character that starts here would have if it were white space; 0: none. */
static size_t space_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first == 0xc2)
		return 2;
	return first >= 0xe1 && first <= 0xe3 ? 3 : 0;
}

static bool is_space(const char *data, size_t len)
{
	if (len == 1 && (data[0] == '\n' || data[0] == ' '))
		return true;
	return space_length((unsigned char)data[0]) == len &&
	       utf8_strip((struct str){ data, len }).len == 0;
}

/* A valid sequence starts with a byte that no other sequence contains, so that white space is seen
 * at the end of a text as surely as at its start, whatever the bytes around it are. */
static size_t spaces_at_start(const char *data, size_t len)
{
	size_t at = 0;

	while (at < len) {
		size_t n = space_length((unsigned char)data[at]);
		if (!n || n > len - at || !is_space(data + at, n))
			break;
		at += n;
	}
	return at;
}

static size_t spaces_at_end(const char *data, size_t len)
{
	size_t end = len;

	for (;;) {
		size_t n = 1;
		while (n <= 3 && (n > end || !is_space(data + end - n, n)))
			n++;
		if (n > 3)
			return len - end;
		end -= n;
	}
}

int answer_source_strip(const struct answer_source *s, struct answer_range *ret, struct err *err)
{
	char data[4096];
	struct answer_range range = { 0, answer_source_size(s) };
	size_t n, spaces;

	do {
		size_t want = least(range.to - range.from, sizeof(data));
		if (read_all(s, range.from, data, want, &n, err) < 0)
			return -err->code;
		spaces = spaces_at_start(data, n);
		range.from += spaces;
		/* Up to two bytes of a character may be cut off at the end of what was read. */
	} while (spaces && spaces + 2 >= n && range.from < range.to);
	do {
		size_t want = least(range.to - range.from, sizeof(data));
		if (read_all(s, range.to - want, data, want, &n, err) < 0)
			return -err->code;
		spaces = spaces_at_end(data, n);
		range.to -= spaces;
	} while (spaces && spaces + 2 >= n && range.from < range.to);
	*ret = range;
	return 0;
}

int answer_source_tail(const struct answer_source *s, uint64_t max, struct answer_range *ret,
		       struct err *err)
{
	uint64_t size = answer_source_size(s), first = s->gap_len ? s->head + s->gap_len : 0;
	char data[4];
	size_t n, skip = 0;

	if (size - first > max)
		first = size - max;
	if (first) {
		if (read_all(s, first, data, sizeof(data), &n, err) < 0)
			return -err->code;
		while (skip < n && skip < 3 && ((unsigned char)data[skip] & 0xc0) == 0x80)
			skip++;
	}
	*ret = (struct answer_range){ first + skip, size };
	return 0;
}

void answer_init(struct answer *a)
{
	*a = (struct answer){ .literals = BUF(LITERALS_MAX) };
}

void answer_fini(struct answer *a)
{
	buf_fini(&a->literals);
	for (unsigned i = 0; i < 2; i++) {
		if (a->sources[i].output)
			runtime_output_free(a->sources[i].output);
		a->sources[i].output = NULL;
	}
	free(a->owned);
	a->owned = NULL;
}

static void add_piece(struct answer *a, struct piece piece)
{
	assert(a->n_pieces < ANSWER_PIECES_MAX);
	a->pieces[a->n_pieces++] = piece;
	a->raw += piece.end - piece.at;
}

void answer_literal(struct answer *a)
{
	uint64_t from = 0;

	for (unsigned i = 0; i < a->n_pieces; i++) {
		if (!a->pieces[i].source)
			from = a->pieces[i].end;
	}
	if (from < a->literals.len)
		add_piece(a, (struct piece){ NULL, from, a->literals.len });
}

void answer_text(struct answer *a, const struct answer_source *s, struct answer_range range)
{
	answer_literal(a);
	if (range.from < range.to)
		add_piece(a, (struct piece){ s, range.from, range.to });
}

/* Repairs and escapes; last: the text ends with these bytes. */
static void put_text(struct answer *a, struct buf *out, struct str raw, bool last)
{
	char room[ANSWER_CHUNK * 3 + 16];
	struct buf fixed = { .data = room, .cap = sizeof(room), .max = sizeof(room) - 1 };

	if (!a->fix.n_held && utf8_valid(raw)) {
		json_escape(out, raw);
		return;
	}
	utf8_fix_put(&a->fix, raw, &fixed);
	if (last)
		utf8_fix_end(&a->fix, &fixed);
	json_escape(out, buf_str(&fixed));
}

static int encode_text(struct answer *a, struct piece *p, struct buf *out, struct err *err)
{
	char data[ANSWER_CHUNK];
	ssize_t n = read_source(p->source, p->at, data, least(p->end - p->at, sizeof(data)));

	if (n <= 0)
		return err_set(err, n ? (int)-n : EIO, "captured output cannot be read");
	p->at += (uint64_t)n;
	a->raw -= (uint64_t)n;
	put_text(a, out, (struct str){ data, (size_t)n }, p->at == p->end);
	return 0;
}

int answer_encode(struct answer *a, struct buf *out, size_t room, struct err *err)
{
	size_t start = out->len;

	while (a->current < a->n_pieces && out->len - start < room) {
		struct piece *p = &a->pieces[a->current];
		if (!p->source) {
			size_t n = least(p->end - p->at, ANSWER_CHUNK);
			buf_put(out, a->literals.data + p->at, n);
			p->at += n;
			a->raw -= n;
		} else if (encode_text(a, p, out, err) < 0) {
			return -err->code;
		}
		a->current += p->at == p->end;
	}
	assert(!buf_is_full(out));
	return a->current < a->n_pieces;
}
