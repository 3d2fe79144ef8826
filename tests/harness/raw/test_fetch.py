"""Downloads against a server on this machine: what is resumed, what is refused, and what is left behind."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from adapters_store.disk import CannotWrite
from harness.raw import fetch as fetching
from harness.raw.fetch import FetchFailed, check_address, fetch
from tasks.task import Download

CONTENT = b"id,text,label\n" + b"".join(b"%d,some words,%d\n" % (i, i % 2) for i in range(3000))
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves ``files``; ``breaks`` holds after how many bytes each of the next answers is cut off."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {"/rows.csv": CONTENT}
        self.breaks: list[int] = []
        self.asked: list[tuple[str, str | None]] = []
        self.knows_ranges = True
        self.tells_length = True

    def url(self, path="/rows.csv"):
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.asked.append((self.path, asked))
        if self.path.startswith("/to="):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to="))
            self.end_headers()
            return
        if self.path not in self.server.files:
            self.send_error(404)
            return
        self.answer(self.server.files[self.path], asked)

    def answer(self, body, asked):
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.knows_ranges else 0
        if start >= len(body) > 0 and start:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if self.server.tells_length:
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        end = start + self.server.breaks.pop(0) if self.server.breaks else len(body)
        self.wfile.write(body[start:end])

    def log_message(self, *arguments):
        """Keep the test's output clean."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(fetching, "PAUSE_SECONDS", 0.0)
    running = Server()
    monkeypatch.setenv("HF_ENDPOINT", running.url(""))  # the one host on this machine that may be asked
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def get(data, *downloads, watch=lambda *_: None):
    return [is_new for _, is_new in fetch(downloads, data, watch)]


def files_of(data):
    return sorted(path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file())


def test_a_file_gets_its_name_once_it_is_complete_and_checked(server, tmp_path):
    seen = []
    download = Download(server.url(), "a/b/rows.csv", SHA256, len(CONTENT))
    assert get(tmp_path, download, watch=lambda *state: seen.append(state)) == [True]
    assert files_of(tmp_path) == ["a/b/rows.csv"]
    assert (tmp_path / "a/b/rows.csv").read_bytes() == CONTENT
    assert seen[-1] == ("a/b/rows.csv", len(CONTENT), len(CONTENT))


def test_a_file_that_is_there_is_not_asked_for_again(server, tmp_path):
    download = Download(server.url(), "rows.csv", SHA256)
    assert get(tmp_path, download) == [True]
    assert get(tmp_path, download) == [False]
    assert len(server.asked) == 1


def test_a_broken_transfer_is_continued_where_it_broke(server, tmp_path):
    server.breaks = [1000, 500]
    assert get(tmp_path, Download(server.url(), "rows.csv", SHA256)) == [True]
    assert [asked for _, asked in server.asked] == [None, "bytes=1000-", "bytes=1500-"]
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


def test_a_server_that_knows_no_ranges_is_asked_for_the_whole_file(server, tmp_path):
    server.breaks, server.knows_ranges = [1000], False
    assert get(tmp_path, Download(server.url(), "rows.csv", SHA256)) == [True]
    assert (tmp_path / "rows.csv").read_bytes() == CONTENT


def test_a_file_without_checksum_never_grows_from_two_answers(server, tmp_path):
    server.breaks = [1000]
    assert get(tmp_path, Download(server.url(), "rows.csv")) == [True]
    assert [asked for _, asked in server.asked] == [None, None]
    assert (tmp_path / "rows.csv").read_bytes() == CONTENT


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


def test_too_small_a_file_is_refused(server, tmp_path):
    with pytest.raises(FetchFailed, match=r"not 99,999"):
        get(tmp_path, Download(server.url(), "rows.csv", bytes=99_999))
    assert files_of(tmp_path) == []


def test_a_file_that_is_not_there_is_one_line(server, tmp_path):
    with pytest.raises(FetchFailed, match=r"gone\.csv: upstream does not have it") as refused:
        get(tmp_path, Download(server.url("/gone.csv"), "gone.csv"))
    assert "\n" not in str(refused.value)
    assert files_of(tmp_path) == []


def test_a_server_that_does_not_answer_is_one_line(server, tmp_path):
    server.shutdown()
    server.server_close()
    with pytest.raises(FetchFailed, match="no connection"):
        get(tmp_path, Download(server.url(), "rows.csv"))


def test_a_file_that_differs_from_upstream_is_never_overwritten(server, tmp_path):
    (tmp_path / "rows.csv").write_bytes(b"mine")
    with pytest.raises(FetchFailed, match="move it away"):
        get(tmp_path, Download(server.url(), "rows.csv", SHA256))
    assert (tmp_path / "rows.csv").read_bytes() == b"mine"


def test_few_redirects_are_followed(server, tmp_path):
    assert get(tmp_path, Download(server.url("/to=/rows.csv"), "rows.csv", SHA256)) == [True]
    with pytest.raises(FetchFailed, match="redirects more than"):
        get(tmp_path, Download(server.url("/to=" * 9 + "/rows.csv"), "again.csv", SHA256))


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
