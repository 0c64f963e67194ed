# SPDX-License-Identifier: Apache-2.0
"""Time, without that in which the machine stood still.

A virtual machine may be stopped for seconds by what is beneath it, or one of its processors may be, and
then nobody in it kept anybody waiting. On each processor a thread sleeps for short times all along; what
it slept too long, nothing ran there, and that does not count. Upper bounds that are promised are measured
with this, everything else with time.monotonic().
"""

import os
import threading
import time

TICK = 0.02
# Less is the scheduler's, and does count.
STALL = 0.2
THREADS_MAX = 8

_lock = threading.Lock()
_ran = {}  # by processor: when its thread ran last
_lost, _until = 0.0, 0.0  # what was lost, none of it after that


def _lost_by(now):
    """Where several stood still at once that is lost once."""
    late = [ran + TICK for ran in _ran.values() if now - ran - TICK > STALL]
    return _lost + now - max(min(late), _until) if late else _lost


def _watch(processor):
    global _lost, _until
    try:
        os.sched_setaffinity(0, {processor})
    except OSError:
        pass  # it is no longer ours; the thread goes on wherever it may
    while True:
        time.sleep(TICK)
        with _lock:
            now = time.monotonic()
            lost = _lost_by(now)
            if lost != _lost:
                _lost, _until = lost, now
            _ran[processor] = now


def _start():
    global _lock, _ran
    _lock = threading.Lock()
    ours = sorted(os.sched_getaffinity(0))[:THREADS_MAX]
    _ran = dict.fromkeys(ours, time.monotonic())
    for processor in ours:
        threading.Thread(target=_watch, args=(processor,), name="awake", daemon=True).start()


def seconds():
    """Only differences mean something."""
    with _lock:
        now = time.monotonic()
        return now - _lost_by(now)


_start()
os.register_at_fork(after_in_child=_start)
