// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/parts.h"
#include "core/rig.h"

#define BASE STR("sandbox-base:latest")

struct outcome {
	unsigned n;
	struct session *s;
	char slug[64];
	char text[1024];
};

static void on_session(void *data, struct session *s, const struct err *err)
{
	struct outcome *o = data;

	o->n++;
	o->s = s;
	snprintf(o->slug, sizeof(o->slug), "%s", err ? err->slug : "");
	snprintf(o->text, sizeof(o->text), "%s", err ? err->text : "");
}

static struct outcome create(struct rig *r, struct tenant *t, const struct session_params *p)
{
	struct outcome o = { 0 };

	session_create(r->core, t, p, on_session, &o);
	assert_int_equal(o.n, 0); /* never before the call has returned */
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static struct outcome end_it(struct rig *r, struct session *s)
{
	struct outcome o = { 0 };

	session_delete(r->core, s, on_session, &o);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static bool exists(struct rig *r, const char *id)
{
	return session_find(r->core, str_of(id)) != NULL;
}

static void a_session_is_ready_when_volume_and_row_are_there(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	assert_int_equal(strlen(s->id), SESSION_ID_LEN);
	assert_memory_equal(s->id, "sbx_", 4);
	for (size_t i = 4; i < SESSION_ID_LEN; i++)
		assert_non_null(strchr("0123456789abcdef", s->id[i]));
	assert_ptr_equal(session_find(r->core, str_of(s->id)), s);
	assert_true(rig_has_volume(r, s->id));
	assert_int_equal(r->a->sessions_open, 1);
	assert_int_equal(session_count(r->core), 1);
	assert_int_equal(s->quota_bytes, 512 << 20);
	/* The hard limit leaves room for the largest write beside what it replaces. */
	assert_int_equal(r->runtime.limit, (512 + 64) << 20);
	assert_int_equal(s->created_us, RIG_START_US);
	assert_int_equal(session_expires_us(r->core, s), RIG_START_US + 1800 * RIG_SECOND);
	assert_string_equal(s->image, "sandbox-base:latest");
	assert_int_equal(r->runtime.warmed, r->a->number); /* its first command need not wait */
}

static void both_default_templates_are_the_same_image(void **state)
{
	struct rig *r = *state;
	const struct session_params p = { .template_name = STR("python:3.11-slim") };
	struct outcome o = create(r, r->a, &p);

	assert_string_equal(o.s->template_name, "python:3.11-slim");
	assert_string_equal(o.s->image, "sandbox-base:latest");
}

static void each_refusal_has_its_word_and_leaves_nothing(void **state)
{
	struct rig *r = *state;
	const struct str egress[] = { STR("PyPI."), STR(" x.example.com "), STR("pypi.org") };
	const struct {
		struct session_params p;
		const char *slug, *text;
	} cases[] = {
		{ { .template_name = STR("evil") },
		  "template_not_permitted",
		  "Template 'evil' not permitted. Allowed: ['sandbox-base:latest', "
		  "'python:3.11-slim']" },
		{ { .template_name = BASE, .egress = egress, .n_egress = 3 },
		  "egress_not_permitted",
		  "Egress not permitted for this tenant: ['pypi.org', 'files.pythonhosted.org', "
		  "'x.example.com']. Allowed: []" },
		{ { .template_name = BASE, .snapshot_id = STR("snap_0123456789abcdef") },
		  "snapshot_not_found",
		  "Snapshot not found" },
		{ { .template_name = BASE, .persistent = true },
		  "persistent_unavailable",
		  "Persistent sandboxes are not available on this server." },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct outcome o = create(r, r->a, &cases[i].p);
		assert_null(o.s);
		assert_string_equal(o.slug, cases[i].slug);
		assert_string_equal(o.text, cases[i].text);
		assert_int_equal(r->a->sessions_open, 0);
		assert_int_equal(r->runtime.calls[RIG_CREATE], 0);
	}
	struct usage_month month;
	usage_get(r->core, r->a, &month);
	assert_int_equal(month.sessions, 0);
}

static void a_long_list_of_hosts_is_cut_between_characters(void **state)
{
	struct rig *r = *state;
	struct str egress[20];
	char text[20][260];

	for (unsigned i = 0; i < 20; i++) {
		memset(text[i], 0, sizeof(text[i]));
		for (unsigned k = 0; k < 84; k++)
			memcpy(text[i] + k * 3, "\xe2\x82\xac", 3);
		text[i][0] = (char)('a' + i);
		text[i][1] = text[i][2] = 'x';
		egress[i] = str_of(text[i]);
	}
	const struct session_params p = { .template_name = BASE, .egress = egress, .n_egress = 20 };
	struct outcome o = create(r, r->a, &p);
	assert_string_equal(o.slug, "egress_not_permitted");
	assert_true(utf8_valid(str_of(o.text)));
	assert_non_null(strstr(o.text, "…]. Allowed: []"));
}

/* The contract (3.1) cuts lists of hosts, not this one. */
static void a_refusal_names_every_template(void **state)
{
	static char names[64][64];
	char wanted[4 * LIMIT_TEMPLATE_NAME + 1] = "";
	_cleanup_buf_ struct buf want = BUF(64 * KIB), whole = BUF(64 * KIB);
	struct session_params p = { .template_name = { wanted, 4 * LIMIT_TEMPLATE_NAME } };
	static const char *templates[64];
	struct rig *r = *state;

	for (unsigned i = 0; i < LIMIT_TEMPLATE_NAME; i++)
		memcpy(wanted + i * 4, "\xf0\x9f\x98\x80", 4);
	buf_printf(&want, "Template '%s' not permitted. Allowed: [", wanted);
	for (unsigned i = 0; i < 64; i++) {
		snprintf(names[i], sizeof(names[i]), "%063u", i);
		templates[i] = names[i];
		buf_printf(&want, "%s'%s'", i ? ", " : "", names[i]);
	}
	buf_put_char(&want, ']');
	rig_close(r);
	r->config.templates = templates;
	r->config.n_templates = 64;
	rig_open(r);
	struct outcome o = create(r, r->a, &p);
	assert_string_equal(o.slug, "template_not_permitted");
	session_refusal(r->core, r->a, &p, o.slug, &whole);
	assert_string_equal(whole.data, want.data);

	buf_clear(&whole);
	session_refusal(r->core, r->a, &p, "session_limit", &whole);
	assert_int_equal(whole.len, 0);
	session_refusal(r->core, r->a, &p, NULL, &whole);
	assert_int_equal(whole.len, 0);
}

/* ---- Egress ---- */

/* rules: separated by blanks; NULL: no entry. */
static void set_policy(struct rig *r, const char *all, const char *a)
{
	_cleanup_egress_list_ struct egress_list of_all = EGRESS_LIST, of_a = EGRESS_LIST;
	struct core_egress entries[2];
	size_t n = 0;
	struct str rest, rule;

	for (rest = str_of(all); all && str_split(&rest, ' ', &rule);)
		egress_list_add(&of_all, rule);
	for (rest = str_of(a); a && str_split(&rest, ' ', &rule);)
		egress_list_add(&of_a, rule);
	if (all)
		entries[n++] = (struct core_egress){ NULL, &of_all };
	if (a)
		entries[n++] = (struct core_egress){ "a", &of_a };
	core_set_egress(r->core, entries, n);
}

static void assert_policy(struct rig *r, const struct tenant *t, const char *rules)
{
	const struct egress_list *list = core_egress(r->core, t);
	struct str rest = str_of(rules), rule;
	size_t n = 0;

	for (; str_split(&rest, ' ', &rule) && rule.len; n++) {
		assert_true(n < list->n);
		assert_true(str_eq(str_of(list->rules[n]), rule));
	}
	assert_int_equal(list->n, n);
}

static void a_tenants_entry_replaces_that_of_everybody(void **state)
{
	struct rig *r = *state;

	assert_policy(r, r->a, "");
	set_policy(r, "pypi x.org", "y.org");
	assert_policy(r, r->a, "y.org");
	assert_policy(r, r->b, "pypi.org files.pythonhosted.org x.org");
	set_policy(r, NULL, "npm");
	assert_policy(r, r->a, "registry.npmjs.org");
	assert_policy(r, r->b, "");
	set_policy(r, "x.org", "");
	assert_policy(r, r->b, "x.org");
	core_set_egress(r->core, NULL, 0);
	assert_policy(r, r->a, "");
}

static void what_the_policy_covers_is_permitted(void **state)
{
	static const struct {
		const char *item, *refused; /* NULL: permitted */
	} cases[] = {
		{ "sub.example.com", NULL },
		{ "*.example.com", NULL },
		{ "*.deeper.example.com", NULL },
		{ " *.Example.COM.", NULL },
		{ "pypi", NULL },
		{ "example.com", "example.com" },
		{ "*.com", "*.com" },
		{ "10.0.0.1", "10.0.0.1" },
		{ "http://x", "http://x" },
		{ " ", "" },
		{ "npm", "registry.npmjs.org" },
	};
	struct rig *r = *state;

	set_policy(r, "*.example.com pypi", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct str egress[] = { str_of(cases[i].item) };
		const struct session_params p = { .template_name = BASE,
						  .egress = egress,
						  .n_egress = 1 };
		struct outcome o = create(r, r->a, &p);
		if (!cases[i].refused) {
			assert_non_null(o.s);
			end_it(r, o.s);
			continue;
		}
		char text[200];
		snprintf(text, sizeof(text),
			 "Egress not permitted for this tenant: ['%s']. Allowed: "
			 "['*.example.com', 'pypi.org', 'files.pythonhosted.org']",
			 cases[i].refused);
		assert_string_equal(o.slug, "egress_not_permitted");
		assert_string_equal(o.text, text);
		assert_int_equal(r->a->sessions_open, 0);
	}
}

static void a_refusal_names_only_what_is_refused_and_all_of_it(void **state)
{
	const struct str egress[] = { STR("pypi"), STR("B.org"), STR("a.org"), STR("b.org.") };
	struct session_params p = { .template_name = BASE, .egress = egress, .n_egress = 4 };
	_cleanup_buf_ struct buf whole = BUF(1u << 20);
	struct rig *r = *state;

	set_policy(r, NULL, "pypi");
	struct outcome o = create(r, r->a, &p);
	assert_string_equal(o.text, "Egress not permitted for this tenant: ['b.org', 'a.org']. "
				    "Allowed: ['pypi.org', 'files.pythonhosted.org']");
	session_refusal(r->core, r->a, &p, o.slug, &whole);
	assert_string_equal(whole.data, o.text);

	/* What no error can hold is whole in the sentence for the client. */
	_cleanup_egress_list_ struct egress_list many = EGRESS_LIST;
	char name[40];
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "h%u.a-long-name.example.org", i);
		egress_list_add(&many, str_of(name));
	}
	const struct core_egress entry = { "a", &many };
	core_set_egress(r->core, &entry, 1);
	o = create(r, r->a, &p);
	assert_string_equal(o.slug, "egress_not_permitted");
	session_refusal(r->core, r->a, &p, o.slug, &whole);
	const char *allowed = strstr(whole.data, ". Allowed: [");
	assert_non_null(allowed);
	assert_string_equal(whole.data + whole.len - 4, "…]");
	assert_int_equal(strlen(allowed), strlen(". Allowed: [") + 2000 + strlen("…]"));
}

static void a_session_keeps_its_rules_whatever_becomes_of_the_policy(void **state)
{
	const struct str egress[] = { STR("pypi"), STR("*.Example.com."), STR("pypi.org") };
	static const char rules[] = "pypi.org files.pythonhosted.org *.example.com";
	struct rig *r = *state;
	char id[SESSION_ID_LEN + 1];

	set_policy(r, "pypi *.example.com", NULL);
	struct session *s = rig_session_egress(r, r->a, egress, 3);
	memcpy(id, s->id, sizeof(id));
	assert_int_equal(s->egress.n, 3);
	assert_string_equal(rig_egress(r, id), rules);
	core_set_egress(r->core, NULL, 0);
	assert_string_equal(rig_egress(r, id), rules);
	assert_null(rig_egress(r, rig_session(r, r->a)->id));

	rig_close(r);
	rig_open(r);
	s = session_find(r->core, str_of(id));
	assert_non_null(s);
	assert_int_equal(s->egress.n, 3);
	assert_string_equal(s->egress.rules[2], "*.example.com");
	assert_string_equal(rig_egress(r, id), rules);
	assert_int_equal(r->runtime.n_egress, 1);

	/* The gateway forgets it with the first step of its end. */
	session_delete(r->core, s, NULL, NULL);
	assert_null(rig_egress(r, id));
	rig_settle(r);
}

static void a_failed_create_leaves_nothing_at_the_gateway(void **state)
{
	const struct str egress[] = { STR("pypi") };
	const struct session_params p = { .template_name = BASE, .egress = egress, .n_egress = 1 };
	struct rig *r = *state;

	set_policy(r, "pypi", NULL);
	r->runtime.fail[RIG_CREATE] = "no_capacity";
	assert_string_equal(create(r, r->a, &p).slug, "no_capacity");
	assert_int_equal(r->runtime.n_egress, 0);
}

static void a_slot_is_taken_and_given_back(void **state)
{
	struct rig *r = *state;
	const struct session_params p = { .template_name = BASE };
	const struct session_params bad = { .template_name = STR("evil") };
	const struct tenant_limits limits = { 2, 120, 4, 3, 20, 10240, 5 };

	core_set_limits(r->core, STR("a"), &limits);
	struct session *first = rig_session(r, r->a);
	rig_session(r, r->a);
	struct outcome o = create(r, r->a, &p);
	assert_string_equal(o.slug, "session_limit");
	assert_string_equal(o.text,
			    "Session limit reached: 2 of 2 sessions are open. Delete one first.");
	/* What is wrong with the request comes before the limit. */
	assert_string_equal(create(r, r->a, &bad).slug, "template_not_permitted");
	rig_session(r, r->b);
	end_it(r, first);
	rig_session(r, r->a);
	assert_string_equal(create(r, r->a, &p).slug, "session_limit");
}

static void a_full_server_is_no_capacity(void **state)
{
	struct rig *r = *state;
	const struct session_params p = { .template_name = BASE };

	rig_close(r);
	r->config.max_sessions = 1;
	rig_open(r);
	rig_session(r, r->a);
	struct outcome o = create(r, r->b, &p);
	assert_string_equal(o.slug, "no_capacity");
	assert_string_equal(o.text, "All sandbox workspaces are in use; try again shortly.");
	assert_int_equal(r->b->sessions_open, 0);
}

static void a_failed_start_gives_everything_back(void **state)
{
	static const struct {
		const char *runtime, *slug;
	} cases[] = { { "no_capacity", "no_capacity" }, { "internal", "internal" } };
	struct rig *r = *state;
	const struct session_params p = { .template_name = BASE };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		r->runtime.fail[RIG_CREATE] = cases[i].runtime;
		assert_string_equal(create(r, r->a, &p).slug, cases[i].slug);
		assert_int_equal(r->a->sessions_open, 0);
		assert_int_equal(r->core->n_sessions, 0);
		assert_int_equal(r->runtime.calls[RIG_DELETE], i + 1);
	}
	r->runtime.fail[RIG_CREATE] = NULL;
	rig_session(r, r->a);
	struct usage_month month;
	usage_get(r->core, r->a, &month);
	assert_int_equal(month.sessions, 1);
}

/* No file of this process may grow. */
static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_store_that_cannot_write_is_busy_and_leaves_nothing(void **state)
{
	struct rig *r = *state;
	const struct session_params p = { .template_name = BASE };

	signal(SIGXFSZ, SIG_IGN);
	limit_files(1);
	struct outcome o = create(r, r->a, &p);
	limit_files(RLIM_INFINITY);
	assert_string_equal(o.slug, "busy");
	assert_int_equal(r->a->sessions_open, 0);
	assert_int_equal(r->runtime.disk->n_volumes, 0);
	rig_session(r, r->a);
}

static void many_creates_at_once_all_get_their_own(void **state)
{
	struct rig *r = *state;
	const struct session_params p = { .template_name = BASE };
	const struct tenant_limits limits = { 60, 120, 4, 3, 20, 10240, 5 };
	struct outcome o[40] = { 0 };

	rig_close(r);
	r->config.max_sessions = 60;
	rig_open(r);
	core_set_limits(r->core, STR("a"), &limits);
	for (size_t i = 0; i < 40; i++)
		session_create(r->core, r->a, &p, on_session, &o[i]);
	rig_settle(r);
	rig_settle(r);
	for (size_t i = 0; i < 40; i++) {
		assert_int_equal(o[i].n, 1);
		assert_non_null(o[i].s);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(o[i].s->id, o[k].s->id);
	}
	assert_int_equal(session_count(r->core), 40);
}

static void a_create_that_hangs_is_busy_after_a_minute_and_undone_when_it_comes(void **state)
{
	struct rig *r = *state;
	const struct session_params p = { .template_name = BASE };
	struct outcome o = { 0 };

	r->runtime.hold[RIG_CREATE] = true;
	session_create(r->core, r->a, &p, on_session, &o);
	rig_settle(r);
	creates_expire(r->core, clock_monotonic_us() + 59 * RIG_SECOND);
	assert_int_equal(o.n, 0);
	creates_expire(r->core, clock_monotonic_us() + 60 * RIG_SECOND);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "busy");
	rig_answer(r);
	assert_int_equal(o.n, 1);
	assert_int_equal(r->runtime.disk->n_volumes, 0);
	assert_int_equal(r->a->sessions_open, 0);
}

static void a_deleted_session_is_out_of_sight_at_once_and_its_slot_free_at_the_end(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	char id[SESSION_ID_LEN + 1];
	struct outcome o = { 0 };

	memcpy(id, s->id, sizeof(id));
	r->runtime.hold[RIG_DELETE] = true;
	session_delete(r->core, s, on_session, &o);
	assert_false(exists(r, id));
	assert_null(session_next(r->core, r->a, NULL));
	assert_int_equal(session_count(r->core), 0);
	rig_settle(r);
	assert_int_equal(o.n, 0);
	assert_int_equal(r->a->sessions_open, 1);
	rig_answer(r);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "");
	assert_int_equal(r->a->sessions_open, 0);
	assert_false(rig_has_volume(r, id));
	rig_close(r);
	rig_open(r);
	assert_int_equal(session_count(r->core), 0);
}

static void a_delete_that_fails_is_tried_again_by_the_sweep(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	struct outcome o = { 0 };
	r->runtime.fail[RIG_DELETE] = "internal";
	session_delete(r->core, s, on_session, &o);
	assert_int_equal(o.n, 0);
	/* On a slow disk some of them come by themselves. */
	for (unsigned i = 0; i < 10; i++) {
		rig_settle(r);
		endings_hurry(r->core);
	}
	rig_settle(r);
	assert_int_equal(r->runtime.calls[RIG_DELETE], 10);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "internal");
	assert_int_equal(r->a->sessions_open, 1);
	assert_int_equal(session_count(r->core), 0);
	r->runtime.fail[RIG_DELETE] = NULL;
	core_sweep(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_int_equal(r->a->sessions_open, 0);
	assert_int_equal(r->runtime.disk->n_volumes, 0);
}

static void a_delete_that_fails_once_is_none_the_worse(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { 0 };

	r->runtime.fail[RIG_DELETE] = "internal";
	session_delete(r->core, s, on_session, &o);
	rig_settle(r);
	assert_int_equal(o.n, 0);
	r->runtime.fail[RIG_DELETE] = NULL;
	endings_hurry(r->core);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "");
	assert_int_equal(r->a->sessions_open, 0);
	assert_int_equal(r->runtime.disk->n_volumes, 0);
}

static void sessions_are_listed_newest_first_and_by_tenant(void **state)
{
	struct rig *r = *state;
	struct session *one = rig_session(r, r->a);
	rig_session(r, r->b);
	struct session *two = rig_session(r, r->a);

	assert_ptr_equal(session_next(r->core, r->a, NULL), two);
	assert_ptr_equal(session_next(r->core, r->a, two), one);
	assert_null(session_next(r->core, r->a, one));
	assert_null(session_find(r->core, STR("sbx_zzzzzzzzzzzz")));
	assert_null(session_find(r->core, STR("nonsense")));
	assert_null(session_find(r->core, (struct str){ NULL, 0 }));
}

static void a_store_that_failed_is_tried_though_nobody_writes(void **state)
{
	const struct session_params p = { .template_name = STR("sandbox-base:latest") };
	struct rig *r = *state;

	rig_break_store(r, true);
	assert_string_equal(create(r, r->a, &p).slug, "busy");
	rig_settle(r);
	assert_true(store_is_failing(r->store));
	uint64_t errors = store_errors(r->store);
	/* Every ten seconds at most, and still it fails. */
	for (unsigned i = 0; i < 3; i++) {
		core_sweep(r->core, clock_monotonic_us());
		rig_settle(r);
		assert_int_equal(store_errors(r->store), errors + 1);
	}
	rig_break_store(r, false);
	core_sweep(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_true(store_is_failing(r->store));
	rig_advance(r, 10 * RIG_SECOND);
	core_sweep(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_false(store_is_failing(r->store));
	assert_int_equal(store_errors(r->store), errors + 1);
}

static void the_sweep_removes_what_is_over_its_ttl_and_nothing_else(void **state)
{
	struct rig *r = *state;
	struct session *old = rig_session(r, r->a);
	char id[SESSION_ID_LEN + 1];

	memcpy(id, old->id, sizeof(id));
	rig_advance(r, 1799 * RIG_SECOND);
	struct session *young = rig_session(r, r->a);
	core_sweep(r->core, clock_monotonic_us());
	assert_true(exists(r, id));
	rig_advance(r, 1 * RIG_SECOND);
	/* Expired and not swept: it answers, and a touch revives it. */
	assert_true(exists(r, id));
	session_touch(r->core, old);
	core_sweep(r->core, clock_monotonic_us());
	assert_true(exists(r, id));
	rig_advance(r, 1800 * RIG_SECOND);
	session_touch(r->core, young);
	core_sweep(r->core, clock_monotonic_us());
	assert_false(exists(r, id));
	assert_true(exists(r, young->id));
	rig_settle(r);
	assert_int_equal(r->a->sessions_open, 1);
}

static void idle_clocks_go_on_over_a_restart(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	char id[SESSION_ID_LEN + 1];

	memcpy(id, s->id, sizeof(id));
	rig_advance(r, 1000 * RIG_SECOND);
	session_touch(r->core, s);
	rig_close(r);
	rig_advance(r, 1000 * RIG_SECOND);
	rig_open(r);
	assert_true(exists(r, id));
	s = session_find(r->core, str_of(id));
	assert_int_equal(s->accessed_us, RIG_START_US + 1000 * RIG_SECOND);
	assert_int_equal(s->created_us, RIG_START_US);
	assert_string_equal(s->template_name, "sandbox-base:latest");
	assert_int_equal(r->a->sessions_open, 1);
	rig_close(r);
	rig_advance(r, 800 * RIG_SECOND);
	rig_open(r);
	rig_settle(r);
	assert_false(exists(r, id));
	assert_int_equal(r->runtime.disk->n_volumes, 0);
	assert_int_equal(r->a->sessions_open, 0);
}

static void set_clock(int64_t by_us)
{
	clock_fake(clock_monotonic_us(), clock_wall_us() + by_us);
}

static void a_clock_that_is_set_ends_no_session_and_keeps_none(void **state)
{
	static const int64_t days[] = { 30, -60, 9000 };
	struct rig *r = *state;
	char id[SESSION_ID_LEN + 1];

	memcpy(id, rig_session(r, r->a)->id, sizeof(id));
	for (size_t i = 0; i < ARRAY_SIZE(days); i++) {
		rig_advance(r, 500 * RIG_SECOND);
		set_clock(days[i] * 86400 * RIG_SECOND);
		core_sweep(r->core, clock_monotonic_us());
		assert_true(exists(r, id));
	}
	core_flush(r->core);
	struct session *s = session_find(r->core, str_of(id));
	assert_int_equal(s->accessed_us, clock_wall_us() - 1500 * RIG_SECOND);
	rig_close(r);
	rig_open(r);
	assert_true(exists(r, id));
	rig_advance(r, 299 * RIG_SECOND);
	core_sweep(r->core, clock_monotonic_us());
	assert_true(exists(r, id));
	rig_advance(r, 1 * RIG_SECOND);
	core_sweep(r->core, clock_monotonic_us());
	assert_false(exists(r, id));
	rig_settle(r);
	/* While no server runs nothing else is known: it begins anew. */
	memcpy(id, rig_session(r, r->a)->id, sizeof(id));
	rig_close(r);
	set_clock(-86400 * RIG_SECOND);
	rig_open(r);
	assert_true(exists(r, id));
	rig_advance(r, 1800 * RIG_SECOND);
	core_sweep(r->core, clock_monotonic_us());
	assert_false(exists(r, id));
	rig_settle(r);
}

static void ephemeral_sessions_end_with_a_clean_stop(void **state)
{
	struct rig *r = *state;

	rig_close(r);
	r->config.ephemeral = true;
	rig_open(r);
	rig_session(r, r->a);
	rig_close(r);
	assert_int_equal(r->runtime.disk->n_volumes, 0);
	r->config.ephemeral = false;
	rig_open(r);
	assert_int_equal(session_count(r->core), 0);
}

static void after_a_stop_nothing_is_made(void **state)
{
	struct rig *r = *state;
	const struct session_params p = { .template_name = BASE };

	core_stop(r->core);
	assert_true(core_is_stopping(r->core));
	assert_string_equal(create(r, r->a, &p).slug, "stopping");
}

static void closing_answers_every_create_that_is_under_way(void **state)
{
	struct rig *r = *state;
	const struct session_params p = { .template_name = BASE };
	const struct tenant_limits limits = { 300, 120, 4, 3, 20, 10240, 5 };
	static struct outcome o[200];

	rig_close(r);
	r->config.max_sessions = 300;
	r->config.ephemeral = true;
	rig_open(r);
	core_set_limits(r->core, STR("a"), &limits);
	memset(o, 0, sizeof(o));
	for (size_t i = 0; i < ARRAY_SIZE(o); i++)
		session_create(r->core, r->a, &p, on_session, &o[i]);
	rig_close(r);
	for (size_t i = 0; i < ARRAY_SIZE(o); i++)
		assert_int_equal(o[i].n, 1);
	assert_int_equal(r->runtime.disk->n_volumes, 0);
	rig_open(r);
	assert_int_equal(session_count(r->core), 0);
}

/* ---- Crashes ---- */

static void scene_made(struct rig *r)
{
	rig_session(r, r->a);
}

static void scene_volume_without_row(struct rig *r)
{
	const struct session_params p = { .template_name = BASE };

	session_create(r->core, r->a, &p, on_session, mem_new(1, sizeof(struct outcome)));
	/* One turn: the volume is there, the row is not yet committed or its answer not yet seen. */
	while (!r->runtime.disk->n_volumes)
		uv_run(&r->loop, UV_RUN_ONCE);
}

static void scene_delete_asked(struct rig *r)
{
	struct session *s = rig_session(r, r->a);

	r->runtime.hold[RIG_DELETE] = true;
	session_delete(r->core, s, on_session, mem_new(1, sizeof(struct outcome)));
	rig_settle(r);
}

static void scene_volume_gone_row_left(struct rig *r)
{
	struct session *s = rig_session(r, r->a);

	rig_settle(r);
	(void)s;
	r->runtime.disk->n_volumes = 0;
}

static void a_kill_between_any_two_steps_leaves_nothing_unexplained(void **state)
{
	static const struct {
		void (*scene)(struct rig *r);
		int sessions; /* -1: 0 or 1, as the commit went */
	} cases[] = {
		{ scene_made, 1 },
		{ scene_volume_without_row, -1 },
		{ scene_delete_asked, 0 },
		{ scene_volume_gone_row_left, 0 },
	};
	struct rig *r = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rig_crash(r, cases[i].scene);
		rig_settle(r);
		uint32_t n = session_count(r->core);
		if (cases[i].sessions >= 0)
			assert_int_equal(n, cases[i].sessions);
		assert_int_equal(r->runtime.disk->n_volumes, n);
		assert_int_equal(r->a->sessions_open, n);
		assert_int_equal(core_lost_volumes(r->core), 0);
		while (session_next(r->core, r->a, NULL))
			end_it(r, session_next(r->core, r->a, NULL));
	}
}

static void a_second_name_is_an_image_of_its_own_once_it_was_imported(void **state)
{
	static const struct {
		const char *imported, *image;
	} cases[] = {
		{ NULL, "sandbox-base:latest" },
		{ ",", "sandbox-base:latest" },
		{ "python:3.11-slim2,other", "sandbox-base:latest" },
		{ "other,python:3.11-slim", "python:3.11-slim" },
	};
	struct rig *r = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rig_close(r);
		r->config.imported = cases[i].imported;
		rig_open(r);
		assert_string_equal(session_image(r->core, "python:3.11-slim"), cases[i].image);
		assert_string_equal(session_image(r->core, "sandbox-base:latest"),
				    "sandbox-base:latest");
	}
}

static void a_volume_that_nobody_explains_is_kept_and_counted(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	char id[SESSION_ID_LEN + 1];

	memcpy(id, s->id, sizeof(id));
	rig_close(r);
	rig_add_volume(&r->runtime, "sbx_00000000dead", 7);
	rig_open(r);
	assert_int_equal(core_lost_volumes(r->core), 1);
	assert_true(rig_has_volume(r, "sbx_00000000dead"));
	assert_true(exists(r, id));
}

/* As a power cut does to what the file system had not committed. */
static void a_deleted_volume_that_comes_back_is_deleted_again(void **state)
{
	static const bool later[] = { false, true };
	struct rig *r = *state;

	for (size_t i = 0; i < ARRAY_SIZE(later); i++) {
		struct session *s = rig_session(r, r->a);
		uint32_t number = r->a->number;
		char id[SESSION_ID_LEN + 1];
		memcpy(id, s->id, sizeof(id));
		end_it(r, s);
		if (later[i]) {
			rig_advance(r, 60 * RIG_SECOND);
			core_sweep(r->core, clock_monotonic_us());
			rig_settle(r);
		}
		rig_close(r);
		rig_add_volume(&r->runtime, id, number);
		rig_open(r);
		/* By then it was committed, and what has this name is somebody else's. */
		assert_int_equal(core_lost_volumes(r->core), later[i]);
		assert_int_equal(rig_has_volume(r, id), later[i]);
	}
}

static void a_volume_of_another_tenant_is_not_the_sessions(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	char id[SESSION_ID_LEN + 1];

	memcpy(id, s->id, sizeof(id));
	rig_close(r);
	r->runtime.disk->owners[0] = r->runtime.disk->owners[0] + 100;
	rig_open(r);
	assert_false(exists(r, id));
	assert_true(rig_has_volume(r, id));
	assert_int_equal(core_lost_volumes(r->core), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(a_session_is_ready_when_volume_and_row_are_there),
		T(both_default_templates_are_the_same_image),
		T(each_refusal_has_its_word_and_leaves_nothing),
		T(a_long_list_of_hosts_is_cut_between_characters),
		T(a_refusal_names_every_template),
		T(a_tenants_entry_replaces_that_of_everybody),
		T(what_the_policy_covers_is_permitted),
		T(a_refusal_names_only_what_is_refused_and_all_of_it),
		T(a_session_keeps_its_rules_whatever_becomes_of_the_policy),
		T(a_failed_create_leaves_nothing_at_the_gateway),
		T(a_slot_is_taken_and_given_back),
		T(a_full_server_is_no_capacity),
		T(a_failed_start_gives_everything_back),
		T(a_store_that_cannot_write_is_busy_and_leaves_nothing),
		T(many_creates_at_once_all_get_their_own),
		T(a_create_that_hangs_is_busy_after_a_minute_and_undone_when_it_comes),
		T(a_deleted_session_is_out_of_sight_at_once_and_its_slot_free_at_the_end),
		T(a_delete_that_fails_is_tried_again_by_the_sweep),
		T(a_delete_that_fails_once_is_none_the_worse),
		T(sessions_are_listed_newest_first_and_by_tenant),
		T(a_store_that_failed_is_tried_though_nobody_writes),
		T(the_sweep_removes_what_is_over_its_ttl_and_nothing_else),
		T(idle_clocks_go_on_over_a_restart),
		T(a_clock_that_is_set_ends_no_session_and_keeps_none),
		T(ephemeral_sessions_end_with_a_clean_stop),
		T(after_a_stop_nothing_is_made),
		T(closing_answers_every_create_that_is_under_way),
		T(a_kill_between_any_two_steps_leaves_nothing_unexplained),
		T(a_second_name_is_an_image_of_its_own_once_it_was_imported),
		T(a_volume_that_nobody_explains_is_kept_and_counted),
		T(a_deleted_volume_that_comes_back_is_deleted_again),
		T(a_volume_of_another_tenant_is_not_the_sessions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
