// SPDX-License-Identifier: Apache-2.0
#include "cli/nameserver.h"

#include <stdio.h>
#include <string.h>

#include "base/inet.h"
#include "base/mem.h"
#include "base/str.h"

#define COUNT_MAX 8
#define BLANKS " \t\r\n"

/* ::, 0.0.0.0 (which means this host too), ::1, 127.0.0.0/8, fe80::/10 (needs an interface) */
static bool is_of_this_host(const struct inet_addr *addr)
{
	static const char *const ranges[] = { "::/127", "0.0.0.0/8", "127.0.0.0/8", "fe80::/10" };

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		struct inet_range range;
		if (inet_range_parse(str_of(ranges[i]), &range) && inet_range_has(&range, addr))
			return true;
	}
	return false;
}

static struct str next_word(const char **at)
{
	struct str word = { *at + strspn(*at, BLANKS), 0 };

	word.len = strcspn(word.data, BLANKS);
	*at = word.data + word.len;
	return word;
}

bool nameserver_read(const char *path, char *out, size_t size)
{
	FILE *file = fopen(path, "re");
	char line[512];
	unsigned n = 0;

	out[0] = '\0';
	while (file && n < COUNT_MAX && fgets(line, sizeof(line), file)) {
		char text[INET6_ADDRSTRLEN];
		struct inet_addr addr;
		size_t have = strlen(out);
		const char *at = line;
		if (!str_eq(next_word(&at), STR("nameserver")) ||
		    !inet_addr_parse(next_word(&at), &addr) || is_of_this_host(&addr))
			continue;
		inet_addr_format(&addr, text);
		if (have + strlen(text) + (n > 0) + 1 > size)
			break;
		snprintf(out + have, size - have, "%s%s", n++ ? "," : "", text);
	}
	if (file)
		fclose(file);
	return n > 0;
}

bool nameserver_of_host(char *out, size_t size)
{
	return nameserver_read("/etc/resolv.conf", out, size) ||
	       nameserver_read("/run/systemd/resolve/resolv.conf", out, size);
}
