// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/show.h"

void probe_say(struct probe_finding *f, enum probe_verdict verdict, const char *advice,
	       const char *fmt, ...)
{
	va_list args;

	f->verdict = verdict;
	va_start(args, fmt);
	vsnprintf(f->found, sizeof(f->found), fmt, args);
	va_end(args);
	snprintf(f->advice, sizeof(f->advice), "%s", advice ? advice : "");
}

bool probe_needs_root(struct probe_finding *f)
{
	if (geteuid() == 0)
		return true;
	probe_say(f, PROBE_UNKNOWN, "run `airlock doctor` as root", "cannot be tried without root");
	return false;
}

void probe_read(const char *path, char *ret, size_t size)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

/* Runs one probe in a child; a probe that dies or hangs is not known. */
static void run_probe(const struct probe *p, struct probe_finding *ret)
{
	int pipes[2];

	probe_say(ret, PROBE_UNKNOWN, NULL, "the probe failed");
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		struct probe_finding f;
		alarm(PROBE_SECONDS);
		probe_say(&f, PROBE_UNKNOWN, NULL, "the probe says nothing");
		p->run(&f);
		_exit(write(pipes[1], &f, sizeof(f)) != (ssize_t)sizeof(f));
	}
	fd_close(&pipes[1]);
	struct probe_finding f;
	if (pid > 0 && read(pipes[0], &f, sizeof(f)) == (ssize_t)sizeof(f))
		*ret = f;
	fd_close(&pipes[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

struct report {
	json_t *layers; /* owned */
	bool json;
	unsigned missing, unknown; /* of the required ones */
};

static const char *const verdicts[] = {
	[PROBE_GOOD] = "ok",
	[PROBE_NOTE] = "note",
	[PROBE_MISSING] = "missing",
	[PROBE_UNKNOWN] = "unknown",
};

static void run_group(struct report *r, const char *title, const struct probe *probes, size_t n)
{
	struct probe_finding f;

	if (!r->json)
		printf("%s\n", title);
	for (size_t i = 0; i < n; i++) {
		const struct probe *p = &probes[i];
		run_probe(p, &f);
		r->missing += p->required && f.verdict == PROBE_MISSING;
		r->unknown += p->required && f.verdict == PROBE_UNKNOWN;
		json_array_append_new(r->layers,
				      json_pack("{s:s, s:s, s:b, s:s, s:s, s:s}", "layer", p->layer,
						"verdict", verdicts[f.verdict], "required",
						(int)p->required, "found", f.found, "advice",
						f.advice, "what_for", p->what_for));
		if (r->json)
			continue;
		printf("  %-8s %-22s %s\n", verdicts[f.verdict], p->layer, f.found);
		if (f.verdict != PROBE_GOOD)
			printf("  %-8s %-22s (%s: %s)\n", "", "",
			       p->required ? "required" : "optional", p->what_for);
		if (f.advice[0])
			printf("  %-8s %-22s -> %s\n", "", "", f.advice);
	}
}

static int conclude(const struct report *r)
{
	bool good = !r->missing && !r->unknown;

	if (r->json) {
		json_t *object =
			json_pack("{s:b, s:O}", "multi_tenant", (int)good, "layers", r->layers);
		show_json(object);
		json_decref(object);
	} else if (r->missing) {
		printf("\nSeveral tenants must not share this host: %u required layer%s missing.\n",
		       r->missing, r->missing == 1 ? " is" : "s are");
		puts("SANDBOX_MODE=single goes without, for code of one owner.");
	} else if (r->unknown) {
		printf("\n%u required layer%s could not be tried; run this as root.\n", r->unknown,
		       r->unknown == 1 ? "" : "s");
	} else {
		puts("\nSeveral tenants may share this host: every required layer is there, and\n"
		     "a server refuses to start without one. What holds a sandbox, as measured\n"
		     "on it: airlock sandbox show ID");
	}
	return good ? 0 : EXIT_FAILED;
}

int cmd_doctor(const struct cli_command *self, int argc, char **argv)
{
	struct report report = { 0 };
	const struct opt opts[] = { { "json", 0, OPT_FLAG, &report.json, 0, 0 } };
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at != argc)
		return cli_usage(self, NULL);
	report.layers = json_array();
	run_group(&report, "Kernel", doctor_kernel_probes, n_doctor_kernel_probes);
	run_group(&report, "Mounts and workspaces", doctor_mount_probes, n_doctor_mount_probes);
	run_group(&report, "Host", doctor_host_probes, n_doctor_host_probes);
	run_group(&report, "Egress", doctor_net_probes, n_doctor_net_probes);
	int status = conclude(&report);
	json_decref(report.layers);
	return status;
}
