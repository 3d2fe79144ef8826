"""From cells to stored records: one pack, its lanes one by one. The file to open first."""

from __future__ import annotations

import gc
import json
import platform
import socket
import subprocess
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adapters_store import Store
from harness.run.grid import Outcome
from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell
from harness.study.device import ANY_DEVICE, Device
from harness.study.plan import Pack
from harness.training import model
from harness.training.checkpoint import Checkpoints
from harness.training.inputs import cut_counts
from harness.training.lanes.train import train_lanes
from harness.training.library import train_one
from harness.training.trained import (
    PARTS,
    Part,
    Trained,
    Watch,
    collapsed_on_validation,
    finite,
    is_constant,
    with_smaller_rate,
)
from tasks import metrics
from tasks.errors import BadInput
from tasks.splits.loading import Splits
from tasks.task import Example, classes_of

if TYPE_CHECKING:
    import torch


# What a record says about how it was made: versions, device, host and time; nothing of it enters a key.

PACKAGES = ("adapters", "torch", "transformers", "tokenizers", "numpy")


def provenance(backbone: Backbone, started: tuple[float, float], device: torch.device, *, lanes: int) -> dict[str, Any]:
    """Provenance of cells whose wall and CPU clocks read ``started`` when they began; each of K lanes counts a K-th."""
    import torch

    from harness.training.tensors import name_of

    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": socket.gethostname(),
        "device": name_of(device),
        "threads": torch.get_num_threads(),
        "lanes": lanes,
        "wall_seconds": round((time.perf_counter() - started[0]) / lanes, 3),
        "cpu_seconds": round((time.process_time() - started[1]) / lanes, 3),
        "backbone": backbone.name,
        "config_sha256": backbone.config_sha256,
        "tokenizer_sha256": backbone.tokenizer_sha256,
        **({"commit": backbone.commit} if backbone.commit else {}),
        "versions": versions(),
        "code": code_version(),
    }


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide numbers."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}


@cache
def code_version() -> str:
    """The git commit of a checkout, with ``+`` if it has changes, or the installed version."""
    root = Path(__file__).resolve().parents[2]
    version = metadata.version("empathy-transfer")
    if not (root / ".git").exists():
        return version
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version} ({done.stdout.strip()})"


CLOCKS = ("wall_seconds", "cpu_seconds")
OF_FIRST_ATTEMPT = ("validation", "test", "best_epoch", "flags")


@dataclass
class PackRunner:
    """Runs packs of a plan against a store; ``watch`` hears of every epoch (what, epoch, epochs)."""

    backbone: Backbone
    splits: dict[str, Splits]
    store: Store
    watch: Watch
    device: Device = ANY_DEVICE
    keep: str = "all"

    def run_pack(self, pack: Pack) -> Iterator[Outcome]:
        """Train, check and store every cell of a pack; a cell that fails is an outcome and stops no other."""
        for group in _groups(pack):
            error, trace = None, ""
            try:
                splits = self.splits[pack.target]
                run_cells(group, self.backbone, splits, self.store, self.watch, self.device, self.keep)
            except BadInput as problem:
                error = str(problem)
            except Exception as problem:  # failure is data: the grid goes on and says what happened where
                place = traceback.extract_tb(problem.__traceback__)[-1]
                error = f"{type(problem).__name__}: {problem} ({Path(place.filename).name}:{place.lineno})"
                trace = "".join(traceback.format_tb(problem.__traceback__))
            gc.collect()  # a model refers to itself in circles: left alone, one backbone a cell piles up
            for cell in group:  # what was stored before another's record could not be is done
                is_done = error is None or cell.key in self.store
                yield Outcome(cell) if is_done else Outcome(cell, error, trace=trace)


def _groups(pack: Pack) -> list[tuple[Cell, ...]]:
    """The cells that are trained together: all lanes of the pack, or each alone."""
    is_laned = pack.cells[0].spec["trainer"] == "lanes"
    return [pack.cells] if is_laned else [(cell,) for cell in pack.cells]


def run_cells(
    cells: Sequence[Cell],
    backbone: Backbone,
    splits: Splits,
    store: Store,
    watch: Watch,
    device: Device = ANY_DEVICE,
    keep: str = "all",
) -> None:
    """Train cells of one column, prove their intermediates frozen and alive, and put their records into the store.

    ``keep`` says whose adapters are stored: ``all``, or only of ``baselines``, of what stands on nothing.
    Cells with folds are trained once per fold; the first fold's adapter is the one that is kept. Where the study says
    so, cells that collapsed on validation are trained once more, together, at a smaller rate.
    """
    started = time.perf_counter(), time.process_time()
    first = _trained(cells, backbone, splits, store, watch, device)
    collapsed = [with_smaller_rate(cell) for cell in cells if _is_to_be_retried(cell, first[cell.key])]
    second = _trained(collapsed, backbone, splits, store, watch, device, "-again") if collapsed else {}
    shared = provenance(backbone, started, device.ready(), lanes=len(cells))
    for cell in cells:
        attempts = [attempt[cell.key] for attempt in (first, second) if cell.key in attempt]
        results = _results(cell, splits, attempts[-1])
        if len(attempts) > 1:
            results["retried"] = _retried(cell, _results(cell, splits, attempts[0]))
        with store.staging() as folder:
            _write_files(folder, attempts[-1], with_adapter=keep == "all" or cell.intermediate is None)
            spent = _spent(shared, [one for folds in attempts for one in folds])
            store.put(cell.key, spec=dict(cell.spec), results=results, provenance=spent, folder=folder)
        store.drop_pack(cell.key)  # its checkpoints


def _trained(
    cells: Sequence[Cell],
    backbone: Backbone,
    splits: Splits,
    store: Store,
    watch: Watch,
    device: Device,
    attempt: str = "",
) -> dict[str, list[Trained]]:
    """The trainings of every cell by its key: one, or one per fold; ``attempt`` keeps their checkpoints apart."""
    folds: dict[str, list[Trained]] = {cell.key: [] for cell in cells}
    for number, one in enumerate(splits.folds or (splits,), start=1):
        if cells[0].spec["trainer"] == "lanes":
            points = Checkpoints(store, f"fold-{number}{attempt}", len(cells), device.ready())
            done = train_lanes(cells, backbone, one, points, watch, device)
        else:
            done = train_one(cells, backbone, one, store, watch, device)
        for cell, lane in zip(cells, done, strict=True):
            folds[cell.key].append(replace(lane, save=None) if number > 1 else lane)
    return folds


def _is_to_be_retried(cell: Cell, folds: Sequence[Trained]) -> bool:
    return cell.spec["retry_collapsed"] and any(collapsed_on_validation(cell.spec["metric"], one) for one in folds)


def _retried(cell: Cell, results: dict[str, Any]) -> dict[str, Any]:
    """What a record says of an attempt that was given up."""
    rates = [one.spec["training"]["learning_rate"] for one in (cell, with_smaller_rate(cell))]
    return {"learning_rates": rates, "first": {name: results[name] for name in OF_FIRST_ATTEMPT}}


def _spent(shared: dict[str, Any], folds: Sequence[Trained]) -> dict[str, Any]:
    """A pack's provenance for one cell: with the time of interrupted runs, and how many lanes were trained at once."""
    wall, cpu = (round(shared[name] + sum(one.earlier[i] for one in folds), 3) for i, name in enumerate(CLOCKS))
    return {**shared, "chunk": min(one.lanes for one in folds), "wall_seconds": wall, "cpu_seconds": cpu}


def _results(cell: Cell, splits: Splits, folds: Sequence[Trained]) -> dict[str, Any]:
    """The record's numbers and flags."""
    results = _numbers(cell, folds)
    return {**results, "flags": _flags(cell, splits, folds, results)}


def _numbers(cell: Cell, folds: Sequence[Trained]) -> dict[str, Any]:
    """The record's numbers; with folds, the test is all rows out of fold and validation the mean over folds."""
    metric, kind, first = cell.spec["metric"], cell.spec["label"]["kind"], folds[0]
    labels = np.concatenate([one.parts["test"].labels for one in folds])
    logits = np.concatenate([one.logits["test"] for one in folds])
    further = metrics.secondary(kind, metric, labels, logits)
    return {
        **first.checked,
        "metric": metric,
        "test": finite(metrics.score(metric, labels, logits)),
        "secondary": {name: finite(value) for name, value in further.items()},
        "validation": finite(float(np.mean([one.fitted.validation for one in folds]))),
        "floor": metrics.floor(metric, labels, _commonest(metric, folds)),
        "best_epoch": first.fitted.best_epoch,
        "n_train": len(first.rows.train),
        "n_validation": len(first.rows.validation),
        "n_test": len(labels),
        "n_test_groups": len({row.group for one in folds for row in one.rows.test}),
        "cut": {name: _cut([one.parts[name] for one in folds]) for name in PARTS},
        "liveness": _liveness(folds),
        **({"folds": [_fold(one) for one in folds]} if len(folds) > 1 else {}),
    }


def _commonest(metric: str, folds: Sequence[Trained]) -> Any:  # noqa: ANN401 - an answer, or one per test row
    """What a model that has learned nothing would say of every test row: the commonest answer of its own training."""
    answers = [metrics.commonest(metric, one.parts["train"].labels) for one in folds]
    if answers[0] is None:
        return None
    return np.concatenate(
        [
            np.broadcast_to(answer, one.parts["test"].labels.shape)
            for answer, one in zip(answers, folds, strict=True)
            if answer is not None
        ]
    )


def _cut(parts: Sequence[Part]) -> dict[str, int]:
    return cut_counts([row for part in parts for row in part.rows])


def _liveness(folds: Sequence[Trained]) -> float | None:
    """The least over the folds; None for a baseline."""
    found = [one.checked["liveness"] for one in folds if one.checked["liveness"] is not None]
    return min(found) if len(found) == len(folds) else None


def _fold(one: Trained) -> dict[str, Any]:
    return {
        "best_epoch": one.fitted.best_epoch,
        "validation": finite(one.fitted.validation),
        **{f"n_{name}": len(getattr(one.rows, name)) for name in PARTS},
    }


def _flags(cell: Cell, splits: Splits, folds: Sequence[Trained], results: dict[str, Any]) -> list[str]:
    flags = []
    constant = is_constant(cell.spec["metric"], np.concatenate([one.logits["test"] for one in folds]))
    if constant or results["test"] is None or results["test"] <= results["floor"]:
        flags.append("collapsed")
    if constant:
        flags.append("constant_prediction")
    if cell.is_stacked and not (results["liveness"] or 0.0) > model.ALIVE:
        flags.append("dead_intermediate")
    if splits.task.label.classes:
        seen = {index for one in folds for row in one.rows.test for index in classes_of(row.label)}
        names = enumerate(splits.task.label.classes)
        flags += [f"class_missing_in_test:{name}" for index, name in names if index not in seen]
    return flags


def _write_files(folder: Path, folds: Sequence[Trained], *, with_adapter: bool) -> None:
    """Adapter and head of the first training, and history and predictions of all."""
    if with_adapter and folds[0].save is not None:
        folds[0].save(folder / "adapter")
    for name in ("validation", "test"):
        frames = [_predictions(getattr(one.rows, name), one.logits[name]) for one in folds]
        if len(folds) > 1:
            frames = [frame.assign(fold=number) for number, frame in enumerate(frames, start=1)]
        pd.concat(frames, ignore_index=True).to_parquet(folder / f"{name}.parquet", index=False)
    history = [one.fitted.history for one in folds]
    text = json.dumps(history if len(folds) > 1 else history[0], allow_nan=False)
    (folder / "history.json").write_text(text, encoding="utf-8")


def _predictions(rows: Sequence[Example], logits: NDArray[np.float32]) -> pd.DataFrame:
    """One row per item: id, group, label (several: one column each) and the logits."""
    labels = np.array([row.label for row in rows])
    columns: dict[str, Any] = {"id": [row.id for row in rows], "group": [row.group for row in rows]}
    if labels.ndim == 2:
        columns |= {f"label_{i}": labels[:, i] for i in range(labels.shape[1])}
    else:
        columns["label"] = labels
    return pd.DataFrame(columns | {f"logit_{i}": logits[:, i] for i in range(logits.shape[1])})
