// SPDX-License-Identifier: Apache-2.0
/*
 * A whole server and one client after the other that does anything: sends bytes in any pieces,
 * stops in the middle, closes its direction, resets, reads or does not, while time passes and the
 * handler answers late, in pieces, or not at all.
 *
 * Whatever the input: every exchange that the handler got is answered and then gone, a handler
 * that waited for a body heard of it exactly once, and in the end there is no connection, no
 * exchange and no byte of a body left.
 *
 * Input: steps of 1 byte what (its upper five bits are the step's number), for a piece of text then
 * 1 byte length and the text.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "http/rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rig rig;
static struct client client;

static const struct http_reply ok = { .status = 200, .content_type = "text/plain" };

static void hang_up(unsigned n)
{
	struct linger now = { .l_onoff = n & 1, .l_linger = 0 };

	setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	client_close(&client);
	client_open(&client, &rig);
}

/* Takes what came, so that the server is not held back. */
static void take(unsigned n)
{
	char sink[4096];

	while (recv(client.fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		rig_turn(&rig, 1);
}

static void pass_time(unsigned n)
{
	static const int64_t ms[] = { 1, 500, 2000, 10000, 29999, 30000, 60000, 75000 };

	rig_time(&rig, ms[n % ARRAY_SIZE(ms)]);
}

static void answer(unsigned n)
{
	if (rig.held)
		rig_answer_held(&rig, STR("late"));
}

static void read_body(unsigned n)
{
	rig.body_max = n % 2 ? 1000 : 3;
	if (rig.held)
		rig_read_body(&rig);
}

/* A body that is not kept; the handler pauses, goes on, answers in the middle. */
static void stream_body(unsigned n)
{
	rig_resume(&rig);
	if (!rig.held || rig.flow.x)
		return;
	rig.body_max = n & 1 ? 1000 : 3;
	rig.flow.pauses = n & 2;
	rig.flow.answer_at = n & 4 ? 2 : 0;
	rig_stream_body(&rig);
}

static void take_or_stream(unsigned n)
{
	if (n & 16)
		stream_body(n);
	else
		take(n);
}

static void on_drained(void *data)
{
	(void)data;
}

/* An answer in pieces: with or without length, kept or not, ended or broken off. */
static void stream(unsigned n)
{
	static char big[200000];

	if (!rig.held)
		return;
	struct http_exchange *x = take_ptr(rig.held);
	http_on_drained(x, on_drained, NULL);
	http_begin(x, &ok, n & 1 ? -1 : 5);
	http_write(x, n & 2 ? STR("hello") : (struct str){ big, sizeof(big) });
	rig_turn(&rig, n & 4 ? 3 : 0);
	http_write(x, STR(""));
	if (n & 8)
		http_abort(x);
	else
		http_end(x);
}

static void half_close(unsigned n)
{
	shutdown(client.fd, SHUT_WR);
	rig_turn(&rig, 3);
}

static void (*const steps[])(unsigned n) = {
	take_or_stream, pass_time, answer, read_body, stream, half_close, hang_up,
};

#define TEXT ARRAY_SIZE(steps)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t at = 0;

	if (size > 4096)
		return 0;
	rig_open_unix(&rig);
	client_open(&client, &rig);
	while (at < size) {
		unsigned what = data[at] & 7, n = data[at] >> 3;
		at++;
		if (what < TEXT) {
			steps[what](n);
			continue;
		}
		size_t len = at < size ? data[at++] : 0;
		len = len < size - at ? len : size - at;
		send(client.fd, data + at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		rig_turn(&rig, 3);
		at += len;
	}
	answer(0);
	rig_resume(&rig);
	client_close(&client);
	rig_time(&rig, 60000);
	answer(0); /* what that let through */
	rig_time(&rig, 60000);
	while (rig.flow.x) {
		rig_resume(&rig);
		rig_time(&rig, 60000);
	}
	assert(rig.asked == rig.bodies + rig.gone);
	assert(rig_info(&rig).connections == 0 && rig_info(&rig).bodies_bytes == 0);
	assert(rig.server->n_exchanges == 0 && rig.server->n_refused == 0);
	rig_close(&rig);
	return 0;
}
