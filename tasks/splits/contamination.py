"""Which test items of a target were training material of an intermediate: by row, group, text and near duplicate."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.splits.loading import Splits
from tasks.splits.near import SHORTEST, Progress, near_pairs, normalise, unseen
from tasks.task import Example, Task

MARKED_SHARE = 0.02  # of a target's test items: fewer equal texts are greetings, which people repeat by themselves


class Texts:
    """All distinct normalised texts, numbered, with the near duplicates of each, and what was not compared."""

    def __init__(
        self,
        parts: Sequence[Sequence[Example]],
        asked: Sequence[Sequence[Example]] | None = None,
        progress: Progress = unseen,
    ) -> None:
        """Number the texts and compare them: all, or those of the parts ``asked`` with each other and with all."""
        forms = {text: normalise(text) for text in {row.text for rows in parts for row in rows}}
        self.names = sorted(set(forms.values()))
        number = {form: i for i, form in enumerate(self.names)}
        self.number = {text: number[form] for text, form in forms.items()}
        self.is_long = np.array([len(text) >= SHORTEST for text in self.names], dtype=bool)
        wanted = None if asked is None else self.mask_of(np.concatenate([self.of(rows) for rows in asked]))
        self.near, self.left_out = near_pairs(self.names, wanted, progress)

    def of(self, rows: Sequence[Example]) -> NDArray[np.int64]:
        """Numbers ``[rows]`` of the rows' texts."""
        return np.array([self.number[row.text] for row in rows], dtype=np.int64)

    def mask_of(self, texts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """A mask ``[all texts]`` of the texts with these numbers."""
        mask = np.zeros(len(self.names), dtype=bool)
        mask[texts] = True
        return mask

    def add_near(self, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask ``[all texts]`` of the long texts that are marked or near one that is."""
        mask: NDArray[np.bool_] = marked & self.is_long
        first, second = self.near[:, 0], self.near[:, 1]
        mask[first[marked[second]]] = True
        mask[second[marked[first]]] = True
        return mask


def texts_of(splits: Iterable[Splits]) -> Texts:
    """The texts that contacts compare."""
    return Texts([rows for own in splits for rows in (_tested(own), own.train, *_later_trainings(own))])


def _tested(splits: Splits) -> tuple[Example, ...]:
    """Every row that some training of the task is tested on, once: of a repeated protocol those of all repeats."""
    if not splits.is_repeated:
        return splits.test
    return tuple({row.id: row for fold in splits.folds for row in fold.test}.values())


def _later_trainings(splits: Splits) -> Iterator[tuple[Example, ...]]:
    """Training rows of the repeats after the first."""
    return (fold.train for fold in splits.folds[1:] if splits.is_repeated)


class Contact(NamedTuple):
    """How many of a target's test items occur in an intermediate's training data; the target's own are a pair too.

    Of ``n_test`` items: ``same_row`` by id, within a dataset; ``same_group`` by dialogue, post or article (between
    datasets of a family by what they share); ``same_pair`` by equal context and text; ``same_text`` by equal text;
    ``near_text`` by an equal or nearly equal text, of the ``n_long`` items that are long enough.
    """

    target: str
    intermediate: str
    n_test: int
    n_long: int
    same_row: int
    same_group: int
    same_pair: int
    same_text: int
    near_text: int
    n_groups: int
    groups_in_train: int

    @property
    def is_contaminated(self) -> bool:
        """Whether an item is shared by row or group, or more than 2 % by context and text or a (nearly) equal text."""
        by_text = max(self.same_pair, self.near_text)
        return self.same_row + self.same_group > 0 or by_text > MARKED_SHARE * self.n_test

    def is_marked(self, *, is_synthetic: bool) -> bool:
        """Whether a study marks the pair: made-up texts are cut from templates, so being nearly alike says nothing."""
        return self.same_row + self.same_group + self.same_pair > 0 if is_synthetic else self.is_contaminated


def contacts(
    splits: Mapping[str, Splits], pairs: Iterable[tuple[str, str]], texts: Texts | None = None
) -> list[Contact]:
    """One Contact per (target, intermediate); ``texts`` are compared once for all pairs, if they were not before.

    A task in folds is compared with itself fold by fold.
    """
    wanted = list(pairs)
    named = {name: splits[name] for pair in wanted for name in pair}
    index = texts or texts_of(named.values())
    tests = {name: _Side(own.task, _tested(own), index) for name, own in named.items()}
    trains = {name: _Side(own.task, own.train, index) for name, own in named.items()}
    return [
        _by_fold(named[target], index)
        if target == other and named[target].folds
        else _contact(tests[target], trains[other], index)
        for target, other in wanted
    ]


def joined_families(pairs: Iterable[tuple[str, str]], splits: Mapping[str, Splits]) -> list[str]:
    """For pairs of tasks that share texts or groups, if of two families, the line of their entries that mends it."""
    shared: dict[frozenset[str], set[str]] = {}
    for pair in pairs:
        families = frozenset(splits[name].task.dataset.family for name in pair if name in splits)
        if len(families) == 2:
            shared.setdefault(families, set()).update(pair)
    return [
        f"to split {', '.join(sorted(names))} alike, write in the entry of each: family = {json.dumps(min(both))}, and "
        "by the same `group`"
        for both, names in sorted(shared.items(), key=lambda item: sorted(item[0]))
    ]


def sharing_texts(splits: Mapping[str, Splits], of: str = "") -> list[tuple[str, str]]:
    """Pairs of tasks (or those with one) where training has many of a target's test texts: equal ones, quickly counted.

    ``contacts`` counts more: contexts, groups and near duplicates.
    """
    trained = {name: {normalise(row.text) for row in own.train} for name, own in splits.items()}
    tested = {name: [normalise(row.text) for row in own.test] for name, own in splits.items()}
    return [
        (target, other)
        for target, texts in tested.items()
        for other, known in trained.items()
        if target != other and of in ("", target, other)
        if sum(text in known for text in texts) > MARKED_SHARE * len(texts)
    ]


def _by_fold(splits: Splits, index: Texts) -> Contact:
    """Each fold's test rows with its own training rows."""
    sides = ((_Side(fold.task, fold.test, index), _Side(fold.task, fold.train, index)) for fold in splits.folds)
    return _sum([_contact(test, train, index) for test, train in sides])


def _sum(folds: Sequence[Contact]) -> Contact:
    """All counts of several contacts of one pair."""
    return Contact(*folds[0][:2], *(sum(counts) for counts in zip(*(contact[2:] for contact in folds), strict=True)))


class _Side:
    """The rows of one split, in the forms in which they are compared."""

    def __init__(self, task: Task, rows: Sequence[Example], index: Texts) -> None:
        """Look the rows' texts up."""
        self.task, self.size = task, len(rows)
        self.texts = index.of(rows)
        self.rows = [row.id for row in rows]
        self.groups = [row.group for row in rows]
        self.blocks = [row.block for row in rows]
        self.pairs = [(tuple(turn.text for turn in row.context), row.text) for row in rows]

    @cached_property
    def distinct(self) -> tuple[set[str], set[str], set[str], set[Any]]:
        """Each row id, group, block and pair of context and text once."""
        return set(self.rows), set(self.groups), set(self.blocks), set(self.pairs)


def _contact(test: _Side, train: _Side, index: Texts) -> Contact:
    """Compare a target's test rows with an intermediate's training rows.

    Within a dataset groups are compared by name. Other datasets of the family name groups in their own ways, but
    blocks in a common one, so between them blocks are compared instead; outside of the family neither is.
    """
    own, other = test.task.dataset, train.task.dataset
    ids, groups, blocks, pairs = train.distinct
    of_test, of_train = (test.groups, groups) if own.id == other.id else (test.blocks, blocks)
    shared = of_train if own.family == other.family else set()
    trained = index.mask_of(train.texts)
    return Contact(
        target=test.task.id,
        intermediate=train.task.id,
        n_test=test.size,
        n_long=int(index.is_long[test.texts].sum()),
        same_row=_count(test.rows, ids) if own.id == other.id else 0,
        same_group=_count(of_test, shared),
        same_pair=_count(test.pairs, pairs),
        same_text=int(trained[test.texts].sum()),
        near_text=int(index.add_near(trained)[test.texts].sum()),
        n_groups=len(set(of_test)),
        groups_in_train=len(set(of_test) & shared),
    )


def _count(items: Sequence[Any], among: set[Any]) -> int:
    return sum(item in among for item in items)
