// SPDX-License-Identifier: Apache-2.0
#include "egress/dns.h"

#include <string.h>

#define HEAD 12u
#define LABEL_MAX 63u
#define NAME_MAX_BYTES 255u /* as sent: lengths, labels and the root (RFC 1035 2.3.4) */
#define CLASS_IN 1u
#define TYPE_OPT 41u
#define OPT_LEN 11u /* without options */

#define FLAG_QR 0x8000u
#define FLAG_OPCODE 0x7800u
#define FLAG_TC 0x0200u
#define FLAG_RD 0x0100u
#define FLAG_RA 0x0080u
#define FLAG_CD 0x0010u
#define OPT_DO 0x8000u

struct reader {
	const unsigned char *at;
	size_t left;
};

static unsigned get16(const unsigned char *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static bool skip(struct reader *r, size_t n)
{
	if (r->left < n)
		return false;
	r->at += n;
	r->left -= n;
	return true;
}

static bool take16(struct reader *r, unsigned *ret)
{
	const unsigned char *p = r->at;

	if (!skip(r, 2))
		return false;
	*ret = get16(p);
	return true;
}

/* The name of the question. Pointers are no part of it: there is nothing before it to point to. */
static bool read_name(struct reader *r, struct egress_host *ret)
{
	char text[NAME_MAX_BYTES];
	size_t len = 0;
	bool dot_inside = false;

	for (;;) {
		const unsigned char *p = r->at;
		if (!skip(r, 1))
			return false;
		unsigned n = p[0];
		if (!n)
			break;
		/* The length byte and the root's must fit as well. */
		if (n > LABEL_MAX || len + (len ? 1 : 0) + n + 2 > NAME_MAX_BYTES || !skip(r, n))
			return false;
		if (len)
			text[len++] = '.';
		memcpy(text + len, p + 1, n);
		len += n;
		dot_inside = dot_inside || memchr(p + 1, '.', n);
	}
	/* A dot inside a label would read as two labels, and so as another name. */
	egress_host_parse((struct str){ text, dot_inside ? 0 : len }, ret);
	return true;
}

/* RFC 6891 6.1.2. */
static unsigned read_opt(struct reader *r, struct egress_dns_query *q)
{
	const unsigned char *p = r->at;
	unsigned size, len;

	if (!skip(r, OPT_LEN) || p[0] || get16(p + 1) != TYPE_OPT)
		return EGRESS_DNS_FORMERR;
	size = get16(p + 3);
	len = get16(p + 9);
	if (!skip(r, len))
		return EGRESS_DNS_FORMERR;
	q->edns = true;
	q->dnssec_ok = get16(p + 7) & OPT_DO;
	if (size > EGRESS_DNS_MAX)
		q->max = size < EGRESS_DNS_EDNS_MAX ? size : EGRESS_DNS_EDNS_MAX;
	return p[6] == 0 ? EGRESS_DNS_NOERROR : EGRESS_DNS_BADVERS;
}

/* Reads what is behind the head; what to refuse it with, or NOERROR. */
static unsigned read_sections(const unsigned char *head, struct reader *r,
			      struct egress_dns_query *q)
{
	const unsigned char *question = r->at;
	unsigned type, class, rcode = EGRESS_DNS_NOERROR;

	if (q->flags & FLAG_OPCODE)
		return EGRESS_DNS_NOTIMP;
	if (get16(head + 4) != 1 || !read_name(r, &q->host) || !take16(r, &type) ||
	    !take16(r, &class))
		return EGRESS_DNS_FORMERR;
	q->type = (uint16_t)type;
	q->question_len = (size_t)(r->at - question);
	/* No answers, no authorities; of additional records only OPT, which may be there once. */
	if (get16(head + 6) || get16(head + 8) || get16(head + 10) > 1)
		return EGRESS_DNS_FORMERR;
	if (get16(head + 10))
		rcode = read_opt(r, q);
	if (r->left)
		return EGRESS_DNS_FORMERR;
	if (!rcode && class != CLASS_IN)
		return EGRESS_DNS_NOTIMP;
	return rcode;
}

enum egress_dns_verdict egress_dns_read(struct str message, struct egress_dns_query *ret)
{
	const unsigned char *head = (const unsigned char *)message.data;
	struct reader r = { head, message.len };

	if (!skip(&r, HEAD) || get16(head + 2) & FLAG_QR)
		return EGRESS_DNS_DROP;
	*ret = (struct egress_dns_query){
		.id = (uint16_t)get16(head),
		.flags = (uint16_t)get16(head + 2),
		.host = { .kind = EGRESS_HOST_BAD },
		.max = EGRESS_DNS_MAX,
	};
	ret->rcode = read_sections(head, &r, ret);
	return ret->rcode ? EGRESS_DNS_REFUSE : EGRESS_DNS_QUESTION;
}

struct writer {
	unsigned char *data;
	size_t len, max;
};

static void put(struct writer *w, const void *data, size_t len)
{
	memcpy(w->data + w->len, data, len);
	w->len += len;
}

static void put16(struct writer *w, unsigned value)
{
	put(w, (unsigned char[]){ (unsigned char)(value >> 8), (unsigned char)value }, 2);
}

static bool fits(const struct writer *w, size_t len)
{
	return len <= w->max - w->len;
}

/* False: it has no room. The name is a pointer to the question's, right behind the head. */
static bool put_address(struct writer *w, unsigned type, uint32_t ttl, const struct inet_addr *addr)
{
	unsigned len = type == EGRESS_DNS_A ? 4 : 16;

	if (!fits(w, HEAD + len))
		return false;
	put16(w, 0xc000 | HEAD);
	put16(w, type);
	put16(w, CLASS_IN);
	put16(w, ttl >> 16);
	put16(w, ttl);
	put16(w, len);
	put(w, addr->bytes + 16 - len, len);
	return true;
}

/* The upper bits of the rcode are in the record (RFC 6891 6.1.3), DO is copied (RFC 3225 3). */
static void put_opt(struct writer *w, const struct egress_dns_query *q, unsigned rcode)
{
	put(w, "", 1);
	put16(w, TYPE_OPT);
	put16(w, EGRESS_DNS_EDNS_MAX);
	put16(w, rcode >> 4 << 8);
	put16(w, q->dnssec_ok ? OPT_DO : 0);
	put16(w, 0);
}

static bool is_asked_for(unsigned type, const struct inet_addr *addr)
{
	return type == (inet_addr_is_v4(addr) ? EGRESS_DNS_A : EGRESS_DNS_AAAA);
}

size_t egress_dns_write(struct str message, const struct egress_dns_query *q,
			enum egress_dns_rcode rcode, const struct inet_addr *addrs, size_t n_addrs,
			uint32_t ttl, size_t max, unsigned char *out, size_t size)
{
	struct writer w = { .data = out, .max = size < max ? size : max };
	size_t opt_len = q->edns ? OPT_LEN : 0;
	unsigned flags = FLAG_QR | FLAG_RA | (q->flags & (FLAG_OPCODE | FLAG_RD | FLAG_CD)) |
			 (rcode & 15);
	unsigned n_answers = 0;

	if (w.max < HEAD)
		return 0;
	w.len = HEAD;
	bool whole = fits(&w, q->question_len + opt_len);
	if (whole) {
		/* OPT comes last and must be there whatever else is left out. */
		w.max -= opt_len;
		put(&w, message.data + HEAD, q->question_len);
		for (size_t i = 0; i < n_addrs && rcode == EGRESS_DNS_NOERROR; i++) {
			if (!is_asked_for(q->type, &addrs[i]))
				continue;
			if (!put_address(&w, q->type, ttl < EGRESS_DNS_TTL ? ttl : EGRESS_DNS_TTL,
					 &addrs[i])) {
				flags |= FLAG_TC;
				break;
			}
			n_answers++;
		}
		w.max += opt_len;
		if (q->edns)
			put_opt(&w, q, rcode);
	} else {
		flags |= FLAG_TC;
	}
	struct writer head = { .data = out };
	put16(&head, q->id);
	put16(&head, flags);
	put16(&head, whole && q->question_len);
	put16(&head, n_answers);
	put16(&head, 0);
	put16(&head, whole && q->edns);
	return w.len;
}
