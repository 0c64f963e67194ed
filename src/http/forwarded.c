// SPDX-License-Identifier: Apache-2.0
#include "http/forwarded.h"

bool proxies_have(const struct proxies *proxies, const struct inet_addr *addr)
{
	for (size_t i = 0; i < proxies->n; i++) {
		if (inet_range_has(&proxies->ranges[i], addr))
			return true;
	}
	return false;
}

/* "1.2.3.4", "1.2.3.4:567", "::1", "[::1]", "[::1]:567" */
static bool parse_entry(struct str entry, struct inet_addr *ret)
{
	const char *colon = entry.len ? memchr(entry.data, ':', entry.len) : NULL;
	const char *dot = entry.len ? memchr(entry.data, '.', entry.len) : NULL;

	if (entry.len && entry.data[0] == '[') {
		const char *end = memchr(entry.data, ']', entry.len);
		if (!end)
			return false;
		entry = (struct str){ entry.data + 1, (size_t)(end - entry.data) - 1 };
	} else if (colon && dot && dot < colon) {
		entry.len = (size_t)(colon - entry.data);
	}
	return inet_addr_parse(entry, ret);
}

/* Cuts the last entry off *list. */
static struct str take_last(struct str *list)
{
	size_t at = list->len;

	while (at && list->data[at - 1] != ',')
		at--;
	struct str entry = str_trim(str_from(*list, at));
	list->len = at ? at - 1 : 0;
	return entry;
}

/* Walks one field from the right. False when the walk is over. */
static bool walk(const struct proxies *proxies, struct str list, struct inet_addr *client,
		 bool *found)
{
	while (list.len) {
		struct str entry = take_last(&list);
		if (!entry.len)
			continue;
		if (!parse_entry(entry, client))
			return false;
		*found = true;
		if (!proxies_have(proxies, client))
			return false;
	}
	return true;
}

bool forwarded_find(const struct proxies *proxies, const struct http_head *head,
		    struct inet_addr *ret)
{
	struct inet_addr client;
	bool found = false;

	for (size_t i = head->n_headers; i-- > 0;) {
		if (!str_eq_nocase(head->headers[i].name, STR("X-Forwarded-For")))
			continue;
		if (!walk(proxies, head->headers[i].value, &client, &found))
			break;
	}
	if (found)
		*ret = client;
	return found;
}
