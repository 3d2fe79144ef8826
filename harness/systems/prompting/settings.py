"""What every call to a model says, whom it goes to, and what it may cost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.study.systems import check_fields
from harness.systems.prompting.answers import Answers, Prices
from harness.systems.prompting.asking import Asker, Question
from harness.systems.prompting.server import ADDRESS, Server, checked_address
from tasks.errors import BadInput

LIMITS = ("max_tokens", "max_completion_tokens")
RANGES = {
    "temperature": (0, 2),
    "answer_tokens": (1, 4096),
    "repeats": (1, 100),
    "in_flight": (1, 256),
    "timeout": (0.001, 3600),
    "price_in": (0, 1000),
    "price_out": (0, 1000),
    "most_cost": (0, 1_000_000),
}
LOCAL_SETTINGS = ("url", "in_flight", "timeout", "price_in", "price_out", "most_cost", "allow")


@dataclass(frozen=True)
class CallSettings:
    """Whom to ask, how, how often, and at what price; whatever is asked.

    ``limit`` is the field in which the server takes ``answer_tokens``. ``repeats`` is how often everything is asked.

    The LOCAL_SETTINGS decide no answer: the address of the server (the same model elsewhere is the same model), calls
    ``in_flight``, ``timeout`` in seconds, prices in dollars per 1,000 tokens, the most that the model may cost in this
    store in dollars (0: no cap), and the tasks of which something may leave though nobody else may have it.
    """

    model: str = "gpt-4"
    temperature: float = 0.0
    answer_tokens: int = 16
    limit: str = "max_tokens"
    repeats: int = 1
    url: str = ""
    in_flight: int = 32
    timeout: float = 60.0
    price_in: float = 0.0
    price_out: float = 0.0
    most_cost: float = 0.0
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check model, ranges, prices and address; ValueError naming the field."""
        if not self.model or not self.model.isprintable():
            raise ValueError(f"model {self.model!r} is no name of a model")
        check_fields(self, {"limit": LIMITS}, RANGES)
        if self.most_cost and not (self.price_in or self.price_out):
            raise ValueError("most_cost needs price_in and price_out, in dollars per 1,000 tokens")
        if self.url:
            checked_address(self.url)

    @property
    def prices(self) -> Prices:
        """Dollars per 1,000 tokens."""
        return Prices(self.price_in, self.price_out)

    @property
    def address(self) -> str:
        """Of the server: the setting, or what the environment says; empty where neither does."""
        return self.url or os.environ.get(ADDRESS, "")

    @property
    def host(self) -> str:
        """Of the server; empty while nobody has named it."""
        return (checked_address(self.address).hostname or "") if self.address else ""

    @property
    def said(self) -> dict[str, Any]:
        """What a call says beside model and prompt."""
        return {"temperature": self.temperature, self.limit: self.answer_tokens}

    def asker(self, answers: Path | None, said: Mapping[str, Any]) -> Asker:
        """Who asks with what is ``said`` in every call, and keeps what is answered in this folder.

        BadInput where no address or folder is known.
        """
        if not self.address:
            raise BadInput(f"no server to ask {self.model!r}: set url of the system, or the variable {ADDRESS}")
        if answers is None:
            raise BadInput("a prompted model needs a folder in which its answers are kept (Place.answers)")
        return Asker(
            Server(self.address, self.timeout),
            Answers(answers),
            Question(self.model, said, self.answer_tokens),
            prices=self.prices,
            most_cost=self.most_cost,
            in_flight=self.in_flight,
        )
