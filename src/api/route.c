// SPDX-License-Identifier: Apache-2.0
#include "api/route.h"

#include "base/pct.h"

#define SEGMENTS_MAX 8

struct segments {
	struct str part[SEGMENTS_MAX];
	size_t n;
};

/* False: no route can fit. */
static bool split(struct str path, struct arena *arena, struct segments *ret)
{
	char *room = arena_alloc(arena, path.len + 1);
	struct str rest = path, part;

	*ret = (struct segments){ .n = 0 };
	if (!path.len || path.data[0] != '/')
		return false;
	rest = str_from(rest, 1);
	while (str_split(&rest, '/', &part)) {
		if (ret->n == SEGMENTS_MAX || !pct_decode_segment(part, room, &ret->part[ret->n]))
			return false;
		room += part.len;
		ret->n++;
	}
	return true;
}

static bool fits(const char *pattern, const struct segments *have, struct str *params)
{
	struct str rest = str_from(str_of(pattern), 1), part;
	size_t n = 0, n_params = 0;

	for (; str_split(&rest, '/', &part); n++) {
		if (n == have->n)
			return false;
		if (part.len && part.data[0] == '{') {
			if (!have->part[n].len)
				return false;
			params[n_params++] = have->part[n];
		} else if (!str_eq(part, have->part[n])) {
			return false;
		}
	}
	return n == have->n;
}

void route_find(struct str method, struct str path, struct arena *arena, struct route_match *ret)
{
	struct segments have;

	*ret = (struct route_match){ .route = NULL };
	if (!split(path, arena, &have))
		return;
	for (size_t i = 0; i < n_routes; i++) {
		struct str params[ROUTE_PARAMS_MAX] = { { NULL, 0 } };
		if (!fits(routes[i].pattern, &have, params))
			continue;
		ret->path_known = true;
		if (!str_eq(method, str_of(routes[i].method)))
			continue;
		ret->route = &routes[i];
		memcpy(ret->params, params, sizeof(params));
		return;
	}
}

void route_methods(struct str path, struct arena *arena, struct buf *out)
{
	struct segments have;

	if (!split(path, arena, &have))
		return;
	for (size_t i = 0; i < n_routes; i++) {
		struct str params[ROUTE_PARAMS_MAX];
		if (!fits(routes[i].pattern, &have, params))
			continue;
		if (out->len)
			buf_put_text(out, ", ");
		buf_put_text(out, routes[i].method);
	}
}
