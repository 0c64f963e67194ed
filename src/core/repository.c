// SPDX-License-Identifier: Apache-2.0
#include "core/repository.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"

/* Of a name that is refused, so many characters are shown. */
#define SHOWN_CHARS 100u
/* Folders at the top that begin so are the file worker's own. */
#define OWN_PREFIX STR(".airlock-")

static const char *const hosts[] = { "github.com", "www.github.com" };
static const char *const schemes[] = { "https", "http" };

/* ---- Characters ---- */

static bool is_alphanumeric(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Letters, digits, and those of more; at least one, at most max. */
static bool consists_of(struct str s, const char *more, size_t max)
{
	if (!s.len || s.len > max)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		/* strchr finds the NUL of more, too. */
		if (!is_alphanumeric(s.data[i]) && (!s.data[i] || !strchr(more, s.data[i])))
			return false;
	}
	return true;
}

static bool is_dots(struct str s)
{
	return str_eq(s, STR(".")) || str_eq(s, STR(".."));
}

static bool has_two_dots(struct str s)
{
	return s.len && memmem(s.data, s.len, "..", 2);
}

static struct str drop_end(struct str s, struct str end)
{
	if (s.len >= end.len && str_eq(str_from(s, s.len - end.len), end))
		s.len -= end.len;
	return s;
}

static void keep(char *ret, struct str s)
{
	memcpy(ret, s.data, s.len);
	ret[s.len] = '\0';
}

/* ---- What the forms are made of ---- */

struct parts {
	struct str owner, name, ref; /* ref.data == NULL: none */
};

static bool is_one_of(struct str s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq_nocase(s, str_of(list[i])))
			return true;
	}
	return false;
}

static int refuse_host(struct err *err)
{
	return err_slug(
		err, EINVAL, "bad_repo",
		"Only GitHub repositories can be imported (https://github.com/owner/repo).");
}

/* The path of a URL: owner, name, and perhaps "tree" and a ref, which may have slashes. */
static int split_path(struct str path, struct parts *ret, struct err *err)
{
	struct str rest = drop_end(path, STR("/")), tree;

	if (str_split(&rest, '/', &ret->owner) && str_split(&rest, '/', &ret->name) &&
	    ret->owner.len && ret->name.len) {
		if (!rest.data)
			return 0;
		if (str_split(&rest, '/', &tree) && str_eq(tree, STR("tree")) && rest.len) {
			ret->ref = rest;
			return 0;
		}
	}
	return err_slug(err, EINVAL, "bad_repo",
			"Use https://github.com/owner/repo or "
			"https://github.com/owner/repo/tree/<branch>.");
}

static int split_url(struct str text, size_t scheme_len, struct parts *ret, struct err *err)
{
	struct str scheme = { text.data, scheme_len };
	struct str rest = str_from(text, scheme_len + strlen("://")), host;

	if (!is_one_of(scheme, schemes, ARRAY_SIZE(schemes)) || !str_split(&rest, '/', &host) ||
	    !is_one_of(host, hosts, ARRAY_SIZE(hosts)))
		return refuse_host(err);
	return split_path(rest.data ? rest : STR(""), ret, err);
}

static int split_repo(struct str text, struct parts *ret, struct err *err)
{
	struct str rest = text;
	const char *colon = text.len ? memmem(text.data, text.len, "://", 3) : NULL;

	if (colon)
		return split_url(text, (size_t)(colon - text.data), ret, err);
	if (str_split(&rest, '/', &ret->owner) && str_split(&rest, '/', &ret->name) && !rest.data &&
	    ret->owner.len && ret->name.len)
		return 0;
	return err_slug(err, EINVAL, "bad_repo",
			"Give the repository as owner/repo or https://github.com/owner/repo.");
}

/* ---- Checks ---- */

static int take_name(struct repository *ret, struct parts *p, struct err *err)
{
	struct str name = drop_end(p->name, STR(".git"));

	if (consists_of(p->owner, "-", REPOSITORY_OWNER_MAX) && p->owner.data[0] != '-' &&
	    consists_of(name, "._-", REPOSITORY_NAME_MAX) && !is_dots(name)) {
		keep(ret->owner, p->owner);
		keep(ret->name, name);
		return 0;
	}
	struct str owner_shown = utf8_cut(p->owner, SHOWN_CHARS);
	struct str name_shown = utf8_cut(name, SHOWN_CHARS);
	return err_slug(err, EINVAL, "bad_repo",
			"'%.*s/%.*s' isn't a valid GitHub repository name.", (int)owner_shown.len,
			owner_shown.data, (int)name_shown.len,
			name_shown.len ? name_shown.data : "");
}

static int take_ref(struct repository *ret, struct str ref, struct err *err)
{
	if (!ref.len)
		ref = STR("HEAD");
	if (consists_of(ref, "._/-", REPOSITORY_REF_MAX) && !has_two_dots(ref) &&
	    ref.data[0] != '/' && ref.data[ref.len - 1] != '/') {
		keep(ret->ref, ref);
		return 0;
	}
	struct str shown = utf8_cut(ref, REPOSITORY_REF_MAX);
	return err_slug(err, EINVAL, "bad_ref", "'%.*s' isn't a valid branch, tag or commit.",
			(int)shown.len, shown.data);
}

static struct str drop_slashes(struct str s)
{
	while (s.len && s.data[0] == '/')
		s = str_from(s, 1);
	while (s.len && s.data[s.len - 1] == '/')
		s.len--;
	return s;
}

static bool is_path(struct str path)
{
	struct str rest = path, part;

	if (!consists_of(path, "._/-", REPOSITORY_PATH_MAX) || str_starts(path, OWN_PREFIX))
		return false;
	while (str_split(&rest, '/', &part)) {
		if (!part.len || is_dots(part))
			return false;
	}
	return true;
}

static int take_path(struct repository *ret, struct str path_raw, struct err *err)
{
	struct str path = drop_slashes(str_trim(path_raw));

	if (!path.len)
		path = str_of(ret->name);
	if (is_path(path)) {
		keep(ret->path, path);
		return 0;
	}
	struct str shown = utf8_cut(path, REPOSITORY_PATH_MAX);
	return err_slug(err, EINVAL, "bad_destination",
			"'%.*s' isn't a valid folder name inside the workspace.", (int)shown.len,
			shown.data);
}

int repository_parse(struct repository *ret, struct str repo, struct str ref, struct str path,
		     struct err *err)
{
	struct repository made;
	struct parts p = { .ref = { NULL, 0 } };
	struct str asked = str_trim(ref);
	int r = split_repo(str_trim(repo), &p, err);

	if (r >= 0)
		r = take_name(&made, &p, err);
	if (r >= 0)
		r = take_ref(&made, asked.len ? asked : p.ref, err);
	if (r >= 0)
		r = take_path(&made, path, err);
	if (r >= 0)
		*ret = made;
	return r;
}

/* ---- URLs ---- */

size_t repository_url(const struct repository *r, const char *base, char *ret, size_t size)
{
	struct str start = drop_end(str_of(base), STR("/"));

	return (size_t)snprintf(ret, size, "%.*s/%s/%s/archive/%s.tar.gz", (int)start.len,
				start.data, r->owner, r->name, r->ref);
}
