// SPDX-License-Identifier: Apache-2.0
#include "cli/notify.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/client.h"

#define NOBODY 65534
/* Making the volume at the first start may take a while; then systemd's own time-out counts. */
#define TRIES 6000
#define PAUSE_NS 50000000L
#define READ_MS 60000

static int open_socket(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;

	if (len < 2 || len >= sizeof(un.sun_path))
		return -1;
	memcpy(un.sun_path, path, len);
	/* An abstract name is written with '@' for its NUL. */
	if (un.sun_path[0] == '@')
		un.sun_path[0] = '\0';
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&un, size) < 0)
		return -1;
	return take_fd(&fd);
}

static bool is_healthy(const char *url)
{
	struct client client = { 0 };
	struct err err;
	bool good;

	setenv("SANDBOX_API_URL", url, 1);
	unsetenv("SANDBOX_API_KEY");
	good = client_open(&client, &err) >= 0 &&
	       client_call_with(&client, "GET", "/healthz", NULL, 0, 2, NULL, &err) >= 0;
	client_close(&client);
	return good;
}

/* systemd asks the kernel whose unit the sender is: a message of a process that ended before it was
 * read is nobody's. A descriptor that goes with "BARRIER=1" is closed when all before was read
 * (sd_notify(3)). */
static void wait_until_read(int sock)
{
	static char text[] = "BARRIER=1";
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS,
				.cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec iov = { text, sizeof(text) - 1 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	memcpy(CMSG_DATA(&control.head), &ends[1], sizeof(int));
	struct pollfd closed = { .fd = ends[0] };
	bool sent = sendmsg(sock, &message, MSG_NOSIGNAL) > 0;
	close(ends[1]);
	if (sent)
		poll(&closed, 1, READ_MS);
	close(ends[0]);
}

static _Noreturn void wait_and_tell(const char *url, int sock, pid_t parent)
{
	static const char ready[] = "READY=1\nSTATUS=serving\n";
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			       setresuid(NOBODY, NOBODY, NOBODY) < 0))
		_exit(1);
	for (int i = 0; i < TRIES && getppid() == parent; i++) {
		if (is_healthy(url)) {
			if (send(sock, ready, sizeof(ready) - 1, MSG_NOSIGNAL) < 0)
				_exit(1);
			wait_until_read(sock);
			_exit(0);
		}
		nanosleep(&pause, NULL);
	}
	_exit(1);
}

void notify_start(const char *url)
{
	_cleanup_fd_ int sock = open_socket();
	pid_t parent = getpid();

	if (sock >= 0 && fork() == 0)
		wait_and_tell(url, sock, parent);
}
