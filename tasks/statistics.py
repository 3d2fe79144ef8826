"""Sizes, words and labels of a task's splits, as Tables 1 and 9 to 12 of the paper give them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tasks.loading import Splits
from tasks.quality import labels_of

KIND = "statistics"  # of the measures that keep them
VERSION = 2
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")  # noqa: RUF001 - texts have this apostrophe


def statistics(splits: Splits) -> dict[str, Any]:
    """Rows, labels and words of a task, as JSON data.

    ``rows`` per split; ``labels`` of all rows and per split, as shares in percent or the moments of a number; ``words``
    of texts and of all earlier turns, punctuation marks counted each, and ``vocabulary``, the distinct ones, upper
    and lower case apart. The paper's own counts (Table 1) are of an unnamed tokeniser and hold its speaker tags.
    Of a task in folds every row is a test row, so that is its only split here.
    """
    parts = {name: getattr(splits, name) for name in splits.counted}
    everything = [row for rows in parts.values() for row in rows]
    words: Counter[str] = Counter()
    for row in everything:
        for text in (row.text, *(turn.text for turn in row.context)):
            words.update(WORD.findall(text))
    return {
        "rows": {name: len(rows) for name, rows in parts.items()},
        "labels": {name: labels_of(splits, rows) for name, rows in {"all": everything, **parts}.items()},
        "words": words.total(),
        "vocabulary": len(words),
    }


def inputs_of(task: str, splits_hash: str, classes: Sequence[str]) -> dict[str, Any]:
    """What a task's stored statistics depend on: the content of its splits, and its classes' names."""
    return {"version": VERSION, "task": task, "splits_hash": splits_hash, "classes": list(classes)}
