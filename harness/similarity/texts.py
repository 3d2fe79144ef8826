"""The texts of a task as its similarities see them, and how many of their words two tasks share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tasks.near import evened
from tasks.task import Example

T = TypeVar("T")


def thinned(rows: Sequence[T], most: int) -> list[T]:
    """At most ``most`` rows, spread evenly over all."""
    kept = min(most, len(rows))
    return [rows[i * len(rows) // kept] for i in range(kept)]


def text_of(row: Example) -> str:
    """Earlier turns and text of a row, oldest first, as one text."""
    return " ".join([*(turn.text for turn in row.context), row.text])


def words_of(rows: Sequence[Example]) -> Counter[str]:
    """How often every word (small letters, no punctuation) stands in the rows."""
    return Counter(word for row in rows for word in evened(text_of(row)).split())


def overlap(intermediate: Mapping[str, int], target: Mapping[str, int]) -> dict[str, float]:
    """``jaccard``: distinct words of both over those of either; ``share`` of the target's running words that are known.

    Both are 0 where the target has no word.
    """
    both = intermediate.keys() & target.keys()
    either, running = len(intermediate.keys() | target.keys()), sum(target.values())
    return {
        "jaccard": len(both) / either if either else 0.0,
        "share": sum(target[word] for word in both) / running if running else 0.0,
    }
