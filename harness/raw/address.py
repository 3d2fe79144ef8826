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
    ip = _unwrap(ipaddress.ip_address(address.partition("%")[0]))
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


def _unwrap(address: IP) -> IP:
    """The IPv4 address that an IPv6 address contains, or the address itself."""
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
    if _is_hub_of_environment(host) or host in _proxies():
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


def _proxies() -> set[str]:
    """Hosts of the proxies that the environment names; a proxy resolves the names of hosts itself."""
    return {str(urlsplit(url).hostname) for url in urllib.request.getproxies().values()}


class _HttpsConnection(http.client.HTTPSConnection):
    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - those of the parent
        super().__init__(*args, **kwargs)
        self._create_connection = connection


class _HttpConnection(http.client.HTTPConnection):
    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - those of the parent
        super().__init__(*args, **kwargs)
        self._create_connection = connection


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open through a connection that checks the address."""
        return self.do_open(_HttpsConnection, req)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open through a connection that checks the address."""
        return self.do_open(_HttpConnection, req)


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
