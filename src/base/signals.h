// SPDX-License-Identifier: Apache-2.0
/* signals: what a process inherits of them. */
#pragma once

/* Gives every signal that is ignored its default action again: being ignored lasts over execve(2)
 * (signal(7)). Also the two that the C library keeps to itself, which sigaction(2) refuses. */
void signals_heed(void);
