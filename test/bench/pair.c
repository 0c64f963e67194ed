// SPDX-License-Identifier: Apache-2.0
/*
 * pair: the measuring half of `make bench`. Runs items one after the other in every round, so that
 * all of them meet the same machine, and prints one row of nanoseconds per round.
 *
 *   pair rounds WARM ROUNDS ITEM...       each round runs each item once, in order
 *   pair batch COUNT WIDTH ITEM           COUNT runs, WIDTH at once; prints the wall time
 *   pair flood SECONDS WIDTH ITEM         as many runs as fit, WIDTH at once; prints their number
 *   pair crowd COUNT WIDTH ITEM           COUNT runs, WIDTH at once; prints the nanoseconds of each
 *
 * ITEM   spawn:FILE   posix_spawn and wait; FILE holds argv, NUL-terminated strings ("@N" becomes a
 *                     number that is never used twice)
 *        pipe:FILE    the same with stdout read to its end
 *        rest:FILE    one request on a keep-alive connection; FILE is a folder of raw requests,
 *                     thread i sends request number i modulo their count
 *        bare:FILE    the same, to the port $PAIR_BARE_PORT
 *        life:FILE    create, the command, delete, on one connection; FILE holds three raw requests
 *                     with @SESSION where the id goes, separated by a NUL byte
 *        open:FILE    the same without the delete
 *
 * The server is at 127.0.0.1:$PAIR_PORT. A failed run ends the program with a sentence.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 64
#define REQUESTS_MAX 2048
#define ANSWER_MAX 65536

extern char **environ;

enum kind { SPAWN, PIPE, REST, BARE, LIFE, OPEN };

struct text {
	char *data; /* owned, NUL-terminated */
	size_t len;
};

struct item {
	enum kind kind;
	char *args[ARGS_MAX + 1]; /* SPAWN, PIPE: owned */
	struct text requests[REQUESTS_MAX];
	size_t n_requests;
};

/* What one thread needs to run an item. */
struct runner {
	struct item *item;
	size_t number;
	int fd; /* connection, -1 before the first request */
};

static _Atomic unsigned long next_number;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "pair: %s: %s\n", what, strerrordesc_np(errno));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct text read_file(const char *path)
{
	struct text text = { 0 };
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		fail(path);
	text.data = calloc(1, (size_t)st.st_size + 1);
	if (!text.data)
		fail(path);
	while (text.len < (size_t)st.st_size) {
		ssize_t n = read(fd, text.data + text.len, (size_t)st.st_size - text.len);
		if (n <= 0)
			fail(path);
		text.len += (size_t)n;
	}
	close(fd);
	return text;
}

/* ---- Processes ---- */

static void split_args(struct item *item, const char *path)
{
	struct text text = read_file(path);
	size_t n = 0;

	for (size_t at = 0; at < text.len && n < ARGS_MAX; at += strlen(text.data + at) + 1)
		item->args[n++] = text.data + at;
}

static void drain(int fd)
{
	static _Thread_local char block[1 << 16];

	while (read(fd, block, sizeof(block)) > 0)
		;
	close(fd);
}

static void run_spawn(const struct item *item, bool read_output)
{
	char *args[ARGS_MAX + 1], name[ARGS_MAX];
	posix_spawn_file_actions_t actions;
	int pipe_fds[2] = { -1, -1 };
	int status;
	pid_t pid;

	for (size_t i = 0; i <= ARGS_MAX; i++) {
		args[i] = item->args[i];
		if (args[i] && strcmp(args[i], "@N") == 0) {
			snprintf(name, sizeof(name), "pair-%d-%lu", (int)getpid(), next_number++);
			args[i] = name;
		}
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (read_output) {
		if (pipe2(pipe_fds, O_CLOEXEC) < 0)
			fail("pipe");
		posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 1);
	}
	errno = posix_spawnp(&pid, args[0], &actions, NULL, args, environ);
	if (errno)
		fail(args[0]);
	posix_spawn_file_actions_destroy(&actions);
	if (read_output) {
		close(pipe_fds[1]);
		drain(pipe_fds[0]);
	}
	if (waitpid(pid, &status, 0) < 0 || status != 0) {
		fprintf(stderr, "pair: %s ended with status %d\n", args[0], status);
		exit(1);
	}
}

/* ---- Requests ---- */

static void load_requests(struct item *item, const char *folder)
{
	char path[4096];

	while (item->n_requests < REQUESTS_MAX) {
		snprintf(path, sizeof(path), "%s/%zu", folder, item->n_requests);
		if (access(path, R_OK) < 0)
			break;
		item->requests[item->n_requests++] = read_file(path);
	}
	if (item->n_requests == 0)
		fail(folder);
}

static void split_requests(struct item *item, const char *path)
{
	struct text text = read_file(path);

	for (size_t at = 0; at < text.len && item->n_requests < 3;) {
		size_t len = strlen(text.data + at);
		item->requests[item->n_requests++] = (struct text){ text.data + at, len };
		at += len + 1;
	}
}

static int connect_server(const struct item *item)
{
	const char *port = getenv(item->kind == BARE ? "PAIR_BARE_PORT" : "PAIR_PORT");
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)strtol(port ? port : "0", NULL, 10)),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		fail("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
		if (n <= 0)
			fail("send");
		data += n;
		len -= (size_t)n;
	}
}

#define LAST_CHUNK "\r\n0\r\n\r\n"
#define LAST_LEN (sizeof(LAST_CHUNK) - 1)

/* Reads one answer; keeps the first ANSWER_MAX bytes. A chunked one ends with the last chunk's
 * bytes, which JSON cannot hold: it has no line ends of its own. */
static void receive(int fd, char answer[ANSWER_MAX + 1])
{
	static _Thread_local char rest[1 << 16];
	char last[LAST_LEN] = { 0 };
	size_t have = 0, body = 0, total = 0;
	bool chunked = false;

	for (;;) {
		bool room = have < ANSWER_MAX;
		char *to = room ? answer + have : rest;
		ssize_t n = recv(fd, to, room ? ANSWER_MAX - have : sizeof(rest), 0);
		if (n <= 0)
			fail("receive");
		size_t tail = (size_t)n < LAST_LEN ? (size_t)n : LAST_LEN;
		memmove(last, last + tail, LAST_LEN - tail);
		memcpy(last + LAST_LEN - tail, to + n - tail, tail);
		total += (size_t)n;
		if (room)
			have += (size_t)n;
		answer[have] = 0;
		if (!body && !chunked) {
			const char *end = strstr(answer, "\r\n\r\n");
			const char *length = strcasestr(answer, "\r\ncontent-length:");
			if (!end)
				continue;
			if (length && length < end)
				body = (size_t)(end - answer) + 4 + strtoul(length + 17, NULL, 10);
			else
				chunked = true;
		}
		if (chunked ? memcmp(last, LAST_CHUNK, LAST_LEN) == 0 : total >= body)
			break;
	}
	if (strncmp(answer, "HTTP/1.1 20", 11) != 0) {
		fprintf(stderr, "pair: the server answered: %.400s\n", answer);
		exit(1);
	}
}

static void check_command(const char *answer)
{
	const char *code = strstr(answer, "\"exit_code\":");

	/* A long answer carries it behind the output. */
	if (code && strtol(code + 12, NULL, 10) != 0) {
		fprintf(stderr, "pair: the command failed: %.400s\n", answer);
		exit(1);
	}
}

static void run_rest(struct runner *r)
{
	static _Thread_local char answer[ANSWER_MAX + 1];
	const struct text *request = &r->item->requests[r->number % r->item->n_requests];

	if (r->fd < 0)
		r->fd = connect_server(r->item);
	send_all(r->fd, request->data, request->len);
	receive(r->fd, answer);
	check_command(answer);
}

static void send_with_session(int fd, const struct text *request, const char *session)
{
	char text[8192];
	size_t at = 0;
	const char *from = request->data, *mark;

	while ((mark = strstr(from, "@SESSION"))) {
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%.*s%s", (int)(mark - from),
				       from, session);
		from = mark + strlen("@SESSION");
	}
	at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", from);
	send_all(fd, text, at);
}

static void run_life(struct runner *r)
{
	static _Thread_local char answer[ANSWER_MAX + 1];
	size_t steps = r->item->kind == LIFE ? 3 : 2;
	char session[17] = { 0 };

	if (r->fd < 0)
		r->fd = connect_server(r->item);
	send_all(r->fd, r->item->requests[0].data, r->item->requests[0].len);
	receive(r->fd, answer);
	const char *id = strstr(answer, "sbx_");
	if (!id)
		fail("no session id");
	snprintf(session, sizeof(session), "%.16s", id);
	for (size_t i = 1; i < steps; i++) {
		send_with_session(r->fd, &r->item->requests[i], session);
		receive(r->fd, answer);
		if (i == 1)
			check_command(answer);
	}
}

static void run_item(struct runner *r)
{
	switch (r->item->kind) {
	case SPAWN:
	case PIPE:
		run_spawn(r->item, r->item->kind == PIPE);
		break;
	case REST:
	case BARE:
		run_rest(r);
		break;
	case LIFE:
	case OPEN:
		run_life(r);
		break;
	}
}

static struct item *item_parse(const char *text)
{
	static const char *const names[] = { "spawn:", "pipe:", "rest:", "bare:", "life:", "open:" };
	struct item *item = calloc(1, sizeof(*item));

	if (!item)
		fail(text);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);
		if (strncmp(text, names[i], len) != 0)
			continue;
		item->kind = (enum kind)i;
		if (item->kind <= PIPE)
			split_args(item, text + len);
		else if (item->kind <= BARE)
			load_requests(item, text + len);
		else
			split_requests(item, text + len);
		return item;
	}
	errno = EINVAL;
	fail(text);
}

/* ---- Modes ---- */

static void rounds(long warm, long count, char **texts, int n)
{
	struct runner *runners = calloc((size_t)n, sizeof(*runners));

	if (!runners)
		fail("rounds");
	for (int i = 0; i < n; i++)
		runners[i] = (struct runner){ .item = item_parse(texts[i]), .fd = -1 };
	for (long round = -warm; round < count; round++) {
		for (int i = 0; i < n; i++) {
			int64_t began = now_ns();
			run_item(&runners[i]);
			int64_t took = now_ns() - began;
			if (round >= 0)
				printf("%lld%c", (long long)took, i + 1 < n ? ' ' : '\n');
		}
	}
}

struct crowd {
	struct item *item;
	_Atomic long left; /* runs to start; < 0: until the deadline */
	_Atomic long done;
	int64_t deadline;
	pthread_barrier_t start;
	int64_t *took; /* owned: of each run; NULL: nobody asks */
};

struct member {
	struct crowd *crowd;
	struct runner runner;
	pthread_t thread;
};

static void *member_main(void *data)
{
	struct member *m = data;
	struct crowd *c = m->crowd;

	if (m->runner.item->kind >= REST)
		m->runner.fd = connect_server(m->runner.item);
	pthread_barrier_wait(&c->start);
	for (;;) {
		if (c->deadline ? now_ns() >= c->deadline : c->left-- <= 0)
			break;
		int64_t began = now_ns();
		run_item(&m->runner);
		long number = c->done++;
		if (c->took)
			c->took[number] = now_ns() - began;
	}
	return NULL;
}

/* Runs it; returns the wall time. */
static int64_t crowd_run(struct crowd *c, long width, double seconds)
{
	struct member *members = calloc((size_t)width, sizeof(*members));
	int64_t began;

	if (!members)
		fail("crowd");
	pthread_barrier_init(&c->start, NULL, (unsigned)width + 1);
	if (seconds > 0)
		c->deadline = INT64_MAX;
	for (long i = 0; i < width; i++) {
		members[i].crowd = c;
		members[i].runner =
			(struct runner){ .item = c->item, .number = (size_t)i, .fd = -1 };
		if (pthread_create(&members[i].thread, NULL, member_main, &members[i]) != 0)
			fail("thread");
	}
	began = now_ns();
	if (seconds > 0)
		c->deadline = began + (int64_t)(seconds * 1e9);
	pthread_barrier_wait(&c->start);
	for (long i = 0; i < width; i++)
		pthread_join(members[i].thread, NULL);
	return now_ns() - began;
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc >= 5 && strcmp(argv[1], "rounds") == 0) {
		rounds(strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10), argv + 4, argc - 4);
		return 0;
	}
	if (argc == 5 && strcmp(argv[1], "batch") == 0) {
		struct crowd c = { .item = item_parse(argv[4]), .left = strtol(argv[2], NULL, 10) };
		printf("%lld\n", (long long)crowd_run(&c, strtol(argv[3], NULL, 10), 0));
		return 0;
	}
	if (argc == 5 && strcmp(argv[1], "crowd") == 0) {
		long count = strtol(argv[2], NULL, 10);
		struct crowd c = { .item = item_parse(argv[4]), .left = count };
		c.took = calloc((size_t)count, sizeof(*c.took));
		if (!c.took)
			fail("crowd");
		crowd_run(&c, strtol(argv[3], NULL, 10), 0);
		for (long i = 0; i < count; i++)
			printf("%lld\n", (long long)c.took[i]);
		free(c.took);
		return 0;
	}
	if (argc == 5 && strcmp(argv[1], "flood") == 0) {
		struct crowd c = { .item = item_parse(argv[4]) };
		double seconds = strtod(argv[2], NULL);
		int64_t took = crowd_run(&c, strtol(argv[3], NULL, 10), seconds);
		printf("%ld %lld\n", (long)c.done, (long long)took);
		return 0;
	}
	fprintf(stderr, "pair: see the top of pair.c\n");
	return 2;
}
