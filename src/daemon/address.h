// SPDX-License-Identifier: Apache-2.0
/*
 * address: checks of configuration values that name hosts: addresses, ranges, URLs, origins,
 * domains. Each is a variable_check_fn: 0, or a negative errno with a sentence.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

int address_check_listen(const char *value, struct err *err);
int address_check_tcp(const char *value, struct err *err); /* host:port only */
int address_check_list(const char *value, struct err *err);
int address_check_ranges(const char *value, struct err *err);
int address_check_url(const char *value, struct err *err);	   /* http or https */
int address_check_import_base(const char *value, struct err *err); /* https, or http to loopback */
int address_check_origins(const char *value, struct err *err);
int address_check_domain(const char *value, struct err *err); /* optional :port */

/* Host of an absolute URL, without port and brackets; data == NULL when it is none. */
struct str address_host_of_url(const char *url);
/* Host of a domain with an optional port. */
struct str address_without_port(const char *text);
