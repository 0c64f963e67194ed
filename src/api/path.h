// SPDX-License-Identifier: Apache-2.0
/*
 * path: what can be said about a path of the contract (section 5.1) without looking at a file: its
 * form, and how it is shown in texts. Whether it leaves the workspace is decided by the kernel,
 * inside.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

/* NULL when the form is in order, else why not (for "Value error, <why>"). NUL characters have been
 * refused before (api/field.h). */
const char *path_check(struct str path);
/* The path as texts echo it: its first 200 characters. */
/* Whether it is "." or empty in any spelling. */
bool path_is_workspace(struct str path);
/* The last part that has a name, which may be "."; empty: none. */
struct str path_last(struct str path);
struct str path_echo(struct str path);
