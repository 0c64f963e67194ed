# SPDX-License-Identifier: Apache-2.0
import os
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.dirname(HERE))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("SANDBOX_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def waits(monkeypatch):
    """The seconds that the client wanted to wait, instead of waiting."""
    from airlock_sandbox import _http

    asked = []

    class Clock:
        """Of this module alone: other threads sleep as they like."""

        sleep = staticmethod(asked.append)

        def __getattr__(self, name):
            return getattr(time, name)

    monkeypatch.setattr(_http, "time", Clock())
    return asked
