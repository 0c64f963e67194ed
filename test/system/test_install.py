# SPDX-License-Identifier: Apache-2.0
"""What `make install` puts where, and that a server runs from there."""

import os
import re
import shutil
import subprocess

import pytest

import harness


@pytest.fixture(scope="module")
def installed():
    why = harness.runnable()
    if why:
        pytest.skip(why)
    if not os.path.exists(os.path.join(harness.BUILD, "build.ninja")):
        pytest.skip("the programs were not built in place")
    # Where the daemons' user can get at it.
    root = os.path.join(harness.state_dirs().root, "install")
    ran = subprocess.run(
        ["make", "-C", harness.ROOT, "install", "BUILD=" + harness.BUILD, "DESTDIR=%s" % root],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
    return root


def find(root, name):
    found = [os.path.join(folder, name) for folder, _, names in os.walk(root) if name in names]
    assert len(found) == 1, found
    return found[0]


def test_every_part_is_there(installed):
    for name in ("airlock", "airlockd", "airlock-launcher", "airlock-init"):
        assert os.stat(find(installed, name)).st_mode & 0o7777 == 0o755
    unit = find(installed, "airlock.service")
    with open(unit) as file:
        text = file.read()
    assert re.search(r"^ExecStart=/\S+/bin/airlock serve --config /etc/airlock/airlock.conf$", text, re.M)
    assert "@bindir@" not in text
    assert "Delegate=yes" in text and "Type=notify" in text
    configuration = find(installed, "airlock.conf")
    assert os.stat(configuration).st_mode & 0o777 == 0o600
    find(installed, "airlock.1")


def test_the_recipe_of_the_base_image_is_there_and_the_same(installed):
    keys = {
        subprocess.run([os.path.join(folder, "key.sh")], stdout=subprocess.PIPE, check=True).stdout
        for folder in (os.path.join(harness.ROOT, "image"), os.path.dirname(find(installed, "key.sh")))
    }
    assert len(keys) == 1
    said = subprocess.run(
        [find(installed, "airlock"), "image", "build"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={"PATH": "/nonexistent"},
    ).stdout
    assert "recipe" not in said, said


def test_an_operators_configuration_is_kept(installed):
    path = find(installed, "airlock.conf")
    with open(path, "a") as file:
        file.write("SANDBOX_POOL=3\n")
    subprocess.run(
        ["make", "-C", harness.ROOT, "install", "BUILD=" + harness.BUILD, "DESTDIR=%s" % installed],
        stdout=subprocess.DEVNULL, check=True,
    )
    with open(path) as file:
        assert file.read().endswith("SANDBOX_POOL=3\n")


def test_the_configuration_as_delivered_checks(installed):
    status, stderr = harness.serve_once(
        {}, ("serve", "--check", "--config", find(installed, "airlock.conf"))
    )
    assert status == 0, stderr


def test_nothing_but_the_configuration_survives_an_uninstall(installed, tmp_path):
    root = str(tmp_path / "copy")
    shutil.copytree(installed, root, symlinks=True)

    def uninstall(**more):
        words = ["%s=%s" % pair for pair in dict(DESTDIR=root, **more).items()]
        subprocess.run(["make", "-C", harness.ROOT, "uninstall", *words],
                       stdout=subprocess.DEVNULL, check=True)
        return [name for _, _, names in os.walk(root) for name in names]

    assert uninstall() == ["airlock.conf"]
    assert uninstall(PURGE="1") == []


def test_the_unit_is_one_that_systemd_understands(installed):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    unit = find(installed, "airlock.service")
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    # The program is not at its place yet; nothing else may be said about the unit.
    said = [
        line for line in ran.stdout.splitlines()
        if "airlock.service" in line and "is not executable" not in line
    ]
    assert not said, ran.stdout


def test_a_server_runs_from_the_installed_tree(installed, ours):
    with harness.Server(program=find(installed, "airlock")) as server:
        with ours.sandbox(server) as sandbox:
            assert sandbox.run("echo installed").stdout == "installed\n"


def settable():
    """The variables that this version acts on, from the table that the server checks them with."""
    with open(os.path.join(harness.ROOT, "src", "daemon", "variable.c")) as file:
        table = re.search(r"const struct variable variables\[\] = \{(.*?)/\* Not the operator's", file.read(), re.S)
    entries = re.findall(r'\{ "(SANDBOX_\w+)"(.*?) \}', table.group(1), re.S)
    assert len(entries) > 50
    return {name for name, rest in entries if "later" not in rest and "VARIABLE_CLIENT" not in rest}


def test_the_configuration_names_every_variable_of_the_server(installed):
    with open(find(installed, "airlock.conf")) as file:
        named = re.findall(r"^#(SANDBOX_\w+)=", file.read(), re.M)
    assert sorted(named) == sorted(settable())


def test_each_line_of_the_configuration_is_one_that_the_server_takes(installed, tmp_path):
    with open(os.path.join(harness.ROOT, "deploy", "airlock.conf")) as file:
        lines = re.findall(r"^#(SANDBOX_\w+=.*)$", file.read(), re.M)
    # Its file is not there.
    lines = [line for line in lines if not re.match(r"\w+_FILE=", line)]
    taken = tmp_path / "airlock.conf"
    for line in lines:
        taken.write_text(line + "\n")
        status, stderr = harness.serve_once({}, ("serve", "--check", "--config", str(taken)))
        assert status == 0 and line.split("=")[0] not in stderr, (line, stderr)
