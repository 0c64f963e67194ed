// SPDX-License-Identifier: Apache-2.0
#include "launcher/options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "launcher/volume.h"

enum kind { TEXT, NUMBER, DESCRIPTOR, CHOICE, IMAGE };

static const struct option {
	const char *name;
	enum kind kind;
	size_t offset;
	uint64_t min, max;
	const char *choices; /* CHOICE: words in the order of their values, separated by blanks */
} options[] = {
#define AT(field) offsetof(struct launcher_options, field)
	{ "--state-dir", TEXT, AT(state_dir), 0, 0, NULL },
	{ "--user", TEXT, AT(user), 0, 0, NULL },
	{ "--config-fd", DESCRIPTOR, AT(config_fd), 3, 1023, NULL },
	{ "--listen-fd", DESCRIPTOR, AT(listen_fd), 3, 1023, NULL },
	{ "--metrics-fd", DESCRIPTOR, AT(metrics_fd), 3, 1023, NULL },
	{ "--memory-mb", NUMBER, AT(memory_mb), 32, 1048576, NULL },
	{ "--pids", NUMBER, AT(pids), 16, 32768, NULL },
	{ "--cpu-milli", NUMBER, AT(cpu_milli), 100, 256000, NULL },
	{ "--tmp-mb", NUMBER, AT(tmp_mb), 1, 65536, NULL },
	{ "--stop-seconds", NUMBER, AT(stop_seconds), 0, 3600, NULL },
	{ "--volume-size-mb", NUMBER, AT(volume_size_mb), 0, 1u << 30, NULL },
	{ "--volumes", CHOICE, AT(volumes), 0, 0, "auto btrfs plain" },
	{ "--mode", CHOICE, AT(single), 0, 0, "multi single" },
	{ "--egress-user", TEXT, AT(egress_user), 0, 0, NULL },
	{ "--egress-log-dir", TEXT, AT(egress_log_dir), 0, 0, NULL },
	{ "--egress-log-days", NUMBER, AT(egress_log_days), 1, 3650, NULL },
	{ "--egress-policy-file", TEXT, AT(egress_policy_file), 0, 0, NULL },
	{ "--tenant-limits-file", TEXT, AT(tenant_limits_file), 0, 0, NULL },
	{ "--egress-dns", TEXT, AT(egress_dns), 0, 0, NULL },
	{ "--import-base", TEXT, AT(import_base), 0, 0, NULL },
	{ "--image", IMAGE, 0, 0, 0, NULL },
#undef AT
};

static int choose(const struct option *o, struct str value, unsigned *ret)
{
	struct str rest = str_of(o->choices), word;

	for (unsigned i = 0; str_split(&rest, ' ', &word); i++)
		if (str_eq(word, value)) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

static int set(const struct option *o, const char *value, struct launcher_options *ret)
{
	char *base = (char *)ret;
	uint64_t number;
	unsigned choice;

	switch (o->kind) {
	case TEXT:
		*(const char **)(void *)(base + o->offset) = value;
		return *value ? 0 : -EINVAL;
	case NUMBER:
		if (!num_parse(str_of(value), o->min, o->max, &number))
			return -EINVAL;
		*(uint64_t *)(void *)(base + o->offset) = number;
		return 0;
	case DESCRIPTOR:
		if (!num_parse(str_of(value), o->min, o->max, &number))
			return -EINVAL;
		*(int *)(void *)(base + o->offset) = (int)number;
		return 0;
	case CHOICE:
		if (choose(o, str_of(value), &choice) < 0)
			return -EINVAL;
		if (o->offset == offsetof(struct launcher_options, single))
			ret->single = choice == 1;
		else
			ret->volumes = (int)choice;
		return 0;
	case IMAGE:
		if (ret->n_images == OPTIONS_IMAGES_MAX || !strchr(value, '='))
			return -EINVAL;
		ret->images[ret->n_images++] = value;
		return 0;
	}
	return -EINVAL;
}

int launcher_options_parse(int argc, char **argv, struct launcher_options *ret, struct err *err)
{
	*ret = (struct launcher_options){ .config_fd = -1,
					  .listen_fd = -1,
					  .metrics_fd = -1,
					  .memory_mb = 256,
					  .pids = 64,
					  .cpu_milli = 1000,
					  .tmp_mb = 64,
					  .stop_seconds = 30,
					  .egress_log_days = 30 };
	for (int i = 1; i < argc; i += 2) {
		const struct option *o = NULL;
		for (size_t k = 0; k < ARRAY_SIZE(options); k++)
			if (!strcmp(argv[i], options[k].name))
				o = &options[k];
		if (!o)
			return err_set(err, EINVAL,
				       "unknown option %s; start Airlock with `airlock serve`",
				       argv[i]);
		if (i + 1 == argc || set(o, argv[i + 1], ret) < 0)
			return err_set(err, EINVAL, "%s: bad or missing value", argv[i]);
	}
	if (!ret->state_dir || ret->state_dir[0] != '/' || !ret->user || ret->config_fd < 0 ||
	    ret->listen_fd < 0 ||
	    (ret->egress_user &&
	     (!ret->egress_log_dir || ret->egress_log_dir[0] != '/' || !ret->egress_dns)))
		return err_set(err, EINVAL,
			       "the launcher is started by `airlock serve`, not by hand");
	return 0;
}
