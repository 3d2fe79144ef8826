"""The columns of the paper's full grid: rows, epochs and batch sizes as published, token lengths from an assumption."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

import pandas as pd

from analysis.results.published import published_task
from harness.study.file import load_study
from tasks.registry import Registry

PIECES_A_WORD, SPECIAL_TOKENS, LONGEST = 1.25, 3, 512  # assumed: pieces of a word, tokens that the format adds
ASSUMPTION = (
    f"assumed: {PIECES_A_WORD} pieces a word of Table 1, {SPECIAL_TOKENS} special tokens, lengths lognormal with sigma "
    f"0.6, cut at {LONGEST}, random rows and weights"
)


@dataclass(frozen=True)
class Column:
    """A target of the grid: rows of its splits, epochs and batch size (Table 4), mean tokens of a row (assumed)."""

    target: str
    train: int
    validation: int
    test: int
    epochs: int
    batch: int
    mean: int

    @property
    def steps(self) -> int:
        """Optimizer steps of one training."""
        return self.epochs * math.ceil(self.train / self.batch)

    @property
    def evaluated(self) -> int:
        """Rows that are scored: the validation rows once an epoch, and once more at the end with the test rows."""
        return (self.epochs + 1) * self.validation + self.test


def columns() -> Iterable[Column]:
    """The 18 columns of study muddy-waters."""
    registry, study = Registry.load(), load_study("muddy-waters")
    with (resources.files("analysis.results.published") / "tables" / "table1_dataset_sizes.csv").open(
        encoding="utf-8"
    ) as file:
        sizes = pd.read_csv(file).set_index("dataset_id")
    for name in study.tasks:
        task = registry.task(name)
        printed = published_task(name, task.dataset.id)
        if printed is None:
            raise SystemExit(f"{name}: a task of study muddy-waters that is in no table of the paper")
        train, validation, test = (round(printed.rows * share / 100) for share in printed.shares)
        words = sizes.loc[task.dataset.id, "total_tokens"] / printed.rows
        mean = min(round(words * PIECES_A_WORD + SPECIAL_TOKENS), LONGEST)
        training, _ = study.training_for(task)
        yield Column(name, train, validation, test, training.epochs, training.batch_size, mean)
