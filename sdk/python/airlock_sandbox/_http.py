# SPDX-License-Identifier: Apache-2.0
"""One request at a time to the server, with the rules for repeating it.

A request is repeated when the server says that nothing has happened (429, 503), for any method; and
after a lost connection when the method may be repeated without harm. Never otherwise.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from ._version import __version__
from .errors import APIConnectionError, SandboxError, from_answer

RETRY_WAIT_MAX = 30
REPEATABLE = frozenset(("GET", "PUT", "DELETE"))

Verify = Union[bool, str]
# What makes a request's body, anew for each attempt.
MakeBody = Callable[[], Union[bytes, Iterable[bytes]]]
# What takes the body of a success.
Receive = Callable[[http.client.HTTPResponse], Any]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to wherever it points: it is an error instead."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _backoff(repeat: int) -> int:
    return min(1 << min(repeat, 5), RETRY_WAIT_MAX)


def _seconds(header: Optional[str]) -> Optional[int]:
    if header is not None and header.isascii() and header.isdigit() and len(header) < 10:
        return int(header)
    return None


def _wait_for(status: int, retry_after: Optional[int], repeat: int) -> Optional[int]:
    """Seconds to wait before repeating after this status; None: do not repeat."""
    if status == 429:
        if retry_after is None:
            return _backoff(repeat)
        return retry_after if retry_after <= RETRY_WAIT_MAX else None
    if status == 503:
        if retry_after is None or retry_after > RETRY_WAIT_MAX:
            return _backoff(repeat)
        return max(retry_after, _backoff(repeat))
    return None


def query(path: str, /, **parameters: Any) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return path + "?" + urllib.parse.urlencode(given) if given else path


def verify_from_environment() -> Verify:
    """What SANDBOX_API_INSECURE and SANDBOX_API_CA say about certificates."""
    if os.environ.get("SANDBOX_API_INSECURE", "").strip().lower() in ("1", "true", "yes"):
        return False
    return os.environ.get("SANDBOX_API_CA") or True


def segment(text: str) -> str:
    """One part of a path, whatever it holds."""
    return urllib.parse.quote(text, safe="")


class Connection:
    """Where the server is and how to ask it. Holds no socket: each call makes its own."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        verify: Verify,
        timeout: float,
        max_retries: int,
        *,
        user_agent: str = "airlock-sandbox/" + __version__,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.timeout = timeout
        self.max_retries = max_retries
        self._api_key = api_key
        self._user_agent = user_agent
        self._opener = self._make_opener(verify)

    def _make_opener(self, verify: Verify) -> urllib.request.OpenerDirector:
        handlers: List[urllib.request.BaseHandler] = [_NoRedirect()]
        if self.base_url.lower().startswith("https:"):
            context = ssl.create_default_context(
                cafile=verify if isinstance(verify, str) else None
            )
            if verify is False:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)

    def json(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        retries: Optional[int] = None,
    ) -> Any:
        """The parsed answer; None when it is empty. Raises a SandboxError for everything else."""
        headers = self._headers("application/json")
        make: Optional[MakeBody] = None
        if body is not None:
            data = json.dumps(body).encode("ascii")
            headers["Content-Type"] = "application/json"
            make = lambda: data  # noqa: E731
        status, answer = self._repeat(method, path, make, headers, timeout, retries)
        return self._parse(method, path, status, answer)

    def send(
        self, method: str, path: str, make: MakeBody, length: int, *, timeout: float
    ) -> Any:
        """The parsed answer to a body of so many bytes, which is made for each attempt."""
        headers = self._headers("application/json")
        headers["Content-Length"] = str(length)
        status, answer = self._repeat(method, path, make, headers, timeout, None)
        return self._parse(method, path, status, answer)

    def fetch(
        self, path: str, *, timeout: float, receive: Optional[Receive] = None
    ) -> Any:
        """The bytes of the answer, or what receive makes of it; it may be called several times."""
        headers = self._headers("*/*")
        return self._repeat("GET", path, None, headers, timeout, None, receive)[1]

    def _headers(self, accept: str) -> Dict[str, str]:
        return {
            "X-API-Key": self._api_key,
            "Accept": accept,
            "Content-Type": "application/octet-stream",
            "User-Agent": self._user_agent,
        }

    def _parse(self, method: str, path: str, status: int, answer: bytes) -> Any:
        if not answer:
            return None
        try:
            return json.loads(answer)
        except ValueError:
            raise SandboxError(
                "The answer of %s to %s %s is not JSON." % (self.base_url, method, path), status
            ) from None

    def _repeat(
        self,
        method: str,
        path: str,
        make: Optional[MakeBody],
        headers: Mapping[str, str],
        timeout: Optional[float],
        retries: Optional[int],
        receive: Optional[Receive] = None,
    ) -> Tuple[int, Any]:
        left = self.max_retries if retries is None else retries
        wait_limit = self.timeout if timeout is None else timeout
        repeat = 0
        while True:
            request = urllib.request.Request(
                self.base_url + path,
                data=make() if make else None,  # type: ignore[arg-type]
                headers=dict(headers),
                method=method,
            )
            wait: Optional[int]
            failure: SandboxError
            try:
                with self._opener.open(request, timeout=wait_limit) as answer:
                    return answer.status, receive(answer) if receive else answer.read()
            except urllib.error.HTTPError as error:
                try:
                    with error:
                        text = error.read()
                except (OSError, http.client.HTTPException):
                    text = b""
                retry_after = _seconds(error.headers.get("Retry-After"))
                failure = from_answer(error.code, str(error.reason), text, retry_after)
                wait = _wait_for(error.code, retry_after, repeat)
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                failure = APIConnectionError(
                    "Could not reach %s: %s" % (self.base_url, reason or type(reason).__name__)
                )
                failure.__cause__ = error
                wait = _backoff(repeat) if method in REPEATABLE else None
            if wait is None or left <= 0:
                raise failure
            left -= 1
            repeat += 1
            time.sleep(wait)
