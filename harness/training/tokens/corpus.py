"""Texts of a domain to read on in, without those of validation and test rows: what was left out is counted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.errors import BadInput
from tasks.splits.loading import Splits
from tasks.task import Example

FEWEST = 100  # texts that say anything of a domain, a few of which are held out
HELD_OUT = 0.05
MOST_HELD_OUT = 1000


@dataclass(frozen=True)
class Corpus:
    """Texts to train on and texts held out, each once; ``empty``, ``repeated`` and ``apart`` count what is neither."""

    train: tuple[str, ...]
    held_out: tuple[str, ...]
    empty: int = 0
    repeated: int = 0
    apart: int = 0

    def facts(self) -> dict[str, Any]:
        """Counts, and the sha256 of both parts: no text."""
        digest = {name: _sha256(getattr(self, name)) for name in ("train", "held_out")}
        counts = {"train": len(self.train), "held_out": len(self.held_out)}
        left_out = {"empty": self.empty, "repeated": self.repeated, "apart": self.apart}
        return {"texts": counts, "sha256": digest, "left_out": left_out}


def corpus_of(texts: Iterable[str], *, apart: Iterable[str] = (), seed: int = 1) -> Corpus:
    """The corpus of these texts less those that stand in ``apart``, blind to case and white space.

    One text of twenty is held out, at most 1,000, drawn by ``seed``. BadInput below 100 texts.
    """
    unwanted, known = {_plain(text) for text in apart}, set[str]()
    kept: list[str] = []
    counts = {"empty": 0, "repeated": 0, "apart": 0}
    for text in texts:
        plain = _plain(text)
        why = "empty" if not plain else "apart" if plain in unwanted else "repeated" if plain in known else ""
        if why:
            counts[why] += 1
            continue
        known.add(plain)
        kept.append(text)
    if len(kept) < FEWEST:
        left_out = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise BadInput(f"pretrain: {len(kept)} texts are left ({left_out}) where {FEWEST} are needed; give more")
    order = np.random.default_rng(seed).permutation(len(kept))
    held_out = set(order[: min(MOST_HELD_OUT, int(HELD_OUT * len(kept)))].tolist())
    parts = ([text for place, text in enumerate(kept) if (place in held_out) == is_held] for is_held in (False, True))
    train, rest = map(tuple, parts)
    return Corpus(train, rest, **counts)


def training_texts(splits: Splits) -> list[str]:
    """Every turn of a task's training rows."""
    return _turns(splits.train)


def later_texts(splits: Splits) -> list[str]:
    """Every turn of a task's validation and test rows."""
    return _turns((*splits.validation, *splits.test))


def _turns(rows: Sequence[Example]) -> list[str]:
    return [text for row in rows for text in (*(turn.text for turn in row.context), row.text)]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _sha256(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(len(encoded := text.encode()).to_bytes(8, "big") + encoded)
    return digest.hexdigest()
