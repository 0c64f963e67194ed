// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/mem.h"
#include "core/repository.h"

#define TEN "abcdefghij"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define FORTY TEN TEN TEN TEN

#define ONLY_GITHUB "Only GitHub repositories can be imported (https://github.com/owner/repo)."
#define GIVE "Give the repository as owner/repo or https://github.com/owner/repo."
#define USE "Use https://github.com/owner/repo or https://github.com/owner/repo/tree/<branch>."
#define NOT_A_NAME(name) "'" name "' isn't a valid GitHub repository name."
#define NOT_A_REF(ref) "'" ref "' isn't a valid branch, tag or commit."
#define NOT_A_FOLDER(path) "'" path "' isn't a valid folder name inside the workspace."
#define NONE \
	{ \
		NULL, 0 \
	}

static void forms_that_are_taken(void **state)
{
	static const struct {
		struct str repo, ref, path;
		const char *owner, *name, *ret_ref, *ret_path;
	} table[] = {
		{ STR("owner/repo"), NONE, NONE, "owner", "repo", "HEAD", "repo" },
		{ STR(" \towner/repo\t "), STR("  "), STR(" "), "owner", "repo", "HEAD", "repo" },
		{ STR("https://github.com/owner/repo"), NONE, NONE, "owner", "repo", "HEAD",
		  "repo" },
		{ STR("http://github.com/owner/repo"), NONE, NONE, "owner", "repo", "HEAD",
		  "repo" },
		{ STR("https://www.github.com/owner/repo"), NONE, NONE, "owner", "repo", "HEAD",
		  "repo" },
		{ STR("HTTPS://GitHub.com/Owner/Repo"), NONE, NONE, "Owner", "Repo", "HEAD",
		  "Repo" },
		{ STR("https://github.com/owner/repo.git"), NONE, NONE, "owner", "repo", "HEAD",
		  "repo" },
		{ STR("https://github.com/owner/repo/"), NONE, NONE, "owner", "repo", "HEAD",
		  "repo" },
		{ STR("https://github.com/owner/repo.git/"), NONE, NONE, "owner", "repo", "HEAD",
		  "repo" },
		{ STR("https://github.com/owner/repo/tree/v1.0"), NONE, NONE, "owner", "repo",
		  "v1.0", "repo" },
		{ STR("https://github.com/owner/repo/tree/a/b_c/d-e/"), NONE, NONE, "owner", "repo",
		  "a/b_c/d-e", "repo" },
		{ STR("https://github.com/owner/repo/tree/main"), STR("v2"), NONE, "owner", "repo",
		  "v2", "repo" },
		{ STR("https://github.com/owner/repo/tree/main"), STR(""), NONE, "owner", "repo",
		  "main", "repo" },
		{ STR("owner/repo"), STR(" feature/x "), STR(" /src/lib/ "), "owner", "repo",
		  "feature/x", "src/lib" },
		{ STR("owner/repo.git"), NONE, NONE, "owner", "repo", "HEAD", "repo" },
		{ STR("a/..."), NONE, STR("..."), "a", "...", "HEAD", "..." },
		{ STR("1-/.github"), NONE, NONE, "1-", ".github", "HEAD", ".github" },
		{ STR("owner/repo"), NONE, STR("//.airlock/x//"), "owner", "repo", "HEAD",
		  ".airlock/x" },
		{ STR("owner/repo"), STR(HUNDRED HUNDRED), STR(HUNDRED HUNDRED), "owner", "repo",
		  HUNDRED HUNDRED, HUNDRED HUNDRED },
		{ STR(TEN TEN TEN "123456789/" HUNDRED), NONE, NONE, TEN TEN TEN "123456789",
		  HUNDRED, "HEAD", HUNDRED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct repository r;
		struct err err;
		if (repository_parse(&r, table[i].repo, table[i].ref, table[i].path, &err) < 0)
			fail_msg("%s: %s", table[i].repo.data, err.text);
		assert_string_equal(r.owner, table[i].owner);
		assert_string_equal(r.name, table[i].name);
		assert_string_equal(r.ref, table[i].ret_ref);
		assert_string_equal(r.path, table[i].ret_path);
	}
}

static void forms_that_are_refused(void **state)
{
	static const struct {
		struct str repo, ref, path;
		const char *slug, *text;
	} table[] = {
		{ STR("https://gitlab.com/owner/repo"), NONE, NONE, "bad_repo", ONLY_GITHUB },
		{ STR("https://github.com.evil.test/owner/repo"), NONE, NONE, "bad_repo",
		  ONLY_GITHUB },
		{ STR("https://codeload.github.com/owner/repo"), NONE, NONE, "bad_repo",
		  ONLY_GITHUB },
		{ STR("https://github.com:8443/owner/repo"), NONE, NONE, "bad_repo", ONLY_GITHUB },
		{ STR("https://me@github.com/owner/repo"), NONE, NONE, "bad_repo", ONLY_GITHUB },
		{ STR("https://github.com@evil.test/owner/repo"), NONE, NONE, "bad_repo",
		  ONLY_GITHUB },
		{ STR("https:///owner/repo"), NONE, NONE, "bad_repo", ONLY_GITHUB },
		{ STR("https://"), NONE, NONE, "bad_repo", ONLY_GITHUB },
		{ STR("://github.com/owner/repo"), NONE, NONE, "bad_repo", ONLY_GITHUB },
		{ STR("file:///etc/passwd"), NONE, NONE, "bad_repo", ONLY_GITHUB },
		{ STR("ssh://git@github.com/owner/repo"), NONE, NONE, "bad_repo", ONLY_GITHUB },
		{ STR("http://169.254.169.254/owner/repo"), NONE, NONE, "bad_repo", ONLY_GITHUB },
		{ STR(""), NONE, NONE, "bad_repo", GIVE },
		{ STR("repo"), NONE, NONE, "bad_repo", GIVE },
		{ STR("/repo"), NONE, NONE, "bad_repo", GIVE },
		{ STR("owner/"), NONE, NONE, "bad_repo", GIVE },
		{ STR("owner/repo/"), NONE, NONE, "bad_repo", GIVE },
		{ STR("owner/repo/tree/main"), NONE, NONE, "bad_repo", GIVE },
		{ STR("github.com/owner/repo"), NONE, NONE, "bad_repo", GIVE },
		{ STR("https://github.com"), NONE, NONE, "bad_repo", USE },
		{ STR("https://github.com/"), NONE, NONE, "bad_repo", USE },
		{ STR("https://github.com/owner"), NONE, NONE, "bad_repo", USE },
		{ STR("https://github.com//repo"), NONE, NONE, "bad_repo", USE },
		{ STR("https://github.com/owner/repo//"), NONE, NONE, "bad_repo", USE },
		{ STR("https://github.com/owner/repo/tree"), NONE, NONE, "bad_repo", USE },
		{ STR("https://github.com/owner/repo/tree/"), NONE, NONE, "bad_repo", USE },
		{ STR("https://github.com/owner/repo/blob/main/a"), NONE, NONE, "bad_repo", USE },
		{ STR("https://github.com/owner/repo/issues"), NONE, NONE, "bad_repo", USE },
		{ STR("-owner/repo"), NONE, NONE, "bad_repo", NOT_A_NAME("-owner/repo") },
		{ STR("ow.ner/repo"), NONE, NONE, "bad_repo", NOT_A_NAME("ow.ner/repo") },
		{ STR("owner/."), NONE, NONE, "bad_repo", NOT_A_NAME("owner/.") },
		{ STR("owner/.."), NONE, NONE, "bad_repo", NOT_A_NAME("owner/..") },
		{ STR("owner/.git"), NONE, NONE, "bad_repo", NOT_A_NAME("owner/") },
		{ STR("owner/re po"), NONE, NONE, "bad_repo", NOT_A_NAME("owner/re po") },
		{ STR("owner/r\xc3\xbc"), NONE, NONE, "bad_repo", NOT_A_NAME("owner/r\xc3\xbc") },
		{ STR("owner/repo\n"), NONE, NONE, "bad_repo", NOT_A_NAME("owner/repo\n") },
		{ STR("git@github.com:owner/repo.git"), NONE, NONE, "bad_repo",
		  NOT_A_NAME("git@github.com:owner/repo") },
		{ STR("https://github.com/owner/repo?tab=x"), NONE, NONE, "bad_repo",
		  NOT_A_NAME("owner/repo?tab=x") },
		{ STR("https://github.com/owner/repo#readme"), NONE, NONE, "bad_repo",
		  NOT_A_NAME("owner/repo#readme") },
		{ STR("https://github.com/o%2e/repo"), NONE, NONE, "bad_repo",
		  NOT_A_NAME("o%2e/repo") },
		{ STR(FORTY "/repo"), NONE, NONE, "bad_repo", NOT_A_NAME(FORTY "/repo") },
		{ STR("owner/" HUNDRED "x"), NONE, NONE, "bad_repo", NOT_A_NAME("owner/" HUNDRED) },
		{ STR("owner/repo"), STR("a..b"), NONE, "bad_ref", NOT_A_REF("a..b") },
		{ STR("owner/repo"), STR("/main"), NONE, "bad_ref", NOT_A_REF("/main") },
		{ STR("owner/repo"), STR("main/"), NONE, "bad_ref", NOT_A_REF("main/") },
		{ STR("owner/repo"), STR("a b"), NONE, "bad_ref", NOT_A_REF("a b") },
		{ STR("owner/repo"), STR("a?b"), NONE, "bad_ref", NOT_A_REF("a?b") },
		{ STR("owner/repo"), STR("%2e%2e"), NONE, "bad_ref", NOT_A_REF("%2e%2e") },
		{ STR("https://github.com/owner/repo/tree/../x"), NONE, NONE, "bad_ref",
		  NOT_A_REF("../x") },
		{ STR("owner/repo"), STR(HUNDRED HUNDRED "x"), NONE, "bad_ref",
		  NOT_A_REF(HUNDRED HUNDRED) },
		{ STR("owner/repo"), NONE, STR(".."), "bad_destination", NOT_A_FOLDER("..") },
		{ STR("owner/repo"), NONE, STR("a/../b"), "bad_destination",
		  NOT_A_FOLDER("a/../b") },
		{ STR("owner/repo"), NONE, STR("."), "bad_destination", NOT_A_FOLDER(".") },
		{ STR("owner/repo"), NONE, STR("a//b"), "bad_destination", NOT_A_FOLDER("a//b") },
		{ STR("owner/repo"), NONE, STR("a b"), "bad_destination", NOT_A_FOLDER("a b") },
		{ STR("owner/repo"), NONE, STR("\xc3\xbc"), "bad_destination",
		  NOT_A_FOLDER("\xc3\xbc") },
		{ STR("owner/repo"), NONE, STR(".airlock-0123456789abcdef"), "bad_destination",
		  NOT_A_FOLDER(".airlock-0123456789abcdef") },
		{ STR("owner/repo"), NONE, STR(HUNDRED HUNDRED "x"), "bad_destination",
		  NOT_A_FOLDER(HUNDRED HUNDRED) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct repository r = { .owner = "untouched" };
		struct err err = { .slug = "none" };
		if (repository_parse(&r, table[i].repo, table[i].ref, table[i].path, &err) !=
		    -EINVAL)
			fail_msg("'%s' is taken", table[i].repo.data);
		assert_string_equal(err.text, table[i].text);
		assert_string_equal(err.slug, table[i].slug);
		assert_string_equal(r.owner, "untouched");
	}
}

/* A NUL is no letter, also where the list of letters ends. */
static void a_nul_is_refused(void **state)
{
	struct repository r;
	struct err err;

	assert_int_equal(repository_parse(&r, STR("owner/re\0po"), (struct str)NONE,
					  (struct str)NONE, &err),
			 -EINVAL);
	assert_string_equal(err.slug, "bad_repo");
	assert_int_equal(repository_parse(&r, STR("owner/repo"), STR("a\0b"), (struct str)NONE,
					  &err),
			 -EINVAL);
	assert_string_equal(err.slug, "bad_ref");
	assert_int_equal(repository_parse(&r, STR("owner/repo"), (struct str)NONE, STR("a\0b"),
					  &err),
			 -EINVAL);
	assert_string_equal(err.slug, "bad_destination");
}

static void the_url_is_the_archive_of_the_ref(void **state)
{
	const struct repository r = { "owner", "repo", "feature/x", "repo" };
	char url[128];

	assert_int_equal(repository_url(&r, "https://github.com", url, sizeof(url)), 54);
	assert_string_equal(url, "https://github.com/owner/repo/archive/feature/x.tar.gz");
	repository_url(&r, "http://127.0.0.1:99/git/", url, sizeof(url));
	assert_string_equal(url, "http://127.0.0.1:99/git/owner/repo/archive/feature/x.tar.gz");
	assert_true(repository_url(&r, "https://github.com", url, 54) >= 54);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_that_are_taken),
		cmocka_unit_test(forms_that_are_refused),
		cmocka_unit_test(a_nul_is_refused),
		cmocka_unit_test(the_url_is_the_archive_of_the_ref),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
