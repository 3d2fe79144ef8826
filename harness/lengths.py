"""Lengths in a backbone's tokens, and how many rows it would cut; the tokenizer is loaded only here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.backbone import resolve
from tasks.loading import Splits
from tasks.quality import spread
from tasks.splits import NAMES
from tasks.task import Example

MOST_ROWS = 2000  # per split: more are thinned out evenly, because only the shares matter


def token_lengths(splits: Splits, backbone: str) -> dict[str, Any]:
    """Per split: tokens of uncut rows in the ``pair`` format, and percent of rows whose history or target is cut.

    BadBackbone when there is no such backbone.
    """
    from harness.training.inputs import InputFormat, cut_counts
    from harness.training.model import load_tokenizer

    resolved = resolve(backbone)
    tokenizer = load_tokenizer(resolved)
    task = splits.task
    form = InputFormat(tokenizer, "pair", task.tags, resolved.max_tokens, task.truncation)
    uncut = InputFormat(tokenizer, "pair", task.tags, 10**6, task.truncation)
    found: dict[str, Any] = {}
    for name in NAMES:
        rows = _thinned(getattr(splits, name))
        counts = cut_counts([form.encode(row) for row in rows])
        lengths = [len(piece.ids) for row in rows for piece in uncut.encode(row)]
        cut = {f"{part}_cut_percent": 100 * counts[part] / len(rows) for part in ("history", "target")}
        found[name] = {"rows": len(rows)} | spread(lengths) | cut
    return found


def _thinned(rows: Sequence[Example]) -> Sequence[Example]:
    step = -(-len(rows) // MOST_ROWS)
    return rows[::step]
