// SPDX-License-Identifier: Apache-2.0
/*
 * exec-answer: what a command's end looks like on the wire: all fields of section 4.1 and the text
 * form of 4.2 (`output`).
 */
#pragma once

#include "api/answer.h"
#include "base/err.h"
#include "base/str.h"

struct exec_result;

/* Fills an answer that was answer_init-ed; takes the captured streams out of the result. event: as
 * the "result" event of a stream. */
int exec_answer_make(struct answer *a, struct str command, struct exec_result *result, bool event,
		     struct err *err);
