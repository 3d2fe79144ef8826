"""Lengths in a backbone's tokens, and how many rows it would cut, from a few rows and before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.study.backbones.backbone import Backbone, resolve
from harness.study.config import StudyConfig
from harness.training.inputs import Encoded, InputFormat, cut_counts
from harness.training.tokens.tokenizer import load_tokenizer
from tasks.quality import spread
from tasks.splits.clean import NAMES
from tasks.splits.loading import Splits
from tasks.task import Example, Task

MOST_ROWS = 2000  # per split: more are thinned out evenly, because only the shares matter
MOST_SAMPLED = 100  # rows whose mean length stands for all
LONGEST = 3  # rows with the most bytes: among them is the one with the most tokens, or nearly
MOST_TOKENISED = 300  # long rows that are looked at
ROOM_FOR_TAGS = 40  # bytes that an input format may add to a turn


def token_lengths(splits: Splits, backbone: str) -> dict[str, Any]:
    """Per split: tokens of uncut rows in the ``pair`` format, and percent of rows whose history or target is cut.

    BadBackbone when there is no such backbone.
    """
    resolved = resolve(backbone)
    tokenizer, task = load_tokenizer(resolved), splits.task
    form = InputFormat(tokenizer, "pair", task.tags, resolved.max_tokens, task.truncation, task.later)
    uncut = replace(form, max_tokens=10**6)
    by_split: dict[str, Any] = {}
    for name in NAMES:
        rows = _thinned(getattr(splits, name), MOST_ROWS)
        counts = cut_counts(form.encode_all(rows))
        lengths = [len(piece.ids) for windows in uncut.encode_all(rows) for piece in windows]
        cut = {f"{part}_cut_percent": 100 * counts[part] / len(rows) for part in ("history", "target")}
        by_split[name] = {"rows": len(rows)} | spread(lengths) | cut
    return by_split


@dataclass(frozen=True)
class RowTokens:
    """The mean length of a row (or of a window of it), and the windows of the longest rows."""

    mean: float
    longest: tuple[tuple[Encoded, ...], ...]


def row_tokens(task: Task, rows: Sequence[Example], study: StudyConfig, backbone: Backbone) -> RowTokens:
    """Lengths of ``rows`` as the study cuts them, special tokens included; at most 103 rows are looked at."""
    form, later = _form(task, study, backbone), task.later
    seen = form.encode_all(_thinned(rows, MOST_SAMPLED))
    lengths = [len(window.ids) for windows in seen for window in windows]
    longest = tuple(form.encode_all(sorted(rows, key=lambda row: _bytes(row, later))[-LONGEST:]))
    return RowTokens(sum(lengths) / len(lengths), longest)


def cut_shares(task: Task, rows: Sequence[Example], study: StudyConfig, backbone: Backbone) -> dict[str, float]:
    """Shares of ``rows`` that lose some of their ``history`` or ``target``; of many long rows only some are looked at.

    A tokenizer makes at most one token of a byte, so most rows need no look.
    """
    long = [row for row in rows if _bytes(row, task.later, ROOM_FOR_TAGS) > study.max_tokens]
    if not long:
        return {"history": 0.0, "target": 0.0}
    form, looked_at = _form(task, study, backbone), _thinned(long, MOST_TOKENISED)
    counts = cut_counts(form.encode_all(looked_at))
    return {part: counts[part] / len(looked_at) * len(long) / len(rows) for part in ("history", "target")}


def _form(task: Task, study: StudyConfig, backbone: Backbone) -> InputFormat:
    """How the study turns rows of the task into tokens."""
    tags = task.tags if study.input_format == "tags" else "none"
    tokenizer = load_tokenizer(backbone)
    return InputFormat(tokenizer, study.input_format, tags, study.max_tokens, task.truncation, task.later)


def _thinned(rows: Sequence[Example], most: int) -> Sequence[Example]:
    """At most about ``most`` of the rows, evenly spread; all, where there are no more."""
    return rows[:: -(-len(rows) // most)]


def _bytes(row: Example, later: int, more: int = 0) -> int:
    """The bytes of a row's turns, those of ``later`` ones included, each ``more`` than it has."""
    size = len(row.text.encode()) + more
    turns = (*row.context, *row.after[:later]) if later else row.context
    for turn in turns:  # a plain loop: every row of a study passes here
        size += len(turn.text.encode()) + more
    return size
