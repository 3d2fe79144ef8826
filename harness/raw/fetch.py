"""Downloads over https only, from public addresses only, limited in size, and resumed after an interruption.

A host must lead to public addresses alone; they are looked up at each connection. A file grows under the name
``.part``, and gets its own name only when its size and checksum are right.

Tables of a dataset on the Hugging Face hub are pinned to a revision; nothing of it is ever run. The listing is read
with ``json_at`` and not with ``huggingface_hub.HfApi.dataset_info``, which follows redirects to plain http and to
private addresses, reads an answer of any size, and may send what ``.netrc`` holds.
"""

import hashlib
import http.client
import ipaddress
import json
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import quote, urlsplit

from adapters_store.disk import CannotWrite, cause
from harness.raw.holdings import Known, known_download
from harness.raw.unpack import unpack_member
from tasks.errors import BadInput
from tasks.task import Download

MOST_REDIRECTS = 5
NAT64 = ipaddress.ip_network("64:ff9b::/96")  # an IPv4 address in its last 32 bits
IP = ipaddress.IPv4Address | ipaddress.IPv6Address


class FetchFailed(BadInput):
    """A file could not be downloaded, or is not what its entry says."""


class PrivateAddress(OSError):
    """A host is this machine or in a network that is not public; nothing was sent to it."""


def opener() -> urllib.request.OpenerDirector:
    """An opener of addresses that follows at most MOST_REDIRECTS redirects and connects to public addresses only."""
    return urllib.request.build_opener(_Redirects, _Https, _Http)


def check_address(url: str) -> None:
    """FetchFailed unless an address is https or on the hub that HF_ENDPOINT names, and its host may be public.

    A host that is a number is checked here, a name when it is connected to.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise FetchFailed(f"{url}: not an address") from None
    if _is_hub_of_environment(host):
        return
    if parts.scheme != "https" or not host:
        raise FetchFailed(f"{url}: not an https address; nothing else is fetched")
    if host.rstrip(".").lower() == "localhost" or host.rstrip(".").lower().endswith(".localhost"):
        raise FetchFailed(f"{url}: leads to this machine; refused")
    try:
        numbers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return  # a name
    for *_, socket_address in numbers:
        if not is_public(str(socket_address[0])):
            raise FetchFailed(f"{url}: leads to this machine or a private network; refused")


def is_public(address: str) -> bool:
    """Whether an IP address is public, also where it is an IPv6 form of an IPv4 address."""
    ip: IP = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        in_last_bits = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        ip = in_last_bits if ip in NAT64 else ip.ipv4_mapped or ip.sixtofour or ip
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


def connection(
    address: tuple[str, int],
    timeout: Any = None,  # noqa: ANN401 - the library's own mark stands for none
    source_address: tuple[str, int] | None = None,
) -> socket.socket:
    """Connect as ``socket.create_connection`` does; PrivateAddress if any address of the host is not public."""
    host, port = address
    proxies = {str(urlsplit(url).hostname) for url in urllib.request.getproxies().values()}
    if _is_hub_of_environment(host) or host in proxies:  # a proxy resolves the names of hosts itself
        return socket.create_connection(address, timeout, source_address)
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ips = [str(socket_address[0]) for *_, socket_address in answers]
    if not all(map(is_public, ips)):
        raise PrivateAddress(f"{host} leads to this machine or a private network; refused")
    for count, ip in enumerate(ips, start=1):
        try:
            return socket.create_connection((ip, port), timeout, source_address)
        except OSError:
            if count == len(ips):
                raise
    raise OSError(f"{host} has no address")


def _is_hub_of_environment(host: str) -> bool:
    """Whether this is the host that HF_ENDPOINT names; such a mirror of the hub may be in a private network."""
    return bool(host) and host == urlsplit(os.environ.get("HF_ENDPOINT", "")).hostname


def _factory(kind: type[http.client.HTTPConnection]) -> Any:  # noqa: ANN401 - what makes a connection
    """A way to make connections of this kind that check the address."""

    def made(*args: Any, **kwargs: Any) -> http.client.HTTPConnection:  # noqa: ANN401 - those of the class
        made = kind(*args, **kwargs)
        made._create_connection = connection  # type: ignore[attr-defined]
        return made

    return made


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open through a connection that checks the address."""
        return self.do_open(_factory(http.client.HTTPSConnection), req)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open through a connection that checks the address."""
        return self.do_open(_factory(http.client.HTTPConnection), req)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows few redirects, none away from https, and none from another host to the hub of the environment."""

    max_redirections = MOST_REDIRECTS

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the next request; FetchFailed when it would leave https or the public network."""
        check_address(newurl)
        old, new = urlsplit(req.full_url).hostname or "", urlsplit(newurl).hostname or ""
        if _is_hub_of_environment(new) and not _is_hub_of_environment(old):
            raise FetchFailed(f"{req.full_url}: redirects to the hub of HF_ENDPOINT; refused")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


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
                checksums = Known() if download.archive_member else known_download(download)
                if checksums.state(target) == "differs":
                    raise FetchFailed(
                        f"{target}: is there, but is not the file upstream has; move it away to fetch it again"
                    )
                yield download, False
                continue
            if download.archive_member:
                name = hashlib.sha256(download.url.encode()).hexdigest()[:16]
                archives.add(archive := data / ARCHIVES / name)
                if not archive.is_file():
                    _fetch_file(download, archive, watch)
                part = _part_of(target)
                try:
                    unpack_member(archive, download.archive_member, part)
                except BaseException:
                    part.unlink(missing_ok=True)
                    raise
                part.replace(target)
            else:
                _fetch_file(download, target, watch)
            yield download, True
    except OSError as problem:
        raise CannotWrite(
            f"{problem.filename or data}: cannot be written ({cause(problem)}); mend this, or fetch into another folder"
        ) from None
    finally:
        for archive in archives:
            archive.unlink(missing_ok=True)
        folder = data / ARCHIVES
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


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


def _part_of(target: Path) -> Path:
    """The path at which a file grows until it is complete and checked."""
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.with_name(target.name + ".part")


def _fetch_file(download: Download, target: Path, watch: Watch) -> None:
    """Download to ``target``; an interrupted transfer is resumed, now or by the next command."""
    check_address(download.url)
    part = _part_of(target)
    barren = 0
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
    is_short = bool(download.bytes) and _size(part) != download.bytes
    if is_short or known_download(download).state(part) == "differs":
        reason = f"it has {_size(part):,} bytes, not {download.bytes:,}" if is_short else "its checksum differs"
        part.unlink()
        raise FetchFailed(f"{download.url}: what came is not the file of the entry ({reason}); it was removed")
    part.replace(target)


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


PREFIX = "hub:"
FORMATS = (".parquet", ".jsonl", ".csv", ".tsv")  # of several, the first that is there
CONVERTED = "refs/convert/parquet"  # where the hub keeps its own tables of datasets in other formats
NAME = re.compile(r"[\w.-]+/[\w.-]+")


class BadHubDataset(BadInput):
    """A dataset on the hub has no files that can be read as one table."""


@dataclass(frozen=True)
class HubDataset:
    """Files of one part of a dataset; ``revision`` is the commit they are pinned to."""

    name: str
    revision: str
    licence: str
    url: str
    downloads: tuple[Download, ...]


def hub_dataset(address: str) -> HubDataset:
    """The dataset ``hub:OWNER/NAME`` or, of one with several parts, its part ``hub:OWNER/NAME:PART``.

    BadHubDataset for an address that names no dataset or no single table, and for one of more than LARGEST_BYTES;
    FetchFailed if the hub does not give its listing.
    """
    name, _, part = address.removeprefix(PREFIX).partition(":")
    if not NAME.fullmatch(name):
        raise BadHubDataset(f"{address}: a dataset is named hub:OWNER/NAME or hub:OWNER/NAME:PART")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    info = json_at(f"{endpoint}/api/datasets/{name}?blobs=true")
    files = _tables(info)
    if not files:
        info = json_at(f"{endpoint}/api/datasets/{name}/revision/{quote(CONVERTED, safe='')}?blobs=true")
        files = _tables(info)
    url = f"{endpoint}/datasets/{name}"
    chosen = _part(files, part, address)
    if (size := sum(int(file.get("size") or 0) for file in chosen)) > LARGEST_BYTES:
        raise BadHubDataset(
            f"{address}: has {size:,} bytes, more than {LARGEST_BYTES:,}; cut a file of your own from it"
        )
    downloads = []
    for file in chosen:
        large = file.get("lfs") or {}
        path = str(file["rfilename"])
        downloads.append(
            Download(
                url=f"{url}/resolve/{info['sha']}/{quote(path)}",
                path=f"hub/{name.replace('/', '--')}/{path}",
                sha256=str(large.get("sha256", "")),
                bytes=int(large.get("size") or file.get("size") or 0),
                git_blob="" if large else str(file.get("blobId", "")),
            )
        )
    return HubDataset(
        name=name,
        revision=str(info["sha"]),
        licence=str((info.get("cardData") or {}).get("license") or ""),
        url=url,
        downloads=tuple(downloads),
    )


def _tables(info: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The files of the first of FORMATS that there is, by name."""
    files = sorted(info.get("siblings", []), key=lambda file: str(file["rfilename"]))
    for ending in FORMATS:
        if tables := [file for file in files if str(file["rfilename"]).lower().endswith(ending)]:
            return tables
    return []


def _part(files: Sequence[Mapping[str, Any]], part: str, address: str) -> list[Mapping[str, Any]]:
    """The files of the named part; parts are the folders at the top, where there are several."""
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for file in files:
        path = PurePosixPath(file["rfilename"])
        parts.setdefault(path.parts[0] if len(path.parts) > 1 else "", []).append(file)
    if not parts:
        raise BadHubDataset(f"{address}: has no file in {', '.join(FORMATS)}; convert it by hand")
    if not part and len(parts) == 1:
        return next(iter(parts.values()))
    if part not in parts:
        names = ", ".join(f"{address.removesuffix(':' + part)}:{name}" for name in sorted(parts) if name)
        raise BadHubDataset(f"{address}: {'no such part' if part else 'has several parts'}; give one of {names}")
    return parts[part]
