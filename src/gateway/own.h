// SPDX-License-Identifier: Apache-2.0
/*
 * own: the addresses of this host on all of its interfaces, kept up to date by rtnetlink(7). They
 * are refused like private ones: what listens on this machine is not for tenants.
 */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "base/inet.h"

struct own;

int own_open(uv_loop_t *loop, struct own **ret, struct err *err);
void own_close(struct own *o);
const struct inet_addr *own_addresses(const struct own *o, size_t *ret_n);
