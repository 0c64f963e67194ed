# SPDX-License-Identifier: Apache-2.0
"""Archives that are made to get out of their folder, or to fill the disk, by the way of an import.

What stands in the way, from the inside out (src/worker/unarchive.c, src/worker/file-path.c):

  archive_names   names, kinds and links of members, before anything is made of them
  archive_limits  number, size, ratio and time
  archive_stream  a stream that breaks is not one that ends
  quota_count     the worker's own sum of what is in the workspace
  beneath         openat2 beneath the folder that is unpacked to
  the sandbox     the worker is a tenant in a mount namespace, and the workspace has its hard quota

Each row is refused with the contract's text, and nothing is left; or it says what of it is kept inside.
Then it is seen without the check: what was refused appears, or what stands behind refuses it; and
without "beneath" as well, where it appears beside the destination. Whatever is off, the host and the
tenant's other session stay as they were. The numbers are those of the attack catalogue.
"""

import collections
import gzip
import io
import os
import tarfile
import zlib

import pytest

import harness
from box import Box
from codehost import CodeHost, archive
from test_races import HostFolder

MB = 1 << 20
QUOTA_MB = 32
LINK, HARD, FOLDER = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
NAME = (
    "a name in the archive leads out of its folder, is too long, or needs a folder where a file is."
)
THROUGH = "a name in the archive leads through a link, or a hard link leads out of it."
KIND = "the archive has something that is no file, folder or link."
BROKEN = "the archive is damaged or cut short."
LIMIT = (
    "the archive has more than 500,000 entries, or is larger than 16 GB or 200 times its size when it"
    " is unpacked."
)
# By what stands behind, in other words; and in the same, which shows nothing of the check.
REFUSED, SAME = "refused", "refused in the same words"
# A file that everybody could make on the host, if its path led there.
CRON = "/etc/cron.d/airlock-planted"

# says: the contract's text. names: without archive_names; open: without beneath, too: what is there
# then, or REFUSED or SAME. HOST in a name is a folder of the host that is open to everybody; in the worker
# its path is free, so what gets there makes a folder in its own /tmp, or goes nowhere.
Row = collections.namedtuple("Row", "number name says names open members")


def row(number, name, says, names, open_, *members):
    return Row(number, name, says, names, open_, members)


X = b"planted"
ROWS = [
    # Of each name the first part goes.
    row(53, "up at once", NAME, ["repo/x"], ["repo/x"], ("../x", X)),
    row(53, "up", NAME, REFUSED, ["repo", "x"], ("r/../x", X)),
    row(53, "up by a folder", NAME, REFUSED, ["repo/a", "x"], ("r/a/../../x", X)),
    row(53, "up with dots and slashes", NAME, REFUSED, ["repo", "x"], ("r/.//.././x", X)),
    row(53, "up and down", NAME, ["repo/a", "repo/x"], ["repo/a", "repo/x"], ("r/a/", FOLDER, ""),
        ("r/a/../x", X)),
    row(53, "up at the end", NAME, ["repo/a"], ["repo/a"], ("r/a/", FOLDER, ""),
        ("r/a/..", FOLDER, "")),
    row(53, "up to the host", NAME, REFUSED, ["repo"], ("r/" + "../" * 12 + "HOST/x", X)),
    row(53, "absolute", NAME, REFUSED, ["repo", "x"], ("/workspace/x", X)),
    row(53, "absolute, to the host", NAME, REFUSED, REFUSED, ("/HOST/s/x", X)),
    row(53, "absolute, to cron", NAME, REFUSED, REFUSED, (CRON, X)),
    row(55, "beneath a link up", THROUGH, REFUSED, ["repo/l", "x"], ("r/l", LINK, ".."),
        ("r/l/x", X)),
    row(55, "beneath a link inside", THROUGH, ["repo/l", "repo/s/x"], ["repo/l", "repo/s/x"],
        ("r/s/", FOLDER, ""), ("r/l", LINK, "s"), ("r/l/x", X)),
    row(55, "beneath a link to the host", THROUGH, REFUSED, REFUSED, ("r/l", LINK, "/HOST/s"),
        ("r/l/x", X)),
    row(55, "beneath a link to what the worker may write", THROUGH, REFUSED, ["repo/l"],
        ("r/l", LINK, "/tmp"), ("r/l/x", X)),
    row(55, "beneath links of links", THROUGH, REFUSED, REFUSED, ("r/a", LINK, ".."),
        ("r/b", LINK, "a/.."), ("r/b/x", X)),
    row(58, "a file becomes a link", THROUGH, REFUSED, ["repo/d", "x"], ("r/d", X),
        ("r/d", LINK, ".."), ("r/d/x", X)),
    # A folder does not go for a link, whatever is off.
    row(58, "a folder becomes a link", NAME, SAME, SAME, ("r/d/", FOLDER, ""),
        ("r/d", LINK, ".."), ("r/d/x", X)),
    row(59, "beneath more links than are followed", THROUGH, SAME, SAME,
        *[("r/%d" % n, LINK, "%d" % (n + 1)) for n in range(50)], ("r/0/x", X)),
    row(59, "beneath links longer than a path", THROUGH, REFUSED, ["repo/d", "x"],
        *[("r/%d" % n, LINK, "d/../" * 600 + "%d" % (n + 1)) for n in range(4)],
        ("r/d/", FOLDER, ""), ("r/4", LINK, ".."), ("r/0/x", X)),
    row(56, "a hard link to the image", THROUGH, SAME, REFUSED, ("r/h", HARD, "/etc/passwd")),
    row(56, "a hard link to the host", THROUGH, SAME, SAME, ("r/h", HARD, "/HOST/f")),
    row(56, "a hard link beside the folder", THROUGH, SAME, ["repo/h=mine"],
        ("r/h", HARD, "r/../mark")),
    row(56, "a hard link to a link", THROUGH, ["repo/h", "repo/l"], ["repo/h", "repo/l"],
        ("r/l", LINK, "../mark"), ("r/h", HARD, "r/l")),
    row(56, "a hard link by a link", THROUGH, SAME, ["repo/h=mine", "repo/l"],
        ("r/l", LINK, ".."), ("r/h", HARD, "r/l/mark")),
    row(64, "a FIFO", KIND, ["repo/p"], ["repo/p"], ("r/p", tarfile.FIFOTYPE, "")),
    row(64, "a character device", KIND, REFUSED, REFUSED, ("r/p", tarfile.CHRTYPE, "")),
    row(64, "a block device", KIND, REFUSED, REFUSED, ("r/p", tarfile.BLKTYPE, "")),
]


@pytest.fixture(scope="module")
def code_host():
    made = CodeHost()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def host_folder():
    folder = HostFolder()
    yield folder
    folder.check()
    folder.remove()


LOOK = """
import stat
found = []
folders = [b'']
while folders:
    folder = folders.pop()
    for name in os.listdir(folder or b'.'):
        path = folder + name
        state = os.lstat(path)
        text = None
        if stat.S_ISREG(state.st_mode):
            with open(path, 'rb') as file:
                text = file.read(16).hex()
        if stat.S_ISDIR(state.st_mode):
            folders.append(path + b'/')
        found.append([path.hex(), state.st_mode, state.st_size, text])
show(sorted(found))
"""
Entry = collections.namedtuple("Entry", "mode size text")


class Place:
    """A session with one file, another session of the tenant, and the host."""

    def __init__(self, server, code_host, host_folder):
        self.server, self.code_host, self.host = server, code_host, host_folder
        self.box = Box(server, canaries=[host_folder.canary])
        self.other = Box(server, canaries=[host_folder.canary])
        for box in (self.box, self.other):
            assert box.write("mark", "mine").status == 200
        self.before = self.tree(self.other)
        self.empty = self.tree()

    def tree(self, box=None):
        """What is in the workspace: bytes of names to Entry."""
        return {
            bytes.fromhex(name): Entry(mode, size, text and bytes.fromhex(text))
            for name, mode, size, text in (box or self.box).py(LOOK)
        }

    def bring(self, blob):
        self.code_host.put("repo", blob)
        answer = self.server.post(self.box.path + "/import", {"repo": "o/repo"}, timeout=240)
        self.check_outside()
        return answer

    def check_outside(self):
        self.host.check()
        assert not os.path.lexists(CRON), "the host was changed"
        assert self.tree(self.other) == self.before, "another session was changed"

    def check_refused(self, answer, says=None):
        assert 400 <= answer.status < 500, answer
        if says:
            text = "Unpacking o/repo failed: " + says
            assert (answer.status, answer.code, answer.detail) == (422, "unpack_failed", text)
        assert self.tree() == self.empty, "something was left"

    def clear(self):
        assert self.box.sh("find . -mindepth 1 ! -name mark -delete")["exit_code"] == 0
        assert self.tree() == self.empty

    def close(self):
        self.box.close()
        self.other.close()


class Places:
    """One for each set of layers that is off."""

    def __init__(self, servers, knob_servers, *around):
        self.servers, self.knob_servers, self.around = servers, knob_servers, around
        self.env = {
            "SANDBOX_GITHUB_BASE": "http://127.0.0.1:%d" % around[0].server_address[1],
            "SANDBOX_IMPORT_MAX_MB": "8",
            "SANDBOX_WORKSPACE_QUOTA_MB": str(QUOTA_MB),
        }
        self.off = self.place = None

    def get(self, off=""):
        if self.place is None or self.off != off:
            self.close()
            server = self.knob_servers.get(off, self.env) if off else self.servers.get(self.env)
            self.off, self.place = off, Place(server, *self.around)
        # A test that failed may have left something.
        self.place.clear()
        return self.place

    def close(self):
        if self.place is not None:
            self.place.close()
        self.place = None


@pytest.fixture(scope="module")
def places(servers, knob_servers, code_host, host_folder):
    made = Places(servers, knob_servers, code_host, host_folder)
    yield made
    made.close()


def blob_of(entry, host):
    path = host.path.lstrip("/")
    return archive(
        *[[word.replace("HOST", path) if isinstance(word, str) else word for word in member]
          for member in entry.members],
        root="",
    )


def name_of(entry):
    return "%d %s" % (entry.number, entry.name)


@pytest.mark.parametrize("entry", ROWS, ids=name_of)
def test_a_member_is_refused(entry, places):
    place = places.get()
    place.check_refused(place.bring(blob_of(entry, place.host)), entry.says)


WITHOUT = [("archive_names", row, row.names) for row in ROWS] + [
    ("archive_names,beneath", row, row.open) for row in ROWS
]


@pytest.mark.parametrize(
    "off, entry, there", WITHOUT, ids=["%s: %s off" % (name_of(r), off) for off, r, _ in WITHOUT]
)
def test_a_member_without_the_checks(off, entry, there, places):
    place = places.get(off)
    answer = place.bring(blob_of(entry, place.host))
    if there in (REFUSED, SAME):
        place.check_refused(answer, entry.says if there == SAME else None)
        assert (answer.code == "unpack_failed") == (there == SAME), answer
        return
    assert answer.status == 200, answer
    tree = place.tree()
    for path in there:
        path, _, text = path.partition("=")
        assert path.encode() in tree, (path, tree)
        assert not text or tree[path.encode()].text == text.encode()
    assert not any(name.startswith(b".airlock-") for name in tree), tree


def test_every_member_is_seen_without_its_check():
    """Except those that two more layers refuse in its words."""
    assert [name_of(r) for r in ROWS if r.names == r.open == SAME] == [
        "58 a folder becomes a link",
        "59 beneath more links than are followed",
        "56 a hard link to the host",
    ]


# ---- The stream ----


def zeros(name, size):
    """One file of zeros, a thousand times smaller."""
    info = tarfile.TarInfo(name)
    info.size = size
    press = zlib.compressobj(9, zlib.DEFLATED, 31)
    out = [press.compress(info.tobuf())]
    piece = bytes(MB)
    for _ in range(size // MB):
        out.append(press.compress(piece))
    out.append(press.compress(bytes(1024)))
    return b"".join(out) + press.flush()


BOMBS = [
    # Without the limits: it is there; what is never written; the quota.
    ("that fits", zeros("r/f", 24 * MB), {b"repo", b"repo/f"}),
    ("beside the folder", zeros("r", 128 * MB), {b"repo"}),
    ("that does not fit", zeros("r/f", 128 * MB), None),
]


@pytest.mark.parametrize("name, blob, _there", BOMBS, ids=[row[0] for row in BOMBS])
def test_67_a_bomb_is_refused(name, blob, _there, places):
    assert len(blob) < 160 * 1024
    place = places.get()
    place.check_refused(place.bring(blob), LIMIT)


@pytest.mark.parametrize("name, blob, there", BOMBS, ids=[row[0] for row in BOMBS])
def test_67_a_bomb_without_limits_ends_at_the_quota(name, blob, there, places):
    place = places.get("archive_limits")
    if there is None:
        answer = place.bring(blob)
        assert (answer.status, answer.code) == (413, "import_no_space"), answer
        place.check_refused(answer)
        return
    unpacked(place, blob)
    assert set(place.tree()) - set(place.empty) == there


def unpacked(place, blob):
    """A file system with room may still say now and then that it has none."""

    def once():
        answer = place.bring(blob)
        assert (answer.status, answer.json.get("code")) in ((200, None), (413, "import_no_space")), answer
        return answer.status == 200

    harness.wait_until(once, "it is unpacked")


def numerous(count):
    """Members beside the folder, of which nothing is made, with names that do not compress."""
    template = tarfile.TarInfo("0" * 8).tobuf(tarfile.GNU_FORMAT)
    rest, without = template[8:148], sum(template[:148]) + sum(template[156:]) + 8 * 0x20 - 8 * 0x30
    names = os.urandom(4 * count).hex()
    press = zlib.compressobj(1, zlib.DEFLATED, 31)
    out = []
    for at in range(0, 8 * count, 8):
        name = names[at : at + 8].encode()
        out.append(press.compress(name + rest + b"%06o\0 " % (without + sum(name)) + template[156:]))
    out.append(press.compress(bytes(1024)))
    return b"".join(out) + press.flush()


ENTRIES = 500000


def test_67_the_number_of_members_is_a_limit(places):
    blob = numerous(ENTRIES + 1)
    # It is not the ratio that is seen.
    assert (ENTRIES + 3) * 512 < 200 * len(blob)
    place = places.get()
    place.check_refused(place.bring(blob), LIMIT)
    answer = place.bring(numerous(ENTRIES))
    assert (answer.status, answer.json["files"]) == (200, 0), answer
    place = places.get("archive_limits")
    answer = place.bring(blob)
    assert (answer.status, answer.json["files"]) == (200, 0), answer


def test_67_a_bomb_that_nobody_counts_ends_at_the_hard_quota(places):
    """Two layers off; without the third it is there."""
    name, blob, _ = BOMBS[-1]
    place = places.get("archive_limits,quota_count")
    answer = place.bring(blob)
    assert (answer.status, answer.code) == (413, "import_no_space"), answer
    place.check_refused(answer)
    place = places.get("archive_limits,quota_count,quota")
    unpacked(place, blob)
    assert place.tree()[b"repo/f"].size == 128 * MB


GOOD = archive(("f", X), ("g", X * 1000), root="r/")


def head(name, kind=b"0", size=b"00000000000", **more):
    """A member whose fields say what no writer would."""
    raw = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    raw[156:157] = kind
    raw[124 : 124 + len(size)] = size
    for at, value in more.items():
        raw[int(at[1:]) : int(at[1:]) + len(value)] = value
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


def packed(*pieces):
    return gzip.compress(b"".join(pieces) + bytes(1024))


FILE = head("r/f")
BASE256 = b"\x80" + bytes(3)
# None: it is for the reader of tar to say what is wrong with it.
STREAMS = [
    (61, "a long name of 2 GB", packed(head("././@LongLink", b"L", b"17777777777"), b"a" * 512), BROKEN),
    (61, "a long name of 2 MB", packed(head("././@LongLink", b"L", b"%011o" % (2 * MB)),
                                       b"r/" + b"ab" * (MB - 1), FILE), BROKEN),
    (61, "a long name without a member", packed(head("././@LongLink", b"L", b"00000000003"),
                                                b"r/x" + bytes(509)), BROKEN),
    (61, "a long name of a long name", packed(*[head("././@LongLink", b"L", b"00000000003"),
                                                b"r/x" + bytes(509)] * 40, FILE), None),
    (61, "a PAX header of 2 GB", packed(head("p", b"x", b"17777777777"), b"a" * 512), BROKEN),
    (62, "a size of 2^62", packed(head("r/f", size=BASE256 + b"\x40" + bytes(7))), None),
    (62, "a size below zero", packed(head("r/f", size=b"\xff" * 12)), BROKEN),
    (62, "a size of digits that are none", packed(head("r/f", size=b"99999999999")), BROKEN),
    (62, "a wrong checksum", packed(FILE[:148] + b"0000000\0" + FILE[156:]), BROKEN),
    (70, "cut in the head", GOOD[:5], BROKEN),
    (70, "cut in the middle", GOOD[: len(GOOD) // 2], BROKEN),
    (70, "cut before the checksum", GOOD[:-8], BROKEN),
    (70, "another checksum", GOOD[:-8] + bytes(4) + GOOD[-4:], BROKEN),
    (70, "garbage behind it", GOOD + b"garbage", BROKEN),
    (70, "half of another one behind it", GOOD + GOOD[:30], BROKEN),
    (70, "nothing", b"", BROKEN),
]
# What is unpacked without the check is what comes before the damage, mostly nothing.
FILES = {"cut before the checksum": 2, "garbage behind it": 2, "half of another one behind it": 2,
         "a size of 2^62": 1}
# What is not only broken needs another layer off, too.
ALSO = {"a long name of a long name": ",archive_names", "a size of 2^62": ",archive_limits"}


@pytest.mark.parametrize(
    "blob, says", [row[2:] for row in STREAMS], ids=["%d %s" % row[:2] for row in STREAMS]
)
def test_a_stream_is_refused(blob, says, places):
    place = places.get()
    answer = place.bring(blob)
    place.check_refused(answer, says)
    assert (answer.status, answer.code) == (422, "unpack_failed")


@pytest.mark.parametrize("row", STREAMS, ids=["%d %s" % row[:2] for row in STREAMS])
def test_a_stream_without_the_check(row, places):
    _, name, blob, says = row
    if name in ALSO:
        place = places.get("archive_stream")
        place.check_refused(place.bring(blob), says)
    place = places.get("archive_stream" + ALSO.get(name, ""))
    answer = place.bring(blob)
    assert (answer.status, answer.json["files"]) == (200, FILES.get(name, 0)), answer


# ---- What is taken, and how ----


def kept(place, blob):
    """Files and links below the destination, by name; folders end in a slash."""
    answer = place.bring(blob)
    assert answer.status == 200, answer
    tree = place.tree()
    assert tree.pop(b"mark") and all(name.startswith(b"repo") for name in tree)
    return {name[5:]: entry for name, entry in tree.items() if name != b"repo"}


def test_70_concatenated_streams_are_one(places):
    plain = gzip.decompress(GOOD)
    split = gzip.compress(plain[:700]) + gzip.compress(b"") + gzip.compress(plain[700:])
    assert set(kept(places.get(), split)) == {b"f", b"g"}
    # The first end of a tar is its end.
    assert set(kept(places.get(), GOOD + archive(("late", X), root="r/"))) == {b"f", b"g"}


def test_the_last_of_two_members_stays(places):
    tree = kept(places.get(), archive(("r/f", X), ("r/f", b"later"), ("r/./f", b"last"),
                                      ("r/l", LINK, "f"), ("r/l", b"no link"), root=""))
    assert {name: entry.text for name, entry in tree.items()} == {b"f": b"last", b"l": b"no link"}


def test_49_23_names_are_bytes(places):
    names = [
        b"CASE", b"case", b"e\xcc\x81", b"\xc3\xa9", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"n" * 255,
        b"\xff" * 255, b"a\nb", b"\x1b[31m", b"-rf", b"..\\up", b"%2e%2e", b"...", b" ",
        b"\xe2\x80\xae", b"\xef\xbc\x8e\xef\xbc\x8e", b"C:",
    ]
    blob = archive(*[("r/" + os.fsdecode(name), name[:16]) for name in names], root="")
    tree = kept(places.get(), blob)
    assert {name: entry.text for name, entry in tree.items()} == {name: name[:16] for name in names}


@pytest.mark.parametrize("name", ["n" * 256, "d/" * 2047 + "fg"], ids=["a part", "all"])
def test_a_name_that_is_too_long_is_refused(name, places):
    place = places.get()
    place.check_refused(place.bring(archive((name, X), root="r/")), NAME)


def test_a_deep_tree_is_unpacked(places):
    tree = kept(places.get(), archive(("d/" * 2000 + "f", X), root="r/"))
    assert len(tree) == 2001 and tree[b"d/" * 2000 + b"f"].text == X


def test_65_no_owner_mode_or_attribute_comes_along(places):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, mode in (("r/s", 0o6755), ("r/t", 0o1777), ("r/w", 0o666)):
            info = tarfile.TarInfo(name)
            info.mode, info.uid, info.gid, info.uname = mode, 0, 0, "root"
            info.pax_headers = {"SCHILY.xattr.security.capability": "x" * 20,
                                "SCHILY.xattr.user.a": "x", "SCHILY.acl.access": "user::rwx,group::rwx,other::rwx"}
            tar.addfile(info)
    place = places.get()
    assert place.bring(out.getvalue()).status == 200
    shown = place.box.py(
        "show([[n, os.stat('repo/' + n).st_mode & 0o7777, os.stat('repo/' + n).st_uid == os.getuid(),"
        " os.listxattr('repo/' + n)] for n in sorted(os.listdir('repo'))])"
    )
    assert shown == [["s", 0o755, True, []], ["t", 0o755, True, []], ["w", 0o644, True, []]]
