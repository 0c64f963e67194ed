// SPDX-License-Identifier: Apache-2.0
#include "core/refusal.h"

#include <errno.h>

int refusal_busy(struct err *err)
{
	return err_slug(err, EAGAIN, "busy", "The server is busy; try again shortly.");
}

int refusal_no_capacity(struct err *err)
{
	return err_slug(err, EAGAIN, "no_capacity",
			"All sandbox workspaces are in use; try again shortly.");
}

int refusal_stopping(struct err *err)
{
	return err_slug(err, ESHUTDOWN, "stopping", "The server is stopping; try again shortly.");
}

int refusal_no_session(struct err *err)
{
	return err_slug(err, ENOENT, "session_not_found", "Session not found or expired");
}
