# SPDX-License-Identifier: Apache-2.0
"""The Python of the README, as it is printed there, with every client that can do it; and the words of
errors in the documents, which are those of the code."""

import glob
import os
import re

import harness
from codehost import CodeHost, archive


def text_of(*path):
    with open(os.path.join(harness.ROOT, *path), encoding="utf-8") as file:
        return file.read()


def examples():
    return re.findall(r"^```python\n(.*?)^```$", text_of("README.md"), re.S | re.M)


def run(code, server, monkeypatch, capsys):
    monkeypatch.setenv("SANDBOX_API_URL", server.url)
    monkeypatch.setenv("SANDBOX_API_KEY", harness.KEYS["a"])
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out


def test_the_example_of_the_readme(server, sdk, monkeypatch, capsys):
    assert run(examples()[0], server, monkeypatch, capsys) == (
        "65536\n1000\nCapEff:\t0000000000000000\nno way out\n"
        "[TIMEOUT]: Execution exceeded 1s limit.\n[EXIT CODE]: -1\n"
    )


def test_the_import_of_the_readme(servers, ours, monkeypatch, capsys):
    host = CodeHost()
    host.paths["/pypa/sampleproject/archive/HEAD.tar.gz"] = archive(("README.md", b"hello\n"))
    server = servers.get({"SANDBOX_GITHUB_BASE": host.base})
    # The reader has imported it in the example before.
    code = "from airlock_sandbox import Sandbox\n" + examples()[1]
    assert run(code, server, monkeypatch, capsys) == "README.md\n"
    host.close()


# ---- Errors ----

# Of what this version does not have.
LATER = {"not_persistent", "upgrade_required", "persistent_limit", "preview_limit"}
# What the calls on files and imports say themselves; a guard in front says the rest.
SAY = ["src/core/files*.c", "src/core/import.c", "src/core/repository.c"]
GUARD = {"exec_limit", "upload_too_large"}


def errors():
    """{word: status}, by the code."""
    rows = re.findall(r'^\t\{ "(\w+)", (\d+)', text_of("src/api/error.c"), re.M)
    return dict(rows)


def documented(*path):
    """[(status, word)] that stand in one line."""
    return {
        (status, word)
        for line in text_of(*path).splitlines()
        for status in re.findall(r"\b[45]\d\d\b", line)
        for word in re.findall(r"`(\w+)`", line)
    }


def test_every_error_is_in_the_reference():
    found = documented("docs/api.md")
    missing = {(status, word) for word, status in errors().items() if word not in LATER} - found
    assert not missing


def test_every_error_of_files_and_imports_is_in_their_page():
    words = set(GUARD)
    for pattern in SAY:
        for path in glob.glob(os.path.join(harness.ROOT, pattern)):
            words |= set(re.findall(r'"(\w+)"', text_of(path))) & set(errors())
    assert len(words) > 25
    found = re.findall(r"^\| (\d{3}) (`[^|]*) \|", text_of("docs/files.md"), re.M)
    assert {(status, word) for status, cell in found for word in re.findall(r"`(\w+)`", cell)} == {
        (errors()[word], word) for word in words
    }
