// SPDX-License-Identifier: Apache-2.0
#include "gateway/transfer.h"

#include <curl/curl.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"
#include "gateway/handle.h"
#include "gateway/trust.h"
#include "sandbox/knobs.h"

#define USER_AGENT "airlock-sandbox"
#define STATUS_OF_WHOLE 200
/* Of one transfer, before everybody else on the loop has theirs. */
#define TURN_NS 1000000u
/* host:port: and every address */
#define RESOLVE_MAX (64u * 1024)

struct transfer {
	uv_loop_t *loop;
	const struct transfer_ops *ops;
	void *data;
	struct inet_addr *addrs; /* owned */
	size_t n_addrs;
	CURLM *multi;		    /* owned */
	CURL *easy;		    /* owned */
	struct curl_slist *resolve; /* owned */
	uv_timer_t *timer;	    /* owned; libcurl's */
	struct task_queue *tasks;   /* borrowed */
	struct task turn;	    /* the next one, of a transfer that wants to go on */
	bool paused;		    /* until then */
	uint64_t turn_ends;	    /* uv_hrtime */
	X509_STORE *trust;	    /* counted */

	size_t head_bytes;
	bool head_over; /* it was told; what still comes as a field is a trailer */
	bool enough;	/* said so by head or bytes */
	const char *why;
	struct transfer_head head;
	bool has_size, chunked;
	struct buf location;
};

/* ---- Libraries ---- */

int transfer_init(struct err *err)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, ENOMEM, "libcurl cannot be used");
	return 0;
}

void transfer_fini(void)
{
	trust_fini();
	curl_global_cleanup();
}

/* ---- The head ---- */

/* Ends the transfer: libcurl takes a short count as an error. */
static size_t refuse(struct transfer *t, const char *why)
{
	t->why = why;
	return 0;
}

/* Of "Name: value"; data == NULL: it is another field. */
static struct str value_of(struct str line, struct str name)
{
	if (line.len <= name.len || line.data[name.len] != ':' ||
	    !str_eq_nocase((struct str){ line.data, name.len }, name))
		return (struct str){ NULL, 0 };
	return str_trim(str_from(line, name.len + 1));
}

/* An interim answer (RFC 9110 15.2) is followed by another one. */
static void forget_head(struct transfer *t)
{
	buf_clear(&t->location);
	t->head = (struct transfer_head){ .size = TRANSFER_SIZE_UNKNOWN };
	t->has_size = t->chunked = false;
}

/* False: two fields where one may be, or one that says nothing. */
static bool take_field(struct transfer *t, struct str line)
{
	struct str value = value_of(line, STR("location"));

	if (value.data) {
		bool first = !t->location.len;
		return first && value.len && buf_put_str(&t->location, value);
	}
	value = value_of(line, STR("content-length"));
	if (value.data) {
		bool first = !t->has_size;
		t->has_size = true;
		return first && num_parse(value, 0, INT64_MAX, &t->head.size);
	}
	value = value_of(line, STR("transfer-encoding"));
	if (value.data) {
		/* Another one would be undone by libcurl, and what was counted is not what came. */
		bool first = !t->chunked;
		t->chunked = true;
		return first && str_eq_nocase(value, STR("chunked"));
	}
	return true;
}

/* Behind the last field. */
static size_t end_head(struct transfer *t, size_t n)
{
	long status = 0;

	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < STATUS_OF_WHOLE)
		return n;
	t->head.status = (unsigned)status;
	t->head.location = buf_str(&t->location);
	/* RFC 9112 6.3: both mean that somebody is being deceived. */
	if (t->chunked && t->has_size)
		return refuse(t, "its answer is malformed");
	t->head_over = true;
	t->enough = !t->ops->head(t->data, &t->head);
	return t->enough ? 0 : n;
}

static size_t on_field(char *data, size_t size, size_t n, void *user)
{
	struct transfer *t = user;
	struct str line = { data, size * n };

	n = line.len;
	t->head_bytes += n;
	if (t->head_bytes > TRANSFER_HEAD_MAX)
		return refuse(t, "its answer has too large a head");
	if (t->head_over)
		return n;
	while (line.len && (line.data[line.len - 1] == '\n' || line.data[line.len - 1] == '\r'))
		line.len--;
	if (!line.len)
		return end_head(t, n);
	bool good = true;
	if (!str_starts(line, STR("HTTP/")))
		good = take_field(t, line);
	else if (str_starts(line, STR("HTTP/1.")))
		forget_head(t);
	else
		good = false;
	return good ? n : refuse(t, "its answer is malformed");
}

static size_t on_bytes(char *data, size_t size, size_t n, void *user)
{
	struct transfer *t = user;
	struct str bytes = { data, size * n };

	t->enough = !t->head_over || !t->ops->bytes(t->data, bytes);
	return t->enough ? 0 : bytes.len;
}

/* ---- Sockets ---- */

/* The last word on where a connection goes, whatever libcurl was told and made of it. */
static curl_socket_t on_open(void *user, curlsocktype purpose, struct curl_sockaddr *to)
{
	const struct transfer *t = user;
	struct inet_addr addr;
	bool known = false;

	if (purpose == CURLSOCKTYPE_IPCXN && inet_addr_of(&to->addr, &addr))
		for (size_t i = 0; i < t->n_addrs; i++)
			known |= inet_addr_eq(&addr, &t->addrs[i]);
	if (!known)
		return CURL_SOCKET_BAD;
	int fd = socket(to->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return handle_is_reserved(&fd) ? CURL_SOCKET_BAD : fd;
}

static void finish(struct transfer *t);

static void act(struct transfer *t, curl_socket_t fd, int events)
{
	int running;

	t->turn_ends = uv_hrtime() + TURN_NS;
	curl_multi_socket_action(t->multi, fd, events, &running);
	if (!running)
		finish(t);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
	int what = (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
		   (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
	uv_os_fd_t fd;

	if (uv_fileno((const uv_handle_t *)poll, &fd) < 0)
		return;
	act(poll->data, fd, status < 0 ? CURL_CSELECT_ERR : what);
}

static void on_timer(uv_timer_t *timer)
{
	act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_turn(struct task *task)
{
	struct transfer *t = container_of(task, struct transfer, turn);

	if (t->paused) {
		t->paused = false;
		curl_easy_pause(t->easy, CURLPAUSE_CONT);
	}
	act(t, CURL_SOCKET_TIMEOUT, 0);
}

/* libcurl reads as long as there is something, and a peer that is faster than we are has always
 * something: then no timer, no tunnel, and not even the end of this one would have its turn. This
 * is called after each of its buffers. Of a head TRANSFER_HEAD_MAX is the end. */
static int on_progress(void *user, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
		       curl_off_t up)
{
	struct transfer *t = user;

	if (!t->head_over || t->paused || uv_hrtime() < t->turn_ends)
		return 0;
	t->paused = true;
	curl_easy_pause(t->easy, CURLPAUSE_RECV);
	task_queue_add(t->tasks, &t->turn);
	return 0;
}

/* A poll handle for each socket, kept by libcurl beside it. */
static int on_watch(CURL *easy, curl_socket_t fd, int what, void *user, void *mine)
{
	struct transfer *t = user;
	uv_poll_t *poll = mine;

	if (what == CURL_POLL_REMOVE) {
		curl_multi_assign(t->multi, fd, NULL);
		handle_drop_poll(&poll);
		return 0;
	}
	if (!poll) {
		poll = handle_poll(t->loop, fd, t);
		if (!poll)
			return -1;
		curl_multi_assign(t->multi, fd, poll);
	}
	uv_poll_start(poll,
		      (what & CURL_POLL_IN ? UV_READABLE : 0) |
			      (what & CURL_POLL_OUT ? UV_WRITABLE : 0),
		      on_ready);
	return 0;
}

static int on_wake(CURLM *multi, long ms, void *user)
{
	struct transfer *t = user;

	uv_timer_stop(t->timer);
	/* Not a timer of no time: one that is set in a timer's call has its turn at once, and so
	 * for ever. */
	if (ms == 0)
		task_queue_add(t->tasks, &t->turn);
	else if (ms > 0)
		uv_timer_start(t->timer, on_timer, (uint64_t)ms, 0);
	return 0;
}

/* ---- The end ---- */

static const char *certificate_phrase(const struct transfer *t)
{
	long found = X509_V_OK;

	curl_easy_getinfo(t->easy, CURLINFO_SSL_VERIFYRESULT, &found);
	switch (found) {
	case X509_V_OK:
	case X509_V_ERR_UNSPECIFIED: /* OpenSSL found nothing; libcurl compares the names */
	case X509_V_ERR_HOSTNAME_MISMATCH:
		return "its certificate is for another name";
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return "its certificate has expired";
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "its certificate is not valid yet, or this server's clock is behind";
	default:
		return "its certificate is not signed by anybody whom this server trusts";
	}
}

static const char *phrase(const struct transfer *t, CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_CONNECT:
		return "it cannot be connected to";
	case CURLE_OPERATION_TIMEDOUT:
		return "it does not answer in time";
	case CURLE_PEER_FAILED_VERIFICATION:
		return certificate_phrase(t);
	case CURLE_SSL_CONNECT_ERROR:
		return "no TLS connection can be made to it";
	case CURLE_PARTIAL_FILE:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_GOT_NOTHING:
		return "the connection has ended early";
	default:
		return "its answer is malformed";
	}
}

static void finish(struct transfer *t)
{
	const CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(t->multi, &left))) {
		if (msg->msg != CURLMSG_DONE)
			continue;
		const char *why = t->why;
		if (!why && !t->enough && msg->data.result != CURLE_OK)
			why = phrase(t, msg->data.result);
		if (!why && !t->head_over)
			why = "its answer is malformed";
		t->ops->done(t->data, why);
		return;
	}
}

void transfer_drop(struct transfer *t)
{
	/* Sockets go through on_watch; after that nobody needs the timer. */
	if (t->multi && t->easy)
		curl_multi_remove_handle(t->multi, t->easy);
	curl_easy_cleanup(t->easy);
	curl_multi_cleanup(t->multi);
	curl_slist_free_all(t->resolve);
	handle_drop_timer(&t->timer);
	task_cancel(&t->turn);
	X509_STORE_free(t->trust);
	buf_fini(&t->location);
	free(t->addrs);
	free(t);
}

/* ---- The beginning ---- */

static CURLcode on_tls(CURL *easy, void *context, void *user)
{
	const struct transfer *t = user;

	SSL_CTX_set1_cert_store(context, t->trust);
	return CURLE_OK;
}

/* "host:port:address,address" for CURLOPT_RESOLVE; the cache of this multi handle is its own. */
static bool pin(struct transfer *t, const struct hop *hop)
{
	_cleanup_buf_ struct buf line = BUF(RESOLVE_MAX);

	buf_printf(&line, "%s:%u:", hop->host.text, (unsigned)hop->port);
	for (size_t i = 0; i < t->n_addrs; i++) {
		char text[INET6_ADDRSTRLEN];
		bool four = inet_addr_is_v4(&t->addrs[i]);
		inet_addr_format(&t->addrs[i], text);
		buf_printf(&line, four ? "%s%s" : "%s[%s]", i ? "," : "", text);
	}
	/* A host that is an address is its own answer. */
	if (hop->host.kind == EGRESS_HOST_NAME)
		t->resolve = curl_slist_append(NULL, line.data);
	return !buf_is_full(&line);
}

static bool set_options(struct transfer *t, const struct transfer_spec *spec)
{
	const long verify = !knob_off(KNOB_FETCH_TLS);
	CURL *e = t->easy;
	bool good = true;

#define SET(option, value) good &= curl_easy_setopt(e, CURLOPT_##option, (value)) == CURLE_OK
	SET(URL, spec->hop->url);
	SET(PROTOCOLS_STR, spec->hop->https ? "https" : "http");
	SET(FOLLOWLOCATION, 0L);
	SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(PROXY, "");
	SET(NETRC, (long)CURL_NETRC_IGNORED);
	SET(DISALLOW_USERNAME_IN_URL, 1L);
	SET(HTTP_CONTENT_DECODING, 0L);
	SET(USERAGENT, USER_AGENT);
	SET(NOSIGNAL, 1L);
	SET(FRESH_CONNECT, 1L);
	SET(FORBID_REUSE, 1L);
	SET(CONNECTTIMEOUT_MS, (long)spec->dial_ms);
	SET(RESOLVE, t->resolve);
	SET(OPENSOCKETFUNCTION, on_open);
	SET(OPENSOCKETDATA, t);
	SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(SSL_VERIFYPEER, verify);
	SET(SSL_VERIFYHOST, verify ? 2L : 0L);
	SET(SSL_SESSIONID_CACHE, 0L);
	SET(CAINFO, NULL);
	SET(CAPATH, NULL);
	if (t->trust) {
		SET(SSL_CTX_FUNCTION, on_tls);
		SET(SSL_CTX_DATA, t);
	}
	SET(HEADERFUNCTION, on_field);
	SET(HEADERDATA, t);
	SET(WRITEFUNCTION, on_bytes);
	SET(WRITEDATA, t);
	SET(NOPROGRESS, 0L);
	SET(XFERINFOFUNCTION, on_progress);
	SET(XFERINFODATA, t);
#undef SET
	curl_multi_setopt(t->multi, CURLMOPT_SOCKETFUNCTION, on_watch);
	curl_multi_setopt(t->multi, CURLMOPT_SOCKETDATA, t);
	curl_multi_setopt(t->multi, CURLMOPT_TIMERFUNCTION, on_wake);
	curl_multi_setopt(t->multi, CURLMOPT_TIMERDATA, t);
	return good;
}

/* NULL: it could be begun. */
static const char *begin(struct transfer *t, const struct transfer_spec *spec)
{
	if (spec->hop->https) {
		t->trust = trust_store();
		if (!t->trust)
			return "this server has no certificates to trust; install ca-certificates";
		X509_STORE_up_ref(t->trust);
	}
	t->multi = curl_multi_init();
	t->easy = curl_easy_init();
	if (!t->multi || !t->easy || !pin(t, spec->hop) || !set_options(t, spec) ||
	    curl_multi_add_handle(t->multi, t->easy) != CURLM_OK)
		return "the server cannot begin it";
	return NULL;
}

struct transfer *transfer_start(const struct transfer_spec *spec, const struct transfer_ops *ops,
				void *data, const char **ret_why)
{
	struct transfer *t = mem_new(1, sizeof(*t));

	*t = (struct transfer){ .loop = spec->loop,
				.ops = ops,
				.data = data,
				.n_addrs = spec->n_addrs,
				.timer = handle_timer(spec->loop, t),
				.tasks = spec->tasks,
				.location = BUF(HOP_URL_SIZE) };
	t->addrs = mem_new(spec->n_addrs, sizeof(*t->addrs));
	memcpy(t->addrs, spec->addrs, spec->n_addrs * sizeof(*t->addrs));
	task_init(&t->turn, on_turn);
	forget_head(t);
	const char *why = begin(t, spec);
	if (why) {
		*ret_why = why;
		transfer_drop(t);
		return NULL;
	}
	return t;
}
