"""Rows with another context and the same reply, and the reverse: what a probe shows to a trained cell.

Every operation is a function of rows and a seed. Labels, ids and groups stay, so that a metric can be computed as if
nothing had changed. A context that is swapped comes from a row of another group and is never equal to the row's own;
where none is left for a row, the row is counted as left out. Rows without a context take no part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from adapters_store.measures import (
    BAD_NEWS,
    GOOD_NEWS,
    IN_CLASS,
    OTHER_REPLY,
    OTHER_TASK,
    REMOVED,
    SWAPPED,
    UNCHANGED,
)
from tasks.task import Example, Turn

Context = tuple[Turn, ...]
Places = NDArray[np.int64]
THIRDS = (1 / 3, 2 / 3)  # of the labels of a continuous task, which has no classes
PAIRS = "news_pairs.tsv"
NOBODY = -1


@dataclass(frozen=True)
class Changed:
    """Rows that were changed, and at which ``places`` of all rows they stand; ``left_out`` is how many could not be.

    Rows without a context are counted in neither.
    """

    places: Places
    rows: list[Example]
    left_out: int = 0


@cache
def news_pairs() -> tuple[tuple[str, str], ...]:
    """Pairs of statements, good news and the bad news that it could have been; written for this project."""
    lines = files(__package__).joinpath(PAIRS).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return tuple((good, bad) for good, bad in pairs[1:])


@dataclass(frozen=True)
class Material:
    """What operations need beside the rows: a seed, and contexts of other tasks (none: no such task)."""

    seed: int
    foreign: Sequence[Context] = ()
    pairs: Sequence[tuple[str, str]] = field(default_factory=news_pairs)


def with_context(rows: Sequence[Example]) -> Places:
    """The places of rows that have a context."""
    return np.array([place for place, row in enumerate(rows) if row.context], dtype=np.int64)


def derangement(groups: Sequence[object], contents: Sequence[object], rng: np.random.Generator) -> Places:
    """For every row the place of another that gives it its content, each place given away once; -1 where there is none.

    Giver and taker are of different groups and differ in content. Rows in a random order, groups together, are turned
    by the size of the largest group, which parts all of a group from it unless it has more than half of the rows; who
    still has what it must not have exchanges givers with another at random.
    """
    group, content = _codes(groups), _codes(contents)
    count = len(group)
    if count == 0:
        return np.empty(0, np.int64)
    order = np.lexsort((rng.random(count), rng.permutation(group.max() + 1)[group]))
    givers = np.empty(count, np.int64)
    givers[order] = np.roll(order, -int(np.bincount(group).max()))

    def fits(taker: Places | int, giver: Places | int) -> NDArray[np.bool_]:
        return np.asarray((group[taker] != group[giver]) & (content[taker] != content[giver]))

    everyone = np.arange(count)
    for taker in np.flatnonzero(~fits(everyone, givers)).tolist():
        partners = np.flatnonzero(fits(taker, givers) & fits(everyone, givers[taker]))
        if not fits(taker, givers[taker]) and len(partners):
            partner = rng.choice(partners)
            givers[[taker, partner]] = givers[[partner, taker]]
    return np.where(fits(everyone, givers), givers, NOBODY)


def _codes(names: Sequence[object]) -> Places:
    """Equal names as equal numbers from 0."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


# The operations. Each takes all rows of a test set and returns those that it has changed.


def unchanged(rows: Sequence[Example], material: Material) -> Changed:
    """The rows as they are, for what all others are held against."""
    places = with_context(rows)
    return Changed(places, [rows[place] for place in places])


def removed(rows: Sequence[Example], material: Material) -> Changed:
    """Without any context."""
    places = with_context(rows)
    return Changed(places, [rows[place]._replace(context=()) for place in places])


def swapped(rows: Sequence[Example], material: Material) -> Changed:
    """The context of a row of another group."""
    return _given(rows, [with_context(rows)], "context", material.seed)


def swapped_in_class(rows: Sequence[Example], material: Material) -> Changed:
    """The context of a row of another group with the same label, of a number in the same third of the labels."""
    places = with_context(rows)
    classes = classes_of([rows[place].label for place in places])
    return _given(rows, [places[classes == number] for number in np.unique(classes)], "context", material.seed)


def other_reply(rows: Sequence[Example], material: Material) -> Changed:
    """The reply of a row of another group, on its own context: the positive control."""
    return _given(rows, [with_context(rows)], "text", material.seed)


def from_other_tasks(rows: Sequence[Example], material: Material) -> Changed:
    """A context of another task, drawn without return as long as there are enough."""
    places, foreign = with_context(rows), material.foreign
    if not foreign:
        return Changed(np.empty(0, np.int64), [], len(places))
    rng = np.random.default_rng(material.seed)
    drawn = rng.choice(len(foreign), size=len(places), replace=len(places) > len(foreign))
    is_other = np.array([foreign[number] != rows[place].context for place, number in zip(places, drawn, strict=True)])
    chosen = [
        rows[place]._replace(context=foreign[number])
        for place, number in zip(places[is_other], drawn[is_other], strict=True)
    ]
    return Changed(places[is_other], chosen, int((~is_other).sum()))


def contradicted(rows: Sequence[Example], material: Material, *, half: int) -> Changed:
    """One half of a pair of news: 0 the good, 1 the bad one. With the same seed a row gets halves of the same pair."""
    places = with_context(rows)
    drawn = np.random.default_rng(material.seed).integers(len(material.pairs), size=len(places))
    chosen = [
        rows[place]._replace(context=(Turn(rows[place].context[-1].speaker, material.pairs[number][half]),))
        for place, number in zip(places, drawn, strict=True)
    ]
    return Changed(places, chosen)


Operation = Callable[[Sequence[Example], Material], Changed]
OPERATIONS: Mapping[str, Operation] = {
    UNCHANGED: unchanged,
    REMOVED: removed,
    SWAPPED: swapped,
    IN_CLASS: swapped_in_class,
    OTHER_TASK: from_other_tasks,
    GOOD_NEWS: partial(contradicted, half=0),
    BAD_NEWS: partial(contradicted, half=1),
    OTHER_REPLY: other_reply,
}


def classes_of(labels: Sequence[object]) -> Places:
    """The class of every label as a number: equal labels, or thirds of labels that are numbers with a fraction."""
    if any(isinstance(label, float) for label in labels):
        values = np.asarray(labels, dtype=np.float64)
        return np.searchsorted(np.quantile(values, THIRDS), values, side="right").astype(np.int64)
    return _codes(labels)


def _given(rows: Sequence[Example], parts: Sequence[Places], field: str, seed: int) -> Changed:
    """Rows that were given the ``field`` of another row of their part, which is at least of another group."""
    rng = np.random.default_rng(seed)
    takers, givers = [], []
    for places in parts:
        contents = [getattr(rows[place], field) for place in places]
        chosen = derangement([rows[place].group for place in places], contents, rng)
        takers.append(places[chosen != NOBODY])
        givers.append(places[chosen[chosen != NOBODY]])
    taker = np.concatenate([*takers, np.empty(0, np.int64)])
    giver = np.concatenate([*givers, np.empty(0, np.int64)])
    order = np.argsort(taker, kind="stable")
    pairs = list(zip(taker[order], giver[order], strict=True))
    left_out = sum(map(len, parts)) - len(pairs)
    return Changed(taker[order], [rows[a]._replace(**{field: getattr(rows[b], field)}) for a, b in pairs], left_out)
