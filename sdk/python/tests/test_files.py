# SPDX-License-Identifier: Apache-2.0
"""Bytes and folders, against a server that answers from a script."""

import os

import pytest

from airlock_sandbox import Sandbox
from airlock_sandbox import errors
from standin import Reply, StandIn

BASE = "/v1/sessions/sbx_0123456789ab"


def attached(server, **options):
    return Sandbox.attach("sbx_0123456789ab", "k" * 20, server.url, **options)


def stored(size):
    return Reply(body={"path": "a", "size_bytes": size, "status": "success"})


@pytest.mark.parametrize(
    "data, sent",
    [(b"", b""), (b"\x00\xff", b"\x00\xff"), ("\u00fc", b"\xc3\xbc"), (bytearray(b"ab"), b"ab")],
)
def test_upload_sends_bytes_and_returns_the_size(data, sent):
    with StandIn(stored(len(sent))) as server:
        assert attached(server).files.upload("a b/\u00fc", data) == len(sent)
        (asked,) = server.asked
    assert (asked.method, asked.target) == ("PUT", BASE + "/files?path=a+b%2F%C3%BC")
    assert asked.body == sent
    assert asked.headers["Content-Type"] == "application/octet-stream"
    assert asked.headers["Content-Length"] == str(len(sent))
    assert asked.headers["Accept"] == "application/json"


def test_download_returns_the_bytes():
    with StandIn(Reply(raw=b"\x00\xff")) as server:
        assert attached(server).files.download("x+y") == b"\x00\xff"
        (asked,) = server.asked
    assert (asked.method, asked.target) == ("GET", BASE + "/files?path=x%2By")
    assert asked.headers["Accept"] == "*/*"


def test_download_archive_is_the_workspace_when_not_said():
    with StandIn(Reply(raw=b"gz")) as server:
        files = attached(server).files
        assert files.download_archive() == files.download_archive("out") == b"gz"
        assert [asked.target for asked in server.asked] == [
            BASE + "/archive?path=.",
            BASE + "/archive?path=out",
        ]


def test_a_missing_file_is_not_found():
    body = {"detail": "File 'a' does not exist.", "code": "file_not_found"}
    with StandIn(Reply(404, body)) as server:
        with pytest.raises(errors.NotFoundError) as caught:
            attached(server).files.download("a")
        assert caught.value.code == "file_not_found"


def test_too_much_is_one_attempt():
    with StandIn(Reply(413, {"detail": "Upload is larger than the 50 MB limit."})) as server:
        with pytest.raises(errors.QuotaExceededError):
            attached(server).files.upload("a", b"x" * 100000)
        assert len(server.asked) == 1


def test_a_lost_upload_is_sent_again_whole(waits, tmp_path):
    local = tmp_path / "local"
    local.write_bytes(bytes(range(256)) * 3000)
    with StandIn(Reply(drop=True), stored(768000)) as server:
        assert attached(server).files.upload_file(local, "a") == 768000
        first, second = server.asked
    assert first.body == second.body == local.read_bytes()
    assert waits == [1]


def test_progress_of_an_upload_goes_up_to_the_whole(tmp_path):
    local = tmp_path / "local"
    local.write_bytes(b"x" * 600000)
    seen = []
    with StandIn(stored(600000)) as server:
        attached(server).files.upload_file(
            str(local), "a", progress=lambda *numbers: seen.append(numbers)
        )
    assert seen[-1] == (600000, 600000)
    assert [moved for moved, _ in seen] == sorted(moved for moved, _ in seen)


def test_an_empty_file_is_uploaded(tmp_path):
    local = tmp_path / "local"
    local.write_bytes(b"")
    with StandIn(stored(0)) as server:
        assert attached(server).files.upload_file(local, "a") == 0
        assert server.asked[0].headers["Content-Length"] == "0"


def test_a_missing_local_file_asks_nothing(tmp_path):
    with StandIn(stored(0)) as server:
        with pytest.raises(FileNotFoundError):
            attached(server).files.upload_file(tmp_path / "none", "a")
        assert server.asked == []


def test_a_download_becomes_the_file_when_it_is_whole(tmp_path):
    local = tmp_path / "local"
    local.write_bytes(b"old")
    local.chmod(0o640)
    seen = []
    with StandIn(Reply(raw=b"x" * 600000)) as server:
        size = attached(server).files.download_file(
            "a", local, progress=lambda *numbers: seen.append(numbers)
        )
    assert size == 600000 and local.read_bytes() == b"x" * 600000
    assert seen[-1] == (600000, 600000)
    assert os.listdir(tmp_path) == ["local"]
    assert local.stat().st_mode & 0o777 == 0o640


def short():
    return Reply(raw=b"half", headers={"Content-Length": "8", "Connection": "close"})


def test_a_short_download_is_asked_for_again(waits, tmp_path):
    with StandIn(short(), Reply(raw=b"whole")) as server:
        assert attached(server).files.download_file("a", tmp_path / "local") == 5
        assert len(server.asked) == 2
    assert (tmp_path / "local").read_bytes() == b"whole"


def test_a_download_that_stays_short_leaves_the_old_file(waits, tmp_path):
    local = tmp_path / "local"
    local.write_bytes(b"old")
    with StandIn(short()) as server:
        with pytest.raises(errors.APIConnectionError):
            attached(server).files.download_file("a", local)
        assert len(server.asked) == 4
    assert local.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["local"]


def test_a_refused_download_leaves_no_file(tmp_path):
    with StandIn(Reply(404, {"detail": "no"})) as server:
        with pytest.raises(errors.NotFoundError):
            attached(server).files.download_file("a", tmp_path / "local")
    assert os.listdir(tmp_path) == []


def test_an_archive_becomes_a_file(tmp_path):
    with StandIn(Reply(raw=b"gz")) as server:
        assert attached(server).files.download_archive_file("out", tmp_path / "o.tar.gz") == 2
        assert server.asked[0].target == BASE + "/archive?path=out"


def test_a_list_is_all_its_pages():
    entries = [{"path": "a", "type": "file"}, {"path": "b", "type": "link", "target": "a"}]
    with StandIn(
        Reply(body={"path": "d", "entries": entries[:1], "next": "61"}),
        Reply(body={"path": "d", "entries": entries[1:], "next": None}),
    ) as server:
        assert attached(server).files.list("d", depth=2) == entries
        assert [asked.target for asked in server.asked] == [
            BASE + "/list?path=d&depth=2",
            BASE + "/list?path=d&depth=2&after=61",
        ]


def test_changes_of_the_tree():
    with StandIn(
        Reply(body={"path": "a", "deleted": 3}),
        Reply(body={"from": "a", "to": "b"}),
        Reply(body={"path": "c", "created": True}),
    ) as server:
        files = attached(server).files
        assert files.delete("a", recursive=True) == 3
        files.move("a", "b")
        assert files.mkdir("c") is True
        removed, moved, made = server.asked
    assert (removed.method, removed.target) == ("DELETE", BASE + "/files?path=a&recursive=1")
    assert moved.json == {"from": "a", "to": "b", "replace": False}
    assert (made.target, made.json) == (BASE + "/mkdir", {"path": "c"})


@pytest.mark.parametrize(
    "call",
    [
        lambda files: files.upload("a", b""),
        lambda files: files.download("a"),
        lambda files: files.list(),
    ],
)
def test_nothing_works_before_the_start(call):
    with pytest.raises(errors.SandboxError) as caught:
        call(Sandbox("k", "http://127.0.0.1:1").files)
    assert "not started" in str(caught.value)
