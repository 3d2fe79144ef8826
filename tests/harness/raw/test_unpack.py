"""Archives: one plain file comes out, and everything that could do harm is refused before any byte is written."""

import stat
import tarfile
import zipfile

import pytest

from harness.raw import unpack as archives
from harness.raw.fetch import fetch
from harness.raw.unpack import BadDownload, unpack_member
from tasks.task import Download
from tests.support.studies.forged import special, tar_of

TEXT = b"id,text\n1,words\n"


def make_zip(path, members):
    """A zip of (name or ZipInfo, content) pairs."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members:
            made.writestr(name, content)
    return path


def make_tar(path, members, mode="w:gz"):
    path.write_bytes(tar_of(members, mode))
    return path


def zip_link():
    info = zipfile.ZipInfo("link")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return info


GOOD = [
    ("plain.zip", lambda path: make_zip(path, [("folder/rows.csv", TEXT), ("folder/other.csv", b"x")])),
    ("plain.tar", lambda path: make_tar(path, [("folder/rows.csv", TEXT)], "w")),
    ("plain.tar.gz", lambda path: make_tar(path, [("folder/rows.csv", TEXT)], "w:gz")),
    ("plain.tar.bz2", lambda path: make_tar(path, [("folder/rows.csv", TEXT)], "w:bz2")),
    ("plain.tar.xz", lambda path: make_tar(path, [("folder/rows.csv", TEXT)], "w:xz")),
]


@pytest.mark.parametrize(("name", "make"), GOOD, ids=[name for name, _ in GOOD])
def test_one_file_comes_out_of_every_format(tmp_path, name, make):
    unpack_member(make(tmp_path / name), "folder/rows.csv", tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_bytes() == TEXT


WANTED = ("rows.csv", TEXT)
BAD = {
    "zip-parent": lambda path: make_zip(path, [WANTED, ("../evil", b"x")]),
    "zip-inner-parent": lambda path: make_zip(path, [WANTED, ("a/../../evil", b"x")]),
    "zip-absolute": lambda path: make_zip(path, [WANTED, ("/etc/evil", b"x")]),
    "zip-backslash": lambda path: make_zip(path, [WANTED, ("..\\evil", b"x")]),
    "zip-drive": lambda path: make_zip(path, [WANTED, ("C:/evil", b"x")]),
    "zip-link": lambda path: make_zip(path, [WANTED, (zip_link(), b"/etc/passwd")]),
    "zip-bomb": lambda path: make_zip(path, [WANTED, ("zeros", bytes(30_000_000))]),
    "zip-twice": lambda path: make_zip(path, [WANTED, WANTED]),
    "zip-many": lambda path: make_zip(path, [WANTED, *((f"{i}", b"") for i in range(60))]),
    "zip-lacking": lambda path: make_zip(path, [("other.csv", TEXT)]),
    "tar-parent": lambda path: make_tar(path, [WANTED, ("../evil", b"x")]),
    "tar-absolute": lambda path: make_tar(path, [WANTED, ("/etc/evil", b"x")]),
    "tar-symlink": lambda path: make_tar(path, [WANTED, (special("l", tarfile.SYMTYPE, "/etc/passwd"), None)]),
    "tar-hardlink": lambda path: make_tar(path, [WANTED, (special("l", tarfile.LNKTYPE, "rows.csv"), None)]),
    "tar-wanted-link": lambda path: make_tar(path, [(special("rows.csv", tarfile.SYMTYPE, "/etc/passwd"), None)]),
    "tar-device": lambda path: make_tar(path, [WANTED, (special("d", tarfile.CHRTYPE), None)]),
    "tar-pipe": lambda path: make_tar(path, [WANTED, (special("p", tarfile.FIFOTYPE), None)]),
    "tar-bomb": lambda path: make_tar(path, [WANTED, ("zeros", bytes(30_000_000))]),
    "tar-many": lambda path: make_tar(path, [WANTED, *((f"{i}", b"") for i in range(60))]),
    "tar-folder": lambda path: make_tar(path, [(special("rows.csv", tarfile.DIRTYPE), None)]),
    "not-an-archive": lambda path: path.write_bytes(TEXT * 100) and path,
    "empty": lambda path: path.write_bytes(b"") or path,
}


@pytest.mark.parametrize("kind", BAD)
def test_an_unsafe_or_broken_archive_is_refused_before_anything_is_written(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(archives, "MOST_ENTRIES", 50)
    made = BAD[kind](tmp_path / "archive")
    with pytest.raises(BadDownload) as refused:
        unpack_member(made, "rows.csv", tmp_path / "out")
    assert "\n" not in str(refused.value)
    assert {path.name for path in tmp_path.iterdir()} == {"archive"}


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_a_broken_archive_is_refused(tmp_path, make):
    made = make(tmp_path / "archive", [("rows.csv", bytes(range(256)) * 400)])
    content = made.read_bytes()
    for cut in (len(content) // 3, len(content) // 2, len(content) - 3):
        made.write_bytes(content[:cut])
        with pytest.raises(BadDownload):
            unpack_member(made, "rows.csv", tmp_path / "out")


def test_an_encrypted_member_is_refused(tmp_path):
    made = make_zip(tmp_path / "archive", [WANTED])
    content = bytearray(made.read_bytes())
    content[6] |= 1  # flag of the member's own header
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and of the directory
    made.write_bytes(bytes(content))
    with pytest.raises(BadDownload, match="encrypted"):
        unpack_member(made, "rows.csv", tmp_path / "out")


@pytest.fixture
def fetched(tmp_path, monkeypatch):
    """The addresses that were asked for, each of which gives the archive of a test."""
    addresses = []

    def copy(download, target, watch):
        addresses.append(download.url)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((tmp_path / "packed.zip").read_bytes())

    monkeypatch.setattr("harness.raw.fetch._fetch_file", copy)
    return addresses


def test_a_fetch_keeps_the_wanted_members_alone(tmp_path, fetched):
    make_zip(tmp_path / "packed.zip", [("a/one.csv", TEXT), ("a/two.csv", TEXT * 2), ("b", b"x")])
    url, data = "https://example.org/packed.zip", tmp_path / "data"
    wanted = [Download(url, f"set/{name}", archive_member=f"a/{name}") for name in ("one.csv", "two.csv")]
    assert [is_new for _, is_new in fetch(wanted, data, lambda *_: None)] == [True, True]
    assert fetched == [url]
    assert sorted(map(str, data.rglob("*"))) == [f"{data}/{name}" for name in ("set", "set/one.csv", "set/two.csv")]


def test_a_fetch_of_an_unsafe_archive_leaves_nothing(tmp_path, fetched):
    BAD["zip-parent"](tmp_path / "packed.zip")
    wanted = [Download("https://example.org/packed.zip", "rows.csv", archive_member="rows.csv")]
    with pytest.raises(BadDownload, match="outside"):
        list(fetch(wanted, tmp_path / "data", lambda *_: None))
    assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == []
