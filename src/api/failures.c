// SPDX-License-Identifier: Apache-2.0
#include "api/failures.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static void name_of(const char *address, char out[48])
{
	struct in6_addr v6;

	if (inet_pton(AF_INET6, address, &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6)) {
		memset(v6.s6_addr + 8, 0, 8);
		inet_ntop(AF_INET6, &v6, out, 48);
	} else {
		snprintf(out, 48, "%s", address);
	}
}

bool failures_take(struct failures *f, const char *address, int64_t now_us, uint32_t *ret_wait_s)
{
	struct failure *row = &f->rows[0];
	char name[48];

	name_of(address, name);
	for (size_t i = 0; i < ARRAY_SIZE(f->rows); i++) {
		struct failure *at = &f->rows[i];
		if (at->last_us && strcmp(at->address, name) == 0) {
			row = at;
			break;
		}
		if (at->last_us < row->last_us)
			row = at;
	}
	if (!row->last_us || strcmp(row->address, name) != 0) {
		memcpy(row->address, name, sizeof(name));
		rate_init(&row->rate, FAILURES_PER_MINUTE, now_us);
	}
	row->last_us = now_us;
	return rate_take(&row->rate, now_us, ret_wait_s);
}
