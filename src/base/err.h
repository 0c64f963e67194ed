// SPDX-License-Identifier: Apache-2.0
/*
 * err: one error, as a number, an API word and a sentence.
 *
 * A function that can fail returns int; a negative return means failure, and then and only then
 * *err is filled. Outputs named ret_... are untouched on failure. An error is described where it
 * happens, once; a caller adds words with err_wrap only when it knows more. Nothing that returns
 * an error also logs it: it is logged where propagation ends.
 *
 * code is a positive errno value, slug the machine word of the REST contract (or NULL), text one
 * sentence for a person. Used by every process; allocates nothing.
 */
#pragma once

struct err {
	int code;
	const char *slug;
	char text[1024];
};

/* Fills *err and returns -code. */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same with an API word; slug must be a string literal. */
int err_slug(struct err *err, int code, const char *slug, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Fills *err from errno: "<what>: <strerror>". Returns -errno. */
int err_errno(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "<context>: " in front of the sentence. Returns -err->code. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
