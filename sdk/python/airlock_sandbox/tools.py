# SPDX-License-Identifier: Apache-2.0
"""The sandbox as tools for a language model.

    response = client.chat.completions.create(..., tools=openai_tools())
    text = handle_tool_call(sandbox, call.function.name, call.function.arguments)

handle_tool_call never raises: what went wrong is text that the model can read.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Union

from .errors import SandboxError

if TYPE_CHECKING:
    from .sandbox import Sandbox

MAX_TOOL_OUTPUT_CHARS = 8000
_TIMEOUT_DEFAULT = 15

TOOLS: List[Dict[str, Any]] = [
    {
        "name": "write_file",
        "description": (
            "Write a text file in the workspace, replacing it if it exists. "
            "Missing folders are created. The path is relative to the workspace."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File, relative to the workspace."},
                "content": {"type": "string", "description": "The whole new text of the file."},
            },
            "required": ["path", "content"],
        },
    },
    {
        "name": "read_file",
        "description": "Read a text file of the workspace.",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File, relative to the workspace."},
            },
            "required": ["path"],
        },
    },
    {
        "name": "run_command",
        "description": (
            "Run a bash command in the workspace and return what it printed and its exit code. "
            "Each command is a new shell: only files in the workspace are kept."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command for bash -c."},
                "timeout_seconds": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 60,
                    "description": "Seconds until the command is killed; 15 when left out.",
                },
            },
            "required": ["command"],
        },
    },
]


def openai_tools() -> List[Dict[str, Any]]:
    """In the form of chat completions."""
    return [{"type": "function", "function": copy.deepcopy(tool)} for tool in TOOLS]


def anthropic_tools() -> List[Dict[str, Any]]:
    """In the form of the messages API."""
    return [
        {
            "name": tool["name"],
            "description": tool["description"],
            "input_schema": copy.deepcopy(tool["parameters"]),
        }
        for tool in TOOLS
    ]


def truncate(text: str, limit: int = MAX_TOOL_OUTPUT_CHARS) -> str:
    """Keeps the beginning and, because results come last, a larger part of the end."""
    if len(text) <= limit:
        return text
    head = limit * 40 // 100
    tail = limit - head
    note = "\n\n... [TRUNCATED: %d characters omitted] ...\n\n" % (len(text) - limit)
    return text[:head] + note + text[len(text) - tail :]


def _run(sandbox: "Sandbox", name: str, arguments: Mapping[str, Any]) -> str:
    if name == "write_file":
        sandbox.files.write(arguments["path"], arguments["content"])
        return "Wrote %d characters to %s" % (len(arguments["content"]), arguments["path"])
    if name == "read_file":
        return sandbox.files.read(arguments["path"])
    timeout = arguments.get("timeout_seconds")
    timeout = _TIMEOUT_DEFAULT if timeout is None else timeout
    return sandbox.run(arguments["command"], timeout=timeout).output


def handle_tool_call(
    sandbox: "Sandbox", name: str, arguments: Union[str, Mapping[str, Any], None]
) -> str:
    """Does what the model asked for. arguments: an object, or its JSON text."""
    if isinstance(arguments, (str, bytes, bytearray)):
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            return truncate("Error: tool arguments were not valid JSON: %s" % error)
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        return "Error: tool arguments must be a JSON object."
    tool = next((tool for tool in TOOLS if tool["name"] == name), None)
    if tool is None:
        available = [tool["name"] for tool in TOOLS]
        return truncate("Error: unknown tool '%s'. Available: %s" % (name, available))
    for required in tool["parameters"]["required"]:
        if required not in arguments:
            return "Error: missing required argument '%s' for %s." % (required, name)
    try:
        return truncate(_run(sandbox, name, arguments))
    except FileNotFoundError:
        return truncate("Error: file not found: %s" % arguments["path"])
    except SandboxError as error:
        return truncate("Error from sandbox (%s): %s" % (type(error).__name__, error))
    except Exception as error:  # the model is told, whatever it was
        return truncate("Error: %s failed (%s): %s" % (name, type(error).__name__, error))
