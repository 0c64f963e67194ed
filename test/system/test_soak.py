# SPDX-License-Identifier: Apache-2.0
"""The short form of test/soak: three minutes, each process killed and all restarted six times."""

import os
import subprocess
import sys

import pytest

import harness

SOAK = os.path.join(harness.ROOT, "test", "soak", "soak.py")


@pytest.mark.slow
def test_nothing_is_lost():
    ran = subprocess.run(
        [sys.executable, SOAK, "--seconds", "180", "--cycle", "30"],
        env=dict(os.environ, AIRLOCK_BUILD=harness.BUILD),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
    )
    print(ran.stdout)
    assert ran.returncode == 0
