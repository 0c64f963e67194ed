// SPDX-License-Identifier: Apache-2.0
/*
 * output: what one stream of a command printed, bounded.
 *
 * Of a stream that stays within max bytes everything is kept. Of a longer one the first three
 * quarters of max and the last quarter are kept. Byte i lies at place i while i < head_max, later
 * ones go round a ring of tail_max places behind it; the layout is the same in memory and in a
 * file, so that moving from one to the other at OUTPUT_MEMORY is one write.
 *
 *   places   0 ........ head_max ......... max
 *            [  head   ][  tail, a ring    ]
 *
 * The file is unnamed and in the server's own folder. When it cannot be made or written (no space,
 * no descriptors), what was kept until then stays and the rest counts as dropped: a command never
 * fails because its output could not be stored.
 */
#pragma once

#include <stdint.h>

#include "base/str.h"
#include "core/runtime.h"

#define OUTPUT_MEMORY (256u * 1024u)

/* dir is borrowed as long as bytes are added. */
struct runtime_output *output_new(size_t max, const char *dir);
void output_add(struct runtime_output *o, struct str bytes);
