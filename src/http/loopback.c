// SPDX-License-Identifier: Apache-2.0
#include "http/loopback.h"

#include <assert.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <sys/socket.h>

int loopback_open(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	/* A datagram that finds the queue full is lost. */
	const struct timeval again = { .tv_usec = 200000 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	assert(sched_setaffinity(0, sizeof(here), &here) == 0);
	assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0);
	assert(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
	assert(connect(fd, (struct sockaddr *)&at, len) == 0);
	assert(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &again, sizeof(again)) == 0);
	return fd;
}

void loopback_settle(int fd)
{
	static uint64_t last;
	uint64_t sent = ++last, got = 0;

	while (got != sent) {
		assert(send(fd, &sent, sizeof(sent), 0) == sizeof(sent));
		while (got != sent && recv(fd, &got, sizeof(got), 0) == sizeof(got))
			;
	}
}
