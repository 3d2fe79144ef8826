"""The journal of a search: Optuna's own, lines of JSON in the store, one writer at a time, whole after a kill -9."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.search.outcome import Trial
from tasks.errors import BadInput

if TYPE_CHECKING:
    import optuna

    from harness.search.trials import TrialResult

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
    """The Optuna study of a search, for this process alone; CannotSearch if it was begun with other ``inputs``."""
    with alone_in(folder):
        _mend(folder / JOURNAL)
        study = _study(folder / JOURNAL)
        _check_inputs(study, inputs, folder / JOURNAL)
        yield study


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """A folder, made where it is not there, for this process alone; CannotSearch while another one has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system releases it whatever ends the process
        except BlockingIOError:
            raise CannotSearch(f"{folder}: another process searches here; wait for it, or stop it") from None
        yield


def _mend(path: Path) -> None:
    """Cut off a last line that a crash left unfinished: what is written after it would be lost with it."""
    if path.is_file() and not (content := path.read_bytes()).endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


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


def _check_inputs(study: optuna.Study, inputs: Mapping[str, Any], path: Path) -> None:
    begun = study.user_attrs.get("inputs")
    if begun is None:
        study.set_user_attr("inputs", dict(inputs))
    elif changed := [name for name in sorted({*begun, *inputs}) if begun.get(name) != inputs.get(name)]:
        was, now = begun.get(changed[0]), inputs.get(changed[0])
        raise CannotSearch(
            f"{path}: begun with other settings ({', '.join(changed)}; {changed[0]} was {was}, is {now}); "
            "go on with those, or move the file away and search anew"
        )


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
    return [_trial(frozen, names[frozen.state.name]) for frozen in journal.trials if frozen.state.name in names]


def _trial(frozen: optuna.trial.FrozenTrial, state: str) -> Trial:
    scores = [score for score in frozen.intermediate_values.values() if score > WORST]
    return Trial(
        frozen.number,
        state,
        **frozen.params,
        validation=max(scores, default=None),
        best_epoch=frozen.user_attrs.get("best_epoch"),
        reason=frozen.user_attrs.get("reason", ""),
    )
