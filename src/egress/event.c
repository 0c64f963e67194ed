// SPDX-License-Identifier: Apache-2.0
#include "egress/event.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

/* The code point at the start of valid text; *ret_len is how many bytes it has. */
static uint32_t decode(struct str valid, unsigned *ret_len)
{
	unsigned char lead = (unsigned char)valid.data[0];
	unsigned n = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
	uint32_t code = n == 1 ? lead : lead & (0x7fu >> n);

	for (unsigned i = 1; i < n; i++)
		code = code << 6 | ((unsigned char)valid.data[i] & 0x3f);
	*ret_len = n;
	return code;
}

static void put_code_point(struct buf *out, uint32_t code)
{
	if (code == '"' || code == '\\')
		buf_printf(out, "\\%c", (char)code);
	else if (code >= 0x20 && code < 0x7f)
		buf_put_char(out, (char)code);
	else if (code < 0x10000)
		buf_printf(out, "\\u%04" PRIx32, code);
	else
		buf_printf(out, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((code - 0x10000) >> 10),
			   0xdc00 + ((code - 0x10000) & 0x3ff));
}

/* Only printable ASCII goes out as it is: whoever shows the file on a terminal sees no control
 * sequence and no text that runs the other way. */
static void put_string(struct buf *out, struct str text)
{
	_cleanup_buf_ struct buf valid = BUF(3 * text.len + 1);
	struct utf8_fix fix = { 0 };
	unsigned n;

	utf8_fix_put(&fix, text, &valid);
	utf8_fix_end(&fix, &valid);
	buf_put_char(out, '"');
	for (struct str rest = buf_str(&valid); rest.len; rest = str_from(rest, n))
		put_code_point(out, decode(rest, &n));
	buf_put_char(out, '"');
}

static void put_text(struct buf *out, const char *name, struct str text)
{
	buf_printf(out, ",\"%s\":", name);
	put_string(out, text);
}

static void put_number(struct buf *out, const char *name, uint64_t value)
{
	buf_printf(out, ",\"%s\":%" PRIu64, name, value);
}

static void put_address(struct buf *out, const char *name, const struct inet_addr *addr)
{
	char text[INET6_ADDRSTRLEN];

	inet_addr_format(addr, text);
	put_text(out, name, str_of(text));
}

static void put_addresses(struct buf *out, const struct egress_event *e)
{
	for (unsigned i = 0; i < e->n_ips; i++) {
		char text[INET6_ADDRSTRLEN];
		inet_addr_format(&e->ips[i], text);
		buf_put_text(out, i ? "," : ",\"ips\":[");
		put_string(out, str_of(text));
	}
	if (e->n_ips)
		buf_put_char(out, ']');
}

/* What was asked and what came of it. */
static void put_decision(struct buf *out, const struct egress_event *e)
{
	bool allowed = e->code == EGRESS_OK;

	buf_printf(out, "{\"ts\":%" PRId64 ".%03d", e->ts_ms / 1000, (int)(e->ts_ms % 1000));
	put_text(out, "decision", allowed ? STR("allow") : STR("deny"));
	put_text(out, "session", str_of(e->session));
	put_text(out, "tenant", str_of(e->tenant));
	put_text(out, "host", str_of(e->host));
	if (e->port >= 0)
		put_number(out, "port", (uint64_t)e->port);
	if (e->target.data)
		put_text(out, "target", e->target);
	if (!allowed) {
		put_text(out, "reason", str_of(e->reason));
		put_text(out, "code", str_of(egress_code_name(e->code)));
	}
	put_addresses(out, e);
	if (e->dialled)
		put_address(out, "ip", &e->ip);
	put_text(out, "via", str_of(egress_via_name(e->via)));
	if (e->has_dest)
		put_address(out, "dest", &e->dest);
}

static void put_connection(struct buf *out, const struct egress_event *e)
{
	if (e->conn)
		put_number(out, "conn", e->conn);
	if (e->conn || e->code == EGRESS_OK)
		buf_put_text(out, e->open ? ",\"open\":true" : ",\"open\":false");
	/* What was said before a refusal went nowhere. */
	if (e->closed && e->code == EGRESS_OK) {
		put_number(out, "bytes_up", e->bytes_up);
		put_number(out, "bytes_down", e->bytes_down);
	}
	if (e->closed)
		put_number(out, "duration_ms", (uint64_t)e->duration_ms);
	if (e->repeat)
		put_number(out, "repeat", e->repeat);
}

const char *egress_via_name(enum egress_via via)
{
	static const char *const names[] = {
		[EGRESS_PROXY] = "proxy",
		[EGRESS_DIRECT] = "direct",
		[EGRESS_DNS] = "dns",
		[EGRESS_FETCH] = "fetch",
	};

	return names[via];
}

bool egress_event_write(const struct egress_event *e, struct buf *out)
{
	size_t before = out->len;

	put_decision(out, e);
	put_connection(out, e);
	buf_put_text(out, "}\n");
	if (!buf_is_full(out))
		return true;
	out->len = before;
	if (out->data)
		out->data[before] = '\0';
	return false;
}
