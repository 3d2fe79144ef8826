"""The row loader: from a task and the data folder to its three splits.

splits = load(registry.task("support"), Path("data"))
len(splits.train), splits.test[0].text, splits.content_hash
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from json.encoder import encode_basestring as quoted
from operator import itemgetter
from pathlib import Path

from tasks.errors import BadInput
from tasks.readers import TaskRows, read_task
from tasks.splits.as_published import as_published
from tasks.splits.clean import NAMES, Parts, clean, units_of
from tasks.splits.folds import cut, make_folds
from tasks.splits.protocol import KINDS, Protocol
from tasks.task import Example, Task

UNUSED = 'the sets that the data name are not used here; a study takes them with splits = "as-published"'

_CANONICAL = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True)
class Splits:
    """A task whose classes are known, its rows in three splits, and the sha256 (hex) of their content.

    As-published splits may overlap; ``published`` names those whose rows a file of published ids gives.
    A task with ``folds`` has one Splits per fold; its own train and validation are those of the first fold, whose
    adapter serves as an intermediate, and its test is every row, fold after fold. Where a protocol ``is_repeated``,
    folds are the repeats, and the task's own splits are those of the first. ``dropped`` holds, in the order of
    NAMES, rows left out of each split because they repeat a later split's context and text.
    """

    task: Task
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]
    content_hash: str
    warnings: tuple[str, ...]
    published: tuple[str, ...] = ()
    folds: tuple[Splits, ...] = ()
    dropped: tuple[tuple[Example, ...], ...] = ((), (), ())
    is_repeated: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the splits in which every row occurs once: with folds the test alone."""
        return ("test",) if self.folds and not self.is_repeated else NAMES

    @cached_property
    def after_hashes(self) -> dict[int, str]:
        """What ``after_hash`` has come to, by the number of later turns."""
        return {}


def load(task: Task, data: Path, splits: str = "clean", ids: Path | None = None) -> Splits:
    """Read the task's files below ``data`` and split them, ``clean``, ``as-published`` or by a protocol's name.

    ``ids`` is the folder of published split ids, by default ``data/splits``. MissingData, BadRow, BadEntry or BadInput
    when that fails.
    """
    if splits not in KINDS and Protocol.of(splits) is None:
        raise BadInput(f"splits {splits!r} is not one of {', '.join(KINDS)}")
    with without_collection():
        return _split(read_task(task, data), data, splits, ids, content_hash)


def load_kinds(task: Task, data: Path, ids: Path | None = None, *, hashed: bool = True) -> dict[str, Splits]:
    """Splits of each of ``KINDS``, whose rows are read once; else as ``load``.

    Not ``hashed``, their content hashes are empty, which takes half the time; nothing may be stored about them then.
    """
    with without_collection():
        read = read_task(task, data)
        digest = content_hash if hashed else lambda *_: ""
        return {kind: _split(read, data, kind, ids, digest) for kind in KINDS}


def _split(read: TaskRows, data: Path, splits: str, ids: Path | None, digest: Callable[..., str]) -> Splits:
    """The rows of a task, split, and the digest of the splits."""
    task, rows, notes = read
    protocol = Protocol.of(splits)
    if (splits != "as-published" or task.folds) and any(row.split for row in rows):
        notes = (*notes, UNUSED)
    if protocol:
        each = cut(task, rows, protocol)
    elif task.folds:
        joined = units_of(task, rows).joined
        notes = (*notes, joined) if joined else notes
        each = make_folds(task, rows)
    else:
        each = [clean(task, rows) if splits == "clean" else as_published(task, data, rows, ids)]
    each = [_pseudonymise(task, parts) for parts in each]
    if len(each) == 1:
        return _of_parts(task, each[0], (*notes, *each[0].warnings), digest)
    folds = tuple(_of_parts(task, parts, (), digest) for parts in each)
    of_all = sha256("".join(fold.content_hash for fold in folds).encode()).hexdigest()
    warnings = (
        *notes,
        f"cross-validation in {len(each)} folds: every row is a test row once; as an intermediate, fold 1's adapter",
        *(f"fold {number}: {warning}" for number, parts in enumerate(each, start=1) for warning in parts.warnings),
    )
    test, first = tuple(row for fold in folds for row in fold.test), folds[0]
    whole = Splits(task, first.train, first.validation, test, of_all, warnings, folds=folds, dropped=first.dropped)
    if protocol is None or protocol.folds:
        return whole
    note = f"{len(each)} repeats, whose test sets overlap; counts of rows are those of the first"
    warnings = (*notes, note, *each[0].warnings)
    return replace(whole, test=first.test, warnings=warnings, is_repeated=True)


def _of_parts(task: Task, parts: Parts, warnings: tuple[str, ...], digest: Callable[..., str]) -> Splits:
    sets = (parts.train, parts.validation, parts.test)
    return Splits(task, *sets, digest(*sets), warnings, parts.published, dropped=parts.dropped)


def _pseudonymise(task: Task, parts: Parts) -> Parts:
    """The parts with pseudonyms for ids, groups and blocks if the data are private; unchanged if they are not."""
    if not task.dataset.private:
        return parts
    family = task.dataset.family
    sets = (*(getattr(parts, name) for name in NAMES), *parts.dropped)

    def pseudonym(name: str) -> str:
        return sha256(f"{family}\0{name}".encode()).hexdigest()[:16]

    train, validation, test, *dropped = (
        tuple(
            row._replace(id=pseudonym(row.id), group=pseudonym(row.group), block=pseudonym(row.block)) for row in rows
        )
        for rows in sets
    )
    return replace(parts, train=train, validation=validation, test=test, dropped=tuple(dropped))


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause the collection of reference cycles: rows hold none, and it takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def content_hash(*splits: Sequence[Example]) -> str:
    """Sha256 (hex) over id, group, context, text and label of every row in order.

    Each row is a line of canonical JSON; an empty line ends each split.
    """
    digest = sha256()
    for split in splits:
        for row in split:
            digest.update(_line(row).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def rationale_hash(splits: Splits) -> str:
    """Sha256 (hex) over id and rationale of every row, by id: what ``content_hash`` leaves out.

    Few systems learn from rationales; the keys of all others stay what they are when a rationale is corrected.
    """
    parts = (splits.train, splits.validation, splits.test)
    return _hash_of_pairs(sorted({(row.id, row.rationale) for part in parts for row in part}))


def after_hash(splits: Splits, turns: int) -> str:
    """Sha256 (hex) over id and the first ``turns`` later turns of every row, by id.

    ``content_hash`` leaves them out as it does rationales: a changed later turn concerns only systems that read it.
    Taken once of a Splits: all cells of a task ask for it.
    """
    if turns not in splits.after_hashes:
        parts = (splits.train, splits.validation, splits.test)
        splits.after_hashes[turns] = _hash_of_pairs(
            sorted({(row.id, row.after[:turns]) for part in parts for row in part})
        )
    return splits.after_hashes[turns]


def _hash_of_pairs(pairs: Iterable[tuple[str, Sequence[object]]]) -> str:
    """Sha256 (hex) over ids, each with what is told of it, in this order."""
    digest = sha256()
    for id, values in pairs:
        digest.update(_CANONICAL.encode([id, list(values)]).encode() + b"\n")
    return digest.hexdigest()


def marks_hash(splits: Splits) -> str:
    """Sha256 (hex) over id and annotators' marks of every test row, by id; empty where no row has any.

    ``content_hash`` leaves them out: nothing is trained or predicted from them.
    """
    rows = sorted({(row.id, row.marks) for row in splits.test if row.marks}, key=itemgetter(0))
    return _hash_of_pairs(rows) if rows else ""


def _line(row: Example) -> str:
    """A row as canonical JSON and a line end, joined by hand: a JSON encoder takes three times as long."""
    context = ",".join([f"[{quoted(turn.speaker)},{quoted(turn.text)}]" for turn in row.context])
    label = _CANONICAL.encode(row.label) if isinstance(row.label, tuple) else repr(row.label)
    return f"[{quoted(row.id)},{quoted(row.group)},[{context}],{quoted(row.text)},{label}]\n"
