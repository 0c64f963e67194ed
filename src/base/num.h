// SPDX-License-Identifier: Apache-2.0
/*
 * num: numbers from outside. The whole string must be decimal digits (no sign, no blanks, no
 * leading "+" or "0x") and lie in [min, max]; anything else is false and *ret is untouched.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

bool num_parse(struct str text, uint64_t min, uint64_t max, uint64_t *ret);
/* A decimal fraction like "1.5", at most three digits after the point, as thousandths. */
bool num_parse_milli(struct str text, uint64_t min_milli, uint64_t max_milli, uint64_t *ret_milli);
