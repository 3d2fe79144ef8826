"""From cells to stored records: a pack, whatever system trains it. The file to open first, from its end.

A pack's cells name their system, which trains them group by group (``run_pack``). For a group, ``run_cells`` reads
the recipe that its cells share, has the system train every fold, tries collapsed cells once more where the study
says so, and stores a record of every cell: its numbers, flags and files, and how it came about.
"""

from __future__ import annotations

import gc
import json
import platform
import socket
import subprocess
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
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
from adapters_store.record import LEAKING
from adapters_store.roles import SYSTEMS
from harness.run.grid import Outcome
from harness.study.backbone import Backbone
from harness.study.cell import Cell
from harness.study.device import ANY_DEVICE, Device
from harness.study.plan import Pack
from harness.study.systems import leak_of
from harness.systems import system_of
from harness.systems.system import System
from harness.training import model
from harness.training.recipe import (
    PARTS,
    Attempt,
    Recipe,
    Trained,
    Watch,
    collapsed_on_validation,
    finite,
    is_constant,
    smaller,
)
from tasks import metrics
from tasks.errors import BadInput
from tasks.splits.loading import Splits
from tasks.task import Example, Task, classes_of

if TYPE_CHECKING:
    import torch

CLOCKS = ("wall_seconds", "cpu_seconds")
PREDICTED = ("validation", "test")
OF_FIRST_ATTEMPT = ("validation", "test", "best_epoch", "flags")


@dataclass(frozen=True)
class CellResult:
    """A cell's trainings in one attempt, one per fold, and what its record says of them."""

    cell: Cell
    recipe: Recipe
    task: Task
    folds: Sequence[Trained]

    def numbers_and_flags(self) -> dict[str, Any]:
        """The results of the record."""
        metric, folds, first = self.recipe.metric, self.folds, self.folds[0]
        labels = np.concatenate([fold.labels("test") for fold in folds])
        logits = np.concatenate([fold.logits["test"] for fold in folds])
        further = metrics.secondary(self.recipe.kind, metric, labels, logits)
        liveness = [value for fold in folds if (value := fold.proofs.get("liveness")) is not None]
        results = {
            **first.proofs,
            "metric": metric,
            "test": finite(metrics.score(metric, labels, logits)),
            "secondary": {name: finite(score) for name, score in further.items()},
            "validation": finite(float(np.mean([fold.fitted.validation for fold in folds]))),
            "floor": metrics.floor(metric, labels, self._commonest()),
            "best_epoch": first.fitted.best_epoch,
            "n_train": len(first.rows.train),
            "n_validation": len(first.rows.validation),
            "n_test": len(labels),
            "n_test_groups": len({row.group for fold in folds for row in fold.rows.test}),
            "cut": {
                name: {part: sum(fold.cut[name][part] for fold in folds) for part in counts}
                for name, counts in first.cut.items()
            },
            "liveness": min(liveness) if len(liveness) == len(folds) else None,  # the least; None for a baseline
            **({"unanswered": unanswered} if (unanswered := self._unanswered()) else {}),
        }
        if len(folds) > 1:
            results["folds"] = [
                {"best_epoch": fold.fitted.best_epoch, "validation": finite(fold.fitted.validation)}
                | {f"n_{name}": len(getattr(fold.rows, name)) for name in PARTS}
                for fold in folds
            ]
        flags = []
        constant = is_constant(self.recipe.metric, np.concatenate([fold.logits["test"] for fold in self.folds]))
        if constant or results["test"] is None or results["test"] <= results["floor"]:
            flags.append("collapsed")
        if constant:
            flags.append("constant_prediction")
        if self.cell.is_stacked and not (results["liveness"] or 0.0) > model.ALIVE:
            flags.append("dead_intermediate")
        if leak_of(self.cell.spec.get("config", {})):
            flags.append(LEAKING)
        if self.task.label.classes:
            seen = {index for fold in self.folds for row in fold.rows.test for index in classes_of(row.label)}
            names = enumerate(self.task.label.classes)
            flags += [f"class_missing_in_test:{name}" for index, name in names if index not in seen]
        return {**results, "flags": flags}

    def _commonest(self) -> Any:  # noqa: ANN401 - an answer, or one per test row
        """What a model that has learned nothing would say of every test row: its training rows' commonest answer."""
        answers = [metrics.commonest(self.recipe.metric, fold.labels("train")) for fold in self.folds]
        if answers[0] is None:
            return None
        return np.concatenate(
            [
                np.broadcast_to(answer, fold.labels("test").shape)
                for answer, fold in zip(answers, self.folds, strict=True)
                if answer is not None
            ]
        )

    def _unanswered(self) -> dict[str, int]:
        """How many rows of each split count as wrong for want of an answer; nothing where every row has one."""
        counts = {name: sum(len(fold.unanswered.get(name, ())) for fold in self.folds) for name in PREDICTED}
        return counts if any(counts.values()) else {}

    def write_files(self, folder: Path, *, with_weights: bool) -> None:
        """What the first training has learned, and history and predictions of all."""
        folds = self.folds
        if with_weights and folds[0].save is not None:
            folds[0].save(folder / ("model" if self.cell.role in SYSTEMS else "adapter"))
        for name in PREDICTED:
            frames = [_predictions(getattr(fold.rows, name), fold.logits[name]) for fold in folds]
            _by_fold(frames).to_parquet(folder / f"{name}.parquet", index=False)
        if any(spans for fold in folds for spans in fold.spans.values()):
            _by_fold([_spans(fold) for fold in folds]).to_parquet(folder / "spans.parquet", index=False)
        if all(fold.marks for fold in folds):
            _by_fold([_marks(fold) for fold in folds]).to_parquet(folder / "rationales.parquet", index=False)
        if self._unanswered():
            ids = [[(part, id) for part, ids in fold.unanswered.items() for id in ids] for fold in folds]
            frames = [pd.DataFrame(rows, columns=["split", "id"]).astype("str") for rows in ids]
            _by_fold(frames).to_parquet(folder / "unanswered.parquet", index=False)
        history = [fold.fitted.history for fold in folds]
        text = json.dumps(history if len(folds) > 1 else history[0], allow_nan=False)
        (folder / "history.json").write_text(text, encoding="utf-8")

    def as_first_attempt(self) -> dict[str, Any]:
        """What a record says of an attempt that was given up for another at a smaller rate."""
        (rate,) = Recipe.of([self.cell]).learning_rates
        results = self.numbers_and_flags()
        return {"learning_rates": [rate, smaller(rate)], "first": {name: results[name] for name in OF_FIRST_ATTEMPT}}


def _predictions(rows: Sequence[Example], logits: NDArray[np.float32]) -> pd.DataFrame:
    """One row per prediction: id, group, label (several: one column each) and the logits."""
    labels = np.array([row.label for row in rows])
    columns: dict[str, Any] = {"id": [row.id for row in rows], "group": [row.group for row in rows]}
    if labels.ndim == 2:
        columns |= {f"label_{i}": labels[:, i] for i in range(labels.shape[1])}
    else:
        columns["label"] = labels
    return pd.DataFrame(columns | {f"logit_{i}": logits[:, i] for i in range(logits.shape[1])})


def _by_fold(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The frames of all folds below each other; of several, ``fold`` says from 1 whose a row is."""
    if len(frames) > 1:
        frames = [frame.assign(fold=number) for number, frame in enumerate(frames, start=1)]
    return pd.concat(frames, ignore_index=True)


def _spans(fold: Trained) -> pd.DataFrame:
    """One row per predicted rationale: split, id of its row, first and last character (exclusive) and score.

    Where a system says what of a training row it likened it to, ``source_id``, ``source_start`` and ``source_end``.
    """
    every = [(part, span) for part, spans in fold.spans.items() for span in spans]
    types = {"split": "str", "id": "str", "start": "int64", "end": "int64", "score": "float64"}
    rows: list[tuple[Any, ...]] = [
        (part, getattr(fold.rows, part)[span.row].id, span.start, span.end, span.score) for part, span in every
    ]
    if every and all(span.source for _, span in every):
        types |= {"source_id": "str", "source_start": "int64", "source_end": "int64"}
        rows = [(*row, *span.source) for row, (_, span) in zip(rows, every, strict=True) if span.source]
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def _marks(fold: Trained) -> pd.DataFrame:
    """One row per test row: id, and a 0 or 1 for every token by whether people and the system mark it."""
    written = [["".join(str(int(mark)) for mark in side) for side in marks] for marks in fold.marks]
    frame = pd.DataFrame(written, columns=["gold", "predicted"])
    return frame.assign(id=[row.id for row in fold.rows.test])[["id", "gold", "predicted"]]


# What a record says about how it was made: versions, device, host and time; nothing of it enters a key.


def provenance(
    backbone: Backbone, started: tuple[float, float], device: torch.device, *, lanes: int, packages: tuple[str, ...]
) -> dict[str, Any]:
    """Provenance of cells whose wall and CPU clocks read ``started`` when they began; each of K lanes counts a K-th.

    ``packages`` are those whose versions decide the numbers.
    """
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
        "versions": versions(packages),
        "code": code_version(),
    }


def spent(shared: dict[str, Any], trainings: Sequence[Trained]) -> dict[str, Any]:
    """A pack's provenance for one cell: with the time of interrupted runs, and how many lanes were trained at once."""
    wall, cpu = (round(shared[name] + sum(fold.earlier[i] for fold in trainings), 3) for i, name in enumerate(CLOCKS))
    return {**shared, "chunk": min(fold.lanes for fold in trainings), "wall_seconds": wall, "cpu_seconds": cpu}


@cache
def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of Python and of the packages."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}


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


NO_SIBLINGS: Mapping[str, Splits] = {}


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
        for group in system_of(pack.first.spec).groups(pack.cells):
            error, trace = None, ""
            try:
                rows = self.splits[pack.target]
                siblings = {name: self.splits[name] for name in pack.first.spec.get("siblings", ())}
                run_cells(group, self.backbone, rows, self.store, self.watch, self.device, self.keep, siblings)
            except BadInput as problem:
                error = str(problem)
            except Exception as problem:  # failure is data: the grid goes on and says what happened where
                frame = traceback.extract_tb(problem.__traceback__)[-1]
                error = f"{type(problem).__name__}: {problem} ({Path(frame.filename).name}:{frame.lineno})"
                trace = "".join(traceback.format_tb(problem.__traceback__))
            gc.collect()  # a model refers to itself in circles: left alone, one backbone a cell piles up
            for cell in group:  # what was stored before another's record could not be is done
                is_done = error is None or cell.key in self.store
                yield Outcome(cell) if is_done else Outcome(cell, error, trace=trace)


def run_cells(
    cells: Sequence[Cell],
    backbone: Backbone,
    splits: Splits,
    store: Store,
    watch: Watch,
    device: Device = ANY_DEVICE,
    keep: str = "all",
    siblings: Mapping[str, Splits] = NO_SIBLINGS,
) -> None:
    """Train cells of one column, prove their intermediates frozen and alive, and put their records into the store.

    ``keep`` says whose weights are stored (``Cell.keeps_weights``). ``siblings`` are the splits of the tasks of the
    same rows that a system reads.
    Cells with folds are trained once per fold; the first fold's adapter is the one that is kept. Where the study says
    so, cells that collapsed on validation are trained once more, together, at a smaller rate.
    """
    started = time.perf_counter(), time.process_time()
    recipe, system = Recipe.of(cells), system_of(cells[0].spec)
    attempt = Attempt(cells, recipe, backbone, splits, store, watch, device, siblings=siblings)
    first = _train(system, attempt)
    collapsed = [
        lane
        for lane, cell in enumerate(cells)
        if recipe.retries_collapsed and any(collapsed_on_validation(recipe.metric, fold) for fold in first[cell.key])
    ]
    second = _train(system, attempt.again(collapsed)) if collapsed else {}
    shared = provenance(backbone, started, device.ready(), lanes=len(cells), packages=system.packages)
    for cell in cells:
        trainings = [folds[cell.key] for folds in (first, second) if cell.key in folds]
        attempts = [CellResult(cell, recipe, splits.task, folds) for folds in trainings]
        results = attempts[-1].numbers_and_flags()
        if len(attempts) > 1:
            results["retried"] = attempts[0].as_first_attempt()
        with store.staging() as folder:
            attempts[-1].write_files(folder, with_weights=cell.keeps_weights(keep))
            origin = spent(shared, [training for folds in trainings for training in folds])
            store.put(cell.key, spec=dict(cell.spec), results=results, provenance=origin, folder=folder)
        store.drop_pack(cell.key)  # its checkpoints


def _train(system: System, attempt: Attempt) -> dict[str, list[Trained]]:
    """The trainings of every cell by its key: one, or one per fold, of which the first alone can be saved."""
    folds: dict[str, list[Trained]] = {cell.key: [] for cell in attempt.cells}
    for number, fold in enumerate(attempt.folds()):
        for cell, training in zip(attempt.cells, system.train(fold), strict=True):
            folds[cell.key].append(replace(training, save=None) if number else training)
    return folds
