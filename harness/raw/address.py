"""Where a download may lead: https, to a host whose every address is a public one; looked up at each connection."""

from __future__ import annotations

import http.client
import ipaddress
import os
import socket
import urllib.request
from typing import IO, Any
from urllib.parse import urlsplit

from tasks.errors import BadInput

MOST_REDIRECTS = 5
NAT64 = ipaddress.ip_network("64:ff9b::/96")  # an IPv4 address in its last 32 bits
IP = ipaddress.IPv4Address | ipaddress.IPv6Address


class FetchFailed(BadInput):
    """A file could not be downloaded, or is not what its entry says."""


class PrivateAddress(OSError):
    """A host is, or leads to, this machine or a network that is not public; nothing was sent to it."""


def opener() -> urllib.request.OpenerDirector:
    """What opens addresses: it follows few redirects, and connects to public addresses only."""
    return urllib.request.build_opener(_Redirects, _Https, _Http)


def check_address(url: str) -> None:
    """Refuse every address that is neither https nor on the hub that the environment names, and hosts that are numbers
    of a network that is not public; names are looked up when they are connected to.
    """  # noqa: D205
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise FetchFailed(f"{url}: not an address") from None
    if _is_named_by_the_user(host):
        return
    if parts.scheme != "https" or not host:
        raise FetchFailed(f"{url}: not an https address; nothing else is fetched")
    if host.rstrip(".").lower() == "localhost" or host.rstrip(".").lower().endswith(".localhost"):
        raise FetchFailed(f"{url}: leads to this machine; refused")
    try:
        numbers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return  # a name
    for *_, place in numbers:
        if not is_public(str(place[0])):
            raise FetchFailed(f"{url}: leads to this machine or a private network; refused")


def is_public(address: str) -> bool:
    """Whether an IP address is of the public network, whatever other form it is written in."""
    one = _plain(ipaddress.ip_address(address.partition("%")[0]))
    return one.is_global and not (one.is_multicast or one.is_reserved)


def _plain(address: IP) -> IP:
    """The IPv4 address that an IPv6 address stands for; any other as it is."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def connection(
    address: tuple[str, int],
    timeout: Any = None,  # noqa: ANN401 - the library's own mark stands for none
    source_address: tuple[str, int] | None = None,
) -> socket.socket:
    """Connect as ``socket.create_connection`` does; PrivateAddress if any address of the host is not public."""
    host, port = address
    if _is_named_by_the_user(host) or host in _proxies():
        return socket.create_connection(address, timeout, source_address)
    places = [str(place[0]) for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not all(map(is_public, places)):
        raise PrivateAddress(f"{host} leads to this machine or a private network; refused")
    for last, place in enumerate(places, start=1):
        try:
            return socket.create_connection((place, port), timeout, source_address)
        except OSError:
            if last == len(places):
                raise
    raise OSError(f"{host} has no address")


def _is_named_by_the_user(host: str) -> bool:
    """Whether this is the host of the hub that HF_ENDPOINT names; it may well be a mirror in a private network."""
    return bool(host) and host == urlsplit(os.environ.get("HF_ENDPOINT", "")).hostname


def _proxies() -> set[str]:
    """Hosts of the proxies that the environment names; they look names up themselves."""
    return {str(urlsplit(url).hostname) for url in urllib.request.getproxies().values()}


class _HttpsConnection(http.client.HTTPSConnection):
    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - those of the parent
        super().__init__(*given, **named)
        self._create_connection = connection


class _HttpConnection(http.client.HTTPConnection):
    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - those of the parent
        super().__init__(*given, **named)
        self._create_connection = connection


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open through a connection of ours."""
        return self.do_open(_HttpsConnection, req)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open through a connection of ours."""
        return self.do_open(_HttpConnection, req)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows few redirects, none away from https, and none from elsewhere to the hub of the environment."""

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
        if _is_named_by_the_user(new) and not _is_named_by_the_user(old):
            raise FetchFailed(f"{req.full_url}: redirects to the hub of HF_ENDPOINT; refused")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
