// SPDX-License-Identifier: Apache-2.0
#include "cli/sse.h"

#include <string.h>

void sse_init(struct sse *s, void (*each)(void *user, const char *event, struct str data),
	      void *user)
{
	*s = (struct sse){ .each = each, .user = user, .line = BUF(SSE_MAX), .data = BUF(SSE_MAX) };
}

void sse_fini(struct sse *s)
{
	buf_fini(&s->line);
	buf_fini(&s->data);
}

static void dispatch(struct sse *s)
{
	if (s->has_data)
		s->each(s->user, s->event[0] ? s->event : "message", buf_str(&s->data));
	buf_clear(&s->data);
	s->has_data = false;
	s->event[0] = '\0';
}

static bool take_field(struct sse *s, struct str name, struct str value)
{
	if (str_eq(name, STR("data"))) {
		if (s->has_data && !buf_put_char(&s->data, '\n'))
			return false;
		s->has_data = true;
		return buf_put_str(&s->data, value);
	}
	if (str_eq(name, STR("event"))) {
		/* A name that is too long is none of ours. */
		if (value.len >= SSE_EVENT_MAX)
			value = STR("unknown");
		memcpy(s->event, value.data, value.len);
		s->event[value.len] = '\0';
	}
	return true;
}

static bool take_line(struct sse *s)
{
	struct str name = buf_str(&s->line), value = STR("");
	const char *colon = name.len ? memchr(name.data, ':', name.len) : NULL;
	bool good = true;

	if (name.len == 0) {
		dispatch(s);
	} else if (colon != name.data) {
		if (colon) {
			value = str_from(name, (size_t)(colon - name.data) + 1);
			name.len = (size_t)(colon - name.data);
			if (value.len && value.data[0] == ' ')
				value = str_from(value, 1);
		}
		good = take_field(s, name, value);
	}
	buf_clear(&s->line);
	return good;
}

bool sse_feed(struct sse *s, const char *bytes, size_t len)
{
	const char *end = bytes + len;

	while (bytes < end) {
		if (s->after_cr && *bytes == '\n')
			bytes++;
		s->after_cr = false;
		const char *at = bytes;
		while (at < end && *at != '\n' && *at != '\r')
			at++;
		if (!buf_put(&s->line, bytes, (size_t)(at - bytes)))
			return false;
		if (at < end) {
			s->after_cr = *at == '\r';
			if (!take_line(s))
				return false;
			at++;
		}
		bytes = at;
	}
	return true;
}
