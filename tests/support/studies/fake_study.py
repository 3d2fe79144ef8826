"""Builds a finished study of made-up predictions through the store's own functions, for the tests of analysis."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from adapters_store import Store, key_of
from tasks.metrics import floor, score, secondary
from tasks.task import METRICS

Pair = tuple[str | None, str]
BELOW = {"random": "random", "control": "chat", "imported": "glasswort_er"}  # other controls stand on the target
CUT = {"rows": 100, "history": 4, "target": 2, "windows": 100}


@contextmanager
def without_pictures() -> Iterator[None]:
    """Figures are made in here, but not turned into pictures: for reports whose pictures no test looks at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.figures.drawing.pictures", lambda *_: {"png": b"", "svg": b""})
        yield


@dataclass(frozen=True)
class FakeTask:
    """A task of ``groups`` groups with ``rows`` test rows in all; ``only_class`` gives all of them one label.

    One of several ``folds`` has records that name them.
    """

    id: str
    kind: str = "multiclass"
    rows: int = 120
    groups: int = 24
    only_class: int | None = None
    folds: int = 0

    @property
    def metric(self) -> str:
        return METRICS[self.kind]

    def test(self) -> pd.DataFrame:
        """Test rows: id, group, label, and the latent truth that predictions are made from."""
        rng = np.random.default_rng(len(self.id))
        truth = rng.normal(size=self.rows)
        columns: dict[str, Any] = {"label": truth if self.kind == "continuous" else np.digitize(truth, [-0.5, 0.5])}
        if self.only_class is not None:
            columns = {"label": np.full(self.rows, self.only_class)}
        if self.kind == "multilabel":
            columns = {f"label_{place}": (truth > cut).astype(int) for place, cut in enumerate((-0.5, 0.0, 0.5))}
        group = [f"g{place % self.groups}" for place in range(self.rows)]
        ids = [f"{self.id}-{place}" for place in range(self.rows)]
        return pd.DataFrame({"id": ids, "group": group, **columns, "truth": truth})


RECIPE = {"rule": "outputs", "weights": "equal", "parents": {}}  # of a merged row


def fake_study(
    root: Path,
    tasks: Sequence[FakeTask],
    *,
    seeds: Sequence[int] = (1,),
    baseline_seeds: Sequence[int] = (),
    controls: Sequence[str] = (),
    merged: Mapping[str, Mapping[str, Any]] | None = None,
    validation: Mapping[Pair, float] | None = None,
    best_epoch: Mapping[tuple[Pair, int], int] | None = None,
    references: Sequence[str] = (),
    systems: Sequence[str] = (),
    settings: Sequence[str] = ("full",),
    helpful: Collection[Pair] = (),
    constant: Collection[Pair] = (),
    turned: Collection[Pair] = (),
    absent: Collection[Pair] = (),
    flags: Mapping[Pair, Sequence[str]] | None = None,
    versions: Mapping[Pair, int] | None = None,
    synthetic: bool = False,
    missing_tasks: Mapping[str, str] | None = None,
    history: Sequence[Any] = (),
    spec_of: Callable[[str, str], Mapping[str, Any]] = lambda target, role: {},
    study: Mapping[str, Any] | None = None,
    cut: Mapping[str, int] | None = None,
    liveness: Mapping[int, float] | None = None,
) -> tuple[Store, dict[str, Any]]:
    """A store with all cells of a study but the ``absent`` pairs', and its manifest, also written as ``fake``.

    A pair's first part is the intermediate, or the name of a control or reference. Predictions of ``helpful`` pairs are
    nearly right, those of ``constant`` ones do not vary, those of ``turned`` ones rise where others fall.
    ``merged`` are rows with fields of their recipes, and their name is a pair's first part; ``validation`` is that of
    pairs that do not have the usual one, and ``best_epoch`` of 4 that of pairs and seeds that do not have the second.
    Every record has the same ``history`` and ``cut``, and of transfers the ``liveness`` of their seed; ``spec_of``
    adds fields to a cell's spec by its target and role, and ``study`` to the resolved study.
    """
    store, cells = Store(root), []

    def keep(task: FakeTask, pair: Pair, spec: dict[str, Any], row: Mapping[str, Any], **facts: Any) -> None:
        """Add a cell's row to the manifest, and its record to the store unless it is absent."""
        own = {name: spec[name] for name in ("intermediate", "target", "seed", "setting")}
        cells.append({"key": key_of(spec), **own, **row})
        if pair not in absent:
            noise = 0.0 if pair in constant else 0.1 if pair in helpful else 1.0
            logits = _logits(task, pair, spec["seed"], noise)
            height = (validation or {}).get(pair, 0.5)
            _put(store, task, spec, -logits if pair in turned else logits, history, validation=height, **facts)

    for task, setting, seed in product(tasks, settings, baseline_seeds or seeds):
        lanes: list[tuple[str, str | None]] = [("baseline", None), *((role, None) for role in references)]
        if seed in seeds:
            lanes += [("transfer", other.id) for other in tasks if other.id != task.id]
            lanes += [(role, BELOW.get(role, task.id)) for role in controls]
            lanes += [("merged", row) for row in merged or {}]
        for role, intermediate in lanes:
            is_pair = role in ("baseline", "transfer", "merged")
            pair = (intermediate if is_pair else role, task.id)
            spec = _spec(task, intermediate, seed, setting, (versions or {}).get(pair, 1))
            spec |= ({} if is_pair else {"role": role}) | dict(spec_of(task.id, role))
            of_merge = {"merge": RECIPE | dict((merged or {})[intermediate])} if role == "merged" else {}
            facts = {
                "flags": list((flags or {}).get(pair, ())),
                "cut": cut or CUT,
                "liveness": None if intermediate is None else (liveness or {}).get(seed, 0.3),
                "best_epoch": (best_epoch or {}).get((pair, seed), 2),
            }
            keep(task, pair, spec | of_merge, {"role": role, **of_merge}, **facts)
        for name in systems:
            of_system = {"system": name, "role": "system"}
            keep(task, (name, task.id), _system_spec(task, name, seed, setting), of_system)
    manifest = {
        "schema": 1,
        "name": "fake",
        "created": "2024-01-01T00:00:00+00:00",
        "study": _study(tasks, seeds, settings) | dict(study or {}),
        "synthetic": synthetic,
        "tasks": {task.id: _entry(task) for task in tasks},
        "missing": dict(missing_tasks or {}),
        "cells": cells,
    }
    store.write_manifest("fake", manifest)
    return store, manifest


def _logits(task: FakeTask, pair: Pair, seed: int, noise: float) -> np.ndarray:
    """Logits ``[rows, outputs]`` as float32; a ``noise`` of 0 stands for predictions that do not vary."""
    rng = np.random.default_rng([seed, *map(ord, f"{pair}")])
    latent = task.test().truth.to_numpy() + noise * rng.normal(size=task.rows)
    latent = np.zeros(task.rows) if noise == 0 else latent
    columns = [-latent - 0.5, np.zeros(task.rows), latent - 0.5]
    if task.kind in ("continuous", "multilabel"):
        columns = [latent] if task.kind == "continuous" else [latent + 0.5, latent, latent - 0.5]
    return np.stack(columns, axis=1).astype(np.float32)


def _put(
    store: Store,
    task: FakeTask,
    spec: dict[str, Any],
    logits: np.ndarray,
    history: Sequence[Any],
    *,
    validation: float,
    flags: Sequence[str] = (),
    cut: Mapping[str, int] | None = None,
    liveness: float | None = None,
    best_epoch: int = 2,
) -> None:
    test = task.test().drop(columns="truth")
    for place in range(logits.shape[1]):
        test[f"logit_{place}"] = logits[:, place]
    labels = test[[name for name in test if name.startswith("label")]].to_numpy()
    labels = labels if task.kind == "multilabel" else labels[:, 0]
    value = score(task.metric, labels, logits)
    results = {
        "metric": task.metric,
        "test": None if np.isnan(value) else value,
        "validation": validation,
        "floor": floor(task.metric, labels, 1),
        "secondary": {
            name: None if np.isnan(value) else value
            for name, value in secondary(task.kind, task.metric, labels, logits).items()
        },
        "best_epoch": best_epoch,
        "n_train": 400,
        "n_validation": 50,
        "n_test": task.rows,
        "n_test_groups": task.groups,
        "cut": {"test": dict(cut)} if cut else {},
        "liveness": liveness,
        "intermediate_unchanged": None if spec["intermediate"] is None else True,
        "trainable_parameters": 1000,
        "flags": list(flags),
        **({"folds": [{}] * task.folds} if task.folds else {}),
    }
    provenance = {"created": "2024-01-01T00:00:00+00:00", "host": "here", "device": "cpu", "wall_seconds": 1.5}
    provenance |= {"cpu_seconds": 1.0, "versions": {"torch": "2.0"}, "code": "abc123"}
    with store.staging() as folder:
        test.to_parquet(folder / "test.parquet", index=False)
        (folder / "history.json").write_text(json.dumps(list(history)))
        store.put(spec_key := key_of(spec), spec, results, provenance, folder)
        assert spec_key in store


def _spec(task: FakeTask, intermediate: str | None, seed: int, setting: str, version: int) -> dict[str, Any]:
    spec = {"schema": 1, "training_version": version, "target": task.id, "intermediate": intermediate}
    spec["backbone"] = {"model_type": "roberta", "weights_sha256": "f" * 64}
    spec["training"] = {"epochs": 4, "batch_size": 16, "learning_rate": 1e-3}
    return {**spec, "seed": seed, "setting": setting, "splits_hash": "0" * 64, "metric": task.metric}


def _system_spec(task: FakeTask, name: str, seed: int, setting: str) -> dict[str, Any]:
    """A system's spec, which names neither a backbone nor a training version."""
    spec = {"schema": 2, "system": name, "version": 1, "config": {}, "role": "system", "target": task.id}
    spec |= {"intermediate": None, "intermediate_key": None, "seed": seed, "setting": setting}
    return {**spec, "splits_hash": "0" * 64, "metric": task.metric}


def _study(tasks: Sequence[FakeTask], seeds: Sequence[int], settings: Sequence[str]) -> dict[str, Any]:
    return {
        "name": "fake",
        "title": "A made-up study",
        "tasks": [task.id for task in tasks],
        "backbone": "random-tiny",
        "adapter": {"method": "seq_bn", "reduction_factor": 16, "non_linearity": "relu"},
        "training": {"epochs": 2},
        "seeds": list(seeds),
        "settings": list(settings),
        "splits": "clean",
        "max_train": 400,
        "max_val": None,
    }


def _entry(task: FakeTask) -> dict[str, Any]:
    return {
        "title": f"Title of {task.id}",
        "dataset": task.id,
        "family": "fakes",
        "theme": "direct",
        "kind": task.kind,
        "metric": task.metric,
        "classes": [] if task.kind == "continuous" else ["low", "middle", "high"],
        "language": "en",
        "setting": "conversation",
        "data_source": "crowdsourced",
        "version": "1",
        "n_train": 400,
        "n_validation": 50,
        "n_test": task.rows,
        "has_ratings": task.kind != "multilabel",
        "warnings": [],
    }
