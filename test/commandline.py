# SPDX-License-Identifier: Apache-2.0
"""The command line as a client of a server, with the key of tenant a. Without a server there is none at
its address."""

import os
import subprocess

import harness

AIRLOCK = os.path.join(harness.BUILD, "airlock")


def airlock(server, *words):
    url = server.url if server else "http://127.0.0.1:1"
    return subprocess.run(
        [AIRLOCK, *words],
        env=harness.environment(SANDBOX_API_URL=url, SANDBOX_API_KEY=harness.KEYS["a"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=90,
        text=True,
    )


def done(server, *words):
    result = airlock(server, *words)
    assert result.returncode == 0 and result.stderr == "", result
    return result.stdout
