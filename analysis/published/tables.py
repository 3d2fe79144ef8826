"""The tables of the paper as they stand in its print, one CSV file each; ids of tasks are ours."""

from __future__ import annotations

from importlib import resources

import pandas as pd


def table(name: str) -> pd.DataFrame:
    """The rows of one file of this folder, by its name without ``.csv``."""
    with (resources.files(__package__) / f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def task_of(printed: str) -> str:
    """Our id of a task by any spelling that the paper prints."""
    names = table("task_names")
    return str(names.task[names.printed == printed].item())
