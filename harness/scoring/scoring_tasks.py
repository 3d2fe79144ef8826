"""The tasks that score new texts: baselines, imported adapters, and cells of systems; no model is loaded here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapters_store import Record, Store
from adapters_store.record import imports_of, is_imported
from adapters_store.roles import SCORING, SYSTEMS
from harness.study.config import StudyConfig
from harness.study.intermediates.imported import imported_as, with_imported
from tasks.errors import BadInput
from tasks.plain_text import nearest
from tasks.task import METRICS, Task

READING = ("input_format", "tags", "max_tokens", "truncation", "history")


class NothingTrained(BadInput):
    """The store has no trained cell of a task."""


@dataclass(frozen=True)
class ScoringTask:
    """A task that scores: its record, and the names of its classes in the order of the outputs (none for numbers).

    ``form`` is how it reads a text: the values of ``READING`` that its spec names.
    """

    name: str
    title: str
    record: Record
    names: tuple[str, ...]
    form: Mapping[str, Any]

    @property
    def is_imported(self) -> bool:
        """Whether it is an imported adapter, of whose training nothing is known here."""
        return is_imported(self.record.spec)

    @property
    def metric(self) -> str:
        """The metric that decides how logits become predictions."""
        return METRICS[self.kind] if self.is_imported else str(self.record.spec["metric"])

    @property
    def kind(self) -> str:
        """The label's kind."""
        return str(self.record.spec["label"]["kind"])

    @property
    def outputs(self) -> int:
        """Number of logits per text."""
        return len(self.record.spec["label"]["classes"]) or 1


def scoring_tasks(
    store: Store,
    manifest: Mapping[str, Any],
    tasks: Sequence[str] = (),
    seed: int | None = None,
    *,
    system: str = "",
) -> list[ScoringTask]:
    """A study's tasks of these names (by default all), trained alone on full data, with ``seed`` or the lowest seed.

    Adapters, or what the study calls ``system``. With adapters, imported ones that have a head are included: by
    default those of the study, by name any in the store. BadInput for a name that is neither, or has no head, and for
    an unknown system; NothingTrained where the store has no trained cell of a task.
    """
    known = list(manifest["tasks"])
    if system:
        names = list(manifest["study"].get("systems", []))
        if system not in names:
            has = f"; it has {', '.join(names)}" if names else ", and no other"
            raise BadInput(f"study {manifest['name']!r} has no system {system!r}{nearest(system, names)}{has}")
    imported = [] if system else imports_of(manifest)
    by_name = {
        name: _of_task(store, manifest, name, seed, system)
        if system or name in known
        else _of_import(store, manifest, name)
        for name in tasks or [*known, *imported]
    }
    lacking = [name for name in tasks if by_name[name] is None]
    for name in lacking:
        if name not in known and not system:
            raise BadInput(f"{name}: imported without a head, so it gives no answers and is an intermediate only")
    if lacking:
        raise NothingTrained(_lacking(store, manifest, ", ".join(lacking), seed))
    trained = [task for task in by_name.values() if task is not None]
    if not trained:
        raise NothingTrained(_lacking(store, manifest, "any task", seed))
    return trained


def of_imports(study: StudyConfig, store: Store, tasks: Sequence[str]) -> dict[str, Any] | None:
    """What scoring asks of the manifest of a study that was never run, where all ``tasks`` are imported adapters."""
    if not tasks or not all(name in study.imported or imported_as(store, name) for name in tasks):
        return None
    return {"name": study.name, "tasks": {}, "cells": [], "study": with_imported(study, store).as_json()}


def _of_import(store: Store, manifest: Mapping[str, Any], name: str) -> ScoringTask | None:
    """An imported adapter of the study, or of the store by its name; None if it has no head.

    It reads texts as the study's tasks do, since the format of its training is unknown.
    """
    known = imports_of(manifest)
    records = [store.get(known[name])] if name in known else imported_as(store, name)
    if not records:
        tasks = list(manifest["tasks"])
        raise BadInput(f"task {name!r} is not one of study {manifest['name']!r}{nearest(name, tasks)}")
    if len(records) > 1:
        keys = ", ".join(record.key[:12] for record in records)
        raise BadInput(f"{name}: {len(records)} imported adapters have this name ({keys}); name one in [imported]")
    (record,) = records
    if record.spec["label"] is None:
        return None
    study = manifest["study"]
    form = {"tags": None, "truncation": Task.truncation, "history": Task.history}
    form |= {name: study[name] for name in ("input_format", "max_tokens")}
    title = f"imported: {record.spec['origin']['name']}"
    return ScoringTask(name, title, record, tuple(record.spec["label"]["classes"]), form)


def _lacking(store: Store, manifest: Mapping[str, Any], what: str, seed: int | None) -> str:
    which = "" if seed is None else f" with seed {seed}"
    command = f"empathy-transfer run {manifest['name']}"
    return f"store {store.root} has no trained cell{which} of {what}; train it with: {command}"


def _of_task(
    store: Store, manifest: Mapping[str, Any], task: str, seed: int | None, system: str = ""
) -> ScoringTask | None:
    roles = SYSTEMS if system else SCORING
    cells = [
        cell
        for cell in manifest["cells"]
        if (cell["target"], cell["setting"], cell.get("system", "")) == (task, "full", system)
        and cell["role"] in roles
        and cell["key"] in store
    ]
    of_seed = [cell for cell in cells if seed in (None, cell["seed"])]
    if not of_seed:
        return None
    return task_of_cell(store, manifest, min(of_seed, key=lambda cell: cell["seed"])["key"])


def task_of_cell(store: Store, manifest: Mapping[str, Any], key: str) -> ScoringTask:
    """The task that a finished cell of a study was trained on, with this cell to score by."""
    record = store.get(key)
    task = str(record.spec["target"])
    facts = manifest["tasks"][task]
    classes = tuple(record.spec["label"]["classes"])
    names = tuple(facts["classes"]) if len(facts["classes"]) == len(classes) else classes
    form = {name: record.spec[name] for name in READING if name in record.spec}
    return ScoringTask(task, facts["title"], record, names, form)
