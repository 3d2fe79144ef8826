"""A study cut down to a few minutes, to see on the real machine that every kind of cell of it trains.

Its cells are stored as any others, and say nothing of how long a real one takes: ``records`` leaves them out.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from adapters_store import Record, Store, StoreError
from adapters_store.record import is_imported
from harness.study.config import StudyConfig, share_of

ROWS = 32
NOTE = f"a smoke run: {ROWS} rows, one epoch. Its numbers mean nothing; what counts is that every cell was trained"
SMOKE = "-smoke"  # how the name of a smoke run's study ends


def smoke_of(study: StudyConfig) -> StudyConfig:
    """The study with at most 32 rows of each split and one epoch of every task, under a name and keys of its own.

    Of training rows there are so many that the setting with the smallest share has 32. A loss that weighs classes from
    a later epoch on does so in the only one. Systems that few rows are too few for have their kind's settings for them.
    """
    from harness.study.systems import declared_kind

    train = math.ceil(ROWS / min(share_of(setting) for setting in study.settings))
    most = {"max_train": train, "max_val": ROWS, "max_test": ROWS}
    caps: dict[str, Any] = {name: min(value, getattr(study, name) or value) for name, value in most.items()}
    once = {name: {**study.task.get(name, {}), "epochs": 1} for name in study.tasks}  # wins over searches
    loss = {**study.loss, **({"deferred_from": 1} if study.loss.get("deferred_from") else {})}
    tables = {name: study.system.get(name, {}) for name in study.systems}
    system = {name: {**table, **declared_kind(name, table).smoke} for name, table in tables.items()}
    return dataclasses.replace(study, name=f"{study.name}{SMOKE}", task=once, loss=loss, system=system, **caps)


def records(store: Store) -> Iterator[Record]:
    """Every record that can be read, by its newest key; a damaged one is passed over here and named by whoever uses it.

    The cells of smoke runs are left out, and what was imported: how they were trained says nothing of any other.
    """
    keys: set[str] = set()
    for name in store.manifests():
        if name.endswith(SMOKE):
            try:
                keys |= {str(cell["key"]) for cell in store.manifest(name)["cells"]}
            except (StoreError, KeyError, TypeError):
                continue
    for key in sorted(store.keys() - keys):
        try:
            record = store.get(key)
        except StoreError:
            continue
        if not is_imported(record.spec):
            yield record
