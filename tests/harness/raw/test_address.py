"""Addresses that downloads may lead to: no name is looked up and no packet sent here."""

import http.client
import io
import socket
import urllib.request

import pytest

from harness.raw import fetch as fetching
from harness.raw.fetch import FetchFailed, fetch
from tasks.task import Download

PRIVATE = [
    *"127.0.0.1 127.0.0.2 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254".split(),
    *"100.64.0.1 224.0.0.1 240.0.0.1".split(),
    *"::1 :: ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: fe80::1 fe80::1%1 fd00::1".split(),
]
PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:8.8.8.8"]
WRITTEN = ["127.1", "0x7f000001", "2130706433", "0", "[::1]", "[::ffff:127.0.0.1]", "[::]", "10.1", "169.254.169.254"]


@pytest.fixture
def connected(monkeypatch):
    """Where connections would have gone; no socket is opened."""
    asked: list[str] = []

    def connects(address, *_, **__):
        asked.append(address[0])
        raise TimeoutError("no packet leaves a test")

    monkeypatch.setattr(socket, "create_connection", connects)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(fetching, "PAUSE_SECONDS", 0.0)
    return asked


@pytest.fixture
def names(monkeypatch):
    """What names are looked up as; numbers are read as they are."""
    known: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def looks_up(host, port, *given, **named):
        if host in known and not named.get("flags"):
            return [(0, 0, 0, "", (address, port)) for address in known[host]]
        return real(host, port, *given, **{**named, "flags": socket.AI_NUMERICHOST})

    monkeypatch.setattr(socket, "getaddrinfo", looks_up)
    return known


def refused(url, tmp_path):
    with pytest.raises(FetchFailed) as caught:
        list(fetch([Download(url, "rows.csv")], tmp_path, lambda *_: None))
    return str(caught.value)


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_that_leads_to_a_network_that_is_not_public_is_never_connected_to(connected, names, tmp_path, address):
    names["rows.example"] = ["8.8.8.8", address]
    line = refused("https://rows.example/rows.csv", tmp_path)
    assert connected == []
    assert "rows.example leads to this machine or a private network; refused" in line


@pytest.mark.parametrize("address", PUBLIC)
def test_a_name_is_connected_to_by_the_public_address_that_was_looked_at(connected, names, tmp_path, address):
    names["rows.example"] = [address]
    assert "no connection" in refused("https://rows.example/rows.csv", tmp_path)
    assert connected == [address]


@pytest.mark.parametrize("host", [*WRITTEN, "localhost", "LOCALHOST.", "db.localhost"])
@pytest.mark.parametrize("scheme", ["https", "http"])
def test_an_entry_that_names_this_machine_or_a_private_network_is_refused(connected, names, tmp_path, scheme, host):
    line = refused(f"{scheme}://{host}:8080/rows.csv", tmp_path)
    assert connected == []
    assert ("refused" if scheme == "https" else "not an https address") in line


@pytest.mark.parametrize("host", [*WRITTEN, "localhost"])
def test_a_redirect_to_this_machine_or_a_private_network_is_refused(connected, names, tmp_path, monkeypatch, host):
    def answers(self, connection, request, **_):
        headers = http.client.HTTPMessage()
        headers["Location"] = f"https://{host}/rows.csv"
        answer = urllib.request.addinfourl(io.BytesIO(), headers, request.full_url, 302)
        answer.msg = "Found"
        return answer

    monkeypatch.setattr(urllib.request.AbstractHTTPHandler, "do_open", answers)
    assert "leads to this machine" in refused("https://rows.example/rows.csv", tmp_path)
    assert connected == []


def test_a_hub_that_the_environment_names_may_be_in_a_private_network(connected, names, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://10.1.2.3:8080")
    assert "no connection" in refused("http://10.1.2.3:8080/rows.csv", tmp_path)
    assert connected == ["10.1.2.3"]


def test_a_proxy_may_be_in_a_private_network_and_looks_names_up_itself(connected, names, tmp_path, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://10.9.9.9:3128")
    assert "no connection" in refused("https://rows.example/rows.csv", tmp_path)
    assert connected == ["10.9.9.9"]
    assert "refused" in refused("https://10.1.2.3/rows.csv", tmp_path)
