"""The tasks that score new texts, and what their scorers have in common; no model is loaded here.

Tasks are baselines, imported adapters, and cells of systems. A scorer makes rows of texts, and a frame of what every
task answers to them.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, softmax

from adapters_store import Record, Store
from adapters_store.record import imports_of, is_imported
from adapters_store.roles import SCORING, SYSTEMS
from harness.study.config import StudyConfig
from harness.study.intermediates import imported_as, with_imported
from harness.study.systems import Span
from tasks import metrics
from tasks.errors import BadInput
from tasks.plain_text import nearest
from tasks.task import METRICS, Example, Task, Turn

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
    store: Store, manifest: Mapping[str, Any], tasks: Sequence[str] = (), seed: int | None = None, *, system: str = ""
) -> list[ScoringTask]:
    """A study's tasks of these names (by default all), trained alone on full data, with ``seed`` or the lowest seed.

    Adapters, or what the study calls ``system``. With adapters, imported ones that have a head are included: by
    default those of the study, by name any in the store. BadInput for a name that is neither, or has no head, and for
    an unknown system; NothingTrained where the store has no trained cell of a task.
    """
    ids = list(manifest["tasks"])
    if system:
        names = list(manifest["study"].get("systems", []))
        if system not in names:
            has = f"; it has {', '.join(names)}" if names else ", and no other"
            raise BadInput(f"study {manifest['name']!r} has no system {system!r}{nearest(system, names)}{has}")
    imported = [] if system else imports_of(manifest)
    by_name = {
        name: _of_task(store, manifest, name, seed, system)
        if system or name in ids
        else _of_import(store, manifest, name)
        for name in tasks or [*ids, *imported]
    }
    lacking = [name for name in tasks if by_name[name] is None]
    for name in lacking:
        if name not in ids and not system:
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
    imports = imports_of(manifest)
    records = [store.get(imports[name])] if name in imports else imported_as(store, name)
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


def _lacking(store: Store, manifest: Mapping[str, Any], noun: str, seed: int | None) -> str:
    which = "" if seed is None else f" with seed {seed}"
    command = f"empathy-transfer run {manifest['name']}"
    return f"store {store.root} has no trained cell{which} of {noun}; train it with: {command}"


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


COLUMNS = {
    "id": "str",
    "task": "str",
    "prediction": "str",
    "value": "float64",
    "probability": "float64",
    "probabilities": "str",
    "is_cut": "bool",
}
RATIONALE = "rationale"  # a further column, of systems that mark one
DIGITS = 6  # of a share


@dataclass(frozen=True)
class TaskAnswers:
    """A task's logits ``[rows, outputs]``, ``[rows]`` whether it read only a part of a row, and the spans it marks.

    ``spans`` is None for what marks no rationale.
    """

    task: ScoringTask
    logits: NDArray[np.float32]
    is_cut: NDArray[np.bool_]
    spans: Sequence[Span] | None = None


class TextScorer(ABC):
    """Tasks that answer to new texts."""

    tasks: Sequence[ScoringTask]

    @abstractmethod
    def answers(self, rows: Sequence[Example]) -> list[TaskAnswers]:
        """Those of every task, in the order of ``tasks``; labels of the rows mean nothing."""

    def score(
        self, texts: Sequence[str], contexts: Sequence[str | Sequence[str]] = (), ids: Sequence[str] = ()
    ) -> pd.DataFrame:
        """A row per text and task, sorted by text, with ``COLUMNS``.

        ``contexts`` are the earlier turns, a turn or a list of turns for each text; ``ids`` are by default the numbers
        of the texts from 0. ``prediction`` is a class, several classes joined by ``|``, or a number; ``value`` is a
        number in the label's own scale, ``probability`` that of the predicted class, ``probabilities`` those of all
        classes as JSON. A system that marks rationales adds ``rationale``: its spans in a text as JSON,
        ``[[start, end, score], ...]`` in characters from 0, the end not in it. BadInput for a text without words.
        """
        rows = rows_of_texts(texts, contexts, ids)
        frames = [frame_of(rows, answers) for answers in self.answers(rows)] if rows else []
        if not frames:
            return pd.DataFrame(columns=list(COLUMNS)).astype(COLUMNS)
        frame = pd.concat(frames).sort_index(kind="stable").reset_index(drop=True)
        marks = [RATIONALE] if RATIONALE in frame else []
        return frame[[*COLUMNS, *marks]].astype({**COLUMNS, **dict.fromkeys(marks, "str")})


def rows_of_texts(
    texts: Sequence[str], contexts: Sequence[str | Sequence[str]] = (), ids: Sequence[str] = ()
) -> list[Example]:
    """Texts as rows without a label that means anything; turns without words are left out. BadInput for empty texts."""
    if contexts and len(contexts) != len(texts):
        raise BadInput(f"{len(contexts)} contexts for {len(texts)} texts; give one for each, which may be empty")
    for number, text in enumerate(texts):
        if not text.strip():
            raise BadInput(f"text {number} is empty; leave it out")
    names, rows = ids or [str(number) for number in range(len(texts))], []
    for id, text, context in zip(names, texts, contexts or [""] * len(texts), strict=True):
        earlier = [context] if isinstance(context, str) else context
        turns = tuple(Turn("speaker", turn) for turn in earlier if turn.strip())
        rows.append(Example(id, id, id, turns, text, 0))
    return rows


def frame_of(rows: Sequence[Example], answers: TaskAnswers) -> pd.DataFrame:
    """What a task answers, in the order of the rows."""
    task, logits = answers.task, answers.logits
    decisions = metrics.decisions(task.metric, logits)
    answered = [_answer(task, row, decision) for row, decision in zip(logits, decisions, strict=True)]
    frame = pd.DataFrame(answered, columns=["prediction", "value", "probability", "probabilities"])
    frame = frame.assign(id=[row.id for row in rows], task=task.name, is_cut=answers.is_cut)
    if answers.spans is None:
        return frame
    marked: list[list[list[float]]] = [[] for _ in rows]
    for span in answers.spans:
        marked[span.row].append([span.start, span.end, round(span.score, DIGITS)])
    return frame.assign(**{RATIONALE: [json.dumps(of_row) for of_row in marked]})


def _answer(
    task: ScoringTask,
    logits: NDArray[np.float32],
    decision: Any,  # noqa: ANN401 - a class, a 0 or 1 per class, or a number
) -> tuple[str, float | None, float | None, str]:
    """Prediction, value, probability of what is predicted, and all probabilities as JSON."""
    if task.kind == "continuous":
        return f"{float(decision):.6g}", float(decision), None, ""
    outputs = logits.astype(np.float64)
    shares = (expit(outputs) if task.kind == "multilabel" else softmax(outputs)).tolist()
    every = json.dumps(
        {name: round(share, DIGITS) for name, share in zip(task.names, shares, strict=True)}, ensure_ascii=False
    )
    if task.kind == "multilabel":
        return "|".join(name for name, is_on in zip(task.names, decision, strict=True) if is_on), None, None, every
    return task.names[int(decision)], None, shares[int(decision)], every
