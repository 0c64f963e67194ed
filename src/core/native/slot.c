// SPDX-License-Identifier: Apache-2.0
#include "core/native/slot.h"

#include <errno.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/num.h"

/* The longest of them, v1 memory.oom_control and v2 cpu.stat, are far below this. */
#define SLOT_TEXT_MAX 1024

void slot_close(struct slot *slot)
{
	for (unsigned i = 0; i < LD_SLOT_FDS; i++)
		fd_close(&slot->fds[i]);
	slot->version = 0;
}

int64_t slot_parse(struct str text, struct str key)
{
	struct str line;
	uint64_t n;

	while (str_split(&text, '\n', &line)) {
		if (key.len) {
			if (!str_starts(line, key) || line.len == key.len ||
			    line.data[key.len] != ' ')
				continue;
			line = str_from(line, key.len + 1);
		}
		return num_parse(line, 0, INT64_MAX, &n) ? (int64_t)n : -1;
	}
	return -1;
}

static int64_t read_number(int fd, struct str key)
{
	char text[SLOT_TEXT_MAX];
	ssize_t n;

	if (fd < 0)
		return -1;
	do {
		n = pread(fd, text, sizeof(text), 0);
	} while (n < 0 && errno == EINTR);
	return n > 0 ? slot_parse((struct str){ text, (size_t)n }, key) : -1;
}

int64_t slot_read_oom_kills(const struct slot *slot)
{
	return read_number(slot->fds[SLOT_FD_OOM], STR("oom_kill"));
}

void slot_read(const struct slot *slot, struct slot_sample *ret)
{
	int64_t cpu = slot->version == 1 ? read_number(slot->fds[SLOT_FD_CPU], STR(""))
					 : read_number(slot->fds[SLOT_FD_CPU], STR("usage_usec"));

	ret->oom_kills = slot_read_oom_kills(slot);
	ret->peak_bytes = read_number(slot->fds[SLOT_FD_PEAK], STR(""));
	ret->cpu_us = cpu > 0 && slot->version == 1 ? cpu / 1000 : cpu;
	ret->pids_hits = read_number(slot->fds[SLOT_FD_PIDS], STR("max"));
}

static int64_t delta(int64_t before, int64_t after)
{
	return before < 0 || after < before ? -1 : after - before;
}

void slot_use(const struct slot *slot, const struct slot_sample *before,
	      const struct slot_sample *after, struct slot_use *ret)
{
	int64_t cpu_us = delta(before->cpu_us, after->cpu_us);

	ret->oom_kills = delta(before->oom_kills, after->oom_kills);
	ret->pids_hits = delta(before->pids_hits, after->pids_hits);
	ret->cpu_ms = cpu_us < 0 ? -1 : cpu_us / 1000;
	/* v1's peak was reset when the slot was prepared. v2's may be an earlier command's: only a
	 * new high is ours. */
	ret->peak_bytes = slot->version == 1 || after->peak_bytes > before->peak_bytes
				  ? after->peak_bytes
				  : -1;
}
