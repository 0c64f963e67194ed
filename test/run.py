# SPDX-License-Identifier: Apache-2.0
"""Everything that CI checks, and one line of counts at the end.

    run.py [--build DIR] [--only SUITE,...]     suites in order: see SUITES

A suite is counted by its single tests. What cannot run on this machine is a counted skip with its
reason; with CI=true a published wheel that is missing is a failure. Exit status 1 when anything failed.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = sys.executable
ASAN_BUILD = os.path.join(ROOT, "build-asan")
KNOBS_BUILD = os.path.join(ROOT, "build-knobs")
PROGRAMS = ("airlock", "airlockd", "airlock-launcher", "airlock-init", "airlock-gateway")


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.reasons = []

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def one(self, good):
        if good:
            self.passed += 1
        else:
            self.failed += 1
        return good

    def skip(self, why, number=1):
        self.skipped += number
        self.reasons.append("%d skipped: %s" % (number, why))

    def __str__(self):
        return "%d passed, %d failed, %d skipped" % (self.passed, self.failed, self.skipped)


def run(command, env=None, quiet=False, **more):
    """Exit status; with quiet the output is shown only when it failed."""
    full = dict(os.environ, **(env or {}))
    if not quiet:
        return subprocess.run(command, env=full, cwd=ROOT, **more).returncode
    ran = subprocess.run(
        command, env=full, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more
    )
    if ran.returncode:
        sys.stdout.write(ran.stdout.decode("utf-8", "replace")[-8000:])
    return ran.returncode


# ---- Builds ----


def jobs():
    return str(os.cpu_count() or 1)


def built(build, *options):
    """Sets up when needed, and builds."""
    if not os.path.exists(os.path.join(build, "build.ninja")):
        if run(["meson", "setup", build, *options], quiet=True):
            return False
    return run(["ninja", "-C", build, "-j", jobs()], quiet=True) == 0


# ---- Checks of the source ----


def suite_source(args):
    count = Count()
    count.one(run([PYTHON, "test/check-includes.py"]) == 0)
    count.one(run([PYTHON, "test/check-words.py"]) == 0)
    sources = [
        name
        for pattern in ("src/**/*.c", "src/**/*.h", "test/**/*.c")
        for name in glob.glob(os.path.join(ROOT, pattern), recursive=True)
    ]
    if shutil.which("clang-format"):
        count.one(run(["clang-format", "--dry-run", "-Werror", *sources], quiet=True) == 0)
    else:
        count.skip("clang-format is not installed")
    if shutil.which("cppcheck"):
        count.one(run(CPPCHECK, quiet=True) == 0)
    else:
        count.skip("cppcheck is not installed")
    return count


CPPCHECK = [
    "cppcheck", "--quiet", "--error-exitcode=1", "--enable=warning,portability", "--inline-suppr",
    "--std=c11", "--language=c", "-I", "src", "-D__linux__", "-D_GNU_SOURCE", "-j", jobs(),
    "--suppress=missingIncludeSystem", "--suppress=unknownMacro", "--suppress=syntaxError",
    "--suppressions-list=test/cppcheck.txt", "src",
]


# ---- Meson: units, and fuzz corpora replayed as tests ----

PASSED = re.compile(r"\[  PASSED  \] (\d+) test")
FAILED = re.compile(r"\[  FAILED  \] (\d+) test")
SKIPPED = re.compile(r"\[  SKIPPED \] (\d+) test")


def count_of_meson(build, options=(), env=None):
    count = Count()
    status = run(
        ["meson", "test", "-C", build, "--no-rebuild", "--num-processes", jobs(), "--print-errorlogs",
         *options],
        env=env,
        quiet=True,
    )
    results = os.path.join(build, "meson-logs", "testlog.json")
    if not os.path.exists(results):
        count.failed += 1
        return count
    with open(results, encoding="utf-8") as file:
        for line in file:
            test = json.loads(line)
            text = (test.get("stdout") or "") + (test.get("stderr") or "")
            passed = sum(int(n) for n in PASSED.findall(text))
            failed = sum(int(n) for n in FAILED.findall(text))
            skipped = sum(int(n) for n in SKIPPED.findall(text))
            good = test["result"] in ("OK", "EXPECTEDFAIL")
            if test["result"] == "SKIP":
                count.skip("%s: %s" % (test["name"], text.strip().split("\n")[0][:100]))
            elif not passed + failed + skipped:
                count.one(good)
            else:
                count.passed += passed
                count.failed += failed if good or failed else 1
                if skipped:
                    count.skip(test["name"], skipped)
    if status and not count.failed:
        count.failed += 1
    return count


def suite_unit(args):
    return count_of_meson(args.build)


# ---- pytest ----


def count_of_pytest(paths, env=None, options=()):
    count = Count()
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        status = run(
            [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-ra", "--tb=short",
             "--junitxml", report, *options, *paths],
            env=env,
        )
        if os.path.exists(report):
            for case in xml.etree.ElementTree.parse(report).iter("testcase"):
                kinds = {child.tag: child for child in case}
                if "failure" in kinds or "error" in kinds:
                    count.failed += 1
                elif "skipped" in kinds:
                    count.skip(kinds["skipped"].get("message", ""))
                else:
                    count.passed += 1
    # 5: nothing was collected.
    if status not in (0, 5) and not count.failed:
        count.failed += 1
    return count


def suite_sdk(args):
    return count_of_pytest(["sdk/python/tests"])


def pytest_suite(folder):
    def suite(args):
        return count_of_pytest([folder], env={"AIRLOCK_BUILD": args.build})

    return suite


def suite_with_knobs(folder):
    """With a second build, whose layers can be switched off and whose times are shorter."""

    def suite(args):
        count = Count()
        if not count.one(built(KNOBS_BUILD, "-Dtest_knobs=true")):
            return count
        env = {"AIRLOCK_BUILD": args.build, "AIRLOCK_KNOBS_BUILD": KNOBS_BUILD}
        count.add(count_of_pytest([folder], env=env))
        return count

    return suite


# ---- Sanitizers ----

SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:use_sigaltstack=0:exitcode=66",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=66",
}


def build_id(path):
    """The commit that a program says it is of; the programs of a server compare theirs."""
    with open(path, "rb") as file:
        return set(re.findall(rb"\0([0-9a-f]{12}(?:-dirty)?)\0", file.read()))


def suite_sanitizers(args):
    """Units, then real servers, with AddressSanitizer and UndefinedBehaviorSanitizer. init is static: its
    parts run in the unit tests, the program itself is the plain one."""
    count = Count()
    # What the compiler guesses about instrumented code are no errors; the plain build has none.
    options = ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1",
               "-Dwerror=false"]
    if not count.one(built(ASAN_BUILD, *options)):
        return count
    count.add(count_of_meson(ASAN_BUILD, env=SANITIZERS))
    init = os.path.join(args.build, "airlock-init")
    built(args.build)
    if not build_id(init) & build_id(os.path.join(ASAN_BUILD, "airlockd")):
        built(ASAN_BUILD)
    shutil.copy2(init, ASAN_BUILD)
    env = {"AIRLOCK_BUILD": ASAN_BUILD, "AIRLOCK_SANITIZED": "1"}
    # Refused calls one by one, and what an installation holds, say nothing new here.
    left_out = ["--ignore=test/system/test_fault.py", "--ignore=test/system/test_install.py"]
    count.add(
        count_of_pytest(
            ["test/conformance", "test/system"], env=env, options=["-m", "not slow", *left_out]
        )
    )
    return count


# ---- Release binaries ----


def suite_release(args):
    """The switches of the hostile suite are not in what people run, and hardening is."""
    count = Count()
    for program in PROGRAMS:
        path = os.path.join(args.build, program)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            print("release: %s" % error)
            count.one(False)
            continue
        if not count.one(not re.search(rb"AIRLOCK_TEST_|tenant_match|archive_names|--hurry", data)):
            print("release: %s holds the switch that turns layers off" % program)
        headers = subprocess.run(
            ["readelf", "-Wld", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ).stdout
        stack = [line for line in headers.split("\n") if "GNU_STACK" in line]
        relro = "GNU_RELRO" in headers
        is_static = program == "airlock-init"
        now = is_static or re.search(r"\bNOW\b", headers) is not None
        if not count.one(bool(stack) and "RWE" not in stack[0] and relro and now):
            print("release: %s is not hardened" % program)
        if is_static and not count.one("INTERP" not in headers and "(NEEDED)" not in headers):
            print("release: airlock-init is not static")
    return count


SUITES = [
    ("source", suite_source),
    ("unit", suite_unit),
    ("release", suite_release),
    ("sdk", suite_sdk),
    ("conformance", pytest_suite("test/conformance")),
    ("system", suite_with_knobs("test/system")),
    ("hostile", suite_with_knobs("test/hostile")),
    ("sanitizers", suite_sanitizers),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--only", default="", help=", ".join(name for name, _ in SUITES))
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    wanted = [name for name in args.only.split(",") if name]
    total = Count()
    lines = []
    if not total.one(built(args.build)):
        print("the build failed")
        print(total)
        return 1
    if os.geteuid() == 0:
        total.one(run(["deploy/image.sh", os.environ.get("CACHE") or "/var/cache/airlock"]) == 0)
    for name, suite in SUITES:
        if wanted and name not in wanted:
            continue
        print("==> %s" % name, flush=True)
        began = time.monotonic()
        count = suite(args)
        total.add(count)
        lines.append("%-12s %s (%.0f s)" % (name, count, time.monotonic() - began))
        print(lines[-1], flush=True)
        for reason in sorted(set(count.reasons)):
            print("    " + reason)
    print("\n" + "\n".join(lines))
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
