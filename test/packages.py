# SPDX-License-Identifier: Apache-2.0
"""What people fetch from: a package index, a repository and a registry, served over TLS by Caddy in the
stand-in internet (internet.py), with certificates of its CA."""

import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import zipfile

import harness

INDEX = "93.184.216.50"
# In two pieces each, so that nothing takes this file for one that downloads.
PYPI, FILES = "pypi" ".org", "files.pythonhosted" ".org"
NAMES = (PYPI, FILES, "registry.npmjs.org", "github.com")


def missing():
    return None if shutil.which("caddy") else "caddy is not installed"


def wheel(name, version, code):
    """(file name, bytes) of a wheel with one module."""
    base = "%s-%s" % (name, version)
    files = {
        name + ".py": code,
        base + ".dist-info/METADATA": "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version),
        base + ".dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = base + ".dist-info/RECORD"
    files[record] = "".join("%s,,\n" % path for path in [*files, record])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return base + "-py3-none-any.whl", out.getvalue()


class Packages:
    """Files below a folder of the internet's, and the Caddy that serves them."""

    def __init__(self, net):
        self.net = net
        self.root = os.path.join(net.folder, "www")

    def __enter__(self):
        for name in NAMES:
            os.makedirs(os.path.join(self.root, name))
        self.net.add_names(*((name, INDEX) for name in NAMES))
        certificate, key = self.net.certificate(list(NAMES))
        config = os.path.join(self.net.folder, "Caddyfile")
        with open(config, "w", encoding="ascii") as file:
            file.write(
                "{\n admin off\n auto_https off\n}\n"
                "https://:443 {\n bind %s\n tls %s %s\n root * %s/{http.request.host}\n"
                " file_server {\n  index index.html index.json\n }\n}\n"
                % (INDEX, certificate, key, self.root)
            )
        with self.net.inside_rest():
            self._caddy = subprocess.Popen(
                ["caddy", "run", "--adapter", "caddyfile", "--config", config],
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.net.folder},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            harness.wait_until(self._answers, "caddy answers")
        return self

    @staticmethod
    def _answers():
        try:
            socket.create_connection((INDEX, 443), 1).close()
            return True
        except OSError:
            return False

    def __exit__(self, *exc_info):
        self._caddy.kill()
        self._caddy.wait()

    def put(self, path, data):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return full

    def add_wheel(self, file_name, data):
        """PEP 503; the files are at another host, as they are in the world."""
        project = file_name.split("-")[0].lower().replace("_", "-")
        digest = hashlib.sha256(data).hexdigest()
        self.put("%s/packages/%s" % (FILES, file_name), data)
        self.put(
            "%s/simple/%s/index.html" % (PYPI, project),
            '<!DOCTYPE html><title>%s</title><a href="https://%s/packages/%s#sha256=%s">%s</a>'
            % (project, FILES, file_name, digest, file_name),
        )

    def add_repository(self, path, files):
        """A bare repository, as the "dumb" protocol of HTTP wants it."""
        env = {
            "PATH": "/usr/bin:/bin", "HOME": self.net.folder, "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.test",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.test",
        }

        def git(*words, cwd):
            subprocess.run(["git", *words], cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)

        tree = os.path.join(self.net.folder, "tree")
        os.mkdir(tree)
        git("init", "-q", "-b", "main", cwd=tree)
        for name, content in files.items():
            with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
                file.write(content)
        git("add", ".", cwd=tree)
        git("commit", "-qm", "first", cwd=tree)
        bare = os.path.join(self.root, path)
        git("clone", "-q", "--bare", tree, bare, cwd=self.net.folder)
        git("update-server-info", cwd=bare)
        shutil.rmtree(tree)

    def add_npm(self, name, version, code):
        """One package of the registry: its document and its archive."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            for path, text in (
                ("package/package.json", json.dumps({"name": name, "version": version})),
                ("package/index.js", code),
            ):
                entry = tarfile.TarInfo(path)
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        data = out.getvalue()
        host = "registry.npmjs.org"
        path = "%s/-/%s-%s.tgz" % (name, name, version)
        self.put("%s/%s" % (host, path), data)
        document = {
            "name": name,
            "dist-tags": {"latest": version},
            "versions": {
                version: {
                    "name": name,
                    "version": version,
                    "dist": {
                        "tarball": "https://%s/%s" % (host, path),
                        "shasum": hashlib.sha1(data).hexdigest(),
                    },
                }
            },
        }
        self.put("%s/%s/index.json" % (host, name), json.dumps(document))


# What makes pip inside trust the stand-in's CA, which no image knows: in front of the real one.
PIP = "#!/bin/sh\nexec /usr/bin/pip --cert /workspace/ca.pem \"$@\"\n"


def teach_pip(sandbox, ca):
    """sandbox: one of a client's."""
    with open(ca, encoding="ascii") as file:
        sandbox.files.write("ca.pem", file.read())
    sandbox.files.write(".local/bin/pip", PIP)
    sandbox.run("chmod 755 .local/bin/pip").check()
