// SPDX-License-Identifier: Apache-2.0
/*
 * env-name: which names and values a caller may put into the environment of a command (contract,
 * section 8.1): for `env` of exec, and for secrets. The checks fit api/field.h: NULL when in order,
 * else why not. Which names are reserved is the core's to say.
 */
#pragma once

#include "base/str.h"

const char *env_name_check(struct str name);
const char *env_value_check(struct str value);
const char *secret_name_check(struct str name);
const char *secret_value_check(struct str value);
