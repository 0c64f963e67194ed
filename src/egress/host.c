// SPDX-License-Identifier: Apache-2.0
#include "egress/host.h"

#include <string.h>

#include "base/num.h"

#define LABEL_MAX 63u

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Where c stands last, or NULL. */
static const char *find_last(struct str s, char c)
{
	while (s.len) {
		if (s.data[--s.len] == c)
			return s.data + s.len;
	}
	return NULL;
}

/* Value of a digit up to base 36, or 36. */
static unsigned digit_value(char c)
{
	c = lower(c);
	if (is_digit(c))
		return (unsigned)(c - '0');
	return c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') + 10 : 36;
}

/* RFC 3492 6.1, with the parameters of section 5. */
static uint32_t punycode_adapt(uint32_t delta, uint32_t points, bool first)
{
	uint32_t k = 0;

	delta = first ? delta / 700 : delta / 2;
	delta += delta / points;
	for (; delta > 35 * 26 / 2; k += 36)
		delta /= 35;
	return k + 36 * delta / (delta + 38);
}

/* One number of variable length (RFC 3492 3.3), added to *sum. Digits are the other way round than
 * those of a host: a-z are 0-25, 0-9 are 26-35. */
static bool punycode_number(struct str *s, uint32_t bias, uint32_t *sum)
{
	uint32_t weight = 1, step;

	for (uint32_t k = 36; s->len; k += 36) {
		unsigned value = digit_value(s->data[0]);
		if (value >= 36)
			return false;
		value = value < 10 ? value + 26 : value - 10;
		*s = str_from(*s, 1);
		if (__builtin_mul_overflow(value, weight, &step) ||
		    __builtin_add_overflow(*sum, step, sum))
			return false;
		uint32_t threshold = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
		if (value < threshold)
			return true;
		if (__builtin_mul_overflow(weight, 36 - threshold, &weight))
			return false;
	}
	return false;
}

/* Whether the rest of an "xn--" label stands for a text with at least one character that is not
 * ASCII (RFC 3492 6.2; RFC 5890 2.3.2.1). The text itself is of no interest, and without it only
 * its length and the code points have to be followed. */
static bool punycode_decodes(struct str s)
{
	const char *dash = find_last(s, '-');
	uint32_t points = dash ? (uint32_t)(dash - s.data) : 0;
	uint32_t code = 128, at = 0, bias = 72;
	bool first = true;

	s = str_from(s, points ? points + 1 : 0);
	if (!s.len)
		return false;
	for (; s.len; first = false) {
		uint32_t before = at;
		if (!punycode_number(&s, bias, &at))
			return false;
		points++;
		bias = punycode_adapt(at - before, points, first);
		if (__builtin_add_overflow(code, at / points, &code) || code > 0x10ffff ||
		    (code >= 0xd800 && code <= 0xdfff))
			return false;
		at = at % points + 1;
	}
	return true;
}

/* Of a canonical name. */
static bool label_is_valid(struct str label)
{
	if (!label.len || label.len > LABEL_MAX)
		return false;
	return !str_starts(label, STR("xn--")) || punycode_decodes(str_from(label, 4));
}

/* A part of an IPv4 address as inet_aton and WHATWG URL read them: decimal, octal behind a zero,
 * hexadecimal behind 0x, which may be all there is. Larger than 32 bits stays so. */
static bool ipv4_number(struct str s, uint64_t *ret)
{
	unsigned base = 10;
	uint64_t value = 0;

	if (!s.len)
		return false;
	if (s.len >= 2 && s.data[0] == '0') {
		bool hex = lower(s.data[1]) == 'x';
		base = hex ? 16 : 8;
		s = str_from(s, hex ? 2 : 1);
	}
	for (size_t i = 0; i < s.len; i++) {
		unsigned digit = digit_value(s.data[i]);
		if (digit >= base)
			return false;
		value = value * base + digit;
		if (value > UINT32_MAX)
			value = (uint64_t)UINT32_MAX + 1;
	}
	*ret = value;
	return true;
}

static struct str without_dot(struct str s)
{
	if (s.len && s.data[s.len - 1] == '.')
		s.len--;
	return s;
}

/* One to four parts; the last one fills what the others leave. */
static bool reads_as_ipv4(struct str s)
{
	struct str rest = without_dot(s), part;
	uint64_t value = 0;
	unsigned n = 0;

	while (str_split(&rest, '.', &part)) {
		if (value > 255 || n++ == 4 || !ipv4_number(part, &value))
			return false;
	}
	return value <= UINT32_MAX >> 8 * (n - 1);
}

/* A zone (RFC 4007 11.2, RFC 6874) makes it no less a literal. */
static bool reads_as_ipv6(struct str s)
{
	struct inet_addr addr;
	struct str text;

	if (!s.len || !memchr(s.data, ':', s.len))
		return false;
	str_split(&s, '%', &text);
	if (s.data && !s.len)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (digit_value(s.data[i]) >= 36 && !memchr("-._~", s.data[i], 4))
			return false;
	}
	return inet_addr_parse(text, &addr);
}

static bool reads_as_literal(struct str s)
{
	if (s.len >= 2 && s.data[0] == '[' && s.data[s.len - 1] == ']')
		s = (struct str){ s.data + 1, s.len - 2 };
	return reads_as_ipv6(s) || reads_as_ipv4(s);
}

/* What makes a resolver or a URL parser read a whole name as an IPv4 address (WHATWG URL, "ends in
 * a number"). */
static bool label_is_number(struct str label)
{
	uint64_t ignored;

	return num_parse(label, 0, UINT64_MAX, &ignored) || ipv4_number(label, &ignored);
}

static bool canonical_name(struct str raw, struct egress_host *ret)
{
	struct str rest, label = { NULL, 0 };

	raw = without_dot(raw);
	if (!raw.len || raw.len > EGRESS_HOST_MAX)
		return false;
	for (size_t i = 0; i < raw.len; i++) {
		char c = lower(raw.data[i]);
		if (digit_value(c) >= 36 && c != '-' && c != '_' && c != '.')
			return false;
		ret->text[i] = c;
	}
	ret->len = raw.len;
	rest = (struct str){ ret->text, ret->len };
	while (str_split(&rest, '.', &label)) {
		if (!label_is_valid(label))
			return false;
	}
	return !label_is_number(label);
}

void egress_host_parse(struct str raw, struct egress_host *ret)
{
	*ret = (struct egress_host){ .kind = EGRESS_HOST_BAD };
	if (!raw.len || raw.len > EGRESS_HOST_MAX + 1)
		return;
	if (reads_as_literal(raw)) {
		if (raw.len > EGRESS_HOST_MAX)
			return;
		ret->kind = EGRESS_HOST_LITERAL;
		memcpy(ret->text, raw.data, raw.len);
		ret->len = raw.len;
	} else if (canonical_name(raw, ret)) {
		ret->kind = EGRESS_HOST_NAME;
	} else {
		*ret = (struct egress_host){ .kind = EGRESS_HOST_BAD };
	}
}

void egress_authority_parse(struct str raw, struct egress_host *ret_host, uint16_t *ret_port)
{
	const char *colon = find_last(raw, ':');
	const char *bracket = find_last(raw, ']');
	uint64_t port = 0;

	if (colon && (!bracket || bracket < colon)) {
		struct str text = str_from(raw, (size_t)(colon - raw.data) + 1);
		if (!text.len || text.data[0] == '0' || !num_parse(text, 1, UINT16_MAX, &port))
			port = 0;
		raw.len = (size_t)(colon - raw.data);
	}
	*ret_port = (uint16_t)port;
	egress_host_parse(raw, ret_host);
}
