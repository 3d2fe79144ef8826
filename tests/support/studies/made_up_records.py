"""Puts records of planned cells with made-up numbers into a store, for what reads many records and trains nothing."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from adapters_store import Record, Store
from harness.study.cell import Cell
from harness.study.config import StudyConfig
from harness.study.plan import Plan, make_plan
from tasks.registry import Registry


def plan_of(study: StudyConfig, data: Any) -> Plan:
    return make_plan(study, Registry.load(), data)


def changed(study: StudyConfig, task: str, **training: Any) -> StudyConfig:
    """The study with other training settings of one task."""
    return dataclasses.replace(study, task={task: training})


def keep(
    store: Store,
    cell: Cell,
    *,
    rows: tuple[int, int, int] = (64, 64, 64),
    seconds: float = 1.0,
    device: str = "cpu (any)",
    lanes: int = 1,
    weights: int = 10,
    created: str = "2026-01-01T00:00:00+00:00",
    **results: Any,
) -> Record:
    """The record of a cell that took ``seconds`` for its part of the pack, with ``weights`` bytes of adapter."""
    counts = dict(zip(("n_train", "n_validation", "n_test"), rows, strict=True))
    made = {"device": device, "lanes": lanes, "wall_seconds": seconds, "created": created}
    with store.staging() as folder:
        (folder / "adapter").mkdir()
        (folder / "adapter" / "adapter.safetensors").write_bytes(bytes(weights))
        (folder / "test.parquet").write_bytes(bytes(90))
        return store.put(cell.key, dict(cell.spec), {**counts, **results}, made, folder)


def keep_all(store: Store, cells: Iterable[Cell], **made: Any) -> None:
    for cell in cells:
        keep(store, cell, **made)
