# SPDX-License-Identifier: Apache-2.0
"""The clients that the same tests run with: two published ones, unmodified, and ours.

The published ones come from wheels in the cache folder (test/requirements.txt) and are imported side
by side: each under its own copy of the package's modules.
"""

import glob
import importlib
import os
import shutil
import sys
import tempfile
import threading
import zipfile

from harness import CACHE, KEYS, ROOT

PACKAGE = "airlock_sandbox"
PUBLISHED = ("0.1.0", "0.9.0")
_modules = {}
_unpacked = None
_lock = threading.RLock()


class MissingWheel(Exception):
    pass


class Client:
    """One version of the package: its public names, and sandboxes for a server."""

    def __init__(self, name, folder):
        self.name = name
        self.modules = _import_from(folder)
        package = self.modules[PACKAGE]
        assert os.path.dirname(os.path.dirname(package.__file__)) == folder
        self.Sandbox = package.Sandbox
        self.CommandResult = package.CommandResult
        self.errors = self.modules[PACKAGE + ".errors"]
        self.tools = self.modules[PACKAGE + ".tools"]
        self.version = package.__version__
        self.is_ours = name == "ours"

    def activate(self):
        """Makes this version the one that its own late imports find."""
        with _lock:
            for name in [name for name in sys.modules if _is_package(name)]:
                del sys.modules[name]
            sys.modules.update(self.modules)
        return self

    def sandbox(self, server, key=KEYS["a"], **options):
        with _lock:
            self.activate()
            return self.Sandbox(key, server.url, **options)

    def slept(self, monkeypatch, really=False):
        """Makes the client's waits take no time, unless really; returns the list of seconds it asked
        for."""
        asked = []

        class Clock:
            def __getattr__(self, name):
                return getattr(_time, name)

            @staticmethod
            def sleep(seconds):
                asked.append(seconds)
                if really:
                    _time.sleep(seconds)

        import time as _time

        replaced = 0
        for module in self.modules.values():
            if getattr(module, "time", None) is _time:
                monkeypatch.setattr(module, "time", Clock())
                replaced += 1
        assert replaced, "this client has no module that sleeps"
        return asked


def _import_from(folder):
    """A fresh copy of the package, without disturbing one that is imported already."""
    ours = {name: module for name, module in sys.modules.items() if _is_package(name)}
    for name in ours:
        del sys.modules[name]
    sys.path.insert(0, folder)
    try:
        importlib.invalidate_caches()
        for part in ("", ".errors", ".sandbox", ".tools"):
            importlib.import_module(PACKAGE + part)
        return {name: module for name, module in sys.modules.items() if _is_package(name)}
    finally:
        sys.path.remove(folder)
        for name in [name for name in sys.modules if _is_package(name)]:
            del sys.modules[name]
        sys.modules.update(ours)


def _is_package(name):
    return name == PACKAGE or name.startswith(PACKAGE + ".")


def _published_folder(version):
    global _unpacked
    wheels = glob.glob(os.path.join(CACHE, "wheels", "%s-%s-*.whl" % (PACKAGE, version)))
    if not wheels:
        raise MissingWheel("the wheel of the published client %s is not there (make deps)" % version)
    if _unpacked is None:
        _unpacked = tempfile.mkdtemp(prefix="airlock-wheels-")
    folder = os.path.join(_unpacked, version)
    if not os.path.isdir(folder):
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(folder)
    return folder


def client(name):
    with _lock:
        if name not in _modules:
            if name == "ours":
                folder = os.path.join(ROOT, "sdk", "python")
            else:
                folder = _published_folder(name)
            _modules[name] = Client(name, folder)
        return _modules[name].activate()


def remove_unpacked():
    if _unpacked is not None:
        shutil.rmtree(_unpacked, ignore_errors=True)
