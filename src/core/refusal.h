// SPDX-License-Identifier: Apache-2.0
/*
 * refusal: what calls of several kinds are refused with, in the words of the contract. Each fills
 * *err and returns its negative errno.
 */
#pragma once

#include "base/err.h"

int refusal_busy(struct err *err);	  /* 503: something that it needs may work again soon */
int refusal_no_capacity(struct err *err); /* 503: another session has to end first */
int refusal_stopping(struct err *err);	  /* 503 */
int refusal_no_session(struct err *err);  /* 404 */
