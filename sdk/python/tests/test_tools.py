# SPDX-License-Identifier: Apache-2.0
"""The tool definitions and handle_tool_call, through a real client."""

import json

import pytest

from airlock_sandbox import Sandbox
from airlock_sandbox import tools
from standin import Reply, StandIn


@pytest.fixture
def server():
    with StandIn(Reply()) as standin:
        yield standin


@pytest.fixture
def sandbox(server):
    return Sandbox.attach("sbx_0123456789ab", "k", server.url, max_retries=0)


def test_both_forms_name_the_same_tools_in_order():
    names = ["write_file", "read_file", "run_command"]
    assert [tool["name"] for tool in tools.TOOLS] == names
    assert [tool["function"]["name"] for tool in tools.openai_tools()] == names
    assert [tool["name"] for tool in tools.anthropic_tools()] == names
    for openai, anthropic in zip(tools.openai_tools(), tools.anthropic_tools()):
        assert openai["type"] == "function"
        assert set(openai["function"]) == {"name", "description", "parameters"}
        assert set(anthropic) == {"name", "description", "input_schema"}
        assert anthropic["input_schema"] == openai["function"]["parameters"]


def test_the_timeout_has_its_range():
    timeout = tools.TOOLS[2]["parameters"]["properties"]["timeout_seconds"]
    assert (timeout["type"], timeout["minimum"], timeout["maximum"]) == ("integer", 1, 60)
    assert [tool["parameters"]["required"] for tool in tools.TOOLS] == [
        ["path", "content"], ["path"], ["command"],
    ]


def test_changing_a_copy_changes_nothing():
    tools.openai_tools()[0]["function"]["parameters"]["required"].clear()
    assert tools.TOOLS[0]["parameters"]["required"] == ["path", "content"]


def test_write(server, sandbox):
    text = tools.handle_tool_call(sandbox, "write_file", {"path": "a", "content": "ü€"})
    assert text == "Wrote 2 characters to a"
    assert server.asked[0].json == {"path": "a", "content": "ü€"}


def test_read(server, sandbox):
    server.script = [Reply(body={"content": "text"})]
    assert tools.handle_tool_call(sandbox, "read_file", '{"path": "a"}') == "text"


@pytest.mark.parametrize(
    "arguments, timeout",
    [({"command": "c"}, 15), ({"command": "c", "timeout_seconds": 9}, 9),
     ({"command": "c", "timeout_seconds": None}, 15)],
)
def test_run(server, sandbox, arguments, timeout):
    server.script = [Reply(body={"exit_code": 3, "output": "[EXIT CODE]: 3"})]
    text = tools.handle_tool_call(sandbox, "run_command", json.dumps(arguments))
    assert text == "[EXIT CODE]: 3"
    assert server.asked[0].json == {"command": "c", "timeout_seconds": timeout}


@pytest.mark.parametrize(
    "name, arguments, start",
    [
        ("read_file", "{", "Error: tool arguments were not valid JSON: "),
        ("read_file", "[]", "Error: tool arguments must be a JSON object."),
        ("read_file", ["a"], "Error: tool arguments must be a JSON object."),
        ("rm", {}, "Error: unknown tool 'rm'. Available: "
                   "['write_file', 'read_file', 'run_command']"),
        ("read_file", {}, "Error: missing required argument 'path' for read_file."),
        ("write_file", {"path": "a"}, "Error: missing required argument 'content' for write_file."),
        ("read_file", "", "Error: tool arguments were not valid JSON: "),
        ("read_file", None, "Error: missing required argument 'path' for read_file."),
        ("write_file", {"path": "a", "content": 5}, "Error: write_file failed (TypeError): "),
    ],
)
def test_wrong_calls_are_answered_in_words(sandbox, name, arguments, start):
    assert tools.handle_tool_call(sandbox, name, arguments).startswith(start)


def test_errors_of_the_server_are_answered_in_words(server, sandbox):
    server.script = [Reply(413, {"detail": "too large"})]
    assert tools.handle_tool_call(sandbox, "read_file", {"path": "a"}) == (
        "Error from sandbox (QuotaExceededError): too large"
    )


def test_a_missing_file_is_answered_in_words(server, sandbox):
    server.script = [Reply(body={"content": "Error: File 'a' does not exist."})]
    assert tools.handle_tool_call(sandbox, "read_file", {"path": "a"}) == (
        "Error: file not found: a"
    )


def test_short_text_is_not_cut():
    assert tools.truncate("x" * 8000) == "x" * 8000


def test_long_text_keeps_forty_and_sixty_percent():
    text = "".join(chr(0x4E00 + i) for i in range(9000))
    assert tools.truncate(text) == (
        text[:3200] + "\n\n... [TRUNCATED: 1000 characters omitted] ...\n\n" + text[-4800:]
    )


def test_the_limit_is_an_argument():
    assert tools.truncate("abcdefghijkl", 10) == (
        "abcd\n\n... [TRUNCATED: 2 characters omitted] ...\n\nghijkl"
    )


def test_results_of_tools_are_cut(server, sandbox):
    server.script = [Reply(body={"content": "x" * 10000})]
    text = tools.handle_tool_call(sandbox, "read_file", {"path": "a"})
    assert "... [TRUNCATED: 2000 characters omitted] ..." in text
