// SPDX-License-Identifier: Apache-2.0
#include "cli/remove.h"

#include "base/mem.h"
#include "cli/client.h"

int remove_each(const struct cli_command *self, const char *path, int argc, char **argv)
{
	struct client client;
	struct err err;
	int status = 0;

	if (argc < 1 || argv[0][0] == '-')
		return cli_usage(self, NULL);
	if (client_open(&client, &err) < 0)
		return cli_fail(&err);
	for (int i = 0; i < argc; i++) {
		_cleanup_free_ char *segment = client_escape(argv[i]);
		_cleanup_free_ char *one = mem_printf("%s%s", path, segment);
		if (client_call(&client, "DELETE", one, NULL, NULL, &err) < 0) {
			err_wrap(&err, "%s", argv[i]);
			status = cli_fail(&err);
		}
	}
	client_close(&client);
	return status;
}
