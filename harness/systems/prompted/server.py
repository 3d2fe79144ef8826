"""A server that answers prompts the way OpenAI's does: one POST, and what can go wrong with it.

The standard library makes the call, not a client package: it is one request, a package would bring a dozen others, and
here it can be read what leaves the machine. Nothing is followed (no redirect, no proxy), so texts and key go to the
host that the study names and to no other.

The key comes from the environment: EMPATHY_API_KEY for any server, OPENAI_API_KEY for OpenAI's own host alone. It is in
no setting, key, record, log or message; what a server writes of itself is never repeated either, for some quote it.
"""

import http.client
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from tasks.errors import BadInput

ADDRESS = "EMPATHY_SERVER"  # the environment variable of a server's address, where no setting has one
KEY, OPENAI_KEY, OPENAI = "EMPATHY_API_KEY", "OPENAI_API_KEY", "api.openai.com"
CHAT = "/chat/completions"
FORMAT = "response_format"  # the field of a call that asks for an answer by a JSON schema
NO_SCHEMA = frozenset({400, 415, 422})  # statuses of servers or models that take none
WHOLE = 10  # times the wait for bytes: what a whole call may take, so that a server that trickles holds no run
MOST_BYTES = 1 << 20  # of an answer; those asked for here have some hundred
PASSING = frozenset({408, 409, 425, 429, *range(500, 600)})  # statuses that another call may not meet
NO_MONEY = "insufficient_quota"  # a 429 that no waiting mends
EVENT = b"data:"  # what lines of a stream begin with
CODE = re.compile(r"[a-z][a-z0-9_.-]{1,63}")


class Reply(NamedTuple):
    """What a server answered: the text, by which model as it says itself, and the tokens that it counted, if any."""

    text: str
    model: str
    tokens_in: int | None
    tokens_out: int | None
    fingerprint: str


class NoAnswer(Exception):
    """A call that gave no answer and may be made again.

    ``wait`` is how many seconds the server asks to wait, None where it does not say. ``is_paid`` where the server may
    have computed an answer that did not arrive whole, ``is_reached`` unless no connection was made.
    """

    def __init__(
        self, reason: str, *, wait: float | None = None, is_paid: bool = False, is_reached: bool = True
    ) -> None:
        """Keep the reason, which holds nothing that the server wrote."""
        super().__init__(reason)
        self.wait, self.is_paid, self.is_reached = wait, is_paid, is_reached


def checked_address(url: str) -> SplitResult:
    """The parts of a server's address; ValueError in one line for one that cannot be meant."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"url {url!r} is no address; write it as in http://127.0.0.1:8000/v1") from None
    if parts.username or parts.password:
        raise ValueError(f"url of {host!r} has a name or password in it; give the key as the variable {KEY}")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ValueError(f"url {url!r} is no address of a server; write it as in http://127.0.0.1:8000/v1")
    return parts


def is_this_machine(host: str) -> bool:
    """Whether an address leads to this machine alone, so that nothing said to it leaves."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def key_for(parts: SplitResult) -> str:
    """The key for a server, from the environment; empty for one in this or a closed network that needs none.

    BadInput where a public server would be asked without a key, or a key would be read by others on the way.
    """
    host = parts.hostname or ""
    name = OPENAI_KEY if host == OPENAI and not os.environ.get(KEY) else KEY
    key = os.environ.get(name, "")
    if not all("!" <= letter <= "~" for letter in key):
        raise BadInput(f"the variable {name} holds a space, a line end or another letter that no key has; set it again")
    if parts.scheme == "https" and not key and not is_this_machine(host):
        names = f"{KEY} or {OPENAI_KEY}" if host == OPENAI else KEY
        raise BadInput(f"no key for the server {host}: set the environment variable {names}")
    if parts.scheme == "http" and key and not is_this_machine(host):
        raise BadInput(
            f"the key of {name} would go to {host} readable by everybody on the way (http); take https, or unset {name}"
        )
    return key


@dataclass(frozen=True)
class Server:
    """Where prompts are sent; ``timeout`` is in seconds, of a connection and of every wait for bytes.

    A whole call may take WHOLE times that.

    >>> Server("http://127.0.0.1:8000/v1").post({"model": "m", "messages": []})     # doctest: +SKIP
    """

    url: str
    timeout: float = 60.0

    @property
    def name(self) -> str:
        """Host and port, for messages."""
        return checked_address(self.url).netloc

    def post(self, body: Mapping[str, Any]) -> Reply:
        """Ask once. NoAnswer for what may pass, BadInput in one line for what will not."""
        status, headers, content = self._exchange(json.dumps(body).encode())
        if status == http.client.OK:
            return _reply(content)
        code = _code(content)
        if status in PASSING and code != NO_MONEY:
            raise NoAnswer(f"status {status}", wait=_seconds(headers.get("Retry-After")))
        raise BadInput(self._refusal(status, code, body))

    def _exchange(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and content of a POST of JSON."""
        parts = checked_address(self.url)
        key = key_for(parts)
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        host, port, timeout = parts.hostname or "", parts.port, self.timeout
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        try:
            connection.connect()
        except OSError as problem:
            cause = os.strerror(problem.errno) if problem.errno and problem.errno > 0 else type(problem).__name__
            raise NoAnswer(f"cannot be reached ({cause})", is_reached=False) from None
        is_over = threading.Event()
        opened = connection.sock  # which the connection forgets once an answer begins

        def end() -> None:
            """End the call from outside: whoever waits for its bytes wakes up."""
            is_over.set()
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

        deadline = threading.Timer(WHOLE * self.timeout, end)
        deadline.daemon = True
        deadline.start()
        try:
            connection.request("POST", f"{parts.path.rstrip('/')}{CHAT}", body, headers)
            response = connection.getresponse()
            content = response.read(MOST_BYTES + 1)
            if is_over.is_set():
                raise ConnectionError
            return response.status, dict(response.headers.items()), content
        except TimeoutError:
            raise NoAnswer(f"no answer within {self.timeout:g} s", is_paid=True) from None
        except (OSError, http.client.HTTPException) as problem:
            whole = f"no whole answer within {WHOLE * self.timeout:g} s"
            broke = f"the connection broke ({type(problem).__name__})"
            raise NoAnswer(whole if is_over.is_set() else broke, is_paid=True) from None
        finally:
            deadline.cancel()
            connection.close()

    def _refusal(self, status: int, code: str, body: Mapping[str, Any]) -> str:
        """What a status means that no second call mends, with the next step."""
        reply, model = f"{status} {code}".strip(), str(body.get("model"))
        if status in (401, 403):
            return f"server {self.name} refuses the key ({reply}); set {KEY} to one that it takes"
        if status == http.client.NOT_FOUND:
            return f"server {self.name} has no model {model!r} ({reply}), or no such address: see {self.url}/models"
        if code == NO_MONEY:
            return f"server {self.name}: the account has no money left ({reply}); what was answered is kept"
        if 300 <= status < 400:
            return f"server {self.name} sends elsewhere ({reply}), which is not followed; set url to the final address"
        if FORMAT in body and status in NO_SCHEMA:
            return (
                f"server {self.name} refuses the call ({reply}), which asks for an answer by a JSON schema; set answers"
                ' of the system to "text", unless its model, answer_tokens or limit are what it refuses'
            )
        return (
            f"server {self.name} refuses the call ({reply}); see model, answer_tokens, limit and window of the system"
        )


def _reply(content: bytes) -> Reply:
    """An answer, read; NoAnswer where it is cut or no answer at all, though somebody may pay for it."""
    try:
        if len(content) > MOST_BYTES:
            raise ValueError
        table = _joined(content) if content.startswith(EVENT) else json.loads(content)
        message = table["choices"][0]["message"]
        usage = table.get("usage") or {}
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        tokens = [count if type(count) is int and count >= 0 else None for count in counts]
        text, model, fingerprint = message.get("content"), table.get("model"), table.get("system_fingerprint")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise NoAnswer("an answer that is cut or no answer of a chat", is_paid=True) from None
    return Reply(_text(text), _text(model), tokens[0], tokens[1], _text(fingerprint))


def _joined(content: bytes) -> dict[str, Any]:
    """The answer that a stream of events makes, which some servers send unasked; ValueError where it has no end."""
    lines = [line[len(EVENT) :].strip() for line in content.splitlines() if line.startswith(EVENT)]
    events = [json.loads(line) for line in lines if line != b"[DONE]"]
    choices = [choice for event in events for choice in event["choices"]]
    if not any(choice.get("finish_reason") for choice in choices):
        raise ValueError
    pieces = [_text((choice.get("delta") or {}).get("content")) for choice in choices]
    usage = [event["usage"] for event in events if event.get("usage")]
    message = {"message": {"content": "".join(pieces)}}
    return {**events[0], "choices": [message], "usage": usage[-1] if usage else None}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _code(content: bytes) -> str:
    """The code of an error, if it is a word and so no text of anybody."""
    try:
        error = json.loads(content)["error"]
        words = [str(error[name]) for name in ("code", "type") if error.get(name)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    return next((word for word in words if CODE.fullmatch(word)), "")


def _seconds(retry_after: str | None) -> float | None:
    """What a header Retry-After asks to wait, in seconds: a number of them, or a date."""
    if retry_after is None:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", retry_after.strip()):
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
