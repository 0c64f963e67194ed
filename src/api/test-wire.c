// SPDX-License-Identifier: Apache-2.0
/* The api on the real http server, over real sockets; the core is the fake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FAKES_CORE_ONLY
#include "api/fakes.h"
#include "api/request.h"
#include "base/fd.h"
#include "base/mem.h"
#include "http/loopback.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define ID "sbx_0123456789ab"
#define HEAD(method, path) method " " path " HTTP/1.1\r\nHost: h\r\nX-API-Key: key-a\r\n"
#define EXEC_HEAD HEAD("POST", "/v1/sessions/" ID "/exec")
#define EXEC EXEC_HEAD "Content-Length: 15\r\n\r\n{\"command\":\"x\"}"
#define LIVE EXEC_HEAD "Accept: text/event-stream\r\nContent-Length: 15\r\n\r\n{\"command\":\"x\"}"

static uv_loop_t loop;
static uv_timer_t beat; /* ends a turn of the loop in which nothing happens */
static struct http_server *server;
static struct api *api;
static struct sockaddr_in where;
static bool api_closed, server_closed;
static int loopback;

static void on_beat(uv_timer_t *timer)
{
}

static int start(void **state)
{
	socklen_t len = sizeof(where);
	struct err err;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	fake_reset();
	loopback = loopback_open();
	where = (struct sockaddr_in){ .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uv_loop_init(&loop);
	uv_timer_init(&loop, &beat);
	uv_timer_start(&beat, on_beat, 5, 5);
	assert_int_equal(bind(fd, (struct sockaddr *)&where, sizeof(where)), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&where, &len), 0);
	struct api_config config = { .loop = &loop, .write_max = 64u << 20 };
	assert_int_equal(api_open(&config, NULL, &api, &err), 0);
	struct http_config http = { .listen_fd = fd,
				    .max_connections = 64,
				    .write_max = 65536,
				    .handler = api_handle,
				    .data = api };
	api_closed = server_closed = false;
	assert_int_equal(http_server_open(&loop, &http, &server, &err), 0);
	return 0;
}

static void on_api_closed(void *data)
{
	api_closed = true;
}

static void on_server_closed(void *data)
{
	server_closed = true;
	api_close(api, on_api_closed, NULL);
}

/* As airlockd stops: the server, then the api; what the core still owes comes last. */
static void stop_all(void)
{
	http_server_close(server, 0, on_server_closed, NULL);
	for (unsigned i = 0; i < 2000 && !api_closed; i++)
		uv_run(&loop, UV_RUN_ONCE);
	assert_true(server_closed && api_closed);
}

static int stop(void **state)
{
	if (!api_closed)
		stop_all();
	uv_close((uv_handle_t *)&beat, NULL);
	for (unsigned i = 0; i < 2000 && uv_loop_alive(&loop); i++)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(fake.outputs, 0);
	fd_close(&loopback);
	return uv_loop_close(&loop);
}

/* ---- A client ---- */

struct client {
	int fd;
	struct buf in;
};

static void turn(unsigned turns)
{
	while (turns--) {
		loopback_settle(loopback);
		uv_run(&loop, UV_RUN_NOWAIT);
	}
}

static void client_open(struct client *c)
{
	*c = (struct client){ .in = BUF(64u << 20) };
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(c->fd, (struct sockaddr *)&where, sizeof(where)), 0);
	turn(5);
}

static void client_close(struct client *c)
{
	fd_close(&c->fd);
	buf_fini(&c->in);
	turn(10);
}

static void client_send(struct client *c, struct str data)
{
	for (unsigned i = 0; i < 2000 && data.len; i++) {
		ssize_t n = send(c->fd, data.data, data.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		data = str_from(data, n < 0 ? 0 : (size_t)n);
		turn(5);
	}
	assert_int_equal(data.len, 0);
	turn(5);
}

#define client_say(c, text) client_send((c), STR(text))

static unsigned client_count(const struct client *c, const char *text)
{
	size_t len = strlen(text);
	unsigned n = 0;

	for (size_t at = 0; at < c->in.len; n++) {
		const char *found = memmem(c->in.data + at, c->in.len - at, text, len);
		if (!found)
			break;
		at = (size_t)(found - c->in.data) + len;
	}
	return n;
}

/* Reads what is there; false: nothing was. */
static bool client_read(struct client *c)
{
	char *at = buf_reserve(&c->in, 65536);
	ssize_t n = recv(c->fd, at, 65536, MSG_DONTWAIT);

	c->in.len += n > 0 ? (size_t)n : 0;
	at[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Reads until what has come ends with text n times in it, or nothing more comes. */
static bool client_expect_n(struct client *c, const char *text, unsigned n)
{
	for (unsigned idle = 0; idle < 400;) {
		idle = client_read(c) ? 0 : idle + 1;
		if (idle && client_count(c, text) >= n)
			return true;
		loopback_settle(loopback);
		uv_run(&loop, idle > 20 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
	}
	return false;
}

static bool client_expect(struct client *c, const char *text)
{
	return client_expect_n(c, text, 1);
}

/* ---- Cases ---- */

static void finish(struct str out)
{
	struct runtime_exec_result run = { .streams = { fake_output(out, 0, 0), NULL } };
	struct exec_result result = { .run = &run };

	fake.exec_ops.done(fake.data, &result, NULL);
	runtime_output_free(run.streams[0]);
}

static void pipelined_calls_are_answered_in_order(void **state)
{
	struct client c;

	client_open(&c);
	client_say(&c,
		   EXEC HEAD("GET", "/v1/egress/policy") "\r\n" HEAD("GET", "/v1/usage") "\r\n");
	turn(20);
	assert_false(client_read(&c));
	finish(STR("out"));
	assert_true(client_expect_n(&c, "HTTP/1.1 200 OK\r\n", 3));
	assert_true(client_expect(&c, "requests_available"));
	assert_true(strstr(c.in.data, "[STDOUT]") < strstr(c.in.data, "allowed"));
	assert_true(strstr(c.in.data, "allowed") < strstr(c.in.data, "requests_available"));
	assert_int_equal(client_count(&c, "Cache-Control: no-store\r\n"), 3);
	assert_int_equal(client_count(&c, "X-Content-Type-Options: nosniff\r\n"), 3);
	client_close(&c);
}

static void a_refused_method_and_key_have_their_headers(void **state)
{
	struct client c;

	client_open(&c);
	client_say(&c, HEAD("HEAD", "/v1/sessions") "\r\n");
	assert_true(client_expect(&c, "HTTP/1.1 405 Method Not Allowed\r\n"));
	assert_true(client_expect(&c, "Allow: POST, GET\r\n"));
	assert_int_equal(client_count(&c, "detail"), 0);
	client_say(&c, "POST /v1/sessions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n");
	assert_true(client_expect(&c, "HTTP/1.1 401 Unauthorized\r\n"));
	assert_true(client_expect(&c, "\"code\":\"unauthenticated\"}"));
	client_close(&c);
}

static void expect_gets_100_only_when_the_session_is_there(void **state)
{
	struct client c;

	client_open(&c);
	client_say(&c, HEAD("POST", "/v1/sessions/none/write") "Expect: 100-continue\r\n"
							       "Content-Length: 9\r\n\r\n");
	assert_true(client_expect(&c, "404 Not Found"));
	assert_int_equal(client_count(&c, "100 Continue"), 0);
	client_close(&c);
	client_open(&c);
	client_say(&c, HEAD("POST", "/v1/sessions/" ID "/write") "Expect: 100-continue\r\n"
								 "Content-Length: 2\r\n\r\n");
	assert_true(client_expect(&c, "100 Continue"));
	client_say(&c, "{}");
	assert_true(client_expect(&c, "422 Unprocessable"));
	client_close(&c);
}

static void a_long_answer_crosses_a_slow_connection_whole(void **state)
{
	_cleanup_free_ char *text = mem_new(1, 8u << 20);
	struct client c;

	memset(text, '"', 8u << 20);
	client_open(&c);
	client_say(&c, EXEC);
	finish((struct str){ text, 8u << 20 });
	/* Nobody reads: the rest stays where it came from. */
	turn(200);
	assert_int_equal(fake.outputs, 1);
	assert_true(client_expect(&c, "\"peak_memory_bytes\":0}\r\n0\r\n\r\n"));
	assert_int_equal(fake.outputs, 0);
	client_say(&c, HEAD("GET", "/v1/usage") "\r\n");
	assert_true(client_expect(&c, "requests_available"));
	client_close(&c);
}

static void a_client_that_leaves_takes_nothing_along(void **state)
{
	_cleanup_free_ char *text = mem_new(1, 8u << 20);
	struct client c;

	/* Before the command's end, */
	client_open(&c);
	client_say(&c, EXEC);
	client_close(&c);
	assert_false(fake.exec_detached);
	finish(STR("x"));
	/* while its events come, */
	client_open(&c);
	client_say(&c, LIVE);
	fake.exec_ops.started(fake.data);
	for (unsigned i = 0; i < 100; i++)
		fake.exec_ops.output(fake.data, RUNTIME_STDOUT, (struct str){ text, 65536 });
	client_close(&c);
	fake.exec_ops.output(fake.data, RUNTIME_STDOUT, STR("more"));
	finish(STR("x"));
	/* while a long answer is sent, */
	client_open(&c);
	client_say(&c, EXEC);
	finish((struct str){ text, 8u << 20 });
	client_close(&c);
	/* and in the middle of a body. */
	client_open(&c);
	client_say(&c, EXEC_HEAD "Content-Length: 15\r\n\r\n{\"com");
	client_close(&c);
	turn(50);
	assert_null(api->requests);
	assert_int_equal(fake.outputs, 0);
	struct http_server_info info;
	http_server_info_get(server, &info);
	assert_int_equal(info.connections, 0);
}

/* A chunked write of 1 MiB; parsed on a thread. */
static void write_start(struct client *c)
{
	_cleanup_buf_ struct buf body = BUF(2u << 20);

	buf_put_text(&body, HEAD("POST",
				 "/v1/sessions/" ID "/write") "Transfer-Encoding: chunked\r\n\r\n");
	static const char before[] = "{\"path\":\"f\",\"content\":\"", after[] = "\"}";
	buf_printf(&body, "%zx\r\n%s", sizeof(before) - 1 + (1u << 20) + sizeof(after) - 1, before);
	for (unsigned i = 0; i < 1u << 20; i++)
		buf_put_char(&body, 'c');
	buf_printf(&body, "%s\r\n0\r\n\r\n", after);
	client_send(c, buf_str(&body));
}

static void a_large_body_is_parsed_and_written(void **state)
{
	struct client c;

	client_open(&c);
	write_start(&c);
	for (unsigned i = 0; i < 2000 && !fake.write_done; i++)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(fake.content.len, 1u << 20);
	fake.write_done(fake.data, NULL);
	assert_true(client_expect(&c, "Successfully wrote 1048576 characters to f"));
	client_close(&c);
}

static void a_stop_leaves_nothing_behind(void **state)
{
	_cleanup_free_ char *text = mem_new(1, 8u << 20);
	struct client exec, live, sending, reading, parsing, create, file;

	client_open(&exec);
	client_open(&live);
	client_open(&sending);
	client_open(&reading);
	client_open(&parsing);
	client_open(&create);
	client_open(&file);
	client_say(&sending, EXEC);
	finish((struct str){ text, 8u << 20 });
	client_say(&exec, EXEC);
	client_say(&live, LIVE);
	fake.exec_ops.started(fake.data);
	client_say(&reading, EXEC_HEAD "Content-Length: 15\r\n\r\n{\"com");
	client_say(&file, HEAD("GET", "/v1/sessions/" ID "/read?path=f") "\r\n");
	client_say(&create, HEAD("POST", "/v1/sessions") "\r\n");
	void *created = fake.data;
	session_fn session_done = fake.session_done;
	write_start(&parsing);
	stop_all();
	assert_true(fake.exec_detached && fake.file_detached);
	session_done(created, &fake.session, NULL);
	assert_int_equal(fake.outputs, 0);
	client_close(&exec);
	client_close(&live);
	client_close(&sending);
	client_close(&reading);
	client_close(&parsing);
	client_close(&create);
	client_close(&file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pipelined_calls_are_answered_in_order),
		TEST(a_refused_method_and_key_have_their_headers),
		TEST(expect_gets_100_only_when_the_session_is_there),
		TEST(a_long_answer_crosses_a_slow_connection_whole),
		TEST(a_client_that_leaves_takes_nothing_along),
		TEST(a_large_body_is_parsed_and_written),
		TEST(a_stop_leaves_nothing_behind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
