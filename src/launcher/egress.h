// SPDX-License-Identifier: Apache-2.0
/* egress: what the gateway needs before it starts: its user, its program, its log directory. */
#pragma once

#include "launcher/launcher.h"

/* Does nothing where the server has no egress. */
int egress_prepare(struct launcher *l, struct err *err);
