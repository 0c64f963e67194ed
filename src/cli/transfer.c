// SPDX-License-Identifier: Apache-2.0
#include "cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

/* What one file may have: the largest upload that can be configured is 65,536 MB, but a client
 * holds the file in memory. */
#define FILE_MAX CLIENT_BODY_MAX

static bool is_stdio(const char *name)
{
	return strcmp(name, "-") == 0;
}

static int load(const char *local, struct buf *ret, struct err *err)
{
	_cleanup_fd_ int owned = -1;
	int fd = STDIN_FILENO;
	ssize_t n;

	if (!is_stdio(local)) {
		fd = owned = open(local, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_errno(err, "%s", local);
	}
	do {
		char *at = buf_reserve(ret, 65536);
		if (!at)
			return err_set(err, EFBIG, "%s is too large", local);
		n = read(fd, at, 65536);
		if (n > 0)
			ret->len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? err_errno(err, "%s", local) : 0;
}

static int store(const char *local, const char *data, size_t len, struct err *err)
{
	_cleanup_fd_ int owned = -1;
	int fd = STDOUT_FILENO;

	if (!is_stdio(local)) {
		fd = owned = open(local, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (fd < 0)
			return err_errno(err, "%s", local);
	}
	while (len > 0) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno != EINTR)
			return err_errno(err, "%s", local);
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

char *transfer_route(const char *id, const char *what, const char *remote)
{
	_cleanup_free_ char *segment = client_escape(id);
	_cleanup_free_ char *path = remote ? client_escape(remote) : NULL;

	return mem_printf("/v1/sessions/%s/%s%s%s", segment, what, path ? "?path=" : "",
			  path ? path : "");
}

int transfer_put(struct client *c, const char *id, const char *local, const char *remote,
		 struct err *err)
{
	_cleanup_buf_ struct buf bytes = BUF(FILE_MAX);
	int r = load(local, &bytes, err);

	if (r < 0)
		return r;
	json_t *text = json_stringn(bytes.data ? bytes.data : "", bytes.len);
	if (!text) {
		_cleanup_free_ char *upload = transfer_route(id, "files", remote);
		r = client_raw(c, "PUT", upload, &bytes, NULL, err);
		/* No such route: the words of the contract for one. */
		if (r < 0 && c->status == 404 && strcmp(err->text, "Not Found") == 0)
			err_set(err, EILSEQ,
				"%s is not UTF-8 text, and this server takes nothing else", local);
		return r;
	}
	_cleanup_free_ char *path = transfer_route(id, "write", NULL);
	json_t *body = json_pack("{s:o}", "content", text);
	if (json_object_set_new(body, "path", json_string(remote)) < 0)
		r = err_set(err, EILSEQ, "the path is not UTF-8 text");
	else
		r = client_call(c, "POST", path, body, NULL, err);
	json_decref(body);
	return r;
}

int transfer_get(struct client *c, const char *id, const char *remote, const char *local,
		 struct err *err)
{
	_cleanup_free_ char *path = transfer_route(id, "read", remote);
	_cleanup_free_ char *missing = mem_printf("Error: File '%s' does not exist.", remote);
	json_t *answer = NULL;
	int r = client_call(c, "GET", path, NULL, &answer, err);

	/* 400: not text. 413: longer than what is read as text. */
	if (r < 0 && (c->status == 400 || c->status == 413)) {
		struct err download_err;
		if (transfer_download(c, id, remote, local, &download_err) == 0)
			return 0;
		return c->status == 404 ? r
					: err_set(err, download_err.code, "%s", download_err.text);
	}
	if (r < 0)
		return r;
	const json_t *content = json_object_get(answer, "content");
	const char *text = json_string_value(content);
	/* The contract answers a missing file with 200 and this sentence. */
	if (!text)
		r = err_set(err, EPROTO, "the server's answer has no content");
	else if (strcmp(text, missing) == 0)
		r = err_set(err, ENOENT, "File '%s' does not exist.", remote);
	else
		r = store(local, text, json_string_length(content), err);
	json_decref(answer);
	return r;
}
