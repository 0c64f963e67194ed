# SPDX-License-Identifier: Apache-2.0
"""A session on an Airlock server: files that stay, and commands that each run isolated."""

from __future__ import annotations

import copy
import http.client
import os
import tempfile
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Union

from ._http import Connection, Verify, query, segment, verify_from_environment
from .errors import NotFoundError, SandboxError
from .result import CommandResult

DEFAULT_TEMPLATE = "sandbox-base:latest"
_SLOW_SECONDS = 240
_TRANSFER_SECONDS = 300
_PIECE = 256 * 1024

# Called with the bytes that have gone so far and those of the whole (None: not known). After a lost
# connection it begins again with a smaller number.
Progress = Callable[[int, Optional[int]], None]
PathLike = Union[str, "os.PathLike[str]"]


def _missing_text(path: str) -> str:
    """What the server sends in place of the content of a file that does not exist."""
    return "Error: File '%s' does not exist." % path


class Files:
    """The files of one session. Paths are relative to its workspace."""

    def __init__(self, sandbox: "Sandbox") -> None:
        self._sandbox = sandbox

    def write(self, path: str, content: str) -> None:
        """Replaces the text of a file, making it and its folders when missing."""
        self._sandbox._call("POST", "/write", {"path": path, "content": content})

    def read(self, path: str) -> str:
        """The text of a file; FileNotFoundError when there is none."""
        answer = self._sandbox._call("GET", query("/read", path=path))
        content = answer.get("content")
        if not isinstance(content, str):
            raise SandboxError("The server's answer has no content.")
        if content == _missing_text(path):
            raise FileNotFoundError(path)
        return content


    # ---- Bytes ----

    def upload(self, path: str, data: Union[bytes, str]) -> int:
        """Writes any bytes (a str as UTF-8), making folders when missing. Returns their number."""
        raw = data.encode("utf-8") if isinstance(data, str) else bytes(data)
        return self._send(path, lambda: raw, len(raw))

    def download(self, path: str) -> bytes:
        """The bytes of a file; NotFoundError when there is none."""
        return self._fetch(query("/files", path=path))

    def download_archive(self, path: str = ".") -> bytes:
        """A folder, by default the whole workspace, as a tar in gzip."""
        return self._fetch(query("/archive", path=path))

    def upload_file(
        self, local: PathLike, remote: str, progress: Optional[Progress] = None
    ) -> int:
        """Uploads a file of this machine without holding it in memory. Returns its size."""
        with open(local, "rb") as file:
            size = os.fstat(file.fileno()).st_size

            def pieces() -> Iterator[bytes]:
                file.seek(0)
                sent = 0
                while sent < size:
                    piece = _local(file.read, min(_PIECE, size - sent))
                    if not piece:
                        raise SandboxError("%s became shorter while it was sent." % local)
                    yield piece
                    sent += len(piece)
                    if progress:
                        progress(sent, size)

            return self._send(remote, pieces, size)

    def download_file(
        self, remote: str, local: PathLike, progress: Optional[Progress] = None
    ) -> int:
        """Downloads a file without holding it in memory. Returns its size.

        Only a whole file gets the name `local`; one that was there stays until then.
        """
        return self._fetch_into(query("/files", path=remote), local, progress)

    def download_archive_file(
        self, remote: str, local: PathLike, progress: Optional[Progress] = None
    ) -> int:
        """The same for a folder, which becomes a tar in gzip."""
        return self._fetch_into(query("/archive", path=remote), local, progress)

    # ---- The tree ----

    def list(self, path: str = ".", depth: int = 1) -> List[Dict[str, Any]]:
        """What is in a folder: dicts with path, type, size_bytes, mode, mtime and of links target."""
        entries: List[Dict[str, Any]] = []
        after = None
        while True:
            rest = query("/list", path=path, depth=depth, after=after)
            answer = self._sandbox._call("GET", rest)
            entries.extend(answer.get("entries") or [])
            after = answer.get("next")
            if not after:
                return entries

    def delete(self, path: str, recursive: bool = False) -> int:
        """Deletes a file, or a folder; returns how many there were, 0 for a missing one."""
        rest = query("/files", path=path, recursive="1" if recursive else None)
        return int(self._sandbox._call("DELETE", rest).get("deleted") or 0)

    def move(self, path: str, to: str, replace: bool = False) -> None:
        """Gives a file or folder another path."""
        self._sandbox._call("POST", "/move", {"from": path, "to": to, "replace": replace})

    def mkdir(self, path: str) -> bool:
        """Makes a folder and its parents; False when it was there."""
        return bool(self._sandbox._call("POST", "/mkdir", {"path": path}).get("created"))

    # ---- How ----

    def _seconds(self) -> float:
        return max(self._sandbox.timeout, _TRANSFER_SECONDS)

    def _send(
        self, path: str, make: Callable[[], Union[bytes, Iterable[bytes]]], size: int
    ) -> int:
        full = self._sandbox._path(query("/files", path=path))
        answer = self._sandbox._connection.send("PUT", full, make, size, timeout=self._seconds())
        if not isinstance(answer, dict) or not isinstance(answer.get("size_bytes"), int):
            raise SandboxError("The server's answer has no size_bytes.")
        return answer["size_bytes"]

    def _fetch(self, rest: str) -> bytes:
        full = self._sandbox._path(rest)
        return self._sandbox._connection.fetch(full, timeout=self._seconds())

    def _fetch_into(self, rest: str, local: PathLike, progress: Optional[Progress]) -> int:
        full = self._sandbox._path(rest)
        target = os.fspath(local)
        folder, name = os.path.split(os.path.abspath(target))
        handle, temporary = tempfile.mkstemp(prefix="." + name[:100] + ".", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                size = self._sandbox._connection.fetch(
                    full,
                    timeout=self._seconds(),
                    receive=lambda answer: _receive(answer, file, progress),
                )
            os.chmod(temporary, _file_mode(target))
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
        return size


def _file_mode(path: str) -> int:
    """Of the file that is there, else what the process gives new ones."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _local(call: Callable[..., Any], *args: Any) -> Any:
    """What fails on this machine is no lost connection, and nothing to repeat."""
    try:
        return call(*args)
    except OSError as error:
        raise SandboxError("The local file failed: %s" % error) from error


def _receive(
    answer: http.client.HTTPResponse, file: Any, progress: Optional[Progress]
) -> int:
    """Writes the body of an answer to a file, from its start."""
    length = answer.headers.get("Content-Length")
    whole = int(length) if length is not None else None
    _local(file.seek, 0)
    _local(file.truncate)
    got = 0
    while True:
        piece = answer.read(_PIECE)
        if not piece:
            break
        _local(file.write, piece)
        got += len(piece)
        if progress:
            progress(got, whole)
    # Reading in pieces, the library takes an early end for the end.
    if whole is not None and got != whole:
        raise http.client.IncompleteRead(b"", whole - got)
    return got


class Sandbox:
    """One session. Use it in a `with` statement, or call start() and close().

    The server's address and key come from the arguments, else from SANDBOX_API_URL and
    SANDBOX_API_KEY. Every request is a connection of its own, so one object may be used from several
    threads once it is started.
    """

    def __init__(
        self,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        *,
        egress: Optional[Iterable[str]] = None,
        template: str = DEFAULT_TEMPLATE,
        verify: Optional[Verify] = None,
        timeout: float = 90,
        max_retries: int = 3,
        snapshot: Optional[str] = None,
        persistent: bool = False,
        secrets: Optional[Mapping[str, str]] = None,
    ) -> None:
        base_url = base_url or os.environ.get("SANDBOX_API_URL")
        api_key = api_key or os.environ.get("SANDBOX_API_KEY")
        if not base_url or not api_key:
            raise SandboxError(
                "Set SANDBOX_API_URL and SANDBOX_API_KEY, or pass base_url= and api_key=."
            )
        self._connection = Connection(
            base_url,
            api_key,
            verify_from_environment() if verify is None else verify,
            timeout,
            max_retries,
        )
        self.template = template
        # One name alone would otherwise be taken for a list of its letters.
        self.requested_egress: List[str] = (
            [egress] if isinstance(egress, str) and egress else list(egress or [])
        )
        self.snapshot_id = snapshot
        self.persistent = bool(persistent)
        self._secrets = dict(secrets) if secrets else None
        self.session_id: Optional[str] = None
        self.tenant_id: Optional[str] = None
        self.egress: List[str] = []
        self.disk_quota_mb: Optional[int] = None
        self.files = Files(self)

    @classmethod
    def create(cls, *args: Any, **kwargs: Any) -> "Sandbox":
        """Makes the object and starts the session."""
        return cls(*args, **kwargs).start()

    @classmethod
    def attach(cls, session_id: str, *args: Any, **kwargs: Any) -> "Sandbox":
        """An object for a session that exists already. Makes no request."""
        sandbox = cls(*args, **kwargs)
        sandbox.session_id = session_id
        return sandbox

    @property
    def base_url(self) -> str:
        return self._connection.base_url

    @property
    def timeout(self) -> float:
        return self._connection.timeout

    @property
    def max_retries(self) -> int:
        return self._connection.max_retries

    def start(self) -> "Sandbox":
        """Opens the session; does nothing when it is open."""
        if self.session_id is not None:
            return self
        body: Dict[str, Any] = {"template": self.template, "egress": self.requested_egress}
        timeout = self.timeout
        if self.snapshot_id:
            body["snapshot_id"] = self.snapshot_id
            timeout = max(timeout, _SLOW_SECONDS)
        if self.persistent:
            body["persistent"] = True
        if self._secrets:
            body["secrets"] = self._secrets
        self._opened(self._connection.json("POST", "/v1/sessions", body, timeout=timeout))
        return self

    def _opened(self, answer: Any) -> None:
        if not isinstance(answer, dict) or not answer.get("session_id"):
            raise SandboxError("The server's answer has no session_id.")
        self.tenant_id = answer.get("tenant_id")
        self.egress = list(answer.get("egress") or [])
        self.disk_quota_mb = answer.get("disk_quota_mb")
        self.persistent = bool(answer.get("persistent", self.persistent))
        self.session_id = answer["session_id"]

    def close(self, timeout: Optional[float] = None) -> None:
        """Ends the session and deletes its files. Quiet when it has ended already.

        With a timeout there is one attempt, for programs that are about to exit.
        """
        session_id = self.session_id
        if session_id is None:
            return
        try:
            self._connection.json(
                "DELETE",
                "/v1/sessions/" + segment(session_id),
                timeout=timeout,
                retries=None if timeout is None else 0,
            )
        except NotFoundError:
            pass
        self.session_id = None

    def __enter__(self) -> "Sandbox":
        return self.start()

    def __exit__(self, *exc_info: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<Sandbox %s at %s>" % (self.session_id or "not started", self.base_url)

    # ---- Commands ----

    def run(self, command: str, timeout: int = 15) -> CommandResult:
        """Runs one line of bash in a fresh sandbox around the session's files.

        timeout: whole seconds, 1 to 60, after which everything that the command started is killed.
        """
        answer = self._call("POST", "/exec", {"command": command, "timeout_seconds": timeout})
        return CommandResult.from_response(answer)

    # ---- The text variants, for models with tools ----

    def run_command(self, command: str, timeout_seconds: int = 15) -> str:
        return self.run(command, timeout=timeout_seconds).output

    def read_file(self, path: str) -> str:
        return self.files.read(path)

    def write_file(self, path: str, content: str) -> str:
        self.files.write(path, content)
        return "Successfully wrote %d characters to %s" % (len(content), path)

    # ---- Snapshots and forks ----

    def import_repo(
        self, repo: str, ref: Optional[str] = None, path: Optional[str] = None
    ) -> Dict[str, Any]:
        """Unpacks a public GitHub repository into a new folder of the workspace.

        repo is "owner/repo" or its URL, ref a branch, tag or commit, path the folder (the
        repository's name when not given). Returns "repo", "ref", "path", "dest", "files" and
        "archive_bytes".
        """
        body = {"repo": repo, "ref": ref, "path": path}
        return self._call("POST", "/import", body, _SLOW_SECONDS)

    def snapshot(self, name: Optional[str] = None, path: str = ".") -> Dict[str, Any]:
        """Keeps the workspace, or one folder of it, as it is now; it outlives the session.

        Returns the record; its "id" is for Sandbox(snapshot=...) and restore().
        """
        return self._call("POST", "/snapshots", {"name": name, "path": path}, _SLOW_SECONDS)

    def restore(self, snapshot_id: str, path: str = ".") -> Dict[str, Any]:
        """Puts a snapshot's files into a folder, in the place of files with the same names."""
        body = {"snapshot_id": snapshot_id, "path": path}
        return self._call("POST", "/restore", body, _SLOW_SECONDS)

    def list_snapshots(self) -> List[Dict[str, Any]]:
        """This tenant's snapshots, newest first."""
        answer = self._connection.json("GET", "/v1/snapshots") or {}
        return list(answer.get("snapshots") or [])

    def delete_snapshot(self, snapshot_id: str) -> None:
        self._connection.json("DELETE", "/v1/snapshots/" + segment(snapshot_id))

    def fork(self, n: int = 1) -> List["Sandbox"]:
        """Starts n new sessions (1 to 16) that begin with this one's files, as they are at one
        instant, with the same egress: all of them or none. Each is to be closed by itself.
        """
        answer = self._call("POST", "/fork", {"count": n}, _SLOW_SECONDS)
        return [self._sibling(entry) for entry in answer.get("sessions") or []]

    def _sibling(self, answer: Any) -> "Sandbox":
        made = copy.copy(self)
        made.files = Files(made)
        made.snapshot_id = None
        made._opened(answer)
        return made

    # ---- What the server knows ----

    def egress_log(self, limit: int = 200) -> List[Dict[str, Any]]:
        """The session's attempts to reach the internet, oldest first."""
        return list(self._call("GET", query("/egress", limit=limit)).get("events") or [])

    def egress_policy(self) -> List[str]:
        """The hosts that this tenant may ask for."""
        answer = self._connection.json("GET", "/v1/egress/policy") or {}
        return list(answer.get("allowed") or [])

    def audit(self, limit: int = 100, before: Optional[str] = None) -> Dict[str, Any]:
        """What ran in this tenant's sandboxes, newest first: "entries", and "next", which is passed
        back as before to get older ones (None: there are none)."""
        path = query("/v1/audit", limit=limit, before=before)
        return self._connection.json("GET", path) or {}

    def usage(self) -> Dict[str, Any]:
        """This tenant's limits and what it uses of them."""
        return self._connection.json("GET", "/v1/usage") or {}

    def health(self) -> Dict[str, Any]:
        return self._connection.json("GET", "/healthz") or {}

    def _path(self, rest: str) -> str:
        if self.session_id is None:
            raise SandboxError("The sandbox is not started: use `with Sandbox()` or call start().")
        return "/v1/sessions/" + segment(self.session_id) + rest

    def _call(
        self,
        method: str,
        rest: str,
        body: Optional[Mapping[str, Any]] = None,
        at_least: float = 0,
    ) -> Any:
        timeout = max(self.timeout, at_least)
        return self._connection.json(method, self._path(rest), body, timeout=timeout) or {}
