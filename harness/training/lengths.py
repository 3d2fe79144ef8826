"""Lengths in a backbone's tokens, and how many rows it would cut; the tokenizer is loaded only here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.study.backbones.backbone import Backbone, resolve
from harness.study.config import StudyConfig
from harness.training.inputs import Encoded, InputFormat, cut_counts
from harness.training.model import load_tokenizer
from tasks.quality import spread
from tasks.splits.clean import NAMES
from tasks.splits.loading import Splits
from tasks.task import Example, Task

MOST_ROWS = 2000  # per split: more are thinned out evenly, because only the shares matter


def token_lengths(splits: Splits, backbone: str) -> dict[str, Any]:
    """Per split: tokens of uncut rows in the ``pair`` format, and percent of rows whose history or target is cut.

    BadBackbone when there is no such backbone.
    """
    resolved = resolve(backbone)
    tokenizer = load_tokenizer(resolved)
    task = splits.task
    form = InputFormat(tokenizer, "pair", task.tags, resolved.max_tokens, task.truncation)
    uncut = InputFormat(tokenizer, "pair", task.tags, 10**6, task.truncation)
    by_split: dict[str, Any] = {}
    for name in NAMES:
        rows = _thinned(getattr(splits, name))
        counts = cut_counts([form.encode(row) for row in rows])
        lengths = [len(piece.ids) for row in rows for piece in uncut.encode(row)]
        cut = {f"{part}_cut_percent": 100 * counts[part] / len(rows) for part in ("history", "target")}
        by_split[name] = {"rows": len(rows)} | spread(lengths) | cut
    return by_split


def _thinned(rows: Sequence[Example]) -> Sequence[Example]:
    step = -(-len(rows) // MOST_ROWS)
    return rows[::step]


# How long a task's rows are in a backbone's tokens, from a few of them, before anything is trained.

MOST_SAMPLED = 100
LONGEST = 3  # rows with the most bytes: among them is the one with the most tokens, or nearly


@dataclass(frozen=True)
class RowTokens:
    """The mean length of a row (or of a window of one), and the windows of the longest rows."""

    mean: float
    longest: tuple[tuple[Encoded, ...], ...]


def row_tokens(task: Task, rows: Sequence[Example], study: StudyConfig, backbone: Backbone) -> RowTokens:
    """Lengths of ``rows`` as the study cuts them, special tokens included; at most 103 rows are looked at."""
    tags = task.tags if study.input_format == "tags" else "none"
    form = InputFormat(load_tokenizer(backbone), study.input_format, tags, study.max_tokens, task.truncation)
    seen = [form.encode(row) for row in rows[:: -(-len(rows) // MOST_SAMPLED)]]
    lengths = [len(window.ids) for windows in seen for window in windows]
    longest = tuple(form.encode(row) for row in sorted(rows, key=_text_bytes)[-LONGEST:])
    return RowTokens(sum(lengths) / len(lengths), longest)


def _text_bytes(row: Example) -> int:
    return sum(len(text.encode()) for text in (row.text, *(turn.text for turn in row.context)))


# How many rows of a task a backbone has to cut, found before anything is trained.

MOST_TOKENISED = 300
ROOM_FOR_TAGS = 40  # bytes that an input format may add to a turn


def cut_shares(task: Task, rows: Sequence[Example], study: StudyConfig, backbone: Backbone) -> dict[str, float]:
    """Shares of ``rows`` that lose some of their ``history`` or ``target``; of many long rows only some are looked at.

    A tokenizer makes at most one token of a byte, so most rows need no look.
    """
    long = [row for row in rows if _bytes(row) > study.max_tokens]
    if not long:
        return {"history": 0.0, "target": 0.0}
    looked_at = long[:: -(-len(long) // MOST_TOKENISED)]
    tags = task.tags if study.input_format == "tags" else "none"
    form = InputFormat(load_tokenizer(backbone), study.input_format, tags, study.max_tokens, task.truncation)
    counts = cut_counts([form.encode(row) for row in looked_at])
    return {part: counts[part] / len(looked_at) * len(long) / len(rows) for part in ("history", "target")}


def _bytes(row: Example) -> int:
    return sum(len(text.encode()) + ROOM_FOR_TAGS for text in (row.text, *(turn.text for turn in row.context)))
