"""Downloads against a server on this machine: what is resumed, what is refused, and what is left behind."""

import hashlib

import pytest

from adapters_store.disk import CannotWrite
from harness.raw import fetch as fetching
from harness.raw.fetch import FetchFailed, check_address, fetch
from tasks.task import Download

CONTENT = b"id,text,label\n" + b"".join(b"%d,some words,%d\n" % (i, i % 2) for i in range(3000))
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server(file_server):
    file_server.files["/rows.csv"] = CONTENT
    return file_server


def get(data, *downloads, watch=lambda *_: None):
    return [is_new for _, is_new in fetch(downloads, data, watch)]


def files_of(data):
    return sorted(path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file())


def test_a_file_gets_its_name_once_it_is_complete_and_checked_and_is_not_asked_for_again(server, tmp_path):
    seen = []
    download = Download(server.url(), "a/b/rows.csv", SHA256, len(CONTENT))
    assert get(tmp_path, download, watch=lambda *state: seen.append(state)) == [True]
    assert files_of(tmp_path) == ["a/b/rows.csv"]
    assert (tmp_path / "a/b/rows.csv").read_bytes() == CONTENT
    assert seen[-1] == ("a/b/rows.csv", len(CONTENT), len(CONTENT))
    assert get(tmp_path, download) == [False]
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("breaks", "knows_ranges", "checksum", "asked"),
    [
        ([1000, 500], True, SHA256, [None, "bytes=1000-", "bytes=1500-"]),
        ([1000], False, SHA256, [None, "bytes=1000-"]),  # the server gives the whole file
        ([1000], True, "", [None, None]),  # it would grow from two answers, and nothing could tell
    ],
)
def test_a_broken_transfer_is_continued_where_it_may_be(server, tmp_path, breaks, knows_ranges, checksum, asked):
    server.breaks, server.knows_ranges = breaks, knows_ranges
    assert get(tmp_path, Download(server.url(), "rows.csv", checksum)) == [True]
    assert [ranges for _, ranges in server.asked] == asked
    assert (tmp_path / "rows.csv").read_bytes() == CONTENT


def test_a_later_command_continues_what_an_earlier_one_left(server, tmp_path):
    server.breaks = [1000, 0, 0, 0]
    download = Download(server.url(), "rows.csv", SHA256)
    with pytest.raises(FetchFailed, match="1,000 bytes; the same command continues"):
        get(tmp_path, download)
    assert files_of(tmp_path) == ["rows.csv.part"]
    server.asked.clear()
    assert get(tmp_path, download) == [True]
    assert server.asked == [("/rows.csv", "bytes=1000-")]
    assert files_of(tmp_path) == ["rows.csv"]


def test_a_longer_rest_of_another_file_is_thrown_away(server, tmp_path):
    (tmp_path / "rows.csv.part").write_bytes(b"x" * (len(CONTENT) + 5))
    assert get(tmp_path, Download(server.url(), "rows.csv", SHA256)) == [True]
    assert (tmp_path / "rows.csv").read_bytes() == CONTENT


def test_a_git_blob_is_checked_where_no_sha256_is_known(server, tmp_path):
    blob = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
    assert get(tmp_path, Download(server.url(), "rows.csv", git_blob=blob)) == [True]
    with pytest.raises(FetchFailed, match="checksum differs"):
        get(tmp_path, Download(server.url(), "other.csv", git_blob="0" * 40))


@pytest.mark.parametrize("partly", [b"", b"y" * 500], ids=["fresh", "continued"])
def test_a_wrong_checksum_leaves_nothing(server, tmp_path, partly):
    if partly:
        (tmp_path / "rows.csv.part").write_bytes(partly)
    with pytest.raises(FetchFailed, match="checksum differs"):
        get(tmp_path, Download(server.url(), "rows.csv", SHA256 if partly else "0" * 64))
    assert files_of(tmp_path) == []


@pytest.mark.parametrize("tells_length", [True, False])
def test_too_large_a_file_is_refused_and_leaves_nothing(server, tmp_path, monkeypatch, tells_length):
    server.tells_length = tells_length
    monkeypatch.setattr(fetching, "LARGEST_BYTES", 1000)
    for size in (0, len(CONTENT) - 1):
        with pytest.raises(FetchFailed, match="more than the"):
            get(tmp_path, Download(server.url(), "rows.csv", bytes=size))
        assert files_of(tmp_path) == []


def test_too_small_or_absent_a_file_is_refused_in_a_line_and_one_that_differs_is_kept(server, tmp_path):
    with pytest.raises(FetchFailed, match=r"not 99,999"):
        get(tmp_path, Download(server.url(), "rows.csv", bytes=99_999))
    assert files_of(tmp_path) == []
    with pytest.raises(FetchFailed, match=r"gone\.csv: upstream does not have it") as refused:
        get(tmp_path, Download(server.url("/gone.csv"), "gone.csv"))
    assert "\n" not in str(refused.value)
    assert files_of(tmp_path) == []
    (tmp_path / "rows.csv").write_bytes(b"mine")
    with pytest.raises(FetchFailed, match="move it away"):
        get(tmp_path, Download(server.url(), "rows.csv", SHA256))
    assert (tmp_path / "rows.csv").read_bytes() == b"mine"


def test_few_redirects_are_followed_and_a_server_that_does_not_answer_is_one_line(server, tmp_path):
    assert get(tmp_path, Download(server.url("/to=/rows.csv"), "rows.csv", SHA256)) == [True]
    with pytest.raises(FetchFailed, match="redirects more than"):
        get(tmp_path, Download(server.url("/to=" * 9 + "/rows.csv"), "again.csv", SHA256))
    server.shutdown()
    server.server_close()
    with pytest.raises(FetchFailed, match="no connection"):
        get(tmp_path, Download(server.url(), "late.csv"))


@pytest.mark.parametrize("url", ["http://example.org/rows.csv", "ftp://127.0.0.2/rows.csv", "file:///etc/passwd"])
def test_nothing_but_https_is_fetched_nor_redirected_to(server, tmp_path, url):
    with pytest.raises(FetchFailed, match="not an https address"):
        check_address(url)
    with pytest.raises(FetchFailed, match=r"not an https address|away from https"):
        get(tmp_path, Download(server.url(f"/to={url}"), "rows.csv"))
    assert files_of(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_one_line(server, tmp_path):
    (tmp_path / "taken").write_text("a file where a folder should be", encoding="utf-8")
    with pytest.raises(CannotWrite, match="cannot be written"):
        get(tmp_path, Download(server.url(), "taken/rows.csv"))
