// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "daemon/config-parts.h"

#define PREFIX STR("SANDBOX_")
#define SHORT_KEY 16u

struct config *config_new(void)
{
	struct config *c = mem_new(1, sizeof(*c));

	c->values = mem_new(n_variables, sizeof(char *));
	return c;
}

static void free_secret(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void config_free(struct config *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < n_variables; i++)
		free_secret(c->values[i]);
	for (size_t i = 0; i < c->n_unknown; i++)
		free(c->unknown[i]);
	for (size_t i = 0; i < c->n_keys; i++) {
		free(c->keys[i].tenant);
		free_secret(c->keys[i].key);
	}
	policy_limits_fini(&c->limits);
	policy_egress_fini(&c->egress);
	free(c->egress_text);
	free(c->limits_text);
	free(c->templates_text);
	free(c->import_base);
	free(c->import_host);
	free(c->keys);
	free(c->values);
	free(c);
}

/* ---- Loading ---- */

const char *config_value(const struct config *c, const char *name)
{
	return c->values[variable_index(name)];
}

char *config_database(const char *folder, const char *value)
{
	static const char scheme[] = "sqlite:";
	const size_t n = sizeof(scheme) - 1;

	if (strncmp(value, scheme, n) != 0)
		return mem_printf("%s/airlock.db", folder);
	return value[n] == '/' ? mem_dup(value + n) : mem_printf("%s/%s", folder, value + n);
}

static void note_unknown(struct config *c, struct str name)
{
	for (size_t i = 0; i < c->n_unknown; i++) {
		if (str_eq(str_of(c->unknown[i]), name))
			return;
	}
	if (c->n_unknown < CONFIG_UNKNOWN_MAX)
		c->unknown[c->n_unknown++] = mem_dup_n(name.data, name.len);
}

/* replace: of a name that came twice in one source the last counts. */
static void take(struct config *c, struct str name, struct str value, char **own)
{
	int i = variable_find(name);

	if (i < 0 || (variables[i].internal && !c->takes_internal)) {
		if (str_starts(name, PREFIX))
			note_unknown(c, name);
		return;
	}
	value = str_trim(value);
	if (!value.len)
		return;
	free_secret(own[i]);
	own[i] = mem_dup_n(value.data, value.len);
}

/* What an earlier source has set stays. */
static void merge(struct config *c, char **own)
{
	for (size_t i = 0; i < n_variables; i++) {
		if (!c->values[i])
			c->values[i] = take_ptr(own[i]);
		free_secret(own[i]);
	}
	free(own);
}

void config_set(struct config *c, const char *name, struct str value)
{
	char **own = mem_new(n_variables, sizeof(char *));

	take(c, str_of(name), value, own);
	merge(c, own);
}

static bool split_name(struct str line, struct str *ret_name, struct str *ret_value)
{
	const char *eq = line.len ? memchr(line.data, '=', line.len) : NULL;

	if (!eq)
		return false;
	*ret_name = (struct str){ line.data, (size_t)(eq - line.data) };
	*ret_value = str_from(line, ret_name->len + 1);
	return true;
}

int config_load_env(struct config *c, char *const *environment, struct err *err)
{
	char **own = mem_new(n_variables, sizeof(char *));
	struct str name, value;

	for (; *environment; environment++) {
		if (split_name(str_of(*environment), &name, &value))
			take(c, name, value, own);
	}
	merge(c, own);
	return 0;
}

int config_read_file(int fd, struct buf *ret, struct err *err)
{
	ssize_t n = 0;

	for (off_t at = 0;; at += n) {
		char *room = buf_reserve(ret, 16 * KIB);
		if (!room)
			return err_set(err, EFBIG, "is larger than 4 MB");
		n = pread(fd, room, 16 * KIB, at);
		if (n < 0)
			return err_errno(err, "cannot be read");
		if (n == 0)
			break;
		ret->len += (size_t)n;
	}
	ret->data[ret->len] = '\0';
	if (memchr(ret->data, '\0', ret->len))
		return err_set(err, EINVAL, "has a NUL in it");
	return 0;
}

static bool is_name(struct str name)
{
	for (size_t i = 0; i < name.len; i++) {
		char ch = name.data[i];
		if (!(ch >= 'A' && ch <= 'Z') && !(ch >= 'a' && ch <= 'z') && ch != '_' &&
		    !(ch >= '0' && ch <= '9' && i > 0))
			return false;
	}
	return name.len > 0;
}

static int parse_lines(struct config *c, struct str rest, char **own, struct err *err)
{
	struct str line, name, value;

	for (unsigned number = 1; str_split(&rest, '\n', &line); number++) {
		if (line.len && line.data[line.len - 1] == '\r')
			line.len--;
		line = str_trim(line);
		if (!line.len || line.data[0] == '#')
			continue;
		if (!split_name(line, &name, &value) || !is_name(str_trim(name)))
			return err_set(err, EINVAL, "line %u is not NAME=value", number);
		take(c, str_trim(name), value, own);
	}
	return 0;
}

int config_load_fd(struct config *c, int fd, struct err *err)
{
	_cleanup_buf_ struct buf text = BUF(CONFIG_FILE_MAX);
	char **own = mem_new(n_variables, sizeof(char *));
	int r = config_read_file(fd, &text, err);

	if (r >= 0)
		r = parse_lines(c, buf_str(&text), own, err);
	if (text.data)
		explicit_bzero(text.data, text.len);
	if (r < 0) {
		for (size_t i = 0; i < n_variables; i++)
			free_secret(take_ptr(own[i]));
	}
	merge(c, own);
	return r;
}

int config_load_written(struct config *c, int fd, struct err *err)
{
	c->takes_internal = true;
	int r = config_load_fd(c, fd, err);
	c->takes_internal = false;
	return r;
}

/* Nothing that could keep the start waiting. */
int config_open_file(const char *path, int *ret_fd, struct err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot be opened");
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "is not a regular file");
	if (st.st_mode & S_IWOTH)
		return err_set(err, EPERM, "can be written by everybody; chmod o-w");
	*ret_fd = take_fd(&fd);
	return 0;
}

int config_load_file(struct config *c, const char *path, struct err *err)
{
	_cleanup_fd_ int fd = -1;
	int r = config_open_file(path, &fd, err);

	if (r >= 0)
		r = config_load_fd(c, fd, err);
	return r < 0 ? err_wrap(err, "%s", path) : 0;
}

/* ---- Handing on ---- */

/* One line each. Line breaks in JSON are blanks; in a PEM key they are written as the two
 * characters backslash and n, which no PEM has; elsewhere config_check has refused them. */
static void put_value(struct buf *out, const char *name, const char *value)
{
	bool pem = strcmp(name, "SANDBOX_GITHUB_APP_PRIVATE_KEY") == 0;

	for (; *value; value++) {
		if (*value == '\n')
			buf_put_text(out, pem ? "\\n" : " ");
		else if (*value != '\r')
			buf_put_char(out, *value);
	}
}

static void put_text(struct buf *out, const char *name, const char *text)
{
	if (!text)
		return;
	buf_printf(out, "%s=", name);
	put_value(out, name, text);
	buf_put_char(out, '\n');
}

int config_write(const struct config *c, int fd, struct err *err)
{
	_cleanup_buf_ struct buf out = BUF(CONFIG_FILE_MAX);
	int r = 0;

	for (size_t i = 0; i < n_variables; i++) {
		if (!c->values[i] || variables[i].kind == VARIABLE_CLIENT)
			continue;
		buf_printf(&out, "%s=", variables[i].name);
		put_value(&out, variables[i].name, c->values[i]);
		buf_put_char(&out, '\n');
	}
	put_text(&out, "SANDBOX_EGRESS_POLICY_READ", c->egress_text);
	put_text(&out, "SANDBOX_TENANT_LIMITS_READ", c->limits_text);
	for (size_t i = 0; i < c->n_unknown; i++) {
		if (variable_find(str_of(c->unknown[i])) < 0)
			buf_printf(&out, "%s=unknown\n", c->unknown[i]);
	}
	if (buf_is_full(&out))
		r = err_set(err, EFBIG, "the configuration is larger than 4 MB");
	for (size_t at = 0; r >= 0 && at < out.len;) {
		ssize_t n = write(fd, out.data + at, out.len - at);
		if (n < 0)
			r = err_errno(err, "writing the configuration");
		else
			at += (size_t)n;
	}
	if (out.data)
		explicit_bzero(out.data, out.len);
	return r;
}

/* ---- Telling ---- */

static bool is_off(const struct variable *v, const char *value)
{
	struct err ignored;
	uint64_t on = 1;

	return v->kind == VARIABLE_FLAG && variable_check(v, value, &on, &ignored) >= 0 && !on;
}

static void warn_keys(const struct config *c, void (*each)(void *data, const char *text),
		      void *data)
{
	char text[200];

	for (size_t i = 0; i < c->n_keys; i++) {
		if (strlen(c->keys[i].key) >= SHORT_KEY)
			continue;
		snprintf(text, sizeof(text),
			 "the static key of tenant %s is shorter than %u characters",
			 c->keys[i].tenant, SHORT_KEY);
		each(data, text);
	}
}

void config_warn(const struct config *c, void (*each)(void *data, const char *text), void *data)
{
	const char *state = config_value(c, "SANDBOX_SESSION_STATE");
	char text[300];

	for (size_t i = 0; i < c->n_unknown; i++) {
		snprintf(text, sizeof(text), "%.200s is not a known variable", c->unknown[i]);
		each(data, text);
	}
	for (size_t i = 0; i < n_variables; i++) {
		if (!c->values[i] || !variables[i].later || is_off(&variables[i], c->values[i]))
			continue;
		snprintf(text, sizeof(text), "%s is set but this version does not have the feature",
			 variables[i].name);
		each(data, text);
	}
	if (state && strcmp(state, "on") != 0 && strcmp(state, "off") != 0)
		each(data, "the path in SANDBOX_SESSION_STATE is ignored; sessions are kept in "
			   "SANDBOX_STATE_DIR");
	warn_keys(c, each, data);
}

const struct config_settings *config_settings(const struct config *c)
{
	return &c->settings;
}

void config_each_key(const struct config *c,
		     void (*each)(void *data, struct str tenant, struct str key), void *data)
{
	for (size_t i = 0; i < c->n_keys; i++)
		each(data, str_of(c->keys[i].tenant), str_of(c->keys[i].key));
}

void config_each_limits(const struct config *c,
			void (*each)(void *data, struct str tenant,
				     const struct tenant_limits *limits),
			void *data)
{
	for (size_t i = 0; i < c->limits.n; i++)
		each(data, str_of(c->limits.items[i].tenant), &c->limits.items[i].limits);
}

void config_each_egress(const struct config *c,
			void (*each)(void *data, struct str tenant,
				     const struct egress_list *rules),
			void *data)
{
	for (size_t i = 0; i < c->egress.n; i++)
		each(data, str_of(c->egress.items[i].tenant), &c->egress.items[i].rules);
}
