// SPDX-License-Identifier: Apache-2.0
/* host: which layers this machine can enforce, as posture bits, tried and not guessed. */
#pragma once

#include <stdint.h>

#include "launcher/launcher.h"

uint32_t host_layers(struct launcher *l);
