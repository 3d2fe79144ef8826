"""Debian's Firefox, driven through its own Marionette port: Playwright drives only builds of its own.

A message is its length, a colon, and JSON: ``[0, number, command, parameters]`` there, ``[1, number, error, result]``
back (firefox-source-docs.mozilla.org, Testing & Test Infrastructure, Marionette, Protocol).
"""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("firefox-esr") or shutil.which("firefox")
DEADLINE = 120.0  # seconds until a start counts as failed
SYSTEM = "-remote-allow-system-access"  # to read the console and to make pages narrow
SCHEMES = {"dark": 0, "light": 1}
MESSAGES = """
    return Services.console.getMessageArray()
        .filter((message) => message instanceof Ci.nsIScriptError && message.sourceName.startsWith(arguments[0]))
        .map((message) => message.errorMessage);
"""


class Firefox:
    """A running Firefox with one window."""

    def __init__(self, stream: socket.socket) -> None:
        """Begin a session on a connection."""
        self.stream, self.number = stream, 0
        self._read()  # what the server says of itself
        self.ask("WebDriver:NewSession")

    def ask(self, command: str, **parameters: Any) -> Any:
        """What a command gives back; AssertionError with Firefox's words if it fails."""
        self.number += 1
        content = json.dumps([0, self.number, command, parameters]).encode()
        self.stream.sendall(str(len(content)).encode() + b":" + content)
        _, _, error, result = self._read()
        assert error is None, f"{command}: {error['error']}: {error['message']}"
        return result.get("value") if isinstance(result, dict) else result

    def show(self, address: str) -> None:
        """Open a page anew."""
        self.ask("WebDriver:Navigate", url="about:blank")
        self.ask("WebDriver:Navigate", url=address)

    def run(self, script: str) -> Any:
        """What a piece of script in the page returns; it may wait for a promise."""
        return self.ask("WebDriver:ExecuteScript", script=script, args=[])

    def resize(self, width: int, height: int) -> None:
        """Give pages this many pixels; a window itself has no fewer than 500."""
        self.ask("WebDriver:SetWindowRect", width=width, height=height)
        self._run_outside("window.gBrowser.selectedBrowser.style.maxWidth = arguments[0];", f"{width}px")

    def complaints(self, address: str) -> list[str]:
        """Errors and warnings of a page's scripts, from the browser's console, so far."""
        messages: list[str] = self._run_outside(MESSAGES, address)
        return messages

    def _run_outside(self, script: str, *arguments: str) -> Any:
        """What a piece of script of the browser's own returns."""
        self.ask("Marionette:SetContext", value="chrome")
        result = self.ask("WebDriver:ExecuteScript", script=script, args=arguments)
        self.ask("Marionette:SetContext", value="content")
        return result

    def _read(self) -> Any:
        size = b""
        while (byte := self.stream.recv(1)) != b":":
            assert byte, "Firefox has ended"
            size += byte
        content = b""
        while len(content) < int(size):
            content += self.stream.recv(int(size) - len(content))
        return json.loads(content)


@contextmanager
def firefox(profile: Path, scheme: str) -> Iterator[Firefox]:
    """A Firefox without a screen in a new ``profile``, by day ("light") or night ("dark"), until the block's end."""
    assert PROGRAM is not None, "needs Debian's package firefox-esr"
    settings = {"marionette.port": 0, "layout.css.prefers-color-scheme.content-override": SCHEMES[scheme]}
    lines = [f"user_pref({json.dumps(name)}, {value});\n" for name, value in settings.items()]
    (profile / "user.js").write_text("".join(lines))
    command = [PROGRAM, "--headless", "--marionette", "--no-remote", SYSTEM, "--profile", str(profile)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with socket.create_connection(("127.0.0.1", _port(process, profile / "MarionetteActivePort"))) as stream:
            yield Firefox(stream)
    finally:
        process.kill()
        process.wait()


def _port(process: subprocess.Popen[bytes], file: Path) -> int:
    """The port of Marionette, as soon as Firefox has written it."""
    end = time.monotonic() + DEADLINE
    while not (file.exists() and file.read_text()):
        assert process.poll() is None and time.monotonic() < end, "Firefox did not start"
        time.sleep(0.1)
    return int(file.read_text())
