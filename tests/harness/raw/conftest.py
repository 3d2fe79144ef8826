"""A server on this machine, which downloads may ask."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from harness.raw import fetch as fetching


class Server(ThreadingHTTPServer):
    """Serves ``files``, a text of which leads elsewhere, as every path does that begins with ``/to=``.

    ``breaks`` holds after how many bytes each of the next answers is cut off.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes | str] = {}
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
        body = self.server.files.get(self.path, self.server.files.get(unquote(self.path)))
        if isinstance(body, str) or self.path.startswith("/to="):
            self.send_response(302)
            self.send_header("Location", body or self.path.removeprefix("/to="))
            self.end_headers()
        elif body is None:
            self.send_error(404)
        else:
            self.answer(body, asked)

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
def file_server(monkeypatch):
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
