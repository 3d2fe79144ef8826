"""A study cut down to a few minutes, to see on the real machine that every kind of cell of it trains."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from harness.before.stored_records import SMOKE
from harness.study import StudyConfig, share_of

ROWS = 32
NOTE = f"a smoke run: {ROWS} rows, one epoch. Its numbers mean nothing; what counts is that every cell was trained"


def smoke_of(study: StudyConfig) -> StudyConfig:
    """The study with at most 32 rows of each split and one epoch of every task, under a name and keys of its own.

    Of training rows there are so many that the setting with the smallest share has 32.
    """
    train = math.ceil(ROWS / min(share_of(setting) for setting in study.settings))
    most = {"max_train": train, "max_val": ROWS, "max_test": ROWS}
    caps: dict[str, Any] = {name: min(value, getattr(study, name) or value) for name, value in most.items()}
    once = {name: {**study.task.get(name, {}), "epochs": 1} for name in study.tasks}  # wins over searches
    return dataclasses.replace(study, name=f"{study.name}{SMOKE}", task=once, **caps)
