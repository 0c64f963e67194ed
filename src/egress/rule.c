// SPDX-License-Identifier: Apache-2.0
#include "egress/rule.h"

#include "base/mem.h"
#include "base/utf8.h"

#define RULE_MAX 253u
#define LABEL_MAX 63u
#define LIST_MAX (64u * 1024)

#define HOSTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const struct egress_preset presets[] = {
	{ "pypi", HOSTS("pypi.org", "files.pythonhosted.org") },
	{ "npm", HOSTS("registry.npmjs.org") },
	{ "github", HOSTS("github.com", "codeload.github.com", "objects.githubusercontent.com",
			  "raw.githubusercontent.com") },
	{ "huggingface", HOSTS("huggingface.co", "*.huggingface.co", "*.hf.co") },
	{ "llm", HOSTS("api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com",
		       "api.mistral.ai", "api.groq.com", "api.x.ai", "api.deepseek.com",
		       "api.cohere.com", "api.together.xyz", "openrouter.ai") },
};

const struct egress_preset *egress_preset_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(presets); i++) {
		if (str_eq(str_of(presets[i].name), name))
			return &presets[i];
	}
	return NULL;
}

struct str egress_normalise(struct str raw, struct buf *out)
{
	buf_clear(out);
	raw = utf8_strip(raw);
	while (raw.len && raw.data[raw.len - 1] == '.')
		raw.len--;
	for (size_t i = 0; i < raw.len; i++) {
		char c = raw.data[i];
		buf_put_char(out, c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c);
	}
	return buf_str(out);
}

static bool label_is_valid(struct str label, bool *ret_numeric)
{
	bool numeric = true;

	if (!label.len || label.len > LABEL_MAX)
		return false;
	for (size_t i = 0; i < label.len; i++) {
		char c = label.data[i];
		bool digit = c >= '0' && c <= '9';
		if (!digit && !(c >= 'a' && c <= 'z') && c != '-' && c != '_')
			return false;
		numeric = numeric && digit;
	}
	*ret_numeric = numeric;
	return true;
}

bool egress_rule_is_valid(struct str rule)
{
	bool wildcard = str_starts(rule, STR("*."));
	struct str rest = wildcard ? str_from(rule, 2) : rule, label;
	bool numeric = true;
	size_t labels = 0;

	if (!rest.len || rule.len > RULE_MAX)
		return false;
	for (; str_split(&rest, '.', &label); labels++) {
		if (!label_is_valid(label, &numeric))
			return false;
	}
	return !numeric && (!wildcard || labels >= 2);
}

bool egress_rule_allows(struct str rule, struct str host)
{
	if (!str_starts(rule, STR("*.")))
		return str_eq(rule, host);
	/* With the dot, so that the match ends at a label; more than that, so that x itself is out.
	 */
	struct str tail = str_from(rule, 1);
	return host.len > tail.len && str_eq(str_from(host, host.len - tail.len), tail);
}

bool egress_rule_covers(struct str policy, struct str rule)
{
	struct str wildcard = STR("*.");

	if (!str_starts(rule, wildcard))
		return egress_rule_allows(policy, rule);
	/* Everything below x is below the policy's name when x itself is. */
	return str_eq(policy, rule) || (str_starts(policy, wildcard) &&
					egress_rule_allows(policy, str_from(rule, wildcard.len)));
}

static void put_item(struct buf *out, struct str item)
{
	_cleanup_buf_ struct buf quoted = BUF(LIST_MAX);

	buf_put_char(&quoted, '\'');
	buf_put_str(&quoted, item);
	buf_put_char(&quoted, '\'');
	if (out->len && memmem(out->data, out->len, quoted.data, quoted.len))
		return;
	if (out->len)
		buf_put_text(out, ", ");
	buf_put_str(out, buf_str(&quoted));
}

void egress_put_list(struct buf *out, const struct str *items, size_t n, size_t max_chars)
{
	_cleanup_buf_ struct buf list = BUF(LIST_MAX);
	_cleanup_buf_ struct buf name = BUF(LIST_MAX);

	for (size_t i = 0; i < n; i++) {
		struct str rule = egress_normalise(items[i], &name);
		const struct egress_preset *preset = egress_preset_find(rule);
		if (!preset)
			put_item(&list, rule);
		for (size_t k = 0; preset && preset->hosts[k]; k++)
			put_item(&list, str_of(preset->hosts[k]));
	}
	struct str shown = utf8_cut(buf_str(&list), max_chars);
	buf_put_char(out, '[');
	buf_put_str(out, shown);
	buf_put_text(out, shown.len < list.len ? "…]" : "]");
}
