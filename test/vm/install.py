# SPDX-License-Identifier: Apache-2.0
"""docs/operate.md as a new operator would try it: runs at each boot of a guest that had nothing of
Airlock before, in the source folder, with the programs built and the base image in ./cache. The commands
are those of the page. Ends with exit status 1 when something is not as the page says.

What the page does with the network is done already: packages, the base image. The programs are not built
again (make -o build): the guest is too slow for it.
"""

import glob
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import time

PAGE = "docs/operate.md"
NOTES = "/job/notes.json"
COUNTS = "/job/out/counts"
CONF = "/etc/airlock/airlock.conf"
UNIT = "airlock.service"
HERE = (
    ("deploy/deps.sh build run", "deploy/deps.sh run"),
    ("make install", "make -o build install"),
    ("apt-get install caddy\n", ""),
    ("sandbox.example.net", "localhost"),
    ("grow 40G", "grow 2G"),
)
# What a system writes of itself.
OWN = (
    r"/(proc|sys|dev|run|tmp|job|work|root|srv|var/(log|tmp|cache|lib/(systemd|caddy))|"
    r"etc/((passwd|group|shadow|gshadow)-|subuid|subgid|caddy|systemd/system/.*caddy.*))(/|$)"
)

PRINTED = (
    "65536\n1000\nCapEff:\t0000000000000000\nno way out\n"
    "[TIMEOUT]: Execution exceeded 1s limit.\n[EXIT CODE]: -1\n"
)

checks = []


def check(what, good, more=""):
    checks.append((what, bool(good)))
    print("%s: %s%s" % ("ok" if good else "NOT OK", what, "" if good else "\n" + str(more)), flush=True)


def run(command, **more):
    done = subprocess.run(
        ["bash", "-euc", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )
    print("# %s\n%s" % (command.strip().replace("\n", "\n# "), done.stdout), end="", flush=True)
    return done


def must(command, **more):
    done = run(command, **more)
    check("`%s` works" % command.strip().split("\n")[-1], done.returncode == 0, done.returncode)
    return done.stdout


def page(heading, number=0, path=PAGE):
    """The commands of one section of a page, as they are written there."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    section = re.search(r"^#+ %s\n(.*?)(?=^#+ |\Z)" % re.escape(heading), text, re.S | re.M).group(1)
    commands = re.findall(r"^```sh\n(.*?)^```$", section, re.S | re.M)[number]
    for written, here in HERE:
        commands = commands.replace(written, here)
    return commands


# ---- What is on this system ----


def listing():
    found = set()
    for folder, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if not re.match(OWN, os.path.join(folder, name))]
        paths = [os.path.join(folder, name) for name in folders + files]
        found.update(path for path in paths if not re.match(OWN, path))
    return sorted(found) + sorted(user.pw_name for user in pwd.getpwall())


def left_over():
    """What a stopped server must not leave: processes, mounts, cgroups, loop devices."""
    users = [user.pw_uid for user in pwd.getpwall() if user.pw_name.startswith("airlock")]
    found = []
    for status in glob.glob("/proc/[0-9]*/status"):
        try:
            with open(status) as file:
                text = file.read()
            with open(os.path.dirname(status) + "/mountinfo") as file:
                mounts = file.read()
        except OSError:
            continue
        uid = int(re.search(r"^Uid:\s+(\d+)", text, re.M).group(1))
        name = re.search(r"^Name:\s+(.*)", text, re.M).group(1)
        if uid in users or uid >= 1899999999 or "airlock" in name:
            found.append("process " + name)
        found += ["mount " + line for line in mounts.splitlines() if "airlock" in line]
    found += ["loop " + path for path in glob.glob("/sys/block/loop*/loop/backing_file")]
    found += [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if "airlock" in folder]
    return found


def state():
    shown = subprocess.run(
        ["systemctl", "show", UNIT, "-p", "ActiveState,SubState,NRestarts,ExecMainStatus,MainPID"],
        stdout=subprocess.PIPE, text=True,
    ).stdout
    return dict(line.split("=", 1) for line in shown.split())


def wait_for(what, condition, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.5)
    check(what, condition(), state())


def journal():
    return subprocess.run(
        ["journalctl", "-b", "-u", UNIT, "-o", "cat"], stdout=subprocess.PIPE, text=True
    ).stdout


def key():
    with open(CONF) as file:
        return re.search(r"^SANDBOX_API_KEYS=acme:(.*)$", file.read(), re.M).group(1)


def log_in():
    os.environ.update(SANDBOX_API_URL="http://127.0.0.1:8000", SANDBOX_API_KEY=key())


# ---- The parts of the page ----


def install():
    must(page("Install"))
    enabled = subprocess.run(["systemctl", "is-enabled", UNIT], stdout=subprocess.PIPE, text=True).stdout
    check("nothing runs and nothing is enabled yet", enabled.strip() == "disabled", enabled)
    run("systemctl start airlock")
    check("without a key the start is refused and not tried again",
          state()["ActiveState"] == "failed" and state()["ExecMainStatus"] == "78"
          and state()["NRestarts"] == "0", state())
    check("one sentence says why", "set SANDBOX_API_KEYS" in journal(), journal())
    with open(CONF, "a") as file:
        file.write("SANDBOX_AUDIT=sqlite\n")
    must(page("Install", 1))
    check("it serves", state()["ActiveState"] == "active", journal())
    must("systemd-analyze security --no-pager airlock.service | tail -1")


def example():
    log_in()
    with open("README.md", encoding="utf-8") as file:
        readme = file.read()
    code = re.search(r"^```python\n(.*?)^```$", readme, re.S | re.M).group(1)
    clients = sorted(glob.glob("cache/wheels/airlock_sandbox-*.whl"), reverse=True) or ["sdk/python"]
    with open("/tmp/example.py", "w") as file:
        file.write(code)
    printed = must("PYTHONPATH=%s /usr/bin/python3 /tmp/example.py" % clients[0])
    check("the example of the README prints what it should", printed == PRINTED, printed)
    with_curl = re.findall(r"^```sh\n(.*?)^```$", readme, re.S | re.M)[-1]
    check("and with curl", "hello" in must(with_curl))
    must(page("First steps"))


def open_session():
    session = must("airlock sandbox create").strip()
    must("echo kept | airlock files write %s kept.txt" % session)
    return session


def upgrade(session):
    running = subprocess.Popen(
        ["airlock", "sandbox", "exec", "--timeout", "60", session, "--", "sh", "-c", "echo begun; sleep 55"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    check("a command runs", running.stdout.readline() == "begun\n")
    old = must("airlock --version")
    for name in os.listdir("next"):
        shutil.copy2(os.path.join("next", name), "build")
    must(page("Upgrade"))
    check("the new version is there", must("airlock --version") != old)
    said = running.communicate()[0]
    check("who waits for a command is told that it failed", running.returncode, said)
    print("it was told: %r, exit status %d" % (said, running.returncode))
    newest = json.loads(must("airlock audit --json | head -1"))
    check(
        "and so is the audit log",
        newest["command"].startswith("sh -c") and newest["exit_code"] is None
        and newest["detail"] == "failed: the server was stopped while it ran",
        newest,
    )
    look_into(session, "after the upgrade")


def recover(session):
    """A damaged database, a lost volume, both back."""
    state_dir = "/var/lib/airlock"
    must(page("Backup"))
    must("systemctl stop airlock")
    os.rename(state_dir + "/volumes.img", "/srv/volumes.img")
    with open(state_dir + "/state/airlock.db", "r+b") as file:
        file.write(b"\xff" * 4096)
    run("systemctl start airlock")
    check("a damaged database refuses the start", state()["ExecMainStatus"] == "78", state())
    check("and is told", "is damaged" in journal(), journal())
    must(page("Restore"))
    check("sessions whose volume is gone are dropped", "session_dropped" in journal(), journal())
    must("systemctl stop airlock")
    os.rename("/srv/volumes.img", state_dir + "/volumes.img")
    must(page("Restore"))
    look_into(session, "when database and volume are back")


def move(session):
    must(page("Moving it", path="docs/volumes.md"))
    look_into(session, "in another place")
    must("systemctl stop airlock; rm -r /var/lib/airlock; mv /srv/airlock /var/lib/airlock")
    must("sed -i /SANDBOX_STATE_DIR=.srv/d /etc/airlock/airlock.conf; rm -r /etc/systemd/system/airlock.service.d")
    must("systemctl daemon-reload; systemctl start airlock")


def encrypt():
    must(page("TLS"))
    authority = "/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt"
    asked = ["curl", "-sS", "--cacert", authority, "https://localhost/healthz"]
    wait_for("it answers by TLS", lambda: "healthy" in subprocess.run(
        asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout, 60)


def look_into(session, when):
    read = must("airlock files read %s kept.txt" % session)
    check("the session and its file are there " + when, read == "kept\n", read)
    ran = must("airlock sandbox exec %s -- cat kept.txt" % session)
    check("and commands run in it", ran == "kept\n", ran)


def first_boot():
    notes = {"before": listing()}
    shutil.copytree("cache", "/var/cache/airlock", dirs_exist_ok=True)
    install()
    example()
    notes["session"] = open_session()
    encrypt()
    recover(notes["session"])
    move(notes["session"])
    must(page("Keys"))
    must(page("Making it larger", path="docs/volumes.md"))
    check("it is larger", "2.0 GB" in must("airlock volume show"))
    upgrade(notes["session"])
    notes["checks"] = checks
    with open(NOTES, "w") as file:
        json.dump(notes, file)
    subprocess.run(["systemctl", "reboot"], check=True)
    time.sleep(600)


def second_boot():
    with open(NOTES) as file:
        notes = json.load(file)
    checks.extend(notes["checks"])
    wait_for("after a reboot the server is up by itself", lambda: state()["ActiveState"] == "active")
    check("at the first try", state()["NRestarts"] == "0", journal())
    log_in()
    look_into(notes["session"], "after a reboot")
    uninstall(notes)


def uninstall(notes):
    must(page("Uninstall"))
    check("nothing of it runs or is mounted", not left_over(), left_over())
    stays = r"/(etc|var/lib)/airlock(/|$)|airlock(-gw)?$"
    left = [name for name in set(listing()) - set(notes["before"]) if not re.match(stays, name)]
    check("configuration, sessions and users are all that is left", not left, left)
    must(page("Install"))
    must("systemctl enable --now airlock")
    look_into(notes["session"], "after an uninstall and an install")
    must(page("Uninstall", 1))
    check("nothing of it runs or is mounted", not left_over(), left_over())
    left = sorted(set(listing()) ^ set(notes["before"]))
    check("all is as it was before", not left, left)
    units = must("systemctl list-units --all --plain --no-legend --type=service")
    check("not even a failed unit", "airlock" not in units, units)


def main():
    try:
        second_boot() if os.path.exists(NOTES) else first_boot()
    except Exception as error:  # whatever it is, the counts say it
        check("%s: %s" % (type(error).__name__, error), False)
        run("journalctl -b -u airlock.service --no-pager | tail -40")
    failed = sum(not good for _, good in checks)
    with open(COUNTS, "w") as file:
        file.write("%d passed, %d failed\n" % (len(checks) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
