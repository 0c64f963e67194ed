// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/options.h"
#include "launcher/volume.h"

#define NEEDED "--state-dir", "/s", "--user", "airlock", "--config-fd", "3", "--listen-fd", "4"

static int parse(const char *const *words, size_t n, struct launcher_options *ret, struct err *err)
{
	static char name[] = "airlock-launcher";
	char *argv[64] = { name };

	for (size_t i = 0; i < n; i++)
		argv[i + 1] = (char *)(uintptr_t)words[i];
	return launcher_options_parse((int)n + 1, argv, ret, err);
}

static void all_options_are_read(void **state)
{
	static const char *const words[] = { NEEDED,
					     "--metrics-fd",
					     "5",
					     "--memory-mb",
					     "512",
					     "--pids",
					     "100",
					     "--cpu-milli",
					     "2500",
					     "--tmp-mb",
					     "32",
					     "--stop-seconds",
					     "7",
					     "--volumes",
					     "plain",
					     "--mode",
					     "single",
					     "--volume-size-mb",
					     "2048",
					     "--egress-user",
					     "airlock-gw",
					     "--egress-log-dir",
					     "/l",
					     "--egress-log-days",
					     "7",
					     "--import-base",
					     "https://git.test",
					     "--egress-dns",
					     "9.9.9.9",
					     "--image",
					     "a:latest=/x.tar",
					     "--image",
					     "b=/y.tar" };
	struct launcher_options o;
	struct err err;

	(void)state;
	assert_int_equal(parse(words, ARRAY_SIZE(words), &o, &err), 0);
	assert_int_equal(o.metrics_fd, 5);
	assert_int_equal(o.memory_mb, 512);
	assert_int_equal(o.pids, 100);
	assert_int_equal(o.cpu_milli, 2500);
	assert_int_equal(o.tmp_mb, 32);
	assert_int_equal(o.stop_seconds, 7);
	assert_int_equal(o.volumes, VOLUMES_PLAIN);
	assert_true(o.single);
	assert_int_equal(o.volume_size_mb, 2048);
	assert_int_equal(o.n_images, 2);
	assert_string_equal(o.images[1], "b=/y.tar");
	assert_string_equal(o.egress_user, "airlock-gw");
	assert_string_equal(o.egress_log_dir, "/l");
	assert_int_equal(o.egress_log_days, 7);
	assert_string_equal(o.egress_dns, "9.9.9.9");
	assert_string_equal(o.import_base, "https://git.test");
}

static void bad_values_are_refused_by_name(void **state)
{
	static const char *const cases[][2] = {
		{ "--memory-mb", "31" },      { "--memory-mb", "0x40" },  { "--pids", "-1" },
		{ "--pids", "15" },	      { "--cpu-milli", "99" },	  { "--tmp-mb", "" },
		{ "--volumes", "zfs" },	      { "--mode", "many" },	  { "--config-fd", "2" },
		{ "--listen-fd", "99999" },   { "--image", "no-equals" }, { "--nonsense", "1" },
		{ "--egress-log-days", "0" },
	};
	struct launcher_options o;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *words[] = { NEEDED, cases[i][0], cases[i][1] };
		assert_true(parse(words, ARRAY_SIZE(words), &o, &err) < 0);
		assert_non_null(strstr(err.text, cases[i][0]));
	}
}

static void a_start_by_hand_says_who_starts_it(void **state)
{
	struct launcher_options o;
	struct err err;

	(void)state;
	assert_true(parse(NULL, 0, &o, &err) < 0);
	assert_non_null(strstr(err.text, "airlock serve"));
}

static void an_option_without_value_is_refused(void **state)
{
	static const char *const words[] = { NEEDED, "--pids" };
	struct launcher_options o;
	struct err err;

	(void)state;
	assert_true(parse(words, ARRAY_SIZE(words), &o, &err) < 0);
}

static void a_gateway_without_name_servers_or_log_directory_is_refused(void **state)
{
	static const char *const cases[][4] = {
		{ "--egress-log-dir", "/l", "--memory-mb", "64" },
		{ "--egress-dns", "9.9.9.9", "--memory-mb", "64" },
		{ "--egress-dns", "9.9.9.9", "--egress-log-dir", "relative" },
	};
	struct launcher_options o;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *words[] = { NEEDED,	     "--egress-user", "airlock-gw", cases[i][0],
					cases[i][1], cases[i][2],     cases[i][3] };
		assert_true(parse(words, ARRAY_SIZE(words), &o, &err) < 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_options_are_read),
		cmocka_unit_test(bad_values_are_refused_by_name),
		cmocka_unit_test(a_start_by_hand_says_who_starts_it),
		cmocka_unit_test(an_option_without_value_is_refused),
		cmocka_unit_test(a_gateway_without_name_servers_or_log_directory_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
