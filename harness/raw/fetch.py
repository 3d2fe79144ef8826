"""Downloads over https only, limited in size, and resumed after an interruption.

A file grows under the name ``.part``, and gets its own name only when its size and checksum are right.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from adapters_store.disk import CannotWrite, cause
from harness.raw.address import MOST_REDIRECTS, FetchFailed, PrivateAddress, check_address, opener
from harness.raw.holdings import Known, known_download
from harness.raw.unpack import unpack_member
from tasks.task import Download

LARGEST_BYTES = 2_000_000_000  # limit of a file whose entry states no size
LARGEST_JSON_BYTES = 20_000_000
BARREN_ATTEMPTS = 3  # in a row that transfer nothing, after which a download is given up
PAUSE_SECONDS = 1.0
TIMEOUT_SECONDS = 60
CHUNK = 1 << 18
ARCHIVES = ".archives"  # below the data folder, while a fetch is under way

Watch = Callable[[str, int, int], None]  # path, bytes received, bytes in all (0 where not known)


def fetch(downloads: Sequence[Download], data: Path, watch: Watch) -> Iterator[tuple[Download, bool]]:
    """Download each file into ``data``; yield it with whether it was downloaded now. Existing files are left alone.

    FetchFailed at the first file that cannot be downloaded, or that exists with another content.
    """
    archives = set()
    try:
        for download in downloads:
            target = data / download.path
            if target.exists():
                _refuse_different(download, target)
                yield download, False
                continue
            if download.archive_member:
                archives.add(archive := data / ARCHIVES / _archive_name(download))
                if not archive.is_file():
                    _fetch_file(download, archive, watch)
                _take_member(archive, download, target)
            else:
                _fetch_file(download, target, watch)
            yield download, True
    except OSError as problem:
        raise CannotWrite(
            f"{problem.filename or data}: cannot be written ({cause(problem)}); mend this, or fetch into another folder"
        ) from None
    finally:
        _remove(archives, data / ARCHIVES)


def json_at(url: str) -> Any:  # noqa: ANN401 - any JSON
    """The JSON at an address; FetchFailed if it cannot be downloaded or is not JSON."""
    check_address(url)
    request = urllib.request.Request(url, headers={"User-Agent": "empathy-transfer"})
    try:
        with opener().open(request, timeout=TIMEOUT_SECONDS) as response:
            return json.loads(response.read(LARGEST_JSON_BYTES))
    except urllib.error.HTTPError as problem:
        raise FetchFailed(f"{url}: {_answer(problem)}") from None
    except (OSError, http.client.HTTPException) as problem:
        raise FetchFailed(f"{url}: {_no_connection(problem)}") from None
    except ValueError:
        raise FetchFailed(f"{url}: the answer is not JSON; is it the right address?") from None


def _refuse_different(download: Download, target: Path) -> None:
    known = Known() if download.archive_member else known_download(download)
    if known.state(target) == "differs":
        raise FetchFailed(f"{target}: is there, but is not the file upstream has; move it away to fetch it again")


def _archive_name(download: Download) -> str:
    return hashlib.sha256(download.url.encode()).hexdigest()[:16]


def _take_member(archive: Path, download: Download, target: Path) -> None:
    part = _part_of(target)
    try:
        unpack_member(archive, download.archive_member, part)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    part.replace(target)


def _remove(archives: set[Path], folder: Path) -> None:
    for archive in archives:
        archive.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _part_of(target: Path) -> Path:
    """The path at which a file grows until it is complete and checked."""
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.with_name(target.name + ".part")


def _fetch_file(download: Download, target: Path, watch: Watch) -> None:
    """Download to ``target``; an interrupted transfer is resumed, now or by the next command."""
    check_address(download.url)
    part, barren = _part_of(target), 0
    while True:
        start = _size(part)
        if _transfer(download, part, watch):
            break
        barren = 0 if _size(part) > start else barren + 1
        if barren == BARREN_ATTEMPTS:
            raise FetchFailed(
                f"{download.url}: the transfer breaks off, now at {_size(part):,} bytes; the same command continues it"
            )
        time.sleep(PAUSE_SECONDS)
    _refuse_other_content(download, part)
    part.replace(target)


def _refuse_other_content(download: Download, part: Path) -> None:
    is_short = bool(download.bytes) and _size(part) != download.bytes
    if is_short or known_download(download).state(part) == "differs":
        reason = f"it has {_size(part):,} bytes, not {download.bytes:,}" if is_short else "its checksum differs"
        part.unlink()
        raise FetchFailed(f"{download.url}: what came is not the file of the entry ({reason}); it was removed")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _transfer(download: Download, part: Path, watch: Watch) -> bool:
    """Append to ``part`` what it lacks; whether it is complete. FetchFailed where another attempt would not help.

    Without a checksum nothing shows that the rest belongs to the beginning, so such a file is started again.
    """
    start = _size(part) if download.sha256 or download.git_blob else 0
    request = urllib.request.Request(download.url, headers={"User-Agent": "empathy-transfer"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        with opener().open(request, timeout=TIMEOUT_SECONDS) as response:
            return _receive(response, download, part, start, watch)
    except urllib.error.HTTPError as problem:
        if problem.code == 416:  # the rest does not exist: the beginning is not of this file
            part.unlink(missing_ok=True)
            return False
        raise FetchFailed(f"{download.url}: {_answer(problem)}") from None
    except urllib.error.URLError as problem:
        raise FetchFailed(f"{download.url}: {_no_connection(problem)}") from None
    except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException):
        return False


def _no_connection(problem: Exception) -> str:
    reason = getattr(problem, "reason", problem)
    return str(reason) if isinstance(reason, PrivateAddress) else f"no connection ({reason}); try again later"


def _answer(problem: urllib.error.HTTPError) -> str:
    if problem.code in (404, 410):
        return f"upstream does not have it (any more): {problem.code}; see the entry's `url`, or ask its authors"
    if problem.code in (401, 403):
        return f"upstream wants to know who asks ({problem.code}); download it by hand after agreeing to its terms"
    if 300 <= problem.code < 400:
        return f"redirects more than {MOST_REDIRECTS} times or away from https; refused"
    return f"upstream answers {problem.code} {problem.reason}; try again later"


def _receive(response: http.client.HTTPResponse, download: Download, part: Path, start: int, watch: Watch) -> bool:
    """Write the body of the answer after the first ``start`` bytes of ``part``; whether all of it came."""
    if not (response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")):
        start = 0
    length = response.headers.get("Content-Length", "")
    total = start + int(length) if length.isdecimal() else 0
    most = download.bytes or LARGEST_BYTES
    _refuse_large(download, part, total, most)
    received = start
    with part.open("ab" if start else "wb") as sink:
        while chunk := response.read1(CHUNK):
            received += len(chunk)
            _refuse_large(download, part, received, most)
            sink.write(chunk)
            watch(download.path, received, total)
        sink.flush()
        os.fsync(sink.fileno())
    return received == total or not total


def _refuse_large(download: Download, part: Path, size: int, most: int) -> None:
    if size > most:
        part.unlink(missing_ok=True)
        raise FetchFailed(f"{download.url}: has more than the {most:,} bytes that are accepted; nothing was kept")
