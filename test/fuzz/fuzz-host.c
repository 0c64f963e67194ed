// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a host and as the authority of a CONNECT.
 *
 * Whatever the input: a name is canonical, reads as itself again, in capitals and with a dot behind
 * it too, and is no address to the C library, which knows all the odd spellings; what is an address
 * to the C library is no name. A literal is kept as it was given. A port is the number that stands
 * behind the last colon, in its only form.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "egress/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_same(const struct egress_host *a, const struct egress_host *b)
{
	return a->kind == b->kind && a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* As inet_aton and inet_pton see it, which stop at a NUL. */
static bool is_address_to_libc(const char *text)
{
	unsigned char bytes[16];
	struct in_addr in;

	return inet_aton(text, &in) || inet_pton(AF_INET, text, bytes) == 1 ||
	       inet_pton(AF_INET6, text, bytes) == 1;
}

static void check_name(const struct egress_host *host)
{
	char other[EGRESS_HOST_MAX + 2];
	struct egress_host again;

	assert(host->len && !is_address_to_libc(host->text));
	for (size_t i = 0; i < host->len; i++) {
		char c = host->text[i];
		assert((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || memchr("-_.", c, 3));
		other[i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
	}
	assert(host->text[0] != '.' && host->text[host->len - 1] != '.');
	assert(!memmem(host->text, host->len, "..", 2));
	egress_host_parse((struct str){ host->text, host->len }, &again);
	assert(is_same(host, &again));
	other[host->len] = '.';
	egress_host_parse((struct str){ other, host->len + 1 }, &again);
	assert(is_same(host, &again));
}

static void check_host(struct str raw)
{
	_cleanup_free_ char *text = raw.len ? mem_dup_n(raw.data, raw.len) : mem_dup("");
	struct egress_host host;

	memset(&host, 0x5a, sizeof(host));
	egress_host_parse(raw, &host);
	assert(host.len <= EGRESS_HOST_MAX && host.text[host.len] == '\0');
	switch (host.kind) {
	case EGRESS_HOST_NAME:
		assert(host.len == raw.len || host.len + 1 == raw.len);
		check_name(&host);
		assert(!is_address_to_libc(text));
		return;
	case EGRESS_HOST_LITERAL:
		assert(str_eq((struct str){ host.text, host.len }, raw));
		return;
	case EGRESS_HOST_BAD:
		assert(!host.len);
		return;
	}
	assert(!"a kind that does not exist");
}

static void check_authority(struct str raw)
{
	struct egress_host host, alone;
	char suffix[8];
	uint16_t port = 7;

	egress_authority_parse(raw, &host, &port);
	if (port) {
		size_t n = (size_t)snprintf(suffix, sizeof(suffix), ":%u", (unsigned)port);
		assert(raw.len >= n && memcmp(raw.data + raw.len - n, suffix, n) == 0);
		raw.len -= n;
		egress_host_parse(raw, &alone);
		assert(is_same(&host, &alone));
	}
	if (host.kind == EGRESS_HOST_NAME)
		check_name(&host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str raw = { (const char *)data, size };

	check_host(raw);
	check_authority(raw);
	return 0;
}
