# SPDX-License-Identifier: Apache-2.0
"""Upper bounds of the product, on a machine that may hold back any one process for a while.

Who runs when is the kernel's to decide, and awake.py sees only what held back this process. So what
came too late is asked for again, and is a failure when it is late every time. What it does has to be
right each time: function asserts that itself.
"""

import awake

TRIES = 5


def in_time(seconds, function, took=None, before=None):
    """The result of function that came in less than so many seconds; took(result): those that the
    server says it took; before: called first each time, not measured, function gets its result."""
    late = []
    for _ in range(TRIES):
        arguments = [before()] if before else []
        began = awake.seconds()
        result = function(*arguments)
        late.append(took(result) if took else awake.seconds() - began)
        if late[-1] < seconds:
            return result
    raise AssertionError("each time it took %s s and more: %s" % (seconds, late))
