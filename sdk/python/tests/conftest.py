# SPDX-License-Identifier: Apache-2.0
import os
import sys

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
    monkeypatch.setattr(_http.time, "sleep", asked.append)
    return asked
