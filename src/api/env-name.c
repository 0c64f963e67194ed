// SPDX-License-Identifier: Apache-2.0
#include "api/env-name.h"

#include "base/limits.h"

#define NAME_MAX_BYTES 64

static bool is_letter(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_name(struct str name)
{
	if (!name.len || name.len > NAME_MAX_BYTES || !is_letter(name.data[0]))
		return false;
	for (size_t i = 1; i < name.len; i++) {
		if (!is_letter(name.data[i]) && !(name.data[i] >= '0' && name.data[i] <= '9'))
			return false;
	}
	return true;
}

static bool is_value(struct str value)
{
	return value.len && value.len <= LIMIT_ENV_VALUE;
}

const char *env_name_check(struct str name)
{
	return is_name(name) ? NULL : "environment names are letters, digits and '_' (max 64)";
}

const char *env_value_check(struct str value)
{
	return is_value(value) ? NULL : "environment values have 1 to 8192 bytes";
}

const char *secret_name_check(struct str name)
{
	return is_name(name) ? NULL : "secret names are letters, digits and '_' (max 64)";
}

const char *secret_value_check(struct str value)
{
	return is_value(value) ? NULL : "secret values have 1 to 8192 bytes";
}
