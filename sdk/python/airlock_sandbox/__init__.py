# SPDX-License-Identifier: Apache-2.0
"""Client of an Airlock server: run untrusted code in isolated sandboxes."""

from ._version import __version__
from .errors import (
    APIConnectionError,
    AuthenticationError,
    CapacityError,
    CommandError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitError,
    SandboxError,
    ValidationError,
)
from .result import CommandResult
from .sandbox import Files, Sandbox

__all__ = [
    "APIConnectionError",
    "AuthenticationError",
    "CapacityError",
    "CommandError",
    "CommandResult",
    "Files",
    "NotFoundError",
    "PermissionDeniedError",
    "QuotaExceededError",
    "RateLimitError",
    "Sandbox",
    "SandboxError",
    "ValidationError",
    "__version__",
]
