// SPDX-License-Identifier: Apache-2.0
#include "api/problem.h"

#include <inttypes.h>

#include "base/utf8.h"

#define ITEMS_MAX 100
#define INPUT_CHARACTERS 200
#define TEXT_MAX 256
/* Far more than ITEMS_MAX items with their names and inputs can have. */
#define LIST_MAX (1024u * 1024)

enum ctx { CTX_NONE, CTX_ERROR, CTX_GE, CTX_LE, CTX_MAX_LENGTH };

static const struct kind {
	const char *type;
	const char *msg; /* "<n>" stands for the bound, "<m>" for the actual number, "<why>" */
	enum ctx ctx;
} kinds[] = {
	[PROBLEM_MISSING] = { "missing", "Field required" },
	[PROBLEM_JSON] = { "json_invalid", "JSON decode error", CTX_ERROR },
	[PROBLEM_MODEL] = { "model_attributes_type", "Input should be a valid dictionary or object "
						     "to extract fields from" },
	[PROBLEM_STRING] = { "string_type", "Input should be a valid string" },
	[PROBLEM_INT] = { "int_type", "Input should be a valid integer" },
	[PROBLEM_BOOL] = { "bool_type", "Input should be a valid boolean" },
	[PROBLEM_LIST] = { "list_type", "Input should be a valid list" },
	[PROBLEM_DICT] = { "dict_type", "Input should be a valid dictionary" },
	[PROBLEM_INT_PARSING] = { "int_parsing", "Input should be a valid integer, unable to parse "
						 "string as an integer" },
	[PROBLEM_INT_FROM_FLOAT] = { "int_from_float", "Input should be a valid integer, got a "
						       "number with a fractional part" },
	[PROBLEM_GE] = { "greater_than_equal", "Input should be greater than or equal to <n>",
			 CTX_GE },
	[PROBLEM_LE] = { "less_than_equal", "Input should be less than or equal to <n>", CTX_LE },
	[PROBLEM_STRING_LONG] = { "string_too_long", "String should have at most <n> characters",
				  CTX_MAX_LENGTH },
	[PROBLEM_LIST_LONG] = { "too_long",
				"List should have at most <n> items after validation, not <m>",
				CTX_MAX_LENGTH },
	[PROBLEM_VALUE] = { "value_error", "Value error, <why>" },
};

void problems_init(struct problems *p, bool quiet)
{
	*p = (struct problems){ .buf = BUF(LIST_MAX), .quiet = quiet };
	p->out = JSON_OUT(&p->buf);
}

void problems_fini(struct problems *p)
{
	buf_fini(&p->buf);
}

static void put_msg(struct json_out *o, const char *form, const struct problem *item)
{
	_cleanup_buf_ struct buf text = BUF(TEXT_MAX);

	for (const char *at = form; *at;) {
		if (strncmp(at, "<n>", 3) == 0) {
			buf_printf(&text, "%" PRId64, item->number);
			at += 3;
		} else if (strncmp(at, "<m>", 3) == 0) {
			buf_printf(&text, "%" PRId64, item->actual);
			at += 3;
		} else if (strncmp(at, "<why>", 5) == 0) {
			buf_put_text(&text, item->why);
			at += 5;
		} else {
			buf_put_char(&text, *at++);
		}
	}
	json_out_str(o, "msg", buf_str(&text));
}

static void put_ctx(struct json_out *o, enum ctx ctx, const struct problem *item)
{
	static const char *const names[] = { NULL, "error", "ge", "le", "max_length" };

	if (ctx == CTX_NONE)
		return;
	json_out_object(o, "ctx");
	if (ctx == CTX_ERROR)
		json_out_text(o, names[ctx], item->why);
	else
		json_out_int(o, names[ctx], item->number);
	json_out_end_object(o);
}

static int collect(const char *data, size_t len, void *to)
{
	return buf_put(to, data, len) ? 0 : -1;
}

/* The value itself when it is short, else a string with the start of its text. */
static void put_input(struct json_out *o, const json_t *value)
{
	_cleanup_buf_ struct buf text = BUF(INPUT_CHARACTERS * 4);

	if (json_is_string(value)) {
		struct str s = { json_string_value(value), json_string_length(value) };
		json_out_str(o, "input", utf8_cut(s, INPUT_CHARACTERS));
		return;
	}
	int bad = json_dump_callback(value, collect, &text,
				     JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	struct str all = buf_str(&text);
	if (bad || utf8_count(all) > INPUT_CHARACTERS) {
		json_out_str(o, "input", utf8_cut(all, INPUT_CHARACTERS));
		return;
	}
	buf_put_text(o->buf, ",\"input\":");
	buf_put_str(o->buf, all);
}

void problem_add(struct problems *p, const struct problem *item)
{
	const struct kind *kind = &kinds[item->type];
	struct json_out *o = &p->out;

	if (p->count++ >= ITEMS_MAX)
		return;
	json_out_object(o, NULL);
	json_out_text(o, "type", kind->type);
	json_out_list(o, "loc");
	json_out_text(o, NULL, item->where);
	if (item->name)
		json_out_text(o, NULL, item->name);
	if (item->sub.data)
		json_out_str(o, NULL, utf8_cut(item->sub, INPUT_CHARACTERS));
	if (item->index >= 0)
		json_out_int(o, NULL, item->index);
	json_out_end_list(o);
	put_msg(o, kind->msg, item);
	if (!p->quiet && item->input)
		put_input(o, item->input);
	if (!p->quiet && item->input_text.data)
		json_out_str(o, "input", utf8_cut(item->input_text, INPUT_CHARACTERS));
	put_ctx(o, kind->ctx, item);
	json_out_end_object(o);
}
