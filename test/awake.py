# SPDX-License-Identifier: Apache-2.0
"""Time, without that in which the machine stood still.

A virtual machine may be stopped for seconds by what is beneath it, and then nobody in it kept anybody
waiting. A thread sleeps for short times all along; what it slept too long, nothing ran, and that does
not count. Upper bounds that are promised are measured with this, everything else with time.monotonic().
"""

import os
import threading
import time

TICK = 0.02
# Less is the scheduler's, and does count.
STALL = 0.2

_seen = (time.monotonic(), 0.0)  # when the thread ran last, what was lost until then


def _lost(now):
    last, lost = _seen
    late = now - last - TICK
    return lost + late if late > STALL else lost


def _watch():
    global _seen
    while True:
        time.sleep(TICK)
        now = time.monotonic()
        _seen = (now, _lost(now))


def _start():
    global _seen
    _seen = (time.monotonic(), _seen[1])
    threading.Thread(target=_watch, name="awake", daemon=True).start()


def seconds():
    """Only differences mean something."""
    now = time.monotonic()
    return now - _lost(now)


def stood_still():
    """The seconds that do not count: for bounds of what another process has measured. Only differences
    mean something here, too."""
    return _lost(time.monotonic())


_start()
os.register_at_fork(after_in_child=_start)
