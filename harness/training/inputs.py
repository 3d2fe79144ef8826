"""From a row to token ids: the input formats, with the history cut on its left before the target is touched.

Lengths in tokens, and how many rows a backbone would cut, are estimated from a few rows before anything is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from harness.study.backbone import Backbone, resolve
from harness.study.cell import Cell, seed_of
from harness.study.config import StudyConfig, share_of
from harness.training.tokenizer import Tokenizer, load_tokenizer
from tasks.errors import BadInput
from tasks.quality import spread
from tasks.splits.clean import NAMES
from tasks.splits.loading import Splits
from tasks.task import Answer, Example, Task, classes_of

BLOCK = 1000  # rows whose texts are tokenised in one call


@dataclass(frozen=True)
class Encoded:
    """Token ids and segment ids of one row or of one window of it, and whether its history or target was cut."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    is_history_cut: bool
    is_target_cut: bool


@dataclass(frozen=True)
class InputFormat:
    """How context and text of a task become one sequence of at most ``max_tokens`` tokens.

    ``pair``: the earlier turns, joined by the separator token, are the first segment and the text the second.
    ``tags``: the paper's texts, one segment with literal ``<speaker>``, ``<listener>`` and ``<target>`` words
    (style ``post_reply`` or ``dialogue``; ``listener`` where a listener says the text; ``question`` where it ends a
    listener's open turn), with the separator token between two turns (``separator``), or the text alone.
    ``truncation`` says what stays of a target that is too long by itself: its ``head``, its ``tail``, half of each
    (``head+tail``), or everything, as the fewest ``windows`` of full length that cover it, evenly spread.
    ``later`` turns follow the text in its segment, each after a separator token, where the format is ``pair``. A text
    is read first, then the turns nearest to it: each side has half of the room, and what the other does not need.
    Words of the data that look like special tokens are cut into ordinary pieces.
    """

    tokenizer: Tokenizer
    name: str
    tags: str
    max_tokens: int
    truncation: str = "head"
    later: int = 0

    @classmethod
    def of(cls, spec: Mapping[str, Any], tokenizer: Tokenizer) -> InputFormat:
        """The format that a cell's spec names."""
        tags, later = spec["tags"] or "none", spec.get("later", 0)
        return cls(tokenizer, spec["input_format"], tags, spec["max_tokens"], spec["truncation"], later)

    def encode(self, row: Example) -> tuple[Encoded, ...]:
        """Token ids of one row, special tokens included: one sequence, or one per window."""
        (windows,) = self.encode_all([row])
        return windows

    def encode_all(self, rows: Sequence[Example]) -> list[tuple[Encoded, ...]]:
        """The same of many rows, whose texts are tokenised a block at a time, each text of a block once."""
        encoded: list[tuple[Encoded, ...]] = []
        for start in range(0, len(rows), BLOCK):
            block = [
                (*self._texts(row), [turn.text for turn in row.after[: self.later]])
                for row in rows[start : start + BLOCK]
            ]
            texts = list({text: None for history, target, later in block for text in (*history, target, *later)})
            ids = dict(zip(texts, self.tokenizer.ids(texts), strict=True))
            encoded += [
                self._windows([ids[text] for text in history], ids[target], [ids[text] for text in later])
                for history, target, later in block
            ]
        return encoded

    def _texts(self, row: Example) -> tuple[list[str], str]:
        """What is tokenised of a row, each by itself: its history, as turns or as one text, and its target."""
        if self.name == "pair":
            return [turn.text for turn in row.context], row.text
        if self.tags == "none":
            return [], row.text
        if self.tags == "separator":
            return [turn.text + " " for turn in row.context], " " + row.text if row.context else row.text
        tag = "listener" if self.tags == "listener" else "target"
        # earlier turns between the literal words of their speakers; the listener who asks a question is not done yet
        words = [f"<{turn.speaker}> {turn.text} </{turn.speaker}>" for turn in row.context]
        if self.tags == "question":
            is_begun = bool(row.context) and row.context[-1].speaker == "listener"
            words[-1 if is_begun else len(words) :] = [
                f"<listener> {row.context[-1].text}" if is_begun else "<listener>"
            ]
        return [" ".join(words)], f" <{tag}> {row.text} </{tag}>"

    def _windows(
        self, turns: Sequence[list[int]], target: list[int], later: Sequence[list[int]]
    ) -> tuple[Encoded, ...]:
        separator = self.tokenizer.separator
        history: list[int] = []
        for ids in turns:
            history += [*([separator] if history else []), *ids]
        follows = [id for ids in later for id in (separator, *ids)]
        if self.name != "pair" and self.tags == "separator" and turns:
            history.append(separator)
        is_pair = self.name == "pair" and bool(history)
        room = self.max_tokens - self._around[is_pair]
        is_cut = len(target) > room and self.truncation != "windows"
        windows = []
        for piece in pieces(target, room, self.truncation):  # each with as much of what is nearest as there is room for
            of_history, of_later = sides(len(history), len(follows), room - len(piece))
            kept, text = history[len(history) - of_history :], piece + follows[:of_later]
            first, second = (kept, text) if is_pair else (kept + text, None)
            ids = self.tokenizer.template.build_inputs_with_special_tokens(first, second)
            segments = self.tokenizer.template.create_token_type_ids_from_sequences(first, second)
            is_history_cut = of_history < len(history) or of_later < len(follows)
            windows.append(Encoded(tuple(ids), tuple(segments), is_history_cut, is_cut))
        return tuple(windows)

    @cached_property
    def _around(self) -> tuple[int, int]:
        """How many special tokens stand around one text, and around two."""
        build = self.tokenizer.template.build_inputs_with_special_tokens
        return len(build([], None)), len(build([], []))


def sides(earlier: int, later: int, room: int) -> tuple[int, int]:
    """How many tokens of two sides are read: each has half of the room, and what the other does not need."""
    of_earlier = min(earlier, max(room // 2, room - later))
    return of_earlier, min(later, room - of_earlier)


def pieces(target: list[int], room: int, truncation: str) -> list[list[int]]:
    """What stays of a target for which there is ``room``: itself, a part of it, or windows that cover it."""
    over = len(target) - room
    if over <= 0:
        return [target]
    if truncation == "windows":
        count = -(-len(target) // room)
        starts = [round(i * over / (count - 1)) for i in range(count)]
        return [target[start : start + room] for start in starts]
    head = {"head": room, "tail": 0, "head+tail": room - room // 2}[truncation]
    return [target[:head] + target[head + over :]]


def cut_counts(rows: Sequence[tuple[Encoded, ...]]) -> dict[str, int]:
    """How many of ``rows`` lost a part of their ``history`` or of their ``target``, and into how many windows."""
    return {
        "rows": len(rows),
        "history": sum(windows[0].is_history_cut for windows in rows),
        "target": sum(windows[0].is_target_cut for windows in rows),
        "windows": sum(map(len, rows)),
    }


# Which rows of a split a cell sees: caps and limited-data settings, drawn once and never redrawn.


@dataclass(frozen=True)
class Rows:
    """The rows of one cell, in file order."""

    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]


def rows_of(cell: Cell, splits: Splits) -> Rows:
    """The rows that ``cell`` trains, selects and is tested on, after caps and setting.

    Caps depend on the task alone, so that all seeds share one test set; the limited-data subset depends on task
    and seed and is uniform or, for a setting that says so, stratified. All percentages of a task and seed are cut from
    one order, so a uniform smaller one lies within a larger one. BadInput when a class has no training row.
    """
    caps = cell.spec["caps"]
    classes = splits.task.label.kind != "continuous"
    parts = {
        name: _cap(getattr(splits, name), caps[name], seed_of("cap", cell.target, name), classes)
        for name in ("train", "validation", "test")
    }
    share = share_of(cell.setting)
    seed = seed_of("share", cell.target, cell.seed, cell.setting.lstrip("0123456789."))
    if cell.setting.endswith("-stratified"):
        parts["train"] = _stratify(parts["train"], share, seed)
    elif share < 1:
        parts["train"] = _cap(parts["train"], max(1, round(len(parts["train"]) * share)), seed, classes)
    if (permutations := cell.spec["label"].get("permutations")) is not None:
        for name, order_seed in permutations.items():  # the rows in their order, each with the label of another
            order = np.random.default_rng(order_seed).permutation(len(parts[name])).tolist()
            labels = [parts[name][i].label for i in order]
            parts[name] = tuple(row._replace(label=label) for row, label in zip(parts[name], labels, strict=True))
    seen = {index for row in parts["train"] for index in classes_of(row.label)} if classes else set()
    for index, name in enumerate(splits.task.label.classes):
        if index not in seen:
            raise BadInput(
                f"task {splits.task.id}: class {name!r} has no row among the {len(parts['train'])} training rows; "
                "raise max_train or merge the class"
            )
    return Rows(**parts)


def _cap(rows: tuple[Example, ...], cap: int | None, seed: int, has_classes: bool) -> tuple[Example, ...]:
    """``cap`` rows by a seeded permutation, one of every class first, in file order."""
    if cap is None or len(rows) <= cap:
        return rows
    order = np.random.default_rng(seed).permutation(len(rows)).tolist()
    if has_classes:
        first = {name: i for i in reversed(order) for name in classes_of(rows[i].label)}
        kept = set(first.values())
        order = sorted(order, key=lambda i: i not in kept)
    return tuple(rows[i] for i in sorted(order[:cap]))


def _stratify(rows: tuple[Example, ...], share: float, seed: int) -> tuple[Example, ...]:
    """A share of every class (of every tenth by size, for numbers) by a seeded permutation, in file order.

    Every class or tenth keeps at least a row; what rounding takes from one goes to the next. Of several labels the
    share is taken of every combination, of which there may be more than rows to keep, and then a row of every class.
    """
    strata: dict[Answer, list[int]] = {}
    names = [row.label for row in rows]
    if isinstance(names[0], float):  # tenths by size
        ranks = np.argsort(np.argsort(names, kind="stable"))
        names = (10 * ranks // len(rows)).tolist()
    order = np.random.default_rng(seed).permutation(len(rows)).tolist()
    for i in order:
        strata.setdefault(names[i], []).append(i)
    fewest = 0 if isinstance(names[0], tuple) else 1
    kept, owed = [], 0.0
    for _, members in sorted(strata.items()):
        owed += len(members) * share
        count = min(max(fewest, round(owed)), len(members))
        owed -= count
        kept += members[:count]
    covered = {name for i in kept for name in classes_of(names[i])}
    for i in order:
        if not covered.issuperset(classes_of(names[i])):
            kept.append(i)
            covered.update(classes_of(names[i]))
    return tuple(rows[i] for i in sorted(kept))


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
        rows = _thin(getattr(splits, name), MOST_ROWS)
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
    seen = form.encode_all(_thin(rows, MOST_SAMPLED))
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
    form, looked_at = _form(task, study, backbone), _thin(long, MOST_TOKENISED)
    counts = cut_counts(form.encode_all(looked_at))
    return {part: counts[part] / len(looked_at) * len(long) / len(rows) for part in ("history", "target")}


def _form(task: Task, study: StudyConfig, backbone: Backbone) -> InputFormat:
    """How the study turns rows of the task into tokens."""
    tags = task.tags if study.input_format == "tags" else "none"
    tokenizer = load_tokenizer(backbone)
    return InputFormat(tokenizer, study.input_format, tags, study.max_tokens, task.truncation, task.later)


def _thin(rows: Sequence[Example], most: int) -> Sequence[Example]:
    """At most about ``most`` of the rows, evenly spread; all, where there are no more."""
    return rows[:: -(-len(rows) // most)]


def _bytes(row: Example, later: int, more: int = 0) -> int:
    """The bytes of a row's turns, those of ``later`` ones included, each ``more`` than it has."""
    size = len(row.text.encode()) + more
    turns = (*row.context, *row.after[:later]) if later else row.context
    for turn in turns:  # a plain loop: every row of a study passes here
        size += len(turn.text.encode()) + more
    return size
