// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as the head of a request to the proxy.
 *
 * Whatever the input: the scan says the same wherever the input is cut; method and target are the
 * first two words of the first line; a CONNECT that is well-formed says nowhere that it has a body,
 * and says at most once which host it means; what it asks for is judged to a name, a literal or
 * neither, and a name holds nothing but what names hold.
 *
 * Input: 2 bytes where to cut, then the head and what follows.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "egress/host.h"
#include "http/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int scan_cut(struct str in, size_t cut, struct head_scan *ret)
{
	*ret = (struct head_scan){ .any_target = true };
	int r = head_scan(ret, (struct str){ in.data, cut });

	return r ? r : head_scan(ret, in);
}

/* How many field lines begin with that name, without the parser. */
static unsigned count(struct str head, const char *name)
{
	unsigned n = 0;
	size_t len = strlen(name);

	for (size_t i = 0; i + 2 + len < head.len; i++) {
		struct str at = { head.data + i + 2, len };
		if (head.data[i] == '\r' && head.data[i + 1] == '\n' &&
		    str_eq_nocase(at, str_of(name)) && head.data[i + 2 + len] == ':')
			n++;
	}
	return n;
}

static void check_connect(struct str head, const struct head_proxy *proxy)
{
	struct egress_host host;
	uint16_t port;

	assert(count(head, "transfer-encoding") == 0);
	assert(count(head, "host") <= 1);
	assert(count(head, "content-length") <= 1);
	egress_authority_parse(proxy->target, &host, &port);
	if (host.kind == EGRESS_HOST_NAME)
		assert(host.len > 0 &&
		       strspn(host.text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == host.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_arena_ struct arena arena = { NULL, 0, 0 };
	struct head_scan scan, other;
	struct head_proxy proxy;

	if (size < 2)
		return 0;
	struct str in = { (const char *)data + 2, size - 2 };
	size_t cut = ((size_t)data[0] << 8 | data[1]) % (in.len + 1);
	int r = scan_cut(in, cut, &scan);
	assert(r == scan_cut(in, 0, &other) && scan.at == other.at);
	if (r <= 0)
		return 0;
	struct str head = { in.data, (size_t)r };
	if (!head_parse_proxy(&scan, head, &arena, &proxy))
		return 0;
	assert(proxy.method.data == in.data && in.data[proxy.method.len] == ' ');
	assert(proxy.target.data == in.data + proxy.method.len + 1);
	assert(!memchr(proxy.target.data, ' ', proxy.target.len));
	if (str_eq(proxy.method, STR("CONNECT")))
		check_connect(head, &proxy);
	return 0;
}
