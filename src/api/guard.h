// SPDX-License-Identifier: Apache-2.0
/*
 * guard: the ladder of checks that every request passes in one fixed order (contract, section 0.6).
 * Step 1, framing, is the http server's; step 10 is the handler.
 */
#pragma once

struct request;

/* Runs the steps from r->step on, then the handler. Answers when a step refuses. */
void guard_run(struct request *r);
