// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/nameserver.h"

static void servers_beside_this_host_are_taken_in_order(void **state)
{
	static const struct {
		const char *file, *list; /* NULL: none */
	} rows[] = {
		{ "nameserver 192.0.2.53\n", "192.0.2.53" },
		{ "# nameserver 192.0.2.1\nnameserver\t2001:db8::53  # ours\nnameserver 192.0.2.53",
		  "2001:db8::53,192.0.2.53" },
		{ "nameserver 127.0.0.53\nnameserver 10.0.0.2\noptions edns0\n", "10.0.0.2" },
		{ "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch .\n", NULL },
		{ "nameserver ::1\nnameserver ::\nnameserver 0.0.0.0\nnameserver fe80::1%eth0\n"
		  "nameserver fe80::1\n",
		  NULL },
		{ "nameserver ::ffff:127.0.0.1\n", NULL },
		{ "nameserver resolver.example\nnameservers 192.0.2.1\nnameserver\n", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char path[64], list[NAMESERVER_LIST_MAX];
		int fd = memfd_create("resolv.conf", MFD_CLOEXEC);
		assert_true(fd >= 0 && dprintf(fd, "%s", rows[i].file) >= 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		assert_int_equal(nameserver_read(path, list, sizeof(list)), rows[i].list != NULL);
		assert_string_equal(list, rows[i].list ? rows[i].list : "");
		close(fd);
	}
}

static void a_list_never_outgrows_its_room(void **state)
{
	char path[64], list[24];
	int fd = memfd_create("resolv.conf", MFD_CLOEXEC);

	(void)state;
	assert_true(dprintf(fd, "nameserver 192.0.2.100\nnameserver 192.0.2.101\n") > 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_true(nameserver_read(path, list, 12));
	assert_string_equal(list, "192.0.2.100");
	assert_false(nameserver_read(path, list, 11));
	assert_true(nameserver_read(path, list, 24));
	assert_string_equal(list, "192.0.2.100,192.0.2.101");
	close(fd);
}

static void a_missing_file_has_no_servers(void **state)
{
	char list[NAMESERVER_LIST_MAX];

	(void)state;
	assert_false(nameserver_read("/nowhere/resolv.conf", list, sizeof(list)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers_beside_this_host_are_taken_in_order),
		cmocka_unit_test(a_list_never_outgrows_its_room),
		cmocka_unit_test(a_missing_file_has_no_servers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
