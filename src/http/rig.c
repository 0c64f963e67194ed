// SPDX-License-Identifier: Apache-2.0
#include "http/rig.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/clock.h"

#define INPUT_LIMIT (64u << 20)
/* Turns without any progress after which a wait gives up. */
#define PATIENCE 2000

static int listen_loopback(int *ret_port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert(fd >= 0);
	assert(bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 && listen(fd, 512) == 0);
	assert(getsockname(fd, (struct sockaddr *)&addr, &len) == 0);
	*ret_port = ntohs(addr.sin_port);
	return fd;
}

void rig_open(struct rig *rig, const struct http_config *config)
{
	struct http_config own = *config;
	struct err err;

	clock_fake(1000000000, 1700000000000000);
	*rig = (struct rig){ .closed = false };
	uv_loop_init(&rig->loop);
	own.listen_fd = listen_loopback(&rig->port);
	assert(http_server_open(&rig->loop, &own, &rig->server, &err) == 0);
}

static void on_closed(void *data)
{
	struct rig *rig = data;

	rig->closed = true;
}

void rig_close(struct rig *rig)
{
	http_server_close(rig->server, 0, on_closed, rig);
	server_sweep(rig->server);
	rig_turn(rig, 50);
	assert(rig->closed);
	assert(uv_loop_close(&rig->loop) == 0);
}

void rig_turn(struct rig *rig, unsigned turns)
{
	while (turns--)
		uv_run(&rig->loop, UV_RUN_NOWAIT);
}

void rig_time(struct rig *rig, int64_t ms)
{
	rig_turn(rig, 20);
	clock_fake_advance(ms * 1000);
	server_sweep(rig->server);
	rig_turn(rig, 20);
}

struct http_server_info rig_info(const struct rig *rig)
{
	struct http_server_info info;

	http_server_info_get(rig->server, &info);
	return info;
}

void client_open(struct client *c, struct rig *rig)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				    .sin_port = htons((uint16_t)rig->port) };

	*c = (struct client){ .rig = rig, .in = BUF(INPUT_LIMIT) };
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert(c->fd >= 0);
	assert(connect(c->fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	rig_turn(rig, 5);
}

void client_close(struct client *c)
{
	close(c->fd);
	c->fd = -1;
	buf_fini(&c->in);
	rig_turn(c->rig, 10);
}

/* Reads what is there. False when nothing was. */
static bool receive(struct client *c)
{
	char *at = buf_reserve(&c->in, 65536);

	assert(at);
	ssize_t n = recv(c->fd, at, 65536, MSG_DONTWAIT);
	if (n > 0) {
		c->in.len += (size_t)n;
		c->in.data[c->in.len] = '\0';
	} else if (n == 0) {
		c->eof = true;
	} else if (errno != EAGAIN) {
		c->eof = c->reset = true;
	}
	return n > 0;
}

bool client_send(struct client *c, struct str data)
{
	unsigned patience = PATIENCE;

	while (data.len && patience) {
		ssize_t n = send(c->fd, data.data, data.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return false;
		data = str_from(data, n < 0 ? 0 : (size_t)n);
		patience = n < 0 ? patience - 1 : PATIENCE;
		rig_turn(c->rig, 2);
	}
	rig_turn(c->rig, 5);
	return !data.len;
}

/* Whether text is in what has come (which may hold NUL). */
static const char *find(const struct client *c, size_t from, const char *text)
{
	return c->in.len > from ? memmem(c->in.data + from, c->in.len - from, text, strlen(text))
				: NULL;
}

bool client_expect(struct client *c, const char *text)
{
	unsigned patience = PATIENCE;

	while (!find(c, 0, text) && !c->eof && patience) {
		rig_turn(c->rig, 1);
		patience = receive(c) ? PATIENCE : patience - 1;
	}
	return find(c, 0, text);
}

bool client_end(struct client *c)
{
	unsigned patience = PATIENCE;

	while (!c->eof && patience) {
		rig_turn(c->rig, 1);
		patience = receive(c) ? PATIENCE : patience - 1;
	}
	return c->eof && !c->reset;
}

bool client_is_quiet(struct client *c)
{
	rig_turn(c->rig, 20);
	return !receive(c) && !c->eof;
}

unsigned client_count(const struct client *c, const char *text)
{
	unsigned n = 0;

	for (const char *at = find(c, 0, text); at; n++)
		at = find(c, (size_t)(at - c->in.data) + strlen(text), text);
	return n;
}
