# SPDX-License-Identifier: Apache-2.0
"""What a command left behind."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from .errors import CommandError

_MARKER = re.compile(r"^\[(STDOUT|STDERR|WARNING|TIMEOUT|EXIT CODE)\]:\s?(.*)$")


@dataclass
class CommandResult:
    """One command that ended, however it ended.

    stdout and stderr are as printed; output is the text form with markers, made for models.
    """

    command: str
    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool = False
    oom_killed: bool = False
    warnings: List[str] = field(default_factory=list)
    output: str = ""

    @property
    def ok(self) -> bool:
        """Exit status 0, in time and within the memory limit."""
        return self.exit_code == 0 and not self.timed_out and not self.oom_killed

    def check(self) -> "CommandResult":
        """Returns itself, or raises CommandError when the command did not succeed."""
        if self.ok:
            return self
        if self.timed_out:
            how = "timed out"
        elif self.oom_killed:
            how = "was killed for using too much memory"
        else:
            how = "exited with code %d" % self.exit_code
        raise CommandError("Command %r %s.\n%s" % (self.command, how, self.output), self)

    def __str__(self) -> str:
        return self.output

    @classmethod
    def from_response(cls, response: Mapping[str, Any]) -> "CommandResult":
        """From the body of an exec call; servers that answer with text only are understood too."""
        command = response.get("command") or ""
        output = response.get("output") or ""
        if response.get("exit_code") is None:
            return _from_text(command, output)
        return cls(
            command=command,
            stdout=response.get("stdout") or "",
            stderr=response.get("stderr") or "",
            exit_code=int(response["exit_code"]),
            timed_out=bool(response.get("timed_out")),
            oom_killed=bool(response.get("oom_killed")),
            warnings=list(response.get("warnings") or []),
            output=output,
        )


def _from_text(command: str, text: str) -> CommandResult:
    """Reads the text form. A program can print the markers too, so this is for old servers only."""
    streams: Dict[str, List[str]] = {"STDOUT": [], "STDERR": []}
    warnings: List[str] = []
    exit_code = -1
    timed_out = False
    into: Optional[List[str]] = None
    for line in text.split("\n"):
        found = _MARKER.match(line)
        if not found:
            if into is not None:
                into.append(line)
            continue
        name, rest = found.groups()
        into = streams.get(name)
        if into is not None:
            if rest:
                into.append(rest)
        elif name == "EXIT CODE":
            try:
                exit_code = int(rest)
            except ValueError:
                exit_code = -1
        else:
            timed_out = timed_out or name == "TIMEOUT"
            warnings.append(rest)

    def joined(lines: List[str]) -> str:
        body = "\n".join(lines)
        return body + "\n" if body else ""

    return CommandResult(
        command=command,
        stdout=joined(streams["STDOUT"]),
        stderr=joined(streams["STDERR"]),
        exit_code=exit_code,
        timed_out=timed_out,
        oom_killed=any("Memory limit" in warning for warning in warnings),
        warnings=warnings,
        output=text,
    )
