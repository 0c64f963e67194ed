// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a message to the name server of a sandbox.
 *
 * Whatever the input: it is dropped only when it is no query or has no whole head; what is answered
 * is answered within the room there is, with the question as it was asked, addresses of the asked
 * family alone, and an answer that a plain reading (this file's own) finds whole to its last byte.
 * A name that passes is the name of the question, label by label.
 *
 * Input: 4 bytes (rcode, number of addresses, two for the room), then the message.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "egress/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ADDRS 64u

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

/* The canonical name as labels is the question's but for the case of letters. */
static void check_name(const struct egress_host *host, const uint8_t *question, size_t len)
{
	struct str rest = { host->text, host->len }, label;
	size_t at = 0;

	while (str_split(&rest, '.', &label)) {
		assert(at < len && question[at] == label.len && at + 1 + label.len < len);
		assert(str_eq_nocase((struct str){ (const char *)question + at + 1, label.len },
				     label));
		at += 1 + label.len;
	}
	assert(question[at] == 0 && at + 5 == len);
}

static void check_refusal(const struct egress_dns_query *q, const uint8_t *message)
{
	assert(q->rcode == EGRESS_DNS_FORMERR || q->rcode == EGRESS_DNS_NOTIMP ||
	       q->rcode == EGRESS_DNS_BADVERS);
	assert(q->rcode != EGRESS_DNS_BADVERS || q->edns);
	assert(get16(message + 2) & 0x7800 ? q->rcode == EGRESS_DNS_NOTIMP : true);
}

static void check_records(const struct egress_dns_query *q, const uint8_t *out, size_t len,
			  unsigned n_answers, unsigned rcode)
{
	size_t at = 12 + q->question_len;

	for (unsigned i = 0; i < n_answers; i++) {
		size_t bytes = q->type == EGRESS_DNS_A ? 4 : 16;
		assert(at + 12 + bytes <= len && get16(out + at) == 0xc00c);
		assert(get16(out + at + 2) == q->type && get16(out + at + 4) == 1);
		assert(get16(out + at + 6) == 0 && get16(out + at + 8) <= EGRESS_DNS_TTL);
		assert(get16(out + at + 10) == bytes);
		at += 12 + bytes;
	}
	if (q->edns) {
		assert(at + 11 <= len && out[at] == 0 && get16(out + at + 1) == 41);
		assert(out[at + 5] == rcode >> 4 && get16(out + at + 9) == 0);
		at += 11;
	}
	assert(at == len);
}

static void check_answer(struct str message, const struct egress_dns_query *q, unsigned rcode,
			 const struct inet_addr *addrs, size_t n_addrs, size_t max, size_t room)
{
	/* Of exactly this size, so that a sanitizer sees a write behind it. */
	_cleanup_free_ uint8_t *out = mem_new(room ? room : 1, 1);
	size_t len = egress_dns_write(message, q, rcode, addrs, n_addrs, 1000, max, out, room);
	size_t fit = max < room ? max : room, wanted = 0;

	assert(len <= fit && (len >= 12) == (fit >= 12));
	if (!len)
		return;
	assert(get16(out) == q->id && out[2] & 0x80 && (out[3] & 15) == (rcode & 15));
	assert((out[2] & 0x79) == (q->flags >> 8 & 0x79) && !(out[2] & 4) && out[3] & 0x80);
	assert(get16(out + 8) == 0);
	if (fit < 12 + q->question_len + (q->edns ? 11 : 0)) {
		assert(len == 12 && out[2] & 2 && !get16(out + 4) && !get16(out + 6));
		return;
	}
	assert(get16(out + 4) == (q->question_len != 0) && get16(out + 10) == q->edns);
	assert(memcmp(out + 12, message.data + 12, q->question_len) == 0);
	check_records(q, out, len, get16(out + 6), rcode);
	for (size_t i = 0; i < n_addrs && rcode == EGRESS_DNS_NOERROR; i++)
		wanted += q->type == (inet_addr_is_v4(&addrs[i]) ? 1 : 28);
	assert(get16(out + 6) == wanted || (get16(out + 6) < wanted && out[2] & 2));
}

/* An answer without records is a query but for one bit. */
static void check_reads_again(struct str message, const struct egress_dns_query *q)
{
	struct egress_dns_query again;
	uint8_t out[600];
	size_t len = egress_dns_write(message, q, EGRESS_DNS_NOERROR, NULL, 0, 0, sizeof(out), out,
				      sizeof(out));

	assert(egress_dns_read((struct str){ (char *)out, len }, &again) == EGRESS_DNS_DROP);
	out[2] &= 0x7f;
	assert(egress_dns_read((struct str){ (char *)out, len }, &again) == EGRESS_DNS_QUESTION);
	assert(again.id == q->id && again.type == q->type && again.edns == q->edns);
	assert(again.dnssec_ok == q->dnssec_ok && again.question_len == q->question_len);
	assert(again.host.kind == q->host.kind && again.host.len == q->host.len);
	assert(memcmp(again.host.text, q->host.text, q->host.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct inet_addr addrs[ADDRS] = { 0 };
	struct egress_dns_query q;

	if (size < 4)
		return 0;
	struct str message = { (const char *)data + 4, size - 4 };
	const uint8_t *bytes = data + 4;
	enum egress_dns_verdict verdict = egress_dns_read(message, &q);
	assert((verdict == EGRESS_DNS_DROP) == (message.len < 12 || bytes[2] & 0x80));
	if (verdict == EGRESS_DNS_DROP)
		return 0;
	assert(q.question_len <= message.len - 12);
	assert(q.max >= EGRESS_DNS_MAX && q.max <= EGRESS_DNS_EDNS_MAX);
	unsigned rcode = data[0] % 17;
	if (verdict == EGRESS_DNS_REFUSE) {
		check_refusal(&q, bytes);
		rcode = q.rcode;
	} else {
		if (q.host.kind == EGRESS_HOST_NAME)
			check_name(&q.host, bytes + 12, q.question_len);
		check_reads_again(message, &q);
	}
	for (unsigned i = 0; i < ADDRS; i++) {
		memset(addrs[i].bytes + 10, i % 3 ? 0xff : 0x20, 2);
		addrs[i].bytes[15] = (unsigned char)i;
	}
	check_answer(message, &q, rcode, addrs, data[1] % (ADDRS + 1), q.max,
		     get16(data + 2) % 1500);
	check_answer(message, &q, rcode, addrs, data[1] % (ADDRS + 1), 65535, 1500);
	return 0;
}
