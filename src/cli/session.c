// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/retry.h"
#include "cli/show.h"

/* ---- Words ----------------------------------------------------------------------------------- */

static void quote_word(struct buf *out, const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "-_./:,+@%^";

	if (*word && strspn(word, plain) == strlen(word)) {
		buf_put_text(out, word);
		return;
	}
	buf_put_char(out, '\'');
	for (; *word; word++) {
		if (*word == '\'')
			buf_put_text(out, "'\\''");
		else
			buf_put_char(out, *word);
	}
	buf_put_char(out, '\'');
}

char *session_quote(char *const *words, int n)
{
	_cleanup_buf_ struct buf out = BUF(16 * MIB);

	for (int i = 0; i < n; i++) {
		if (i > 0)
			buf_put_char(&out, ' ');
		quote_word(&out, words[i]);
	}
	return mem_dup_n(out.data ? out.data : "", out.len);
}

int session_assignment(json_t *object, const char *text, struct err *err)
{
	const char *sign = strchr(text, '=');
	_cleanup_free_ char *name = mem_dup_n(text, sign ? (size_t)(sign - text) : strlen(text));
	const char *value = sign ? sign + 1 : getenv(name);

	if (!value)
		return err_set(err, EINVAL, "%s is not set in the environment", name);
	if (json_object_set_new(object, name, json_string(value)) < 0)
		return err_set(err, EINVAL, "%s is not UTF-8 text", name);
	return 0;
}

static int assignments(json_t *body, const char *field, const struct opt_list *list,
		       struct err *err)
{
	json_t *object = json_object();
	int r = 0;

	for (size_t i = 0; i < list->n && r == 0; i++)
		r = session_assignment(object, list->items[i], err);
	if (r == 0 && list->n)
		json_object_set(body, field, object);
	json_decref(object);
	return r;
}

/* ---- Life ------------------------------------------------------------------------------------ */

json_t *session_comma_list(const char *text)
{
	struct str rest = str_of(text), part;
	json_t *list = json_array();

	while (str_split(&rest, ',', &part)) {
		part = str_trim(part);
		if (part.len)
			json_array_append_new(list, json_stringn(part.data, part.len));
	}
	return list;
}

/* A server that does not know secrets ignores the field; then the command must not run. */
static int check_secrets(const json_t *answer, const struct opt_list *secrets, struct err *err)
{
	if (secrets->n && json_array_size(json_object_get(answer, "secret_names")) == 0)
		return err_set(err, ENOTSUP, "this server does not keep secrets");
	return 0;
}

int session_create(struct client *c, const struct session_spec *spec, char **ret_id, json_t **ret,
		   struct err *err)
{
	json_t *body = json_object(), *answer = NULL;
	int r = assignments(body, "secrets", &spec->secrets, err);

	if (spec->template_name)
		json_object_set_new(body, "template", json_string(spec->template_name));
	if (spec->egress)
		json_object_set_new(body, "egress", session_comma_list(spec->egress));
	if (spec->snapshot)
		json_object_set_new(body, "snapshot_id", json_string(spec->snapshot));
	if (spec->persistent)
		json_object_set_new(body, "persistent", json_true());
	/* A session whose id never arrived could not be deleted. */
	c->patient = true;
	if (r == 0)
		r = client_call_with(c, "POST", "/v1/sessions", body, RETRY_MAX,
				     spec->snapshot ? CLIENT_SLOW_SECONDS : CLIENT_SECONDS, &answer,
				     err);
	c->patient = false;
	json_decref(body);
	if (r < 0)
		return r;
	const char *id = json_string_value(json_object_get(answer, "session_id"));
	if (!id)
		r = err_set(err, EPROTO, "the server's answer has no session_id");
	else if (check_secrets(answer, &spec->secrets, err) < 0) {
		struct err ignored;
		session_delete(c, id, &ignored);
		r = -err->code;
	} else {
		*ret_id = mem_dup(id);
		if (ret)
			*ret = json_incref(answer);
	}
	json_decref(answer);
	return r;
}

int session_delete(struct client *c, const char *id, struct err *err)
{
	_cleanup_free_ char *segment = client_escape(id);
	_cleanup_free_ char *path = mem_printf("/v1/sessions/%s", segment);
	int r = client_call(c, "DELETE", path, NULL, NULL, err);

	return r < 0 && c->status == 404 ? 0 : r;
}

/* ---- Commands -------------------------------------------------------------------------------- */

static void on_signal(int number)
{
	(void)number;
	client_interrupt();
}

void session_catch_signals(void)
{
	const struct sigaction action = { .sa_handler = on_signal };
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
}

struct output {
	bool json;
	bool streamed;	/* something was printed as it came */
	json_t *result; /* owned */
};

static void print_text(FILE *to, const json_t *text)
{
	fwrite(json_string_value(text), 1, json_string_length(text), to);
	fflush(to);
}

static void on_event(void *user, const char *event, struct str data)
{
	struct output *o = user;
	json_t *json = json_loadb(data.data ? data.data : "", data.len, JSON_ALLOW_NUL, NULL);
	const json_t *text = json_object_get(json, "text");

	if (strcmp(event, "result") == 0 && json_is_object(json)) {
		json_decref(o->result);
		o->result = json_incref(json);
	} else if (!o->json && json_is_string(text)) {
		o->streamed = true;
		print_text(strcmp(event, "stderr") == 0 ? stderr : stdout, text);
	}
	json_decref(json);
}

static void print_result(const struct output *o)
{
	const json_t *warning;
	size_t i;

	if (o->json) {
		show_json(o->result);
		return;
	}
	if (!o->streamed) {
		print_text(stdout, json_object_get(o->result, "stdout"));
		print_text(stderr, json_object_get(o->result, "stderr"));
	}
	json_array_foreach(json_object_get(o->result, "warnings"), i, warning)
	{
		const char *said = json_string_value(warning);
		_cleanup_free_ char *text = cli_plain(said ? said : "");
		fprintf(stderr, "airlock: %s\n", text);
	}
	show_list(stderr, "refused to reach", json_object_get(o->result, "egress_denied"));
}

static int exit_status(const json_t *result)
{
	if (json_is_true(json_object_get(result, "timed_out")))
		return EXIT_TIMED_OUT;
	if (json_is_true(json_object_get(result, "oom_killed")))
		return EXIT_OUT_OF_MEMORY;
	return (int)(json_integer_value(json_object_get(result, "exit_code")) & 255);
}

static int read_stdin(json_t *body, struct err *err)
{
	_cleanup_buf_ struct buf in = BUF(LIMIT_STDIN + 1);
	ssize_t n;

	do {
		char *at = buf_reserve(&in, 4096);
		if (!at)
			return err_set(err, EFBIG, "standard input is longer than 1 MiB");
		n = read(STDIN_FILENO, at, 4096);
		if (n > 0)
			in.len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0)
		return err_errno(err, "standard input");
	json_t *text = json_stringn(in.data ? in.data : "", in.len);
	if (!text)
		return err_set(err, EILSEQ, "standard input is not UTF-8 text");
	json_object_set_new(body, "stdin", text);
	return 0;
}

static int make_body(const struct session_command *command, json_t *body, struct err *err)
{
	_cleanup_free_ char *line = session_quote(command->words, command->n_words);
	int r = assignments(body, "env", &command->env, err);

	if (json_object_set_new(body, "command", json_string(line)) < 0)
		return err_set(err, EILSEQ, "the command is not UTF-8 text");
	json_object_set_new(body, "timeout_seconds", json_integer((json_int_t)command->timeout));
	if (command->cwd)
		json_object_set_new(body, "cwd", json_string(command->cwd));
	if (r == 0 && command->with_stdin)
		r = read_stdin(body, err);
	return r;
}

int session_exec(struct client *c, const char *id, const struct session_command *command,
		 struct err *err)
{
	_cleanup_free_ char *segment = client_escape(id);
	_cleanup_free_ char *path = mem_printf("/v1/sessions/%s/exec", segment);
	struct output out = { .json = command->json };
	json_t *body = json_object();
	int r = make_body(command, body, err);

	if (r == 0)
		r = client_stream(c, path, body, on_event, &out, err);
	json_decref(body);
	if (r == 0 && !out.result)
		r = err_set(err, EPIPE, "the connection broke before the command had ended");
	if (r == 0) {
		print_result(&out);
		r = exit_status(out.result);
	}
	json_decref(out.result);
	return r;
}
