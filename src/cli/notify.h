// SPDX-License-Identifier: Apache-2.0
/*
 * notify: tells systemd that the service is up (sd_notify(3)). The process that was started becomes
 * the launcher, so a child of it, without rights, asks /healthz until it answers and then sends
 * READY=1; the unit has NotifyAccess=all.
 */
#pragma once

/* Nothing without NOTIFY_SOCKET in the environment. */
void notify_start(const char *url);
