// SPDX-License-Identifier: Apache-2.0
/*
 * Two steps. The records are walked and the handshake message is put together from them, until it
 * is whole; only then is it read. Nothing that is final depends on bytes that have not come yet:
 * once an answer is not MORE, every longer input has the same one.
 */
#include "egress/hello.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RECORD_HEAD 5u
#define RECORD_MAX (1u << 14) /* RFC 8446 5.1 */
#define RECORD_HANDSHAKE 22u
#define MESSAGE_HEAD 4u
#define MESSAGE_CLIENT_HELLO 1u
#define EXTENSION_SERVER_NAME 0u
#define NAME_HOST 0u
#define NAME_MAX_BYTES 255u

struct message {
	unsigned char data[EGRESS_HELLO_MAX];
	size_t len;
	size_t want; /* 0: not known yet */
};

/* What is left of a vector. */
struct vector {
	const unsigned char *at;
	size_t left;
};

/* TLS 1.0 to 1.3, in records and in the hello (RFC 8446 4.1.2, 5.1). */
static bool version_is_tls(unsigned major, unsigned minor)
{
	return major == 3 && minor >= 1 && minor <= 4;
}

static bool take_number(struct vector *v, unsigned bytes, size_t *ret)
{
	size_t value = 0;

	if (v->left < bytes)
		return false;
	for (unsigned i = 0; i < bytes; i++)
		value = value << 8 | v->at[i];
	v->at += bytes;
	v->left -= bytes;
	*ret = value;
	return true;
}

static bool take_bytes(struct vector *v, size_t len, struct vector *ret)
{
	if (v->left < len)
		return false;
	*ret = (struct vector){ v->at, len };
	v->at += len;
	v->left -= len;
	return true;
}

/* A vector with its length in front. */
static bool take_vector(struct vector *v, unsigned length_bytes, struct vector *ret)
{
	size_t len;

	return take_number(v, length_bytes, &len) && take_bytes(v, len, ret);
}

/* False: no handshake record begins here. As many bytes of the head as there are count. */
static bool record_begins(struct vector rest, size_t *ret_len)
{
	const unsigned char *p = rest.at;
	size_t n = rest.left;

	*ret_len = 0;
	if ((n > 0 && p[0] != RECORD_HANDSHAKE) || (n > 1 && p[1] != 3) ||
	    (n > 2 && !version_is_tls(p[1], p[2])))
		return false;
	if (n < RECORD_HEAD)
		return true;
	*ret_len = (size_t)p[3] << 8 | p[4];
	/* An empty handshake record is forbidden (RFC 8446 5.1). */
	return *ret_len && *ret_len <= RECORD_MAX;
}

/* False: the message is no ClientHello, or one that cannot fit. */
static bool message_begins(struct message *m)
{
	if (m->len && m->data[0] != MESSAGE_CLIENT_HELLO)
		return false;
	if (m->len < MESSAGE_HEAD)
		return true;
	m->want = MESSAGE_HEAD + ((size_t)m->data[1] << 16 | (size_t)m->data[2] << 8 | m->data[3]);
	return m->want <= EGRESS_HELLO_MAX - RECORD_HEAD;
}

/* Puts the first message together. */
static enum egress_hello gather(struct str bytes, struct message *m)
{
	struct vector rest = { (const unsigned char *)bytes.data, bytes.len };

	m->len = m->want = 0;
	for (;;) {
		size_t len, have;
		if (!record_begins(rest, &len))
			return EGRESS_HELLO_NOT_TLS;
		if (!len)
			return EGRESS_HELLO_MORE;
		rest = (struct vector){ rest.at + RECORD_HEAD, rest.left - RECORD_HEAD };
		have = len < rest.left ? len : rest.left;
		/* Both are at most EGRESS_HELLO_MAX: the whole input is. */
		memcpy(m->data + m->len, rest.at, have);
		m->len += have;
		if (!m->want && !message_begins(m))
			return EGRESS_HELLO_NOT_TLS;
		/* A second message in the hello's last record: whose name would count? */
		if (m->want && m->len + (len - have) > m->want)
			return EGRESS_HELLO_NOT_TLS;
		if (m->want && m->len == m->want)
			return EGRESS_HELLO_NAME;
		if (have < len)
			return EGRESS_HELLO_MORE;
		rest = (struct vector){ rest.at + len, rest.left - len };
	}
}

/* RFC 6066 3. */
static enum egress_hello read_server_name(struct vector extension, struct vector *ret_name)
{
	struct vector list, name = { NULL, 0 };
	size_t type = NAME_HOST, n = 0;

	if (!take_vector(&extension, 2, &list) || extension.left)
		return EGRESS_HELLO_NOT_TLS;
	for (; list.left; n++) {
		if (!take_number(&list, 1, &type) || !take_vector(&list, 2, &name))
			return EGRESS_HELLO_NOT_TLS;
	}
	if (n != 1 || type != NAME_HOST || !name.left || name.left > NAME_MAX_BYTES)
		return EGRESS_HELLO_NO_NAME;
	*ret_name = name;
	return EGRESS_HELLO_NAME;
}

/* All extensions are walked, so that a second server_name is seen. */
static enum egress_hello read_extensions(struct vector all, struct vector *ret_name)
{
	enum egress_hello result = EGRESS_HELLO_NO_NAME;
	unsigned n_names = 0;

	while (all.left) {
		struct vector extension;
		size_t type;
		if (!take_number(&all, 2, &type) || !take_vector(&all, 2, &extension))
			return EGRESS_HELLO_NOT_TLS;
		if (type != EXTENSION_SERVER_NAME)
			continue;
		result = read_server_name(extension, ret_name);
		if (result == EGRESS_HELLO_NOT_TLS)
			return result;
		n_names++;
	}
	return n_names == 1 ? result : EGRESS_HELLO_NO_NAME;
}

/* The body of a ClientHello (RFC 8446 4.1.2; RFC 5246 7.4.1.2 without extensions). */
static enum egress_hello read_hello(struct vector body, struct vector *ret_name)
{
	struct vector ignored, session, suites, compression, extensions;
	size_t major, minor;

	if (!take_number(&body, 1, &major) || !take_number(&body, 1, &minor) ||
	    !version_is_tls((unsigned)major, (unsigned)minor) || !take_bytes(&body, 32, &ignored) ||
	    !take_vector(&body, 1, &session) || session.left > 32 ||
	    !take_vector(&body, 2, &suites) || !suites.left || suites.left % 2 ||
	    !take_vector(&body, 1, &compression) || !compression.left)
		return EGRESS_HELLO_NOT_TLS;
	if (!body.left)
		return EGRESS_HELLO_NO_NAME;
	if (!take_vector(&body, 2, &extensions) || body.left)
		return EGRESS_HELLO_NOT_TLS;
	return read_extensions(extensions, ret_name);
}

enum egress_hello egress_hello_parse(struct str bytes, char ret_name[256], size_t *ret_len)
{
	bool all = bytes.len >= EGRESS_HELLO_MAX;
	struct vector name;
	struct message m;

	if (all)
		bytes.len = EGRESS_HELLO_MAX;
	enum egress_hello result = gather(bytes, &m);
	if (result == EGRESS_HELLO_MORE && all)
		return EGRESS_HELLO_NOT_TLS;
	if (result != EGRESS_HELLO_NAME)
		return result;
	result = read_hello((struct vector){ m.data + MESSAGE_HEAD, m.len - MESSAGE_HEAD }, &name);
	if (result == EGRESS_HELLO_NAME) {
		memcpy(ret_name, name.at, name.left);
		*ret_len = name.left;
	}
	return result;
}
