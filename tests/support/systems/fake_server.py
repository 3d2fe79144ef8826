"""A server on the loopback address that answers prompts by a rule, and fails on purpose."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = "fake-model"
Fault = str
FAULTS = ("429", "500", "slow", "cut", "wrong model", "dropped", "no choice")  # that pass, if they are asked again


def by_hash(*options: str) -> Callable[[str], str]:
    """A rule that gives every prompt one of the options, by its content."""
    return lambda prompt: options[int(sha256(prompt.encode()).hexdigest(), 16) % len(options)]


class Http(ThreadingHTTPServer):
    """A server that takes all connections of those who ask at once; of six, the library's own refuses some."""

    request_queue_size = 128
    daemon_threads = True


class FakeServer:
    """What was asked of it, and how it answers: ``rule`` of a prompt, ``fault`` of the number of a call, from 1.

    A fault is a status, one of FAULTS, or else the name of the model that the answer bears.
    ``billed`` counts tokens of prompts and answers that it computed, whether or not they arrived.
    """

    def __init__(self, rule: Callable[[str], str]) -> None:
        self.rule: Callable[[str], str] = rule
        self.fault: Callable[[int], Fault | None] = lambda number: None
        self.retry_after: str | None = None
        self.model, self.status_of_model = MODEL, 404
        self.prompts: list[str] = []
        self.bodies: list[dict] = []
        self.answered: list[str] = []  # the prompts whose answers were sent whole
        self.headers: list[dict[str, str]] = []
        self.billed = [0, 0]
        self.counts_tokens = True
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._http = Http(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> FakeServer:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.answer(self, body)

            def log_message(self, *words: object) -> None:
                pass

        return Handler

    def answer(self, request: BaseHTTPRequestHandler, body: dict) -> None:
        """Answer a request, or fail as its number says."""
        prompt = body["messages"][0]["content"]
        with self._lock:
            self.prompts.append(prompt)
            self.bodies.append(body)
            self.headers.append(dict(request.headers.items()))
            fault = self.fault(len(self.prompts))
        if body["model"] != self.model and fault is None:
            error = {"error": {"code": "model_not_found", "message": f"no {prompt} {request.headers}"}}
            return self._send(request, self.status_of_model, error)
        if fault and fault.isdigit():
            return self._send(request, int(fault), {"error": {"message": f"{prompt} {request.headers}"}})
        if fault == "slow":
            self.released.wait(600)
        if fault == "dropped":
            return None
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": 2}
        with self._lock:
            for place, count in enumerate(usage.values()):
                self.billed[place] += count
        answer = {
            "model": {"wrong model": "another"}.get(fault or "", body["model"] if fault in (None, *FAULTS) else fault),
            "choices": [{"message": {"role": "assistant", "content": self.rule(prompt)}}],
            "system_fingerprint": "fp_1",
            **({"usage": usage} if self.counts_tokens else {}),
        }
        if fault == "no choice":
            answer["choices"] = []
        if fault is None or fault not in FAULTS:
            with self._lock:
                self.answered.append(prompt)
        return self._send(request, 200, answer, share=0.5 if fault == "cut" else 1.0)

    def _send(self, request: BaseHTTPRequestHandler, status: int, answer: dict, share: float = 1.0) -> None:
        content = json.dumps(answer).encode()
        content = content[: int(len(content) * share)]
        try:
            request.send_response(status)
            if self.retry_after is not None and status != 200:
                request.send_header("Retry-After", self.retry_after)
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            request.wfile.write(content)
        except OSError:
            pass  # whoever asked has gone


@contextmanager
def fake_server(*options: str, rule: Callable[[str], str] | None = None) -> Iterator[FakeServer]:
    """A server that answers with one of the options by the content of a prompt, or by a rule."""
    with FakeServer(rule or by_hash(*options)) as server:
        yield server
