# SPDX-License-Identifier: Apache-2.0
"""airlock files list, rm, mv and mkdir."""

import http.server
import json
import re
import threading

import pytest

import commandline

ROW = re.compile(r"([-dl?][-rwx]{9}) (\d+(?:\.\d)? (?:bytes|KB|MB)) +(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (.+)\Z")


def airlock(server, *words):
    return commandline.airlock(server, "files", *words)


def done(server, *words):
    return commandline.done(server, "files", *words)


def refused(server, *words):
    result = airlock(server, *words)
    assert (result.returncode, result.stdout) == (1, ""), result
    return result.stderr


def rows(text):
    head, *lines = text.splitlines()
    assert head.split() == ["MODE", "SIZE", "MODIFIED", "PATH"]
    found = [ROW.match(line) for line in lines]
    assert all(found), text
    return [row.group(1, 2, 4) for row in found]


@pytest.fixture
def box(server):
    session = server.create()
    yield session
    server.delete("/v1/sessions/" + session)


def test_a_list_has_kind_size_time_and_path(server, box):
    assert done(server, "list", box) == "No files.\n"
    server.exec(box, "umask 022; mkdir -p out/deep; head -c 1536 /dev/zero >out/file; ln -s file out/link; touch out/deep/x")
    assert [row[2] for row in rows(done(server, "list", box))] == ["out"]
    link = ("lrwxrwxrwx", "4 bytes", "out/link -> file")
    file = ("-rw-r--r--", "1.5 KB", "out/file")
    found = rows(done(server, "list", box, "out"))
    assert [row for row in found if row[0][0] != "d"] == [file, link]
    assert [row[2] for row in found if row[0] == "drwxr-xr-x"] == ["out/deep"]
    deep = rows(done(server, "list", "--depth", "2", box, "out"))
    assert [row[2] for row in deep] == ["out/deep", "out/deep/x", "out/file", "out/link -> file"]
    assert deep == rows(done(server, "list", box, "out", "--depth=2"))


def test_json_is_the_servers_object(server, box):
    server.exec(box, "mkdir out; touch out/a out/b")
    shown = json.loads(done(server, "list", "--json", box, "out"))
    assert shown == server.get("/v1/sessions/%s/list?path=out" % box).json
    assert json.loads(done(server, "list", "--json", box, "--depth", "2")) == (
        server.get("/v1/sessions/%s/list?depth=2" % box).json
    )
    server.exec(box, "rm out/*")
    assert json.loads(done(server, "list", "--json", box, "out")) == {
        "path": "out", "entries": [], "next": None,
    }


def test_every_page_is_there(server, box):
    server.exec(box, "mkdir many && cd many && seq 10000 12344 | xargs touch")
    names = ["many/%d" % n for n in range(10000, 12345)]
    assert server.get("/v1/sessions/%s/list?path=many" % box).json["next"]
    assert [row[2] for row in rows(done(server, "list", box, "many"))] == names
    shown = json.loads(done(server, "list", "--json", box, "many"))
    assert [entry["path"] for entry in shown["entries"]] == names and shown["next"] is None


@pytest.mark.parametrize(
    "said", ['{}', '{"path": "."}', '{"entries": [], "next": null}', '{"path": ".", "entries": {}}']
)
def test_an_answer_that_is_no_list_is_none(said):
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        other.url = "http://127.0.0.1:%d" % other.server_port
        try:
            for words in (["x"], ["--json", "x"]):
                assert refused(other, "list", *words) == "airlock: the server did not answer with a list\n"
        finally:
            other.shutdown()
            thread.join()


def test_names_do_not_steer_the_terminal(server, box):
    server.exec(box, r"""touch "$(printf 'a\033[2Jb\rc\nd\302\233e\177f')" "$(printf 'g\377')"; ln -s "$(printf '\033c')" h""")
    text = done(server, "list", box)
    assert [row[2] for row in rows(text)] == ["a?[2Jb?c?d?e?f", "g\\xff", "h -> ?c"]
    text = done(server, "list", "--json", box)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    first, second, third = json.loads(text)["entries"]
    assert first["path"] == "a\x1b[2Jb\rc\nd\x9be\x7ff"
    assert (second["path"], second["raw"], third["target"]) == ("g\\xff", True, "\x1bc")
    assert refused(server, "rm", box, "no\x1b[2J") == "airlock: File 'no?[2J' does not exist.\n"
    assert refused(server, "list", box, "no\x1b[2J") == "airlock: Folder 'no?[2J' does not exist.\n"
    assert done(server, "rm", box, first["path"]) == ""


def test_rm_takes_a_folder_only_when_it_is_asked_to(server, box):
    server.exec(box, "mkdir -p full/deep empty; touch full/deep/x file ./-f; ln -s full link")
    assert refused(server, "rm", box, "full") == (
        "airlock: 'full' is not empty; -r deletes all that is in it\n"
    )
    for words in (["file"], ["empty"], ["link"], ["--", "-f"], ["-r", "full"]):
        assert done(server, "rm", box, *words) == ""
    assert done(server, "list", box) == "No files.\n"
    assert refused(server, "rm", box, "file") == "airlock: File 'file' does not exist.\n"
    assert refused(server, "rm", "-r", box, "full") == "airlock: File 'full' does not exist.\n"
    assert done(server, "rm", "-f", box, "file") == ""
    assert refused(server, "rm", "-r", box, ".") == "airlock: '.' is the workspace itself.\n"


def test_mv_replaces_only_when_it_is_asked_to(server, box):
    server.exec(box, "echo new >from; echo old >to; mkdir -p full/deep other")
    assert refused(server, "mv", box, "from", "to") == (
        "airlock: 'to' already exists; --replace puts this in its place\n"
    )
    assert server.exec(box, "cat to")["stdout"] == "old\n"
    assert done(server, "mv", "--replace", box, "from", "to") == ""
    assert done(server, "mv", box, "to", "new/folder/to") == ""
    assert server.exec(box, "cat new/folder/to")["stdout"] == "new\n"
    assert refused(server, "mv", box, "to", "x") == "airlock: File 'to' does not exist.\n"
    assert refused(server, "mv", box, "other", "full", "--replace") == (
        "airlock: 'full' already exists; delete it first\n"
    )
    assert refused(server, "mv", box, "new/folder/to", "other", "--replace") == (
        "airlock: 'other' already exists; delete it first\n"
    )


def test_mkdir_makes_the_parents(server, box):
    for words in ((box, "a/b/c"), ("-p", box, "a/b/c"), (box, "a/b/c")):
        assert done(server, "mkdir", *words) == ""
    assert server.exec(box, "cd a/b/c && touch x")["exit_code"] == 0
    assert refused(server, "mkdir", box, "a/b/c/x") == "airlock: 'a/b/c/x' already exists.\n"
    assert refused(server, "mkdir", box, "../a").startswith("airlock: Access denied: ")


@pytest.mark.parametrize(
    "words", [("list",), ("rm", "x"), ("mv", "x", "y"), ("mkdir", "x")], ids=lambda words: words[0]
)
def test_a_sandbox_that_is_gone_is_named_in_the_servers_words(server, words):
    command, *rest = words
    assert refused(server, command, "sbx_0123456789ab", *rest) == (
        "airlock: Session not found or expired\n"
    )
