# SPDX-License-Identifier: Apache-2.0
"""What the tests themselves are sure of."""

import os
import signal

import pytest

import harness


def test_a_directory_with_a_workspace_that_a_stop_left_is_not_handed_out_again():
    why = harness.runnable()
    if why:
        pytest.skip(why)
    server = harness.Server().start()
    server.create()
    # Nobody deletes it when the server stops, nor can be waited for so long.
    os.kill(server.wait_for_child("airlock-sweeper"), signal.SIGSTOP)
    server.stop()
    server.release()
    with harness.Server() as other:
        assert "lost_volumes" not in other.get("/healthz", key=None).json
