// SPDX-License-Identifier: Apache-2.0
#include "gateway/hop.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

#define HTTPS_PORT 443

/* What libcurl made of a text. */
struct parts {
	CURLU *url;
	char *scheme, *user, *password, *host, *zone, *port, *query;
};

static void parts_fini(struct parts *p)
{
	char *const texts[] = {
		p->scheme, p->user, p->password, p->host, p->zone, p->port, p->query
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		curl_free(texts[i]);
	curl_url_cleanup(p->url);
}

/* A part that is not there stays NULL. */
static bool get(const struct parts *p, CURLUPart what, unsigned flags, char **ret)
{
	switch (curl_url_get(p->url, what, ret, flags)) {
	case CURLUE_OK:
	case CURLUE_NO_HOST:
	case CURLUE_NO_USER:
	case CURLUE_NO_PASSWORD:
	case CURLUE_NO_QUERY:
	case CURLUE_NO_ZONEID:
	case CURLUE_NO_PORT:
		return true;
	default:
		return false;
	}
}

/* Printable ASCII, which is all that an URL may be made of (RFC 3986 section 2). */
static bool is_plain(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		if ((unsigned char)text.data[i] <= ' ' || (unsigned char)text.data[i] >= 0x7f)
			return false;
	}
	return text.len > 0;
}

static bool parts_parse(const char *from, struct str text, struct parts *p)
{
	char copy[HOP_URL_SIZE];

	if (text.len >= sizeof(copy) || !is_plain(text))
		return false;
	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	p->url = curl_url();
	if (!p->url || (from && curl_url_set(p->url, CURLUPART_URL, from, 0)) ||
	    curl_url_set(p->url, CURLUPART_URL, copy, CURLU_NON_SUPPORT_SCHEME))
		return false;
	return get(p, CURLUPART_SCHEME, 0, &p->scheme) && get(p, CURLUPART_USER, 0, &p->user) &&
	       get(p, CURLUPART_PASSWORD, 0, &p->password) && get(p, CURLUPART_HOST, 0, &p->host) &&
	       get(p, CURLUPART_ZONEID, 0, &p->zone) &&
	       get(p, CURLUPART_PORT, CURLU_DEFAULT_PORT, &p->port) &&
	       get(p, CURLUPART_QUERY, 0, &p->query);
}

static struct str text_of(const struct egress_host *host)
{
	return (struct str){ host->text, host->len };
}

static void take_host(const char *raw, struct egress_host *ret)
{
	struct str text = str_of(raw);

	if (text.len > 2 && text.data[0] == '[' && text.data[text.len - 1] == ']')
		text = (struct str){ text.data + 1, text.len - 2 };
	egress_host_parse(text, ret);
}

static uint16_t take_port(const char *raw)
{
	uint64_t port = 0;

	return raw && num_parse(str_of(raw), 1, UINT16_MAX, &port) ? (uint16_t)port : 0;
}

/* ---- The base ---- */

static bool is_loopback(const struct inet_addr *addr)
{
	static const struct inet_addr six = { .bytes = { [15] = 1 } };

	return inet_addr_is_v4(addr) ? addr->bytes[12] == 127 : inet_addr_eq(addr, &six);
}

static void take_addresses(struct hop_base *base)
{
	struct str host = text_of(&base->host);

	if (str_eq(host, STR("localhost"))) {
		inet_addr_parse(STR("127.0.0.1"), &base->addrs[0]);
		inet_addr_parse(STR("::1"), &base->addrs[1]);
		base->n_addrs = 2;
	} else if (base->host.kind == EGRESS_HOST_LITERAL &&
		   inet_addr_parse(host, &base->addrs[0])) {
		base->n_addrs = 1;
	}
}

static bool take_base(const struct parts *p, struct hop_base *ret)
{
	struct hop_base base = { .given = true };

	base.https = strcmp(p->scheme, "https") == 0;
	if (p->user || p->password || p->zone || p->query || !p->host)
		return false;
	take_host(p->host, &base.host);
	take_addresses(&base);
	base.port = take_port(p->port);
	if (!base.port || base.host.kind == EGRESS_HOST_BAD ||
	    (base.host.kind == EGRESS_HOST_LITERAL && !base.n_addrs))
		return false;
	if (!base.https &&
	    (strcmp(p->scheme, "http") != 0 || !base.n_addrs || !is_loopback(&base.addrs[0])))
		return false;
	*ret = base;
	return true;
}

bool hop_base_parse(struct str url, struct hop_base *ret)
{
	struct parts p = { 0 };
	bool good = parts_parse(NULL, url, &p) && take_base(&p, ret);

	parts_fini(&p);
	return good;
}

/* ---- A step ---- */

static bool is_at_base(const struct hop_base *base, const struct hop *from, const struct hop *h)
{
	return base->given && (!from || from->at_base) && h->https == base->https &&
	       h->port == base->port && h->host.kind == base->host.kind &&
	       str_eq(text_of(&h->host), text_of(&base->host));
}

/* For the client: never the user, and the scheme and the port where they are what is wrong. */
static void describe(const struct parts *p, const struct hop *h, char where[static HOP_WHERE_SIZE])
{
	const char *host = p->host ? p->host : "";

	if (!h->https)
		snprintf(where, HOP_WHERE_SIZE, "%s://%s", p->scheme, host);
	else if (h->port != HTTPS_PORT)
		snprintf(where, HOP_WHERE_SIZE, "%s:%s", host, p->port ? p->port : "");
	else
		snprintf(where, HOP_WHERE_SIZE, "%s", host);
}

/* Again as text, from what was judged. */
static bool put_together(struct parts *p, struct hop *h)
{
	char host[EGRESS_HOST_MAX + 3], *text = NULL;
	bool six = memchr(h->host.text, ':', h->host.len) != NULL;

	snprintf(host, sizeof(host), six ? "[%s]" : "%s", h->host.text);
	bool good = !curl_url_set(p->url, CURLUPART_FRAGMENT, NULL, 0) &&
		    !curl_url_set(p->url, CURLUPART_HOST, host, 0) &&
		    !curl_url_get(p->url, CURLUPART_URL, &text, CURLU_NO_DEFAULT_PORT);
	good = good && strlen(text) < sizeof(h->url);
	if (good)
		snprintf(h->url, sizeof(h->url), "%s", text);
	curl_free(text);
	return good;
}

static enum hop_verdict judge(const struct hop_base *base, const struct hop *from, struct parts *p,
			      struct hop *h, char where[static HOP_WHERE_SIZE])
{
	h->https = strcmp(p->scheme, "https") == 0;
	h->port = take_port(p->port);
	if (p->host)
		take_host(p->host, &h->host);
	bool known = h->https || strcmp(p->scheme, "http") == 0;
	h->at_base = known && is_at_base(base, from, h);
	bool good = h->at_base || (h->https && h->port == HTTPS_PORT);
	bool named = h->host.kind == EGRESS_HOST_NAME || (h->at_base && base->n_addrs);
	if (p->user || p->password || p->zone || !good || !named) {
		describe(p, h, where);
		return HOP_ELSEWHERE;
	}
	return put_together(p, h) ? HOP_OK : HOP_MALFORMED;
}

enum hop_verdict hop_parse(const struct hop_base *base, const struct hop *from, struct str url,
			   struct hop *ret, char where[static HOP_WHERE_SIZE])
{
	struct hop made = { .host = { .kind = EGRESS_HOST_BAD } };
	struct parts p = { 0 };
	enum hop_verdict verdict = HOP_MALFORMED;

	where[0] = '\0';
	if (parts_parse(from ? from->url : NULL, url, &p))
		verdict = judge(base, from, &p, &made, where);
	parts_fini(&p);
	if (verdict == HOP_OK)
		*ret = made;
	return verdict;
}
