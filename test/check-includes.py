# SPDX-License-Identifier: Apache-2.0
"""Holds the direction of includes: a module sees what lies below it and nothing else.

    check-includes.py [SOURCE ROOT]

The table is the architecture; a line here is a decision.
"""

import os
import re
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.join(ROOT, "src")

# module: the modules that it may include
BELOW = {
    "base": set(),
    "ipc": {"base"},
    "sandbox": {"base"},
    "egress": {"base"},
    "loop": {"base", "ipc"},
    "http": {"base", "loop"},
    "store": {"base"},
    "core": {"base", "ipc", "sandbox", "egress", "loop", "store"},
    "api": {"base", "ipc", "egress", "loop", "http", "core"},
    "worker": {"base", "ipc", "sandbox"},
    "init": {"base", "ipc", "sandbox", "worker"},
    "launcher": {"base", "ipc", "sandbox"},
    "gateway": {"base", "ipc", "sandbox", "egress", "loop", "http"},
    "daemon": {"base", "ipc", "sandbox", "egress", "loop", "http", "store", "core", "api"},
    # launcher: volume.h alone, for `airlock volume`; store: copy.h alone
    "cli": {"base", "ipc", "sandbox", "loop", "daemon", "core", "launcher", "store"},
}

# header of somebody else: the only places that may include it
OUTSIDE = {
    "sqlite3.h": ("store/sqlite/",),
    "seccomp.h": ("sandbox/compile-filter.c",),
    "jansson.h": ("api/", "daemon/", "cli/", "gateway/"),
    "ares.h": ("gateway/",),
    "llhttp.h": ("http/",),
    "curl/curl.h": ("cli/", "gateway/hop.c", "gateway/transfer.c"),
    "openssl/ssl.h": ("gateway/transfer.c",),
    "archive.h": ("worker/unarchive.c",),
    "archive_entry.h": ("worker/unarchive.c",),
    "zlib.h": ("worker/zip.c",),
    "uv.h": ("loop/", "http/", "store/", "core/", "api/", "gateway/", "daemon/", "cli/"),
}
HEAP = re.compile(r"\b(malloc|calloc|realloc|strdup|asprintf|mem_alloc|xmalloc)\s*\(")
NO_HEAP = ("launcher/", "init/", "worker/")


def sources():
    for folder, _, names in os.walk(SOURCE):
        for name in names:
            if name.endswith((".c", ".h", ".in")):
                full = os.path.join(folder, name)
                yield os.path.relpath(full, SOURCE), full


def problems_in(relative, text):
    module = relative.split("/")[0]
    is_test = os.path.basename(relative).startswith(("test-", "fuzz-", "test_", "fuzz_"))
    if module not in BELOW:
        yield "a module that the table does not know"
        return
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if found:
            kind, header = found.groups()
            if kind == '"':
                target = header.split("/")[0]
                if "/" not in header and header not in ("llhttp.h",):
                    if not os.path.exists(os.path.join(SOURCE, module, header)):
                        yield "%d: %s is not written from src/" % (number, header)
                elif target in BELOW and target != module and target not in BELOW[module]:
                    yield "%d: %s must not include %s" % (number, module, header)
            where = OUTSIDE.get(header)
            if where and not relative.startswith(where) and not is_test:
                yield "%d: only %s may include %s" % (number, ", ".join(where), header)
        if relative.startswith(NO_HEAP) and not is_test and HEAP.search(line.split("//")[0]):
            if not line.strip().startswith(("*", "/*")):
                yield "%d: no heap here: %s" % (number, line.strip())


def main():
    found = 0
    for relative, full in sorted(sources()):
        with open(full, encoding="utf-8") as file:
            text = file.read()
        for problem in problems_in(relative, text):
            print("src/%s:%s" % (relative, problem))
            found += 1
        if relative.endswith(".h") and "#pragma once" not in text:
            print("src/%s: no #pragma once" % relative)
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
