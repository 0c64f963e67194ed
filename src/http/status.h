// SPDX-License-Identifier: Apache-2.0
/*
 * status: the names of HTTP statuses, as the status line has them and as texts show them (RFC 9110,
 * section 15; RFC 6585). Pure data, for any thread.
 */
#pragma once

/* "Status" for a status that nobody here answers with. */
const char *http_status_name(int status);
