// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as the base of imports, as the first URL of a download, and as the Location that comes
 * with it.
 *
 * Whatever the input: what is taken reads as itself again, has no user and no fragment, and is
 * https to a name on port 443, or is at the base; nobody comes back to the base who has left it;
 * what is refused names at most a host.
 *
 * Input: three lines, the base ("": none), the URL, the Location.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/hop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct hop_base *base, const struct hop *from, const struct hop *h)
{
	char where[HOP_WHERE_SIZE];
	struct hop again;

	assert(strlen(h->url) < HOP_URL_SIZE);
	assert(strncmp(h->url, h->https ? "https://" : "http://", h->https ? 8 : 7) == 0);
	const char *authority = strstr(h->url, "://") + 3;
	const char *path = strchr(authority, '/');
	assert(path && !memchr(authority, '@', (size_t)(path - authority)) && !strchr(path, '#'));
	for (const char *at = h->url; *at; at++)
		assert(*at > ' ' && *at < 0x7f);
	if (!h->at_base)
		assert(h->https && h->port == 443 && h->host.kind == EGRESS_HOST_NAME);
	else
		assert(base->given && h->port == base->port && h->https == base->https &&
		       h->host.len == base->host.len &&
		       !memcmp(h->host.text, base->host.text, h->host.len));
	if (h->host.kind != EGRESS_HOST_NAME)
		assert(h->at_base && base->n_addrs);
	if (from)
		assert(!h->at_base || from->at_base);
	if (h->at_base || !base->given) {
		assert(hop_parse(base, NULL, str_of(h->url), &again, where) == HOP_OK);
		assert(!strcmp(again.url, h->url) && again.port == h->port);
		assert(!strcmp(again.host.text, h->host.text) && again.at_base == h->at_base);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = { (const char *)data, size }, lines[3] = { { NULL, 0 } };
	char where[HOP_WHERE_SIZE];
	struct hop_base base = { 0 };
	struct hop first, second;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		str_split(&rest, '\n', &lines[i]);
	if (hop_base_parse(lines[0], &base))
		assert(base.given && base.port && (base.https || base.n_addrs));
	else
		assert(!base.given);
	enum hop_verdict verdict = hop_parse(&base, NULL, lines[1], &first, where);
	assert(strlen(where) < HOP_WHERE_SIZE && (verdict == HOP_ELSEWHERE || !*where));
	if (verdict != HOP_OK)
		return 0;
	check(&base, NULL, &first);
	verdict = hop_parse(&base, &first, lines[2], &second, where);
	assert(strlen(where) < HOP_WHERE_SIZE && (verdict == HOP_ELSEWHERE || !*where));
	assert(!strchr(where, '@'));
	if (verdict == HOP_OK)
		check(&base, &first, &second);
	return 0;
}
