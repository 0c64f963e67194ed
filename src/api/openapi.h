// SPDX-License-Identifier: Apache-2.0
/*
 * openapi: the description of the interface (OpenAPI 3.1.0), made from the route table, so that it
 * cannot say anything else than what is served.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

void openapi_write(struct buf *out);
