// SPDX-License-Identifier: Apache-2.0
#include "base/inet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

static const unsigned char v4_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

bool inet_addr_is_v4(const struct inet_addr *addr)
{
	return memcmp(addr->bytes, v4_prefix, sizeof(v4_prefix)) == 0;
}

bool inet_addr_parse(struct str text, struct inet_addr *ret)
{
	char copy[INET6_ADDRSTRLEN];
	struct inet_addr addr;

	if (!text.len || text.len >= sizeof(copy) || memchr(text.data, '\0', text.len))
		return false;
	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	if (inet_pton(AF_INET, copy, addr.bytes + 12) == 1)
		memcpy(addr.bytes, v4_prefix, sizeof(v4_prefix));
	else if (inet_pton(AF_INET6, copy, addr.bytes) != 1)
		return false;
	*ret = addr;
	return true;
}

bool inet_addr_of(const struct sockaddr *sa, struct inet_addr *ret)
{
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;
		memcpy(ret->bytes, v4_prefix, sizeof(v4_prefix));
		memcpy(ret->bytes + 12, &in->sin_addr, 4);
		return true;
	}
	if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;
		memcpy(ret->bytes, &in6->sin6_addr, 16);
		return true;
	}
	return false;
}

void inet_addr_format(const struct inet_addr *addr, char out[INET6_ADDRSTRLEN])
{
	out[0] = '\0';
	if (inet_addr_is_v4(addr))
		inet_ntop(AF_INET, addr->bytes + 12, out, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, addr->bytes, out, INET6_ADDRSTRLEN);
}

bool inet_addr_eq(const struct inet_addr *a, const struct inet_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Whether the first bits bits are equal. */
static bool prefix_eq(const struct inet_addr *a, const struct inet_addr *b, unsigned bits)
{
	size_t whole = bits / 8;
	unsigned mask = 0xffu << (8 - bits % 8) & 0xff;

	if (memcmp(a->bytes, b->bytes, whole) != 0)
		return false;
	return bits % 8 == 0 || ((a->bytes[whole] ^ b->bytes[whole]) & mask) == 0;
}

bool inet_range_parse(struct str text, struct inet_range *ret)
{
	struct str rest = text, base;
	struct inet_range range = { .bits = 128 };
	uint64_t bits = 0;

	if (!str_split(&rest, '/', &base) || !inet_addr_parse(base, &range.base))
		return false;
	if (rest.data) {
		unsigned skip =
			inet_addr_is_v4(&range.base) && !memchr(base.data, ':', base.len) ? 96 : 0;
		if (rest.len > 3 || !num_parse(rest, 0, 128 - skip, &bits))
			return false;
		range.bits = (unsigned)bits + skip;
	}
	for (unsigned i = range.bits; i < 128; i++) {
		if (range.base.bytes[i / 8] & 0x80u >> i % 8)
			return false;
	}
	*ret = range;
	return true;
}

bool inet_range_has(const struct inet_range *range, const struct inet_addr *addr)
{
	return prefix_eq(&range->base, addr, range->bits);
}

int inet_ranges_parse(struct str text, struct inet_range **ret_ranges, size_t *ret_n,
		      struct err *err)
{
	_cleanup_free_ struct inet_range *ranges = NULL;
	struct str rest = text, part;
	size_t n = 0;

	while (str_split(&rest, ',', &part)) {
		part = str_trim(part);
		if (!part.len)
			continue;
		ranges = mem_grow(ranges, n + 1, sizeof(*ranges));
		if (!inet_range_parse(part, &ranges[n]))
			return err_set(err, EINVAL, "'%.*s' is not an address or range",
				       (int)(part.len < 100 ? part.len : 100), part.data);
		n++;
	}
	*ret_ranges = take_ptr(ranges);
	*ret_n = n;
	return 0;
}
