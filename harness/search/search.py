"""The search for a task's training settings: Optuna proposes, lanes carry the trials, validation alone decides.

No trial is ever a cell: nothing of it is stored but its settings and validation scores. These are in a journal,
Optuna's own: lines of JSON in the store, one writer at a time, whole after a kill -9.
"""

from __future__ import annotations

import fcntl
import gc
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store, disk
from harness.search.outcome import SearchResult, Trial, keep, search_folder
from harness.study.backbone import Backbone
from harness.study.cell import Cell, make_cell, seed_of
from harness.study.config import StudyConfig
from harness.study.device import ANY_DEVICE, Device
from harness.study.file import check
from harness.study.plan import make_plan
from tasks.errors import BadInput, BadStudy, MissingData
from tasks.plain_text import nearest
from tasks.registry import Registry
from tasks.splits.loading import Splits

if TYPE_CHECKING:
    import optuna

    from harness.search.trials import TrialResult
    from harness.training.recipe import Attempt

JOURNAL = "journal.jsonl"
NAME = "search"
WORST = -1.0  # what Optuna hears where a score is not defined: the lowest that any metric takes


class CannotSearch(BadInput):
    """Optuna is missing, another process searches, or the journal belongs to other settings."""


def need_optuna() -> None:
    """CannotSearch, with the command that installs it, if the optional package is not there; quiet from here on."""
    try:
        import optuna
    except ImportError:
        raise CannotSearch("a search needs optuna; install it with: pip install 'empathy-transfer[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@contextmanager
def open_journal(folder: Path, inputs: Mapping[str, Any]) -> Iterator[optuna.Study]:
    """The Optuna study of a search, for this process alone; CannotSearch if it was begun with other ``inputs``.

    CannotSearch too while another process has the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system releases it whatever ends the process
        except BlockingIOError:
            raise CannotSearch(f"{folder}: another process searches here; wait for it, or stop it") from None
        path = folder / JOURNAL
        if path.is_file() and not (content := path.read_bytes()).endswith(b"\n"):
            with path.open("r+b") as file:  # what is written after an unfinished line would be lost with it
                file.truncate(content.rfind(b"\n") + 1)
        study = _study(path)
        begun = study.user_attrs.get("inputs")
        if begun is None:
            study.set_user_attr("inputs", dict(inputs))
        elif changed := [name for name in sorted({*begun, *inputs}) if begun.get(name) != inputs.get(name)]:
            was, now = begun.get(changed[0]), inputs.get(changed[0])
            raise CannotSearch(
                f"{path}: begun with other settings ({', '.join(changed)}; {changed[0]} was {was}, is {now}); "
                "go on with those, or move the file away and search anew"
            )
        yield study


def _study(path: Path) -> optuna.Study:
    import optuna
    from optuna.storages.journal import JournalFileBackend
    from optuna.storages.journal._file import BaseJournalFileLock

    class Held(BaseJournalFileLock):
        """The folder's own lock is held; Optuna's lock file would outlive a kill and stop the next start for 30 s."""

        def acquire(self) -> bool:
            return True

        def release(self) -> None:
            pass

    try:
        storage = optuna.storages.JournalStorage(JournalFileBackend(str(path), lock_obj=Held()))
    except (ValueError, KeyError) as problem:
        raise CannotSearch(
            f"{path}: not a journal of Optuna ({type(problem).__name__}); move the file away and search anew"
        ) from None
    return optuna.create_study(storage=storage, study_name=NAME, direction="maximize", load_if_exists=True)


def tell(journal: optuna.Study, trial: optuna.trial.FrozenTrial, result: TrialResult) -> None:
    """Write the result of a trial; its end comes last, so that a trial that is cut off here is trained again."""
    import optuna

    handle = optuna.trial.Trial(journal, trial._trial_id)
    handle.set_user_attr("best_epoch", result.fitted.best_epoch)
    scores = {int(row["epoch"] or 0): row["validation"] for row in result.fitted.history}
    for epoch, score in scores.items():
        if epoch not in trial.intermediate_values:
            handle.report(WORST if score is None else score, epoch)
    if result.is_dropped:
        journal.tell(trial.number, state=optuna.trial.TrialState.PRUNED)
    else:
        best = result.fitted.validation
        journal.tell(trial.number, best if best == best else WORST)  # NaN: no epoch had a defined score


def tell_failed(journal: optuna.Study, trial: optuna.trial.FrozenTrial, reason: str) -> None:
    """Write why a trial failed."""
    import optuna

    optuna.trial.Trial(journal, trial._trial_id).set_user_attr("reason", reason)
    journal.tell(trial.number, state=optuna.trial.TrialState.FAIL)


def ended_trials(journal: optuna.Study) -> list[Trial]:
    """All trials that have ended, in order."""
    names = {"COMPLETE": "complete", "PRUNED": "dropped", "FAIL": "failed"}
    trials = []
    for ended in journal.trials:
        if state := names.get(ended.state.name):
            scores = [score for score in ended.intermediate_values.values() if score > WORST]
            epoch, reason = ended.user_attrs.get("best_epoch"), ended.user_attrs.get("reason", "")
            of_epochs = {"validation": max(scores, default=None), "best_epoch": epoch, "reason": reason}
            trials.append(Trial(ended.number, state, **ended.params, **of_epochs))
    return trials


LEARNING_RATES = (1e-6, 5e-3)  # drawn on a log scale
BATCH_SIZES = (8, 16, 32, 64)
ROUND = 20  # trials that are drawn before any of them is trained; those of one batch size are lanes of one training
SEARCHED = ("learning_rate", "batch_size", "epochs")


@dataclass(frozen=True)
class Search:
    """A search for one task of a study, alone or on the stored adapter of ``intermediate``.

    The space is the learning rate (log 1e-6 to 5e-3), the batch size, 1 to the study's epochs, and ``methods``. With
    ``is_halving`` the worse half of the lanes that train together is dropped after epochs 1, 2, 4 and so on.
    """

    study: StudyConfig
    backbone: Backbone
    splits: Splits
    store: Store
    seed: int
    methods: tuple[str, ...]
    intermediate: Cell | None = None
    is_halving: bool = True
    device: Device = ANY_DEVICE

    def run(
        self, trials: int, watch: Callable[[str, int, int], None], on_trial: Callable[[Sequence[Trial]], None]
    ) -> SearchResult:
        """Go on until there are ``trials`` trials, those of an interrupted search included, and keep the result."""
        need_optuna()
        if trials < 1:
            raise BadInput(f"--trials {trials} is not a whole number from 1")
        for method in self.methods:  # one that the study could not run with is not worth a search
            study = replace(self.study, adapter=self.study.adapter.of_method(method))
            check(replace(study, transfers=study.transfers or self.intermediate is not None), f"method {method!r}")
        with disk.writing(self.store.root), open_journal(self.folder, self.inputs) as journal:
            on_trial(ended_trials(journal))
            while waiting := self._round(journal, trials):
                groups: dict[tuple[int, int], list[tuple[optuna.trial.FrozenTrial, Cell]]] = {}
                for trial in waiting:  # those of one batch size are lanes; what lanes do not serve is alone
                    cell = self.cell({name: trial.params[name] for name in SEARCHED}, trial.params["method"])
                    alone = -1 if cell.spec["trainer"] == "lanes" else trial.number
                    groups.setdefault((trial.params["batch_size"], alone), []).append((trial, cell))
                for group in groups.values():
                    self._train(journal, group, watch)
                    gc.collect()  # a model refers to itself in circles: left alone, one backbone a group piles up
                    on_trial(ended_trials(journal))
            name = self.intermediate.target if self.intermediate else None
            ended = tuple(ended_trials(journal))
            result = SearchResult(self.study.name, self.splits.task.id, name, self.inputs, ended)
        keep(self.store, result)
        return result

    @property
    def folder(self) -> Path:
        """Where the search is kept."""
        name = self.intermediate.target if self.intermediate else None
        return search_folder(self.store, self.study.name, self.splits.task.id, name)

    @property
    def inputs(self) -> dict[str, Any]:
        """Everything that decides what a trial finds, besides its own settings; plain data."""
        spec = dict(self.cell({}, self.methods[0]).spec)
        del spec["trainer"]
        for field in ("adapter", "library"):
            spec[field] = {name: self.cell({}, name).spec[field] for name in self.methods}
        fixed = {name: value for name, value in spec["training"].items() if name not in SEARCHED}
        space = {"learning_rate": list(LEARNING_RATES), "batch_size": list(BATCH_SIZES), "epochs": self._epochs}
        return {**spec, "training": fixed, "space": {**space, "method": list(self.methods)}}

    @property
    def _epochs(self) -> int:
        training, _ = replace(self.study, best={}).training_for(self.splits.task)
        return training.epochs

    def _round(self, journal: optuna.Study, trials: int) -> list[optuna.trial.FrozenTrial]:
        """The trials to train next: what an interruption left, and new ones up to the round's end.

        Settings are drawn beside the journal and then written in one line, so that no trial is ever half drawn.
        """
        import optuna

        running = [optuna.trial.TrialState.RUNNING]
        count, is_left = len(journal.trials), bool(journal.get_trials(states=running))
        end = math.ceil(count / ROUND) * ROUND if is_left else count + ROUND
        drawing = optuna.create_study(direction="maximize")
        drawing.add_trials(journal.trials)
        for number in range(count, min(end, trials)):
            # The same settings in every process: a trial's number seeds the sampler.
            seed = seed_of(self.seed, self.splits.task.id, "search", number) % 2**32
            drawing.sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
            trial = drawing.ask()
            trial.suggest_float("learning_rate", *LEARNING_RATES, log=True)
            trial.suggest_categorical("batch_size", BATCH_SIZES)
            trial.suggest_int("epochs", 1, self._epochs)
            trial.suggest_categorical("method", self.methods)
            journal.add_trial(drawing.trials[number])
        return journal.get_trials(states=running)

    def cell(self, training: dict[str, Any], method: str) -> Cell:
        """The training of a trial as a cell, which is never stored."""
        study, task = self.study, self.splits.task.id
        settings = {**study.task, task: {**study.task.get(task, {}), **training}}
        plain = replace(study, best={}, task=settings, adapter=study.adapter.of_method(method))
        return make_cell(
            plain, self.backbone, self.splits, seed=self.seed, setting="full", intermediate=self.intermediate
        )

    def attempt(self, cells: Sequence[Cell], watch: Callable[[str, int, int], None]) -> Attempt:
        """The attempt to train the cells of trials together."""
        from harness.training.recipe import Attempt, Recipe

        return Attempt(cells, Recipe.of(cells), self.backbone, self.splits, self.store, watch, self.device)

    def _train(
        self,
        journal: optuna.Study,
        group: Sequence[tuple[optuna.trial.FrozenTrial, Cell]],
        watch: Callable[[str, int, int], None],
    ) -> None:
        """Train a group and write its results to the journal; a failure is written too and stops no other group."""
        from harness.search.trials import try_lanes, try_library

        trials, cells = [trial for trial, _ in group], [cell for _, cell in group]
        train = try_lanes if cells[0].spec["trainer"] == "lanes" else try_library
        try:
            results = train(self.attempt(cells, watch), is_halving=self.is_halving)
        except BadInput:
            raise
        except Exception as problem:  # failure is data
            frame = traceback.extract_tb(problem.__traceback__)[-1]
            reason = f"{type(problem).__name__}: {problem} ({Path(frame.filename).name}:{frame.lineno})"
            for trial in trials:
                tell_failed(journal, trial, reason)
        else:
            for trial, result in zip(trials, results, strict=True):
                tell(journal, trial, result)


def search_for(
    study: StudyConfig,
    registry: Registry,
    data: Path,
    store: Store,
    task: str,
    intermediate: str | None,
    ids: Path | None = None,
) -> Search:
    """A search for a task of the study with the study's first seed and own method, ready to run.

    The search leaves the study's other tasks unread. BadStudy for a task that is not the study's, MissingData without
    its rows, CannotSearch when the intermediate has no stored baseline to stand on.
    """
    names = (task,) if intermediate is None else (intermediate, task)
    for name in names:
        if name not in study.tasks:
            raise BadStudy(f"task {name!r} is not of study {study.name!r}{nearest(name, study.tasks)}")
    small = replace(study, tasks=tuple(dict.fromkeys(names)), seeds=study.seeds[:1], baseline_seeds=(), floors=False)
    small = replace(small, settings=("full",), controls=(), imported={}, references=(), systems=(), system={})
    plan = make_plan(small, registry, data, ids)
    if absent := [name for name in names if name in plan.missing]:
        raise MissingData(plan.missing[absent[0]])
    baseline = None
    if intermediate is not None:
        baseline = next(cell for cell in plan.cells if cell.target == intermediate and cell.intermediate is None)
        if baseline.key not in store:
            raise CannotSearch(
                f"store {store.root} has no baseline of {intermediate} for seed {baseline.seed} to stand on; "
                f"train it with: empathy-transfer run {study.name} --only-target {intermediate}"
            )
    methods = (study.adapter.method,)
    return Search(study, plan.backbone, plan.splits[task], store, study.seeds[0], methods, baseline)
