// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "egress/rule.h"
#include "gateway/attempt.h"
#include "gateway/gateway.h"
#include "gateway/journal.h"
#include "gateway/spec.h"

#define SESSION_ID_MAX 64u
#define TENANT_MAX 256u

/* A text of len bytes and its NUL, which is the only one in it. */
static const char *take_text(struct str *rest, size_t len)
{
	const char *text = rest->data;

	if (rest->len <= len || memchr(text, 0, len + 1) != text + len)
		return NULL;
	*rest = str_from(*rest, len + 1);
	return text;
}

/* The id becomes a file name. */
static bool id_is_sane(const char *id)
{
	size_t len = strlen(id);

	return len > 0 && len <= SESSION_ID_MAX &&
	       strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
		       len;
}

static bool take_rules(struct session *s, struct str rest, uint32_t n)
{
	struct str *rules = mem_new(n ? n : 1, sizeof(*rules));

	s->policy = (struct egress_policy){ .rules = rules, .n_rules = n };
	for (uint32_t i = 0; i < n; i++) {
		const char *end = rest.len ? memchr(rest.data, 0, rest.len) : NULL;
		if (!end)
			return false;
		rules[i] = (struct str){ rest.data, (size_t)(end - rest.data) };
		if (!egress_rule_is_valid(rules[i]))
			return false;
		rest = str_from(rest, rules[i].len + 1);
	}
	return rest.len == 0;
}

static bool parse(struct session *s, size_t len)
{
	struct egress_spec head;

	if (len < sizeof(head))
		return false;
	memcpy(&head, s->spec, sizeof(head));
	struct str rest = { s->spec + sizeof(head), len - sizeof(head) };
	if (head.magic != EGRESS_SPEC_MAGIC || head.n_rules > EGRESS_SPEC_RULES_MAX ||
	    head.session_len > SESSION_ID_MAX || head.tenant_len > TENANT_MAX)
		return false;
	s->id = take_text(&rest, head.session_len);
	s->tenant = s->id ? take_text(&rest, head.tenant_len) : NULL;
	return s->tenant && id_is_sane(s->id) && rest.len == head.rules_len &&
	       take_rules(s, rest, head.n_rules);
}

static void forget(struct session *s)
{
	void *rules = (void *)(uintptr_t)s->policy.rules;

	if (s->journal)
		journal_close(s->journal);
	free(rules);
	free(s->spec);
	free(s);
}

/* What another airlockd had named keeps its sandboxes, its tunnels and its log. */
static bool take_over(struct gateway *g, struct session *new)
{
	list_each(node, &g->sessions)
	{
		struct session *old = container_of(node, struct session, node);
		if (old->ended || strcmp(old->id, new->id))
			continue;
		struct egress_policy policy = old->policy;
		char *spec = old->spec;
		old->number = new->number;
		old->stale = false;
		old->policy = new->policy;
		old->spec = new->spec;
		old->id = new->id;
		old->tenant = new->tenant;
		/* The journal names them too. */
		journal_close(take_ptr(old->journal));
		old->journal = journal_new(g, old->id, old->tenant);
		new->policy = policy;
		new->spec = spec;
		return true;
	}
	return false;
}

int session_add(struct gateway *g, uint32_t number, int fd)
{
	struct session *s = mem_new(1, sizeof(*s));
	size_t len;

	s->spec = spec_read(fd, EGRESS_SPEC_MAX, &len);
	s->number = number;
	s->refs = 1;
	if (!number || !s->spec || !parse(s, len) || session_find(g, number)) {
		forget(s);
		return -EPROTO;
	}
	if (take_over(g, s)) {
		forget(s);
		return 0;
	}
	list_init(&s->attempts);
	s->journal = journal_new(g, s->id, s->tenant);
	list_append(&g->sessions, &s->node);
	return 0;
}

struct session *session_find(struct gateway *g, uint32_t number)
{
	list_each(node, &g->sessions)
	{
		struct session *s = container_of(node, struct session, node);
		if (s->number == number && !s->stale)
			return s;
	}
	return NULL;
}

void session_end(struct session *s)
{
	s->ended = true;
	list_remove(&s->node);
	while (!list_is_empty(&s->attempts))
		attempt_end(attempt_of_session_node(list_first(&s->attempts)));
	/* What still comes from a sandbox that is bound to it is refused, and logged. */
	session_unref(s);
}

void session_ref(struct session *s)
{
	s->refs++;
}

void session_unref(struct session *s)
{
	if (--s->refs == 0)
		forget(s);
}

void sessions_mark_stale(struct gateway *g)
{
	list_each(node, &g->sessions) container_of(node, struct session, node)->stale = true;
}

void sessions_end_stale(struct gateway *g)
{
	list_each(node, &g->sessions)
	{
		struct session *s = container_of(node, struct session, node);
		if (s->stale)
			session_end(s);
	}
}
