// SPDX-License-Identifier: Apache-2.0
/*
 * answer: a JSON text that is too long to be built at once: pieces of finished text, and texts that
 * are read, repaired to UTF-8 and escaped while they are sent. Encoded part by part, so that an
 * answer of any length costs a bounded amount of memory.
 *
 *   answer_init -> answer_literal, answer_text ... -> answer_encode until it returns 0 ->
 * answer_fini
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/utf8.h"

struct runtime_output;

/* Bytes from memory, or what a command wrote: head, a line that tells what was dropped, tail. */
struct answer_source {
	struct str memory;	       /* borrowed */
	struct runtime_output *output; /* owned by whoever fills the source; NULL: memory */
	uint64_t head, size;	       /* of the captured bytes; size without the line */
	char gap[64];		       /* the line, with the line ends it needs */
	unsigned gap_len;
};

void answer_source_memory(struct answer_source *s, struct str memory);
/* output may be NULL: empty. */
void answer_source_output(struct answer_source *s, struct runtime_output *output);
uint64_t answer_source_size(const struct answer_source *s);

/* A part of a source. */
struct answer_range {
	uint64_t from, to;
};

/* The part without Unicode white space at both ends; empty: from == to. */
int answer_source_strip(const struct answer_source *s, struct answer_range *ret, struct err *err);
/* The last max bytes, cut before a character. Never reaches before the gap. */
int answer_source_tail(const struct answer_source *s, uint64_t max, struct answer_range *ret,
		       struct err *err);

#define ANSWER_PIECES_MAX 16
/* Bytes of a source that are looked at together. */
#define ANSWER_CHUNK 8192u
/* What one chunk can become at most: every byte as \u00xx. */
#define ANSWER_CHUNK_ENCODED (ANSWER_CHUNK * 6 + 64)

struct piece {
	const struct answer_source *source; /* NULL: literal */
	uint64_t at, end;		    /* in the source, or in the literals */
};

struct answer {
	struct buf literals;
	struct answer_source sources[2]; /* stdout and stderr, or the content of a file */
	char *owned;			 /* memory behind a source; owned */
	struct piece pieces[ANSWER_PIECES_MAX];
	unsigned n_pieces, current;
	struct utf8_fix fix;
	uint64_t raw; /* bytes still to be read, before escaping */
};

void answer_init(struct answer *a);
void answer_fini(struct answer *a);
/* Finished text: everything that was written to ->literals since the last piece. */
void answer_literal(struct answer *a);
/* A part of a source as the inside of a JSON string. Puts the literals before it first. */
void answer_text(struct answer *a, const struct answer_source *s, struct answer_range range);
/* Appends at least room bytes to out, or all that is left. 1: more to come, 0: finished, negative:
 * the source cannot be read. out's maximum lies at least ANSWER_CHUNK_ENCODED above room. */
int answer_encode(struct answer *a, struct buf *out, size_t room, struct err *err);
