// SPDX-License-Identifier: Apache-2.0
#include "http/head.h"

#include <llhttp.h>

#include "base/limits.h"
#include "base/num.h"
#include "http/token.h"

enum state { METHOD, TARGET, VERSION, LINE_LF, FIELD, NAME, VALUE, VALUE_LF, END_LF, OVER };

#define VERSION_LEN 8u /* "HTTP/1.1" */

/* The version's digits are judged by head_parse. */
static bool version_byte_fits(size_t i, unsigned char c)
{
	static const char form[VERSION_LEN + 1] = "HTTP/0.0";

	if (i >= VERSION_LEN)
		return c == '\r' && i == VERSION_LEN;
	return form[i] == '0' ? c >= '0' && c <= '9' : c == (unsigned char)form[i];
}

/* The request line. Returns 0 or the status. */
static int scan_line_byte(struct head_scan *s, unsigned char c)
{
	switch ((enum state)s->state) {
	case METHOD:
		if (c == ' ' && s->at > 0) {
			s->state = TARGET;
			s->target = s->at + 1;
			return 0;
		}
		return token_has(c) && s->at < LIMIT_METHOD ? 0 : 400;
	case TARGET:
		if (s->at == s->target && !s->any_target)
			return c == '/' ? 0 : 400;
		if (c == ' ') {
			s->state = VERSION;
			s->version = s->at + 1;
			return 0;
		}
		if (c <= ' ' || c >= 0x7f || c == '#')
			return 400;
		return s->at - s->target < LIMIT_TARGET ? 0 : 414;
	case VERSION:
		if (!version_byte_fits(s->at - s->version, c))
			return 400;
		if (c == '\r')
			s->state = LINE_LF;
		return 0;
	default: /* LINE_LF */
		s->state = FIELD;
		s->fields = s->at + 1;
		return c == '\n' ? 0 : 400;
	}
}

/* The fields and the empty line. Returns 0 or the status. */
static int scan_field_byte(struct head_scan *s, unsigned char c)
{
	if (s->at - s->fields >= LIMIT_HEAD)
		return 431;
	switch ((enum state)s->state) {
	case FIELD:
		if (c == '\r') {
			s->state = END_LF;
			return 0;
		}
		s->state = NAME;
		if (!token_has(c)) /* a blank would be a folded field, a colon one without name */
			return 400;
		return ++s->n_fields <= LIMIT_HEADER_FIELDS ? 0 : 431;
	case NAME:
		if (c == ':')
			s->state = VALUE;
		return c == ':' || token_has(c) ? 0 : 400;
	case VALUE:
		if (c == '\r')
			s->state = VALUE_LF;
		return c == '\r' || c == '\t' || (c >= ' ' && c != 0x7f) ? 0 : 400;
	case VALUE_LF:
		s->state = FIELD;
		return c == '\n' ? 0 : 400;
	default: /* END_LF */
		s->state = OVER;
		return c == '\n' ? 0 : 400;
	}
}

int head_scan(struct head_scan *s, struct str in)
{
	while (s->at < in.len && s->state != OVER) {
		unsigned char c = (unsigned char)in.data[s->at];
		int status = s->state <= LINE_LF ? scan_line_byte(s, c) : scan_field_byte(s, c);
		if (status) {
			s->state = OVER;
			return -status;
		}
		s->at++;
		if (s->state == OVER)
			return (int)s->at;
	}
	return 0;
}

/* ---- The second reading ---- */

struct parse {
	struct http_head *head;
	size_t max;	/* fields that the scan counted */
	size_t n_names; /* begun */
	struct str target;
	bool in_value;
	bool complete;
};

/* llhttp gives a span in pieces only when the input is in pieces; ours is whole, but a value may
 * come as an empty one. Anything else ends the parse. */
static int put_span(struct str *to, const char *at, size_t len)
{
	if (to->data && to->data + to->len != at)
		return -1;
	if (!to->data)
		to->data = at;
	to->len += len;
	return 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
	struct parse *p = parser->data;

	return put_span(&p->target, at, len);
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
	struct parse *p = parser->data;

	if (p->n_names == 0 || p->in_value) {
		if (p->n_names == p->max)
			return -1;
		p->n_names++;
		p->in_value = false;
	}
	return put_span(&p->head->headers[p->n_names - 1].name, at, len);
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
	struct parse *p = parser->data;

	if (!p->n_names)
		return -1;
	p->in_value = true;
	return put_span(&p->head->headers[p->n_names - 1].value, at, len);
}

static int on_value_complete(llhttp_t *parser)
{
	struct parse *p = parser->data;

	p->in_value = true;
	return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
	struct parse *p = parser->data;

	p->complete = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_url = on_url,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_header_value_complete = on_value_complete,
	.on_headers_complete = on_headers_complete,
};

/* llhttp knows a fixed list of methods, while an unknown one is the router's to refuse (405). So
 * the token is ours, and llhttp reads the rest behind a method that says nothing ("GET", or
 * "CONNECT" where the target is an authority). */
static bool run_llhttp(const char *method, const struct head_scan *scan, struct str in,
		       struct parse *p, llhttp_t *parser)
{
	struct str rest = str_from(in, scan->target - 1);

	llhttp_init(parser, HTTP_REQUEST, &settings);
	parser->data = p;
	if (llhttp_execute(parser, method, strlen(method)) != HPE_OK)
		return false;
	return llhttp_execute(parser, rest.data, rest.len) == HPE_PAUSED && p->complete &&
	       p->n_names == p->max;
}

struct str http_head_find(const struct http_head *head, const char *name, size_t *ret_count)
{
	struct str want = str_of(name), found = { NULL, 0 };
	size_t n = 0;

	for (size_t i = 0; i < head->n_headers; i++) {
		if (!str_eq_nocase(head->headers[i].name, want))
			continue;
		if (!n++)
			found = head->headers[i].value;
	}
	if (ret_count)
		*ret_count = n;
	return found;
}

/* RFC 9110 section 7.2: exactly one, and not empty. An HTTP/1.0 health probe may have none. */
static bool host_is_right(const struct head_info *info)
{
	size_t n;
	struct str host = http_head_find(&info->head, "Host", &n);

	if (n != 1)
		return n == 0 && info->is_http10;
	for (size_t i = 0; i < host.len; i++) {
		if (!host_has((unsigned char)host.data[i]))
			return false;
	}
	return host.len > 0;
}

/* RFC 9112 section 6: one way to tell where the body ends. */
static bool length_is_right(struct head_info *info)
{
	struct http_head *head = &info->head;
	size_t n_lengths, n_codings;
	struct str length = http_head_find(head, "Content-Length", &n_lengths);
	struct str coding = http_head_find(head, "Transfer-Encoding", &n_codings);

	head->has_body = n_lengths || n_codings;
	head->chunked = n_codings;
	if (n_lengths + n_codings > 1)
		return false;
	if (n_codings)
		return str_eq(coding, STR("chunked")) && !info->is_http10;
	return !n_lengths || num_parse(length, 0, INT64_MAX, &head->content_length);
}

/* A switch to HTTP/2 in clear would take the connection out of this reading. */
static bool upgrade_is_right(const struct http_head *head)
{
	size_t n;
	struct str upgrade = http_head_find(head, "Upgrade", &n);

	return n == 0 || (n == 1 && str_eq_nocase(upgrade, STR("websocket")));
}

static int judge(struct head_info *info, struct str version)
{
	struct http_head *head = &info->head;
	struct str expect = http_head_find(head, "Expect", NULL);

	info->is_http10 = str_eq(version, STR("HTTP/1.0"));
	info->expect_continue = !info->is_http10 && expect.data &&
				str_eq_nocase(expect, STR("100-continue"));
	if (info->is_http10)
		head->keep_alive = false;
	if (!host_is_right(info) || !length_is_right(info) || !upgrade_is_right(head) ||
	    str_eq(head->method, STR("CONNECT")))
		return 400;
	if (str_eq(version, STR("HTTP/1.1")))
		return 0;
	bool is_probe = info->is_http10 && str_eq(head->method, STR("GET")) &&
			str_eq(head->path, STR("/healthz"));
	return is_probe ? 0 : 505;
}

static void split_target(struct http_head *head)
{
	const char *mark = memchr(head->target.data, '?', head->target.len);

	head->path = head->target;
	if (!mark)
		return;
	head->path.len = (size_t)(mark - head->target.data);
	head->query = str_from(head->target, head->path.len + 1);
}

int head_parse(const struct head_scan *scan, struct str in, struct arena *arena,
	       struct head_info *ret)
{
	struct head_info info = { .is_http10 = false };
	struct http_head *head = &info.head;
	struct str text = arena_str(arena, in);
	struct str version = { text.data + scan->version, VERSION_LEN };
	struct parse p = { .head = head, .max = scan->n_fields };
	llhttp_t parser;

	head->n_headers = scan->n_fields;
	head->headers = arena_alloc(arena, scan->n_fields * sizeof(*head->headers));
	head->method = (struct str){ text.data, scan->target - 1 };
	head->target = (struct str){ text.data + scan->target, scan->version - 1 - scan->target };
	split_target(head);
	/* llhttp knows no versions but these; the others get their answer for the line alone. */
	bool is_known = str_eq(version, STR("HTTP/1.1")) || str_eq(version, STR("HTTP/1.0"));
	if (!is_known)
		return version.data[5] == '0' ? 400 : 505;
	if (!run_llhttp("GET", scan, text, &p, &parser) || !str_eq(p.target, head->target))
		return 400;
	head->keep_alive = llhttp_should_keep_alive(&parser);
	for (size_t i = 0; i < head->n_headers; i++)
		head->headers[i].value = str_trim(head->headers[i].value);
	int status = judge(&info, version);
	if (!status)
		*ret = info;
	return status;
}

bool head_parse_proxy(const struct head_scan *scan, struct str in, struct arena *arena,
		      struct head_proxy *ret)
{
	struct head_info info = { .is_http10 = false };
	struct http_head *head = &info.head;
	struct str version = { in.data + scan->version, VERSION_LEN };
	struct parse p = { .head = head, .max = scan->n_fields };
	size_t n_hosts;
	llhttp_t parser;

	head->n_headers = scan->n_fields;
	head->headers = arena_alloc(arena, scan->n_fields * sizeof(*head->headers));
	head->method = (struct str){ in.data, scan->target - 1 };
	head->target = (struct str){ in.data + scan->target, scan->version - 1 - scan->target };
	bool is_connect = str_eq(head->method, STR("CONNECT"));
	info.is_http10 = str_eq(version, STR("HTTP/1.0"));
	if (!info.is_http10 && !str_eq(version, STR("HTTP/1.1")))
		return false;
	if (!run_llhttp(is_connect ? "CONNECT" : "GET", scan, in, &p, &parser) ||
	    !str_eq(p.target, head->target))
		return false;
	for (size_t i = 0; i < head->n_headers; i++)
		head->headers[i].value = str_trim(head->headers[i].value);
	*ret = (struct head_proxy){ .method = head->method, .target = head->target };
	ret->host = http_head_find(head, "Host", &n_hosts);
	if (n_hosts != 1)
		ret->host = (struct str){ NULL, 0 };
	if (!is_connect)
		return true;
	return n_hosts <= 1 && length_is_right(&info) && !head->chunked && !head->content_length;
}
