# SPDX-License-Identifier: Apache-2.0
"""CommandResult: from the answer, from the text form, and what check() says."""

import pytest

from airlock_sandbox import CommandError, CommandResult


def result(**fields):
    base = dict(command="c", stdout="", stderr="", exit_code=0, output="text")
    base.update(fields)
    return CommandResult(**base)


def test_structured_answers_are_taken_as_they_are():
    answer = {
        "command": "c",
        "output": "[STDOUT]:\nhi\n[EXIT CODE]: 0",
        "stdout": "  hi\n\n",
        "stderr": "e",
        "exit_code": 0,
        "timed_out": False,
        "oom_killed": False,
        "warnings": ["w"],
        "a_field_of_the_future": 1,
    }
    got = CommandResult.from_response(answer)
    assert (got.stdout, got.stderr, got.exit_code) == ("  hi\n\n", "e", 0)
    assert got.warnings == ["w"] and str(got) == answer["output"] and got.ok


@pytest.mark.parametrize(
    "text, stdout, stderr, exit_code, timed_out, oom_killed, warnings",
    [
        ("[STDOUT]:\nran echo hi\n[EXIT CODE]: 0", "ran echo hi\n", "", 0, False, False, []),
        ("[EXIT CODE]: 3", "", "", 3, False, False, []),
        (
            "[TIMEOUT]: Execution exceeded 3s limit.\n[EXIT CODE]: -1",
            "", "", -1, True, False, ["Execution exceeded 3s limit."],
        ),
        (
            "[STDERR]:\nKilled\n[WARNING]: Process killed by cgroups (Memory limit exceeded).\n"
            "[EXIT CODE]: 137",
            "", "Killed\n", 137, False, True,
            ["Process killed by cgroups (Memory limit exceeded)."],
        ),
        ("[STDOUT]:\na\n\nb\n[STDERR]:\nc\n[EXIT CODE]: 1", "a\n\nb\n", "c\n", 1, False, False, []),
        ("no marker at all", "", "", -1, False, False, []),
        ("[EXIT CODE]: what", "", "", -1, False, False, []),
    ],
)
def test_the_text_form_is_read(text, stdout, stderr, exit_code, timed_out, oom_killed, warnings):
    got = CommandResult.from_response({"command": "c", "output": text})
    assert (got.stdout, got.stderr, got.exit_code) == (stdout, stderr, exit_code)
    assert (got.timed_out, got.oom_killed, got.warnings) == (timed_out, oom_killed, warnings)
    assert got.output == text


@pytest.mark.parametrize(
    "fields, how",
    [
        ({"exit_code": 3}, "exited with code 3"),
        ({"exit_code": -1, "timed_out": True}, "timed out"),
        ({"exit_code": 137, "oom_killed": True}, "was killed for using too much memory"),
        ({"exit_code": 137}, "exited with code 137"),
        ({"exit_code": 0, "oom_killed": True}, "was killed for using too much memory"),
    ],
)
def test_check_says_how_it_failed(fields, how):
    failed = result(**fields)
    assert not failed.ok
    with pytest.raises(CommandError) as caught:
        failed.check()
    assert str(caught.value) == "Command 'c' %s.\ntext" % how
    assert caught.value.result is failed


def test_check_of_a_success_is_the_result():
    good = result()
    assert good.check() is good
