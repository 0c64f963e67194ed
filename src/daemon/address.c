// SPDX-License-Identifier: Apache-2.0
#include "daemon/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/inet.h"
#include "base/num.h"
#include "daemon/config.h"
#include "daemon/variable.h"
#include "egress/host.h"

#define DOMAIN_MAX 253u
#define LABEL_MAX 63u

#define REFUSE(err, value, sentence) \
	err_set((err), EINVAL, "'%s' is not " sentence, variable_show((value), (char[64]){ 0 }, 64))

static int parse_address(struct str text, unsigned *ret_bits)
{
	char copy[INET6_ADDRSTRLEN];
	struct in6_addr v6;
	struct in_addr v4;

	if (!text.len || text.len >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	if (memchr(copy, '\0', text.len))
		return -EINVAL;
	if (inet_pton(AF_INET, copy, &v4) == 1)
		*ret_bits = 32;
	else if (inet_pton(AF_INET6, copy, &v6) == 1)
		*ret_bits = 128;
	else
		return -EINVAL;
	return 0;
}

static bool is_range(struct str text)
{
	const char *slash = text.len ? memchr(text.data, '/', text.len) : NULL;
	struct str base = text;
	uint64_t prefix;
	unsigned bits;

	if (slash)
		base.len = (size_t)(slash - text.data);
	if (parse_address(base, &bits) < 0)
		return false;
	return !slash || num_parse(str_from(text, base.len + 1), 0, bits, &prefix);
}

static bool is_host_name(struct str host)
{
	struct str rest = host, label;

	if (!host.len || host.len > DOMAIN_MAX)
		return false;
	while (str_split(&rest, '.', &label)) {
		if (!label.len || label.len > LABEL_MAX)
			return false;
		for (size_t i = 0; i < label.len; i++) {
			char c = label.data[i];
			bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				    (c >= '0' && c <= '9') || c == '_';
			bool dash = c == '-' && i > 0 && i + 1 < label.len;
			if (!word && !dash)
				return false;
		}
	}
	return true;
}

/* "host:port" or "[v6]:port"; without port when it may be missing. */
static bool split_port(struct str text, bool port_needed, struct str *ret_host, uint64_t *ret_port)
{
	struct str host = text, port = { NULL, 0 };
	unsigned bits;

	if (text.len && text.data[0] == '[') {
		const char *end = memchr(text.data, ']', text.len);
		if (!end)
			return false;
		host = (struct str){ text.data + 1, (size_t)(end - text.data) - 1 };
		port = str_from(text, host.len + 2);
		if (parse_address(host, &bits) < 0 || bits != 128)
			return false;
		if (port.len && port.data[0] != ':')
			return false;
	} else {
		const char *colon = text.len ? memchr(text.data, ':', text.len) : NULL;
		if (colon) {
			host.len = (size_t)(colon - text.data);
			port = str_from(text, host.len);
		}
		if (!is_host_name(host))
			return false;
	}
	if (!port.len && port_needed)
		return false;
	if (port.len && !num_parse(str_from(port, 1), 1, 65535, ret_port))
		return false;
	*ret_host = host;
	return true;
}

bool config_parse_listen(const char *text, struct config_listen *ret)
{
	struct config_listen made = { 0 };
	struct sockaddr_un un;
	struct str host;
	uint64_t port;

	if (strncmp(text, "unix:", 5) == 0) {
		made.path = text + 5;
		if (made.path[0] != '/' || strlen(made.path) >= sizeof(un.sun_path))
			return false;
		*ret = made;
		return true;
	}
	if (!split_port(str_of(text), true, &host, &port) || host.len >= sizeof(made.host))
		return false;
	memcpy(made.host, host.data, host.len);
	made.port = (uint16_t)port;
	*ret = made;
	return true;
}

bool config_listen_is_local(const struct config_listen *l)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (l->path || strcasecmp(l->host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, l->host, &v4) == 1)
		return (ntohl(v4.s_addr) >> 24) == IN_LOOPBACKNET;
	return inet_pton(AF_INET6, l->host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

int address_check_listen(const char *value, struct err *err)
{
	struct config_listen l;

	if (config_parse_listen(value, &l))
		return 0;
	return REFUSE(err, value, "host:port or unix:<absolute path>");
}

int address_check_tcp(const char *value, struct err *err)
{
	struct config_listen l;

	if (config_parse_listen(value, &l) && !l.path)
		return 0;
	return REFUSE(err, value, "host:port");
}

int address_check_list(const char *value, struct err *err)
{
	struct str rest = str_of(value), item;
	unsigned bits;

	while (str_split(&rest, ',', &item)) {
		if (parse_address(str_trim(item), &bits) < 0)
			return REFUSE(err, value, "a comma list of IP addresses");
	}
	return 0;
}

int address_check_ranges(const char *value, struct err *err)
{
	struct str rest = str_of(value), item;

	while (str_split(&rest, ',', &item)) {
		if (!is_range(str_trim(item)))
			return REFUSE(err, value,
				      "a comma list of IP addresses and ranges like 10.0.0.0/8");
	}
	return 0;
}

/* Takes an absolute URL apart: scheme, then host and port, then the rest from the first slash. */
static bool split_url(struct str url, struct str *ret_scheme, struct str *ret_host,
		      struct str *ret_rest)
{
	const char *mark = url.len ? memmem(url.data, url.len, "://", 3) : NULL;
	struct str authority;
	uint64_t port;

	if (!mark)
		return false;
	*ret_scheme = (struct str){ url.data, (size_t)(mark - url.data) };
	authority = str_from(url, ret_scheme->len + 3);
	for (size_t i = 0; i < url.len; i++) {
		if ((unsigned char)url.data[i] <= ' ' || (unsigned char)url.data[i] >= 0x7f)
			return false;
	}
	size_t end = 0;
	while (end < authority.len && !strchr("/?#", authority.data[end]))
		end++;
	*ret_rest = str_from(authority, end);
	authority.len = end;
	return split_port(authority, false, ret_host, &port);
}

static bool is_http_url(struct str url, struct str *ret_scheme, struct str *ret_host,
			struct str *ret_rest)
{
	return split_url(url, ret_scheme, ret_host, ret_rest) &&
	       (str_eq(*ret_scheme, STR("https")) || str_eq(*ret_scheme, STR("http")));
}

int address_check_url(const char *value, struct err *err)
{
	struct str scheme, host, rest;

	if (is_http_url(str_of(value), &scheme, &host, &rest))
		return 0;
	return REFUSE(err, value, "an absolute http or https URL");
}

int address_check_import_base(const char *value, struct err *err)
{
	struct config_listen l = { 0 };
	struct str scheme, host, rest;
	struct egress_host judged;
	struct inet_addr addr;

	if (is_http_url(str_of(value), &scheme, &host, &rest) && host.len < sizeof(l.host)) {
		memcpy(l.host, host.data, host.len);
		/* The gateway takes it apart again: a name, or an address in its usual form. */
		egress_host_parse(host, &judged);
		bool good = judged.kind == EGRESS_HOST_NAME || inet_addr_parse(host, &addr);
		bool path = !rest.len || (!memchr(rest.data, '?', rest.len) &&
					  !memchr(rest.data, '#', rest.len));
		if (good && path && (str_eq(scheme, STR("https")) || config_listen_is_local(&l)))
			return 0;
	}
	return REFUSE(err, value,
		      "an absolute https URL (http only to a loopback address) without user, "
		      "query and fragment");
}

int address_check_origins(const char *value, struct err *err)
{
	struct str rest = str_of(value), item, scheme, host, path;

	while (str_split(&rest, ',', &item)) {
		if (!is_http_url(str_trim(item), &scheme, &host, &path) || path.len)
			return REFUSE(err, value,
				      "a comma list of origins like https://app.example.com");
	}
	return 0;
}

int address_check_domain(const char *value, struct err *err)
{
	struct str host;
	uint64_t port;

	if (split_port(str_of(value), false, &host, &port) && value[0] != '[' &&
	    memchr(host.data, '.', host.len))
		return 0;
	return REFUSE(err, value, "a domain of at least two labels, with an optional :port");
}

struct str address_host_of_url(const char *url)
{
	struct str scheme, host, rest;

	if (!url || !split_url(str_of(url), &scheme, &host, &rest))
		return (struct str){ NULL, 0 };
	return host;
}

struct str address_without_port(const char *text)
{
	struct str host;
	uint64_t port;

	if (!text || !split_port(str_of(text), false, &host, &port))
		return (struct str){ NULL, 0 };
	return host;
}
