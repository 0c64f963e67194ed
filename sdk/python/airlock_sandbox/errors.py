# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. Everything is a SandboxError; the class says whose fault it is.

A command that fails inside the sandbox is none of these: it is a CommandResult.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, Optional, Type

if TYPE_CHECKING:
    from .result import CommandResult


class SandboxError(Exception):
    """The server refused or failed, or the client was used wrongly.

    status: HTTP status, None when there was no answer.
    detail: what the server said, unchanged (a list for a failed validation); else the message.
    code:   the server's stable word for the reason, None when it sent none.
    """

    def __init__(
        self,
        message: str,
        status: Optional[int] = None,
        detail: Any = None,
        *,
        code: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.detail = message if detail is None else detail
        self.code = code

    def __str__(self) -> str:
        return self.message


class AuthenticationError(SandboxError):
    """No key, or one that the server does not know (401)."""


class PermissionDeniedError(SandboxError, PermissionError):
    """Not this key's session, not a permitted host, or a path outside the workspace (403)."""


class NotFoundError(SandboxError):
    """The session has ended or never existed; or the thing asked for is not there (404)."""


class QuotaExceededError(SandboxError):
    """Larger than a limit, or the workspace is full (413)."""


class ValidationError(SandboxError):
    """The server understood the request and does not accept it (400, 422)."""


class RateLimitError(SandboxError):
    """Too many requests, sessions or commands for this tenant (429).

    retry_after: seconds until the next try can succeed, None when it does not depend on time.
    """

    def __init__(
        self,
        message: str,
        status: Optional[int] = None,
        detail: Any = None,
        *,
        code: Optional[str] = None,
        retry_after: Optional[int] = None,
    ) -> None:
        super().__init__(message, status, detail, code=code)
        self.retry_after = retry_after


class CapacityError(SandboxError):
    """The server as a whole is full or busy (503)."""


class APIConnectionError(SandboxError):
    """There was no answer: not reachable, connection lost, or too late."""


class CommandError(SandboxError):
    """Raised by CommandResult.check(); result is the object that was checked."""

    def __init__(self, message: str, result: "CommandResult") -> None:
        super().__init__(message)
        self.result = result


STATUS_ERRORS: Dict[int, Type[SandboxError]] = {
    400: ValidationError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    413: QuotaExceededError,
    422: ValidationError,
    429: RateLimitError,
    503: CapacityError,
}


def from_answer(
    status: int, reason: str, body: bytes, retry_after: Optional[int]
) -> SandboxError:
    """The exception for an answer that is not a success."""
    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        parsed = {}
    detail = parsed.get("detail")
    if detail is None:
        detail = parsed.get("error")
    if detail is None:
        detail = reason or "HTTP %d" % status
    message = detail if isinstance(detail, str) else json.dumps(detail)
    code = parsed.get("code")
    if not isinstance(code, str):
        code = None
    kind = STATUS_ERRORS.get(status, SandboxError)
    if kind is RateLimitError:
        return RateLimitError(message, status, detail, code=code, retry_after=retry_after)
    return kind(message, status, detail, code=code)
