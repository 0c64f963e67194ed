// SPDX-License-Identifier: Apache-2.0
/*
 * token: which bytes may stand in a method or field name (RFC 9110 section 5.6.2), and which in a
 * Host (RFC 3986 section 3.2.2 with port; no comma, which would be a joined list of two).
 */
#pragma once

#include <stdbool.h>

bool token_has(unsigned char c);
bool host_has(unsigned char c);
