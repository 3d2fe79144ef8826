"""Limited-data subsets: the named share, alike for equal seeds, uniform or stratified as the setting says."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from harness.training.inputs import rows_of
from tasks.splits.loading import Splits
from tasks.task import Dataset, Example, Label, Task


@dataclass(frozen=True)
class ACell:
    """What ``rows_of`` needs of a cell."""

    setting: str
    seed: int = 1
    target: str = "toy"
    spec: Any = None


def splits(kind: str = "multiclass") -> Splits:
    label = Label("label", kind, ("a", "b", "c") if kind == "multiclass" else ())
    task = Task("toy", Dataset("toy", "Toy", "toys"), "Toy", ("x.csv",), "table", label)
    numbers = np.random.default_rng(0).normal(size=200)
    labels = [0] * 150 + [1] * 47 + [2] * 3 if kind == "multiclass" else numbers.tolist()
    rows = tuple(Example(str(i), str(i), str(i), (), f"text {i}", value) for i, value in enumerate(labels))
    return Splits(task, rows, rows, rows, "0" * 64, ())


def train_of(setting: str, seed: int = 1, kind: str = "multiclass") -> tuple[Example, ...]:
    return rows_of(ACell(setting, seed, spec=spec()), splits(kind)).train


def spec(**label: Any) -> dict[str, Any]:
    return {"caps": {"train": None, "validation": None, "test": None}, "label": label}


@pytest.mark.parametrize("setting", ["half", "half-stratified", "50%", "50%-stratified"])
def test_a_subset_is_drawn_once_per_seed_and_never_again(setting: str) -> None:
    first = train_of(setting)
    assert train_of(setting) == first != train_of(setting, seed=2)
    assert len(first) == 100 and list(first) == sorted(first, key=lambda row: int(row.id))


def test_a_stratified_half_keeps_the_share_of_every_class_or_of_every_tenth_of_numbers():
    for seed in range(5):
        counts = Counter(row.label for row in train_of("half-stratified", seed))
        assert counts[0] == 75 and counts[1] in (23, 24) and counts[2] in (1, 2)
    everything = sorted(row.label for row in train_of("full", kind="continuous"))
    kept = {row.label for row in train_of("half-stratified", kind="continuous")}
    assert [sum(value in kept for value in everything[i : i + 20]) for i in range(0, 200, 20)] == [10] * 10


@pytest.mark.parametrize("setting", ["12.5%", "25%", "25%-stratified", "99%"])
def test_a_percentage_keeps_its_share_of_the_rows(setting: str) -> None:
    assert len(train_of(setting)) == pytest.approx(2 * float(setting.split("%")[0]), abs=1)


def test_a_smaller_percentage_lies_within_a_larger_one_and_a_half_by_name_is_drawn_apart():
    few, more, most = (set(train_of(setting)) for setting in ("10%", "25%", "80%"))
    assert few < more < most
    assert len(train_of("half")) == len(train_of("50%"))
    assert train_of("half") != train_of("50%")


@pytest.mark.parametrize("kind", ["multiclass", "continuous"])
def test_permuted_labels_are_the_same_labels_on_other_texts_and_the_test_keeps_its_own(kind: str) -> None:
    plain = rows_of(ACell("full", spec=spec()), splits(kind))
    seeds = {"train": 5, "validation": 6}
    shuffled = rows_of(ACell("full", spec=spec(permutations=seeds)), splits(kind))
    assert rows_of(ACell("full", spec=spec(permutations=seeds)), splits(kind)) == shuffled
    for name in ("train", "validation"):
        before, after = getattr(plain, name), getattr(shuffled, name)
        assert [row.text for row in after] == [row.text for row in before]
        assert Counter(row.label for row in after) == Counter(row.label for row in before)
        assert sum(a.label != b.label for a, b in zip(after, before, strict=True)) > 20
    assert [row.label for row in shuffled.train] != [row.label for row in shuffled.validation]
    assert shuffled.test == plain.test


def several() -> Splits:
    """300 rows with eight labels in very many combinations; the last label is one row's alone."""
    rng = np.random.default_rng(3)
    labels = [(*one, 0) for one in (rng.random((299, 7)) < 0.35).astype(int).tolist()] + [(0,) * 7 + (1,)]
    label = Label("label", "multilabel", tuple("abcdefgh"), separator="|")
    task = Task("toy", Dataset("toy", "Toy", "toys"), "Toy", ("x.csv",), "table", label)
    rows = tuple(Example(str(i), str(i), str(i), (), f"text {i}", tuple(one)) for i, one in enumerate(labels))
    return Splits(task, rows, rows, rows, "0" * 64, ())


@pytest.mark.parametrize("share", [10, 25, 50])
def test_of_several_labels_a_stratified_share_is_that_share_and_has_every_class(share: int) -> None:
    everything = several()
    assert len({row.label for row in everything.train}) > 60
    for seed in range(5):
        kept = rows_of(ACell(f"{share}%-stratified", seed, spec=spec()), everything).train
        assert len(kept) - 3 * share in (0, 1)
        assert len({row.id for row in kept}) == len(kept)
        assert np.array([row.label for row in kept]).any(axis=0).all()
