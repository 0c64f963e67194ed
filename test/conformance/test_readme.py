# SPDX-License-Identifier: Apache-2.0
"""The first Python of the README, as it is printed there, with every client."""

import os
import re

import harness


def test_the_example_of_the_readme(server, sdk, monkeypatch, capsys):
    with open(os.path.join(harness.ROOT, "README.md"), encoding="utf-8") as file:
        code = re.search(r"^```python\n(.*?)^```$", file.read(), re.S | re.M).group(1)
    monkeypatch.setenv("SANDBOX_API_URL", server.url)
    monkeypatch.setenv("SANDBOX_API_KEY", harness.KEYS["a"])
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == (
        "65536\n1000\nCapEff:\t0000000000000000\nno way out\n"
        "[TIMEOUT]: Execution exceeded 1s limit.\n[EXIT CODE]: -1\n"
    )
