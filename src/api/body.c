// SPDX-License-Identifier: Apache-2.0
#include "api/body.h"

#include "api/json-scan.h"
#include "base/mem.h"

/* Words of our own, because jansson's quote the text, and the text may hold a secret. */
static const struct {
	enum json_error_code code;
	const char *why;
} reasons[] = {
	{ json_error_duplicate_key, "a name stands twice in one object" },
	{ json_error_premature_end_of_input, "unexpected end of data" },
	{ json_error_end_of_input_expected, "extra data after the value" },
	{ json_error_invalid_utf8, "the text is not UTF-8" },
	{ json_error_null_character, "NUL characters are not allowed" },
	{ json_error_null_byte_in_key, "NUL characters are not allowed in a name" },
	{ json_error_numeric_overflow, "a number is too large" },
};

static const char *reason(const json_error_t *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		if (reasons[i].code == json_error_code(error))
			return reasons[i].why;
	}
	return "invalid syntax";
}

void body_start(void)
{
	json_object_seed(0);
}

void body_parse(struct str text, struct body *ret)
{
	struct json_scan scan;
	json_error_t error;

	*ret = (struct body){ .root = NULL };
	if (!text.len)
		text = STR("{}");
	if (!json_scan(text, &scan)) {
		ret->why = scan.why;
		ret->at = scan.at;
		return;
	}
	ret->has_nul = scan.has_nul;
	ret->root = json_loadb(text.data, text.len,
			       JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
	if (ret->root)
		return;
	ret->why = reason(&error);
	ret->at = error.position > 0 ? (size_t)error.position : 0;
}

void body_fini(struct body *b)
{
	json_decref(b->root);
	b->root = NULL;
}
