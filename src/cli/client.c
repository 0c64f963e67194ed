// SPDX-License-Identifier: Apache-2.0
#include "cli/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/retry.h"
#include "cli/sse.h"

#define CLIENT_LOOPBACK "http://127.0.0.1"
#define SECONDS_RAW 300L
/* A stream carries a ping every 15 s. */
#define SECONDS_SILENT 60L

static volatile sig_atomic_t interrupted;

void client_interrupt(void)
{
	interrupted = interrupted + 1;
}

/* One attempt. */
struct attempt {
	struct client *client;
	const char *method, *path;
	const void *body; /* NULL: none */
	size_t body_len;
	bool json;
	long seconds; /* 0: as long as something comes */
	struct sse *stream;
	struct client_io *io; /* NULL: the body and the answer are in memory */
	off_t in_start, out_start;
	struct err *io_err; /* of a descriptor of ours: code 0 while all is well */
	struct buf *out;
	long retry_after;
	bool overflow;
	int64_t began_ms, shown_s; /* of client->waiting */
};

/* The first signal waits for a patient client's answer, the second does not. */
static bool is_interrupted(const struct client *c)
{
	return interrupted > (c->patient ? 1 : 0);
}

static bool is_event_stream(CURL *curl)
{
	char *type = NULL;
	long status = 0;

	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
	return status == 200 && type && strncmp(type, "text/event-stream", 17) == 0;
}

static bool is_success(CURL *curl)
{
	long status = 0;

	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	return status / 100 == 2;
}

static bool write_out(struct attempt *a, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t r = write(a->io->out, bytes, n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			err_errno(a->io_err, "writing");
			return false;
		}
		a->io->moved += (uint64_t)r;
		bytes += r;
		n -= (size_t)r;
	}
	return true;
}

static size_t on_more(char *bytes, size_t size, size_t n, void *user)
{
	struct attempt *a = user;
	ssize_t r;

	do
		r = read(a->io->in, bytes, size * n);
	while (r < 0 && errno == EINTR);
	if (r < 0) {
		err_errno(a->io_err, "reading");
		return CURL_READFUNC_ABORT;
	}
	a->io->moved += (uint64_t)r;
	return (size_t)r;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *user)
{
	struct attempt *a = user;
	bool good;

	n *= size;
	if (a->io && a->io->out >= 0 && is_success(a->client->curl))
		return write_out(a, bytes, n) ? n : 0;
	if (a->stream && is_event_stream(a->client->curl))
		good = sse_feed(a->stream, bytes, n);
	else
		good = buf_put(a->out, bytes, n);
	a->overflow = !good;
	return good ? n : 0;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *user)
{
	static const char name[] = "retry-after:";
	struct attempt *a = user;
	struct str line = { bytes, n * size };
	uint64_t value;

	while (line.len && (line.data[line.len - 1] == '\n' || line.data[line.len - 1] == '\r'))
		line.len--;
	if (line.len >= sizeof(name) - 1 && strncasecmp(bytes, name, sizeof(name) - 1) == 0 &&
	    num_parse(str_trim(str_from(line, sizeof(name) - 1)), 0, 86400, &value))
		a->retry_after = (long)value;
	return n * size;
}

static void show_waiting(struct attempt *a)
{
	int64_t seconds = (clock_monotonic_ms() - a->began_ms) / 1000;

	if (!a->client->waiting || seconds == a->shown_s)
		return;
	a->shown_s = seconds;
	fprintf(stderr, "\r%s: %lld s", a->client->waiting, (long long)seconds);
}

static void hide_waiting(const struct attempt *a)
{
	if (a->shown_s)
		fputs("\r\033[K", stderr);
}

/* At least once a second. */
static int on_progress(void *user, curl_off_t dt, curl_off_t dn, curl_off_t ut, curl_off_t un)
{
	struct attempt *a = user;

	(void)dn, (void)un;
	show_waiting(a);
	if (a->io && a->io->progress && a->io->moved)
		a->io->progress(a->io->user, a->io->moved,
				(uint64_t)(a->io->in >= 0 ? (ut > 0 ? ut : 0) : dt));
	return is_interrupted(a->client);
}

static struct curl_slist *make_headers(const struct attempt *a)
{
	const struct client *c = a->client;
	struct curl_slist *list = NULL;

	if (c->key) {
		_cleanup_free_ char *key = mem_printf("X-API-Key: %s", c->key);
		list = curl_slist_append(list, key);
	}
	list = curl_slist_append(list, a->json ? "Content-Type: application/json"
					       : "Content-Type: application/octet-stream");
	list = curl_slist_append(list, a->stream ? "Accept: text/event-stream"
						 : "Accept: application/json");
	return curl_slist_append(list, "Expect:");
}

static void set_options(struct attempt *a, const char *url, struct curl_slist *headers)
{
	const struct client *c = a->client;
	CURL *curl = c->curl;

	curl_easy_reset(curl);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, a->method);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "airlock/" AIRLOCK_VERSION);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, a);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, a);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(curl, CURLOPT_XFERINFODATA, a);
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	if (a->seconds) {
		curl_easy_setopt(curl, CURLOPT_TIMEOUT, a->seconds);
	} else {
		curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
		curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SECONDS_SILENT);
	}
	if (c->socket)
		curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, c->socket);
	/* This machine is never reached through a proxy, whatever the environment says. */
	if (c->socket || strncmp(c->base, CLIENT_LOOPBACK, sizeof(CLIENT_LOOPBACK) - 1) == 0)
		curl_easy_setopt(curl, CURLOPT_PROXY, "");
	if (c->ca)
		curl_easy_setopt(curl, CURLOPT_CAINFO, c->ca);
	if (c->insecure) {
		curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (a->io && a->io->in >= 0) {
		curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_more);
		curl_easy_setopt(curl, CURLOPT_READDATA, a);
		curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE,
				 a->io->in_size == CLIENT_SIZE_UNKNOWN
					 ? (curl_off_t)-1
					 : (curl_off_t)a->io->in_size);
		curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
	}
	if (a->body) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)a->body_len);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, a->body);
	}
}

/* Returns 0 when an answer came (client->status), -ECANCELED, or -EIO with *err filled. */
static int attempt_once(struct attempt *a, struct err *err)
{
	struct client *c = a->client;
	_cleanup_free_ char *url = mem_printf("%s%s", c->base, a->path);
	struct curl_slist *headers = make_headers(a);

	buf_clear(a->out);
	a->retry_after = -1;
	c->status = 0;
	a->began_ms = clock_monotonic_ms();
	a->shown_s = 0;
	set_options(a, url, headers);
	CURLcode code = curl_easy_perform(c->curl);
	hide_waiting(a);
	curl_slist_free_all(headers);
	if (is_interrupted(c)) {
		interrupted = 0;
		return err_set(err, ECANCELED, "interrupted");
	}
	if (a->overflow)
		return err_set(err, EFBIG, "the answer is too large");
	if (a->io_err && a->io_err->code) {
		*err = *a->io_err;
		return -EFBIG;
	}
	if (code != CURLE_OK)
		return err_set(err, EIO, "Could not reach %s: %s", c->socket ? c->socket : c->base,
			       curl_easy_strerror(code));
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &c->status);
	return 0;
}

/* False: a signal came. */
static bool sleep_seconds(long seconds)
{
	struct timespec left = { .tv_sec = seconds };

	while (!interrupted && nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	return !interrupted;
}

static int refused(const struct attempt *a, struct err *err)
{
	json_t *json = json_loadb(a->out->data ? a->out->data : "", a->out->len, 0, NULL);
	const json_t *detail = json_object_get(json, "detail");
	const json_t *health = json_object_get(json, "status");

	if (!detail)
		detail = json_object_get(json, "error");
	if (json_is_string(detail)) {
		err_set(err, EPROTO, "%s", json_string_value(detail));
	} else if (detail) {
		char *text = json_dumps(detail, JSON_COMPACT);
		err_set(err, EPROTO, "%s", text ? text : "the request was refused");
		free(text);
	} else if (json_is_string(health)) {
		err_set(err, EPROTO, "the server is %s", json_string_value(health));
	} else {
		err_set(err, EPROTO, "%s answered with status %ld", a->client->base,
			a->client->status);
	}
	json_decref(json);
	return -EPROTO;
}

/* Back to the start of both descriptors. False: one of them cannot, and bytes have gone. */
static bool rewind_io(const struct attempt *a)
{
	struct client_io *io = a->io;

	if (!io || !io->moved)
		return true;
	if (io->in >= 0 && (a->in_start < 0 || lseek(io->in, a->in_start, SEEK_SET) < 0))
		return false;
	if (io->out >= 0 && (a->out_start < 0 || lseek(io->out, a->out_start, SEEK_SET) < 0 ||
			     ftruncate(io->out, a->out_start) < 0))
		return false;
	io->moved = 0;
	return true;
}

static int perform(struct attempt *a, unsigned retries, struct err *err)
{
	struct client *c = a->client;
	bool repeatable = strcmp(a->method, "POST") != 0;

	for (unsigned i = 0;; i++) {
		int r = attempt_once(a, err);
		if (r == -ECANCELED || r == -EFBIG)
			return r;
		struct retry_event e = { repeatable, c->status, a->retry_after, i };
		long wait = i < retries ? retry_wait(&e) : -1;
		if (wait >= 0 && !rewind_io(a))
			wait = -1;
		if (wait < 0)
			return r < 0 ? r : c->status / 100 == 2 ? 0 : refused(a, err);
		if (!c->quiet && c->status)
			fprintf(stderr, "airlock: the server is busy; trying again in %ld s\n",
				wait);
		if (!sleep_seconds(wait)) {
			interrupted = 0;
			return err_set(err, ECANCELED, "interrupted");
		}
	}
}

int client_call_with(struct client *c, const char *method, const char *path, const json_t *body,
		     unsigned retries, long seconds, json_t **ret, struct err *err)
{
	_cleanup_buf_ struct buf out = BUF(CLIENT_BODY_MAX);
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct attempt a = { .client = c,
			     .method = method,
			     .path = path,
			     .body = text,
			     .body_len = text ? strlen(text) : 0,
			     .json = body != NULL,
			     .seconds = seconds,
			     .out = &out };
	int r = perform(&a, retries, err);

	free(text);
	if (r < 0 || !ret)
		return r;
	json_t *json = json_loadb(out.data ? out.data : "", out.len, JSON_ALLOW_NUL, NULL);
	if (!json_is_object(json)) {
		json_decref(json);
		return err_set(err, EPROTO, "%s did not answer with a JSON object", c->base);
	}
	*ret = json;
	return 0;
}

int client_call(struct client *c, const char *method, const char *path, const json_t *body,
		json_t **ret, struct err *err)
{
	return client_call_with(c, method, path, body, RETRY_MAX, CLIENT_SECONDS, ret, err);
}

int client_raw(struct client *c, const char *method, const char *path, const struct buf *body,
	       struct buf *ret, struct err *err)
{
	_cleanup_buf_ struct buf none = BUF(CLIENT_BODY_MAX);
	struct attempt a = { .client = c,
			     .method = method,
			     .path = path,
			     .body = body ? (body->data ? body->data : "") : NULL,
			     .body_len = body ? body->len : 0,
			     .seconds = SECONDS_RAW,
			     .out = ret ? ret : &none };

	return perform(&a, RETRY_MAX, err);
}

/* Where a repeated request may begin again; -1: nowhere. What is appended to has no such place:
 * cutting it there would cut what was there before (open(2): the offset counts for reads only). */
static off_t start_of(int fd)
{
	int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;

	return flags < 0 || (flags & O_APPEND) ? -1 : lseek(fd, 0, SEEK_CUR);
}

int client_transfer(struct client *c, const char *method, const char *path, struct client_io *io,
		    struct err *err)
{
	_cleanup_buf_ struct buf answer = BUF(CLIENT_BODY_MAX);
	struct err io_err = { .code = 0 };
	struct attempt a = { .client = c,
			     .method = method,
			     .path = path,
			     .io = io,
			     .in_start = start_of(io->in),
			     .out_start = start_of(io->out),
			     .io_err = &io_err,
			     .seconds = SECONDS_RAW,
			     .out = &answer };

	io->moved = 0;
	return perform(&a, RETRY_MAX, err);
}

int client_stream(struct client *c, const char *path, const json_t *body,
		  void (*each)(void *user, const char *event, struct str data), void *user,
		  struct err *err)
{
	_cleanup_buf_ struct buf out = BUF(CLIENT_BODY_MAX);
	char *text = json_dumps(body, JSON_COMPACT);
	struct sse sse;

	sse_init(&sse, each, user);
	struct attempt a = { .client = c,
			     .method = "POST",
			     .path = path,
			     .body = text,
			     .body_len = strlen(text),
			     .json = true,
			     .stream = &sse,
			     .out = &out };
	int r = perform(&a, RETRY_MAX, err);
	/* A server that does not stream answers with the result alone. */
	if (r == 0 && out.len)
		each(user, "result", buf_str(&out));
	sse_fini(&sse);
	free(text);
	return r;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static char *env_copy(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? mem_dup(value) : NULL;
}

static bool is_flag_set(const char *name)
{
	const char *value = getenv(name);

	return value && (strcmp(value, "1") == 0 || strcasecmp(value, "true") == 0 ||
			 strcasecmp(value, "yes") == 0);
}

static int start_curl(struct client *c, struct err *err)
{
	c->curl = curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? curl_easy_init() : NULL;
	return c->curl ? 0 : err_set(err, ENOMEM, "libcurl does not start");
}

int client_open_socket(struct client *c, const char *socket, const char *key, struct err *err)
{
	*c = (struct client){ .base = mem_dup("http://localhost"),
			      .socket = mem_dup(socket),
			      .key = key ? mem_dup(key) : NULL };
	return start_curl(c, err);
}

int client_open(struct client *c, struct err *err)
{
	const char *url = getenv("SANDBOX_API_URL");
	size_t len;

	if (!url || !*url)
		url = CLIENT_URL_DEFAULT;
	if (strncmp(url, "unix:", 5) == 0) {
		_cleanup_free_ char *key = env_copy("SANDBOX_API_KEY");
		return client_open_socket(c, url + 5, key, err);
	}
	for (len = strlen(url); len > 0 && url[len - 1] == '/'; len--)
		;
	*c = (struct client){ .base = mem_dup_n(url, len),
			      .key = env_copy("SANDBOX_API_KEY"),
			      .ca = env_copy("SANDBOX_API_CA"),
			      .insecure = is_flag_set("SANDBOX_API_INSECURE") };
	return start_curl(c, err);
}

void client_close(struct client *c)
{
	if (c->curl) {
		curl_easy_cleanup(c->curl);
		curl_global_cleanup();
	}
	c->curl = NULL;
	mem_cleanup(&c->base);
	mem_cleanup(&c->socket);
	mem_cleanup(&c->key);
	mem_cleanup(&c->ca);
}

int client_get(const char *path, json_t **ret, struct err *err)
{
	struct client client;
	int r = client_open(&client, err);

	if (r >= 0) {
		r = client_call(&client, "GET", path, NULL, ret, err);
		client_close(&client);
	}
	return r;
}

char *client_escape(const char *text)
{
	static const char hex[] = "0123456789ABCDEF";
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	_cleanup_buf_ struct buf out = BUF(CLIENT_BODY_MAX);

	for (; *text; text++) {
		if (strchr(plain, *text)) {
			buf_put_char(&out, *text);
		} else {
			unsigned char c = (unsigned char)*text;
			buf_put_char(&out, '%');
			buf_put_char(&out, hex[c >> 4]);
			buf_put_char(&out, hex[c & 15]);
		}
	}
	return mem_dup_n(out.data ? out.data : "", out.len);
}
