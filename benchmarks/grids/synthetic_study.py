"""A finished study of made-up predictions, as large as asked for: what the analysis is timed on.

    python -m benchmarks.grids.synthetic_study /tmp/grid --tasks 100 --seeds 5
    empathy-transfer report synthetic --store /tmp/grid

Tasks come in families of three, with three classes, two classes and a continuous label in turn, and two raters rate
each of them. What an intermediate adds is planted: an effect of the intermediate, that of its mean rating of link, and
noise of the pair. Test sets have 1,000 rows in 250 groups unless other numbers are given. Records are complete and
their files checked by sha256, as those of trained cells are; adapters are left out, since no analysis opens them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from adapters_store import Store, key_of
from tasks.metrics import floor, score, secondary

NAME = "synthetic"
KINDS = (("multiclass", "macro_f1", 3), ("binary", "macro_f1", 2), ("continuous", "pearson_r", 1))
CONSTRUCTS = ("definition", "link", "conduciveness")
THEMES = ("direct", "abstract", "adjacent")
PROVENANCE = {
    "created": "2026-01-01T00:00:00+00:00",
    "host": "none",
    "device": "cpu",
    "wall_seconds": 1.0,
    "cpu_seconds": 1.0,
    "versions": {"torch": "0"},
    "code": "0",
}


@dataclass(frozen=True)
class SyntheticTask:
    """The task of a number: its kind, its ratings by two raters, and its test rows."""

    number: int
    rows: int
    groups: int

    @property
    def id(self) -> str:
        """Its name in the study."""
        return f"task_{self.number:03d}"

    @property
    def shape(self) -> tuple[str, str, int]:
        """Kind of label, metric, and number of outputs."""
        return KINDS[self.number % len(KINDS)]

    @cached_property
    def ratings(self) -> np.ndarray:
        """Ratings ``[constructs, raters]`` from 1 to 5; raters differ by 1 at most."""
        rng = np.random.default_rng([1, self.number])
        return np.clip(rng.integers(1, 6, (len(CONSTRUCTS), 1)) + rng.integers(-1, 2, (len(CONSTRUCTS), 2)), 1, 5)

    @cached_property
    def truth(self) -> np.ndarray:
        """What predictions are made from ``[rows]``; rows of one group share a part of it."""
        rng = np.random.default_rng([2, self.number])
        return 0.5 * rng.normal(size=self.groups)[self.group] + rng.normal(size=self.rows)

    @cached_property
    def group(self) -> np.ndarray:
        """Number of each row's group ``[rows]``."""
        return np.arange(self.rows) % self.groups

    @cached_property
    def labels(self) -> np.ndarray:
        """Labels ``[rows]``: classes from 0, or reals."""
        kind, _, outputs = self.shape
        return self.truth if kind == "continuous" else np.digitize(self.truth, [0.0, 0.8][: outputs - 1])

    def logits(self, noise: float, rng: np.random.Generator) -> np.ndarray:
        """Outputs ``[rows, outputs]`` of a model that errs by ``noise`` standard deviations."""
        latent = self.truth + noise * rng.normal(size=self.rows)
        columns = {1: [latent], 2: [-latent, latent], 3: [-latent, 0.4 - np.abs(latent - 0.4), latent - 0.8]}
        return np.stack(columns[self.shape[2]], axis=1).astype(np.float32)

    def facts(self) -> dict[str, Any]:
        """What a manifest says of it."""
        kind, metric, outputs = self.shape
        return {
            "title": f"Task {self.number}",
            "dataset": f"data_{self.number}",
            "family": f"family_{self.number // 3}",
            "theme": THEMES[self.number % 3],
            "kind": kind,
            "metric": metric,
            "classes": [] if kind == "continuous" else ["low", "middle", "high"][:outputs],
            "language": "en",
            "setting": ("conversation", "social_media")[self.number // 3 % 2],
            "data_source": ("crowdsourced", "reddit")[self.number // 6 % 2],
            "version": "1",
            "n_train": 1000 + 100 * (self.number % 7),
            "n_validation": 250,
            "n_test": self.rows,
            "has_ratings": True,
            "warnings": [],
        }


def build(root: Path, tasks: int, seeds: int, *, rows: int = 1000, groups: int = 250) -> Store:
    """Write the study ``synthetic`` of so many tasks and seeds into a store, every cell finished, with ratings."""
    studied = [SyntheticTask(number, rows, groups) for number in range(tasks)]
    store, cells = Store(root), []
    for target in studied:
        for seed in range(1, seeds + 1):
            for spec, logits in column(target, studied, seed):
                key = key_of(spec)
                _put(store, key, spec, target, logits)
                role = "baseline" if spec["intermediate"] is None else "transfer"
                cells.append({name: spec[name] for name in ("intermediate", "target", "seed", "setting")})
                cells[-1] |= {"key": key, "role": role}
    registry = root / "registry"
    registry.mkdir(exist_ok=True)
    (registry / "ratings.csv").write_text("\n".join(_ratings(studied)) + "\n", encoding="utf-8")
    store.write_manifest(NAME, _manifest(studied, seeds, cells, registry))
    return store


def column(
    target: SyntheticTask, studied: Sequence[SyntheticTask], seed: int
) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Spec and logits of a target's cells of one seed, its baseline first; all share the seed's own error."""
    base = 1.2 + 0.1 * np.random.default_rng([3, target.number]).normal()
    luck = 0.03 * np.random.default_rng([4, target.number, seed]).normal()
    for intermediate in (None, *(other for other in studied if other is not target)):
        gain = 0.0
        if intermediate is not None:
            general = 0.05 * np.random.default_rng([5, intermediate.number]).normal()
            of_pair = 0.05 * np.random.default_rng([6, intermediate.number, target.number]).normal()
            gain = general + of_pair + 0.03 * (intermediate.ratings[1].mean() - 3)
        number = 0 if intermediate is None else 1 + intermediate.number
        rng = np.random.default_rng([7, target.number, seed, number])
        spec = {
            "schema": 1,
            "training_version": 1,
            "target": target.id,
            "intermediate": None if intermediate is None else intermediate.id,
            "backbone": {"model_type": "roberta", "weights_sha256": "f" * 64},
            "training": {"epochs": 4, "batch_size": 16, "learning_rate": 1e-3},
            "seed": seed,
            "setting": "full",
            "splits_hash": "0" * 64,
            "metric": target.shape[1],
            "grid": len(studied),
        }
        yield spec, target.logits(float(np.exp(np.log(base) + luck - gain)), rng)


def _put(store: Store, key: str, spec: dict[str, Any], target: SyntheticTask, logits: np.ndarray) -> None:
    kind, metric, _ = target.shape
    results = {
        "metric": metric,
        "test": score(metric, target.labels, logits),
        "validation": 0.5,
        "floor": floor(metric, target.labels, 1),
        "secondary": secondary(kind, metric, target.labels, logits),
        "best_epoch": 2,
        "n_train": target.facts()["n_train"],
        "n_validation": 250,
        "n_test": target.rows,
        "n_test_groups": target.groups,
        "cut": {"test": {"rows": target.rows, "history": 0, "target": 0, "windows": target.rows}},
        "liveness": None if spec["intermediate"] is None else 0.3,
        "intermediate_unchanged": None if spec["intermediate"] is None else True,
        "trainable_parameters": 1000,
        "flags": [],
    }
    table = {
        "id": [f"{target.id}-{row}" for row in range(target.rows)],
        "group": [f"g{group}" for group in target.group],
        "label": target.labels,
        **{f"logit_{place}": logits[:, place] for place in range(logits.shape[1])},
    }
    with store.staging() as folder:
        pq.write_table(pa.table(table), folder / "test.parquet")
        (folder / "history.json").write_text("[]", encoding="utf-8")
        store.put(key, spec, results, PROVENANCE, folder)


def _ratings(studied: Sequence[SyntheticTask]) -> Iterator[str]:
    yield "task,construct,rater,value"
    for task in studied:
        for construct, values in zip(CONSTRUCTS, task.ratings, strict=True):
            yield from (f"{task.id},{construct},{rater},{value}" for rater, value in zip("AB", values, strict=True))


def _manifest(
    studied: Sequence[SyntheticTask], seeds: int, cells: list[dict[str, Any]], registry: Path
) -> dict[str, Any]:
    study = {
        "name": NAME,
        "title": "A synthetic study",
        "tasks": [task.id for task in studied],
        "registry": [str(registry)],
        "backbone": "random-tiny",
        "adapter": {"method": "seq_bn", "reduction_factor": 16, "non_linearity": "relu"},
        "training": {"epochs": 4},
        "seeds": list(range(1, seeds + 1)),
        "settings": ["full"],
        "splits": "clean",
        "max_train": None,
        "max_val": None,
    }
    facts = {task.id: task.facts() for task in studied}
    head = {"schema": 1, "name": NAME, "created": PROVENANCE["created"], "study": study, "synthetic": True}
    return {**head, "tasks": facts, "missing": {}, "cells": cells}


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the study and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--tasks", type=int, default=18)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=1000, help="test rows of each task (default 1000)")
    parser.add_argument("--groups", type=int, default=250, help="groups of test rows (default 250)")
    options = parser.parse_args(arguments)
    store = build(options.store, options.tasks, options.seeds, rows=options.rows, groups=options.groups)
    print(f"{len(store.keys())} cells of the study {NAME} in {store.root}")


if __name__ == "__main__":
    main()
