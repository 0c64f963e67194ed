// SPDX-License-Identifier: Apache-2.0
#include "cli/show.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/cli.h"

#define VALUE_MAX 65536u

/* jansson escapes those below U+0020; what else a terminal might obey is escaped here. */
static int put_json(const char *bytes, size_t len, void *to)
{
	for (struct str rest = { bytes, len }; rest.len;) {
		size_t n = *rest.data == '\n' ? 0 : utf8_control(rest);
		if (n)
			fprintf(to, "\\u%04x", (unsigned char)rest.data[n - 1]);
		else
			putc(*rest.data, to);
		rest = str_from(rest, n ? n : 1);
	}
	return 0;
}

void show_json(const json_t *json)
{
	json_dump_callback(json, put_json, stdout, JSON_INDENT(2));
	putchar('\n');
}

void show_json_part(const json_t *json)
{
	json_dump_callback(json, put_json, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
}

void show_json_line(const json_t *json)
{
	show_json_part(json);
	putchar('\n');
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static void put_plain(struct buf *out, const char *text)
{
	_cleanup_free_ char *plain = cli_plain(text);

	buf_put_text(out, plain);
}

static void put_time(struct buf *out, double seconds)
{
	time_t t = (time_t)seconds;
	char text[32];
	struct tm tm;

	if (localtime_r(&t, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
		buf_put_text(out, text);
}

static void put_size(struct buf *out, double bytes)
{
	static const char *const units[] = { "bytes", "KB", "MB", "GB", "TB" };
	size_t unit = 0;

	for (; bytes >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++)
		bytes /= 1024;
	buf_printf(out, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

static void put_value(struct buf *out, const char *name, const json_t *value)
{
	const json_t *item;
	size_t i;

	if (json_is_string(value))
		put_plain(out, json_string_value(value));
	else if (json_is_number(value) && (ends_with(name, "_at") || strcmp(name, "ts") == 0))
		put_time(out, json_number_value(value));
	else if (json_is_number(value) && ends_with(name, "_bytes"))
		put_size(out, json_number_value(value));
	else if (json_is_integer(value))
		buf_printf(out, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		buf_printf(out, "%.3f", json_real_value(value));
	else if (json_is_boolean(value))
		buf_put_text(out, json_is_true(value) ? "yes" : "no");
	else if (!value || json_is_null(value) || (json_is_array(value) && !json_array_size(value)))
		buf_put_text(out, "-");
	json_array_foreach((json_t *)(uintptr_t)value, i, item)
	{
		if (i > 0)
			buf_put_text(out, ", ");
		put_value(out, "", item);
	}
}

void show_object(const json_t *object, int indent)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		_cleanup_buf_ struct buf text = BUF(VALUE_MAX);
		if (json_is_object(value)) {
			printf("%*s%s\n", indent, "", name);
			show_object(value, indent + 2);
			continue;
		}
		put_value(&text, name, value);
		printf("%*s%-*s %s\n", indent, "", 24 - indent, name, text.data ? text.data : "");
	}
}

void show_list(FILE *to, const char *title, const json_t *list)
{
	_cleanup_buf_ struct buf text = BUF(VALUE_MAX);

	if (json_array_size(list) == 0)
		return;
	put_value(&text, "", list);
	fprintf(to, "airlock: %s: %s\n", title, text.data);
}

void show_table(const json_t *list, const struct show_column *columns, size_t n)
{
	for (size_t k = 0; k < n; k++)
		printf("%-*s%s", k + 1 < n ? columns[k].width : 0, columns[k].title,
		       k + 1 < n ? " " : "\n");
	show_rows(list, columns, n);
}

void show_rows(const json_t *list, const struct show_column *columns, size_t n)
{
	const json_t *entry;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, entry)
	{
		for (size_t k = 0; k < n; k++) {
			_cleanup_buf_ struct buf text = BUF(VALUE_MAX);
			put_value(&text, columns[k].member,
				  json_object_get(entry, columns[k].member));
			printf("%-*s%s", k + 1 < n ? columns[k].width : 0,
			       text.data ? text.data : "", k + 1 < n ? " " : "\n");
		}
	}
}
