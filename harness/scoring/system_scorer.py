"""Scores texts by a system of a study that is no adapter, from the weights that its cells have kept."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from adapters_store import Store
from adapters_store.record import LEAKING, Record
from adapters_store.store import NoWeights, left_out
from harness.scoring.answers import ScoringTask, TaskAnswers, TextScorer, scoring_tasks, task_of_cell
from harness.study.backbone import resolve
from harness.study.device import Device
from harness.study.systems import Fitted, Place, check_installed, check_system, in_window, kind_of
from harness.systems.system import answers_beside
from tasks.errors import BadInput
from tasks.readers.rows import kept_turns
from tasks.task import Example

NOTHING: Mapping[str, Any] = {}
FOLDER = "model/"  # of a record: what a system has saved


class SystemScorer(TextScorer):
    """Scores texts with a system of a study that the store has trained.

    >>> SystemScorer(store, manifest, "bi-encoder").score(["That sounds so hard."])     # doctest: +SKIP
    """

    def __init__(
        self,
        store: Store,
        manifest: Mapping[str, Any],
        system: str,
        *,
        tasks: Sequence[str] = (),
        seed: int | None = None,
        cells: Sequence[str] = (),
        device: str = "auto",
        local: Mapping[str, Any] = NOTHING,
    ) -> None:
        """The cells of what the study calls ``system``, for ``tasks`` (by default all that it solves) and a seed.

        ``cells`` are keys of cells of the system that score instead, and ``local`` values of settings that no record
        has (``Place.local``). BadInput for a system or task that is unknown or
        not trained, that leaks, whose file is another than that of the training, whose weights were not kept, whose
        package is not installed, or whose backbone is another here.
        """
        self.store, self.name = store, system
        chosen = [task_of_cell(store, manifest, key) for key in cells]
        self.tasks = chosen or scoring_tasks(store, manifest, tasks, seed, system=system)
        for task in self.tasks:
            if LEAKING in task.record.results["flags"]:
                raise BadInput(
                    f"system {system!r} was trained to be told the answers of what it predicts (leak), which nobody has"
                    " of a new text; take a system without a leak"
                )
        records = [task.record for task in self.tasks]
        kind = kind_of(str(records[0].spec["system"]))
        for record in records:
            trained = record.spec["version"], record.spec.get("file_sha256", "")
            if trained != (kind.version, kind.file_sha256):
                raise BadInput(
                    f"system {system!r} was trained by another version of {kind.name!r} than is here (record"
                    f" {record.key[:12]}); run the study again"
                )
        self.kind = kind
        check_installed(self.kind, system)
        backbone = resolve(str(manifest["study"]["backbone"])) if self.kind.reads.weights else None
        if backbone is not None:
            check_system(self.kind, system, backbone)
        self.place = Place(Device(device), backbone, answers_beside(store.root), local)

    @cached_property
    def fitted(self) -> list[Fitted]:
        """What was learned for every task, loaded when it is first asked."""
        return [self.kind.load(saved(self.store, task.record), self.place) for task in self.tasks]

    def answers(self, rows: Sequence[Example]) -> list[TaskAnswers]:
        """Logits, spans and what was cut, of a task after the other, each with as many turns as it was trained on.

        New texts have no later turns. Rows that have some (a probe's test rows) keep those that the system asked for.
        """
        answered = []
        for task, fitted in zip(self.tasks, self.fitted, strict=True):
            predicted = fitted.predict(self.read(task, rows))
            is_cut = np.zeros(len(rows), dtype=bool) if predicted.is_cut is None else predicted.is_cut
            answered.append(TaskAnswers(task, predicted.logits, is_cut, predicted.spans))
        return answered

    def read(self, task: ScoringTask, rows: Sequence[Example]) -> tuple[Example, ...]:
        """The rows with the turns around their text that the cell of a task is to see."""
        turns = kept_turns(task.form["history"])
        config = self.kind.configured(task.record.spec["config"], f"system {self.name!r}")
        return in_window([row._replace(context=row.context[turns]) for row in rows], config)


def saved(store: Store, record: Record) -> Path:
    """The folder of what a system has saved, its files checked; NoWeights where they were not kept."""
    names = [name for name in record.files if name.startswith(FOLDER)]
    if not names or left_out(record):
        raise NoWeights(
            f"record {record.key} keeps no weights of system {record.spec['system']!r} (`keep` of its study left "
            'them out, or `store archive` without `--weights`); move its folder away and run again with keep = "all"'
        )
    for name in names:
        file = store.open(record.key, name)
    return file.parents[name.count("/") - 1]
