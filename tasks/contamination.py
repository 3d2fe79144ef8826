"""Which test items of a target were training material of an intermediate: by row, group, text and near duplicate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from tasks import near
from tasks.loading import Splits
from tasks.near import Texts
from tasks.task import Example, Task

KIND = "contamination"  # of the measures that keep contacts
VERSION = 1
MARKED_SHARE = 0.02  # of a target's test items: fewer equal texts are greetings, which people repeat by themselves


class Contact(NamedTuple):
    """How many of a target's test items occur in an intermediate's training data; the target's own are a pair too.

    Of ``n_test`` items: ``same_row`` by id, within a dataset; ``same_group`` by dialogue, post or article (between
    datasets of a family by what they share); ``same_pair`` by equal context and text; ``same_text`` by equal text;
    ``near_text`` by an equal or nearly equal text, of the ``n_long`` items that are long enough to tell.
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


def contacts(
    splits: Mapping[str, Splits], pairs: Iterable[tuple[str, str]], texts: Texts | None = None
) -> list[Contact]:
    """One Contact per (target, intermediate); texts are compared once for all pairs, or before if they are given.

    A task in folds is compared with itself fold by fold.
    """
    wanted = list(pairs)
    named = {name: splits[name] for pair in wanted for name in pair}
    index = texts or Texts([part for one in named.values() for part in (one.test, one.train)])
    tests = {name: _Side(one.task, one.test, index) for name, one in named.items()}
    trains = {name: _Side(one.task, one.train, index) for name, one in named.items()}
    return [
        _by_fold(named[target], index)
        if target == other and named[target].folds
        else _contact(tests[target], trains[other], index)
        for target, other in wanted
    ]


def _by_fold(splits: Splits, index: Texts) -> Contact:
    """Each fold's test rows with its own training rows."""
    sides = ((_Side(one.task, one.test, index), _Side(one.task, one.train, index)) for one in splits.folds)
    return _sum([_contact(test, train, index) for test, train in sides])


def _sum(found: Sequence[Contact]) -> Contact:
    """All counts of several contacts of one pair."""
    return Contact(*found[0][:2], *(sum(counts) for counts in zip(*(one[2:] for one in found), strict=True)))


def inputs_of(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the stored contacts of all these tasks depend on, from the task rows of a manifest."""
    return {
        "version": VERSION,
        "near": {"version": near.VERSION, "threshold": near.THRESHOLD, "shortest": near.SHORTEST},
        "tasks": {
            id: {name: task[name] for name in ("dataset", "family", "splits_hash")} for id, task in tasks.items()
        },
    }


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
    """Compare one target's test rows with one intermediate's training rows.

    Another dataset of the family names groups in its own way, but blocks in a common one.
    """
    one, other = test.task.dataset, train.task.dataset
    ids, groups, blocks, pairs = train.distinct
    of_test, of_train = (test.groups, groups) if one.id == other.id else (test.blocks, blocks)
    shared = of_train if one.family == other.family else set()
    trained = index.marked(train.texts)
    return Contact(
        target=test.task.id,
        intermediate=train.task.id,
        n_test=test.size,
        n_long=int(index.is_long[test.texts].sum()),
        same_row=_count(test.rows, ids) if one.id == other.id else 0,
        same_group=_count(of_test, shared),
        same_pair=_count(test.pairs, pairs),
        same_text=int(trained[test.texts].sum()),
        near_text=int(index.with_near(trained)[test.texts].sum()),
        n_groups=len(set(of_test)),
        groups_in_train=len(set(of_test) & shared),
    )


def _count(items: Sequence[Any], among: set[Any]) -> int:
    return sum(item in among for item in items)
