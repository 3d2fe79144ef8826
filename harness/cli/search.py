"""``search``: the best training settings of a study's tasks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.api import Study
from harness.cli.options import best_option, device_option, leaf_options, set_threads, splits_option, study_options
from harness.cli.study import study_of
from harness.cli.terminal import Progress, print_json, print_rows

if TYPE_CHECKING:
    from harness.search.outcome import SearchResult, Trial


def add_search(search: argparse.ArgumentParser) -> None:
    """Add the options of ``search``."""
    leaf_options(search, "search real-small --task epitome_er --data data", run_search)
    study_options(search)
    best_option(search)
    splits_option(search)
    search.add_argument(
        "--task", metavar="ID", action="append", default=[], help="the task (repeatable; default: all of the study)"
    )
    search.add_argument("--intermediate", metavar="ID", help="search for the task on this one's stored baseline")
    search.add_argument("--trials", metavar="N", type=int, default=60, help="how many in all (default: 60)")
    search.add_argument(
        "--method", metavar="NAME", action="append", default=[], help="an adapter method to try (repeatable)"
    )
    search.add_argument("--no-halving", action="store_true", help="train every trial to its end")
    device_option(search)
    search.add_argument("--threads", metavar="N", type=int, help="threads of this process (default: all cores)")


def run_search(options: argparse.Namespace) -> int:
    """Search for every task that was named and print the best trial of each; exit code 1 when a trial failed."""
    set_threads(options.threads)
    study = study_of(options)
    tasks = options.task or [name for name in study.config.tasks if name != options.intermediate]
    outcomes = [_search(study, name, options) for name in tasks]
    failed = [trial for outcome in outcomes for trial in outcome.trials if trial.state == "failed"]
    if options.json:
        print_json([outcome.as_json() for outcome in outcomes])
    else:
        print_rows([_row(outcome) for outcome in outcomes], as_json=False, spare=("trial", "dropped", "failed"))
        for trial in failed:
            print(f"trial {trial.number} failed: {trial.reason}")
        print(f"\nuse them with: empathy-transfer run {options.study} --best")
    return 1 if failed else 0


def _search(study: Study, task: str, options: argparse.Namespace) -> SearchResult:
    with Progress(options.trials, quiet=options.quiet) as progress:

        def on_trial(finished: Sequence[Trial]) -> None:
            scores = [trial.validation for trial in finished if trial.validation is not None]
            progress.on_trials(len(finished), max(scores, default=None))

        return study.search(
            task,
            intermediate=options.intermediate,
            trials=options.trials,
            methods=options.method,
            is_halving=not options.no_halving,
            device=options.device,
            on_epoch=progress.on_epoch,
            on_trial=on_trial,
        )


def _row(outcome: SearchResult) -> dict[str, object]:
    states = [trial.state for trial in outcome.trials]
    best = outcome.best
    shown = best.settings | {"learning_rate": f"{best.learning_rate:.2g}"} if best else dict.fromkeys(_FIELDS, "-")
    return {
        "task": outcome.task,
        **({"intermediate": outcome.intermediate} if outcome.intermediate else {}),
        **{name: shown[name] for name in _FIELDS},
        "validation": f"{best.validation:.3f}" if best and best.validation is not None else "-",
        "trial": best.number if best else "-",
        "trials": len(states),
        "dropped": states.count("dropped"),
        "failed": states.count("failed"),
    }


_FIELDS = ("learning_rate", "batch_size", "epochs", "method")
