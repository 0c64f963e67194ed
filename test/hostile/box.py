# SPDX-License-Identifier: Apache-2.0
"""Boxes for the probes: sandboxes of a release build, and of a build with layers switched off."""

import json
import os

import pytest

import harness

with open(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside.py"), encoding="utf-8"
) as _file:
    INSIDE = _file.read()


class Box:
    """A session, and what a probe does with it. Searches everything that comes back for canaries."""

    def __init__(self, server, key=harness.KEYS["a"], canaries=(), **session):
        self.server = server
        self.key = key
        self.canaries = canaries
        self.session = server.create(key, **session)
        self.path = "/v1/sessions/" + self.session

    def _look(self, text):
        for canary in self.canaries:
            assert canary not in text, "a canary came out"
        return text

    def sh(self, command, timeout=45, **more):
        result = self.server.exec(self.session, command, timeout, key=self.key, **more)
        self._look(result["stdout"] + result["stderr"])
        return result

    def py(self, code, timeout=45):
        """Runs Python with everything of inside.py at hand; returns what it shows."""
        # By stdin: with some layers off the tenant cannot use its own workspace.
        result = self.sh("python3 -", timeout, stdin=INSIDE + "\n\n" + code)
        try:
            return json.loads(result["stdout"])
        except ValueError:
            raise AssertionError("the probe did not finish: %r" % result) from None

    def read(self, path):
        answer = self.server.request(
            "GET", "%s/read?path=%s" % (self.path, path), key=self.key
        )
        self._look(answer.body.decode("utf-8", "replace"))
        return answer

    def write(self, path, content):
        return self.server.post(
            self.path + "/write", {"path": path, "content": content}, key=self.key
        )

    def posture(self):
        return self.server.get(self.path, key=self.key).json["posture"]

    def close(self):
        self.server.delete(self.path, key=self.key)


class KnobServers:
    """Servers of the build with the switches, by the layers that are off."""

    def __init__(self):
        self._servers = {}

    def get(self, off, env=None):
        why = harness.runnable(harness.KNOBS_BUILD)
        if why:
            (pytest.fail if harness.CI and os.geteuid() == 0 else pytest.skip)(why)
        name = (off, json.dumps(env, sort_keys=True))
        if name not in self._servers:
            # One at a time: each holds a volume.
            self.stop_all()
            self._servers[name] = harness.Server(env, build=harness.KNOBS_BUILD, knobs=off).start()
        return self._servers[name]

    def stop_all(self):
        for server in self._servers.values():
            server.stop(clean=False)
            server.release()
        self._servers = {}
