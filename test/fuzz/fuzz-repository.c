// SPDX-License-Identifier: Apache-2.0
/*
 * Any three texts as repository, ref and folder of an import.
 *
 * Whatever the input: what is taken is its own short form; its parts are what the contract's
 * patterns allow (this file's own reading of them), so neither the URL nor the path can be steered;
 * what is refused has one of the three words and says nothing that is not UTF-8.
 *
 * Input: lines. Repository, ref, folder.
 */
#include <assert.h>
#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "core/repository.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Three regular expressions of POSIX, and what they cannot say. */
static bool matches(const char *pattern, const char *text)
{
	regex_t re;

	assert(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) == 0);
	bool is = regexec(&re, text, 0, NULL, 0) == 0;
	regfree(&re);
	return is;
}

static void check_taken(const struct repository *r)
{
	struct repository again;
	struct err err;
	char url[1024], short_form[256];

	assert(matches("^[A-Za-z0-9][A-Za-z0-9-]{0,38}$", r->owner));
	assert(matches("^[A-Za-z0-9._-]{1,100}$", r->name));
	assert(strcmp(r->name, ".") != 0 && strcmp(r->name, "..") != 0);
	assert(matches("^[A-Za-z0-9._/-]{1,200}$", r->ref) && !strstr(r->ref, ".."));
	assert(r->ref[0] != '/' && r->ref[strlen(r->ref) - 1] != '/');
	assert(matches("^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", r->path));
	assert(!matches("(^|/)[.][.]?(/|$)", r->path));
	assert(repository_url(r, "https://github.com", url, sizeof(url)) == strlen(url));

	snprintf(short_form, sizeof(short_form), "%s/%s", r->owner, r->name);
	/* Of "repo.git.git" one is left. */
	if (matches("[.]git$", r->name))
		return;
	assert(repository_parse(&again, str_of(short_form), str_of(r->ref), str_of(r->path),
				&err) == 0);
	assert(strcmp(again.owner, r->owner) == 0 && strcmp(again.name, r->name) == 0);
	assert(strcmp(again.ref, r->ref) == 0 && strcmp(again.path, r->path) == 0);
}

static void check_refused(const struct err *err)
{
	assert(strcmp(err->slug, "bad_repo") == 0 || strcmp(err->slug, "bad_ref") == 0 ||
	       strcmp(err->slug, "bad_destination") == 0);
	assert(strlen(err->text) < sizeof(err->text) - 1 && utf8_valid(str_of(err->text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = { (const char *)data, size }, repo, ref = { NULL, 0 }, path = { NULL, 0 };
	struct repository r;
	struct err err;

	/* They come out of JSON, which has checked that. */
	if (!utf8_valid(rest) || !str_split(&rest, '\n', &repo))
		return 0;
	str_split(&rest, '\n', &ref);
	str_split(&rest, '\n', &path);
	if (repository_parse(&r, repo, ref, path, &err) < 0)
		check_refused(&err);
	else
		check_taken(&r);
	return 0;
}
