"""What a search costs with its trials as lanes, one by one, and with halving: the same trials, drawn once.

    python -m benchmarks.trainings.search_timing --data DATA --trials 60

Each trial one by one is one training through the adapters library with the same rows, batches, rate and epochs; its
clock leaves loading and encoding out, that of the lanes counts them. Batch sizes take turns, so that all ways see the
same machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adapters_store import Store
from benchmarks.machine import described
from harness.search import trials
from harness.search.search import BATCH_SIZES, LEARNING_RATES, Search, search_for
from harness.study.cell import Cell
from harness.study.file import load_study
from harness.training.library import Trainer, composed
from harness.training.recipe import Recipe, encoded
from tasks.registry import Registry

WAYS = ("one by one", "lanes", "lanes, halving")
Settings = dict[str, Any]


def drawn(count: int, epochs: int, seed: int) -> list[Settings]:
    """The trials: learning rate on a log scale, batch size and number of epochs, each evenly."""
    rng = np.random.default_rng(seed)
    low, high = np.log(LEARNING_RATES)
    return [
        {
            "learning_rate": float(np.exp(rng.uniform(low, high))),
            "batch_size": int(rng.choice(BATCH_SIZES)),
            "epochs": int(rng.integers(1, epochs + 1)),
        }
        for _ in range(count)
    ]


def one_by_one(search: Search, cells: Sequence[Cell]) -> tuple[float, float, list[float]]:
    """Wall and CPU seconds of the trainings alone, and each trial's validation score."""
    _, parts, tokenizer = encoded(cells[0], search.backbone, search.splits, trials.SEEN)
    wall, cpu, scores = 0.0, 0.0, []
    for cell in cells:
        trainer = Trainer(composed(cell, search.backbone, search.store), Recipe.of([cell]), tokenizer.padding)
        started = time.perf_counter(), time.process_time()
        scores.append(trainer.fit(parts["train"], parts["validation"], lambda *_: None).validation)
        wall, cpu = wall + time.perf_counter() - started[0], cpu + time.process_time() - started[1]
        del trainer
        gc.collect()  # a model refers to itself in circles
    return wall, cpu, scores


def as_lanes(search: Search, cells: Sequence[Cell], *, is_halving: bool) -> tuple[float, float, list[float]]:
    """Wall and CPU seconds of everything, and the validation scores of the trials that were not dropped."""
    started = time.perf_counter(), time.process_time()
    tried = trials.try_lanes(search.attempt(cells, lambda *_: None), is_halving=is_halving)
    spent = time.perf_counter() - started[0], time.process_time() - started[1]
    gc.collect()
    return *spent, [trial.fitted.validation for trial in tried if not trial.is_dropped]


def measured(search: Search, settings: Sequence[Settings]) -> dict[str, dict[str, float]]:
    """Seconds, scores and counts of every way."""
    totals = {way: {"wall": 0.0, "cpu": 0.0, "trained to the end": 0, "best validation": -1.0} for way in WAYS}
    alone = dataclasses.replace(search, study=dataclasses.replace(search.study, trainer="library"))
    for size in BATCH_SIZES:
        own = [setting for setting in settings if setting["batch_size"] == size]
        if not own:
            continue
        laned = [search.cell(setting, "seq_bn") for setting in own]
        outcomes = (
            one_by_one(alone, [alone.cell(setting, "seq_bn") for setting in own]),
            as_lanes(search, laned, is_halving=False),
            as_lanes(search, laned, is_halving=True),
        )
        spent = ", ".join(f"{way} {cpu:.0f} s" for way, (_, cpu, _) in zip(WAYS, outcomes, strict=True))
        print(f"batch size {size}, {len(own)} trials, CPU: {spent}", file=sys.stderr, flush=True)
        for way, (wall, cpu, scores) in zip(WAYS, outcomes, strict=True):
            total = totals[way]
            total |= {"wall": total["wall"] + wall, "cpu": total["cpu"] + cpu}
            total["trained to the end"] += len(scores)
            total["best validation"] = max(total["best validation"], *scores)
    return totals


def main() -> None:
    """Run and print one JSON object."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--study", default="real-small")
    options.add_argument("--task", default="epitome_er")
    options.add_argument("--data", type=Path, default=Path("data"))
    options.add_argument("--store", type=Path, default=Path("runs"))
    options.add_argument("--trials", type=int, default=60)
    options.add_argument("--epochs", type=int, help="the most that a trial may have (default: the study's)")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="change the study")
    given = options.parse_args()
    torch.set_num_threads(1)
    study = load_study(given.study, ["trainer='lanes'", *given.set])
    registry = Registry.load()
    search = search_for(study, registry, given.data, Store(given.store), given.task, None)
    most = given.epochs or study.training_for(registry.task(given.task))[0].epochs
    settings = drawn(given.trials, most, given.seed)
    totals = measured(search, settings)
    base = totals["one by one"]
    ratios = {way: {c: round(totals[way][c] / base[c], 3) for c in ("cpu", "wall")} for way in WAYS[1:]}
    counts = {str(size): sum(setting["batch_size"] == size for setting in settings) for size in BATCH_SIZES}
    print(
        json.dumps(
            {
                "share of the time one by one": ratios,
                "study": [given.study, given.task, *given.set],
                "trials": given.trials,
                "trials by batch size": counts,
                "epochs of all trials": sum(setting["epochs"] for setting in settings),
                "seconds": totals,
                "machine": described(),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
