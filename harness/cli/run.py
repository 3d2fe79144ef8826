"""``run``: train what the store does not have, or what failed, and end what runs."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Collection
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from harness.api import Study
from harness.cli.options import Leaves, add_options, leaf_of, out_option, places, plan_options, print_next, set_threads
from harness.cli.plan import print_missing, print_warnings, warnings_of
from harness.cli.status import study_words
from harness.cli.study import name_of, study_of
from harness.cli.terminal import ProgressBar, Steps, print_json, verbatim
from harness.preflight.smoke import NOTE, SMOKE
from harness.sharing.stored import stored_manifest
from tasks.errors import BadInput

if TYPE_CHECKING:
    from harness.engines.ending import Process
    from harness.run.grid import GridReport
    from harness.study.cell import Cell

DEMO = "demo"


def add(leaves: Leaves) -> None:
    """Add ``run``."""
    run = leaf_of(leaves, "run STUDY", run_study, "run real-small --data data", "data store json quiet")
    plan_options(run)
    run.add_argument("--smoke", action="store_true", help="32 rows, one epoch a cell: does all of it train?")
    ways = run.add_mutually_exclusive_group()
    ways.add_argument("--failed", action="store_true", help="only what failed, and what was not run on its account")
    ways.add_argument("--cancel", action="store_true", help="end what runs or is queued; what is finished stays")
    ways.add_argument("--dry-run", action="store_true", help="print the job scripts of --engine slurm; submit nothing")
    ways.add_argument("--trained", metavar="DIR", help="only store what a closed node left in its `out`")
    add_options(run, "engine device")
    run.add_argument("--workers", metavar="N", type=int, help="packs at a time, a process each (default: 1)")
    run.add_argument("--threads", metavar="N", type=int, help="of each process (default: its share of cores)")
    out_option(run, "of demo: folder of its report (default: results/demo)")


# ``run --dry-run``: the scripts of the jobs that a run would submit.


def show_scripts(options: argparse.Namespace) -> int:
    """Print what would be handed to sbatch, and submit nothing; BadInput for an engine that has no scripts."""
    from harness.engines.cluster import check_package
    from harness.run.grid import GridReport, steps_of
    from harness.study.config import Slurm
    from tasks.fields import record_of

    if options.engine != "slurm":
        raise BadInput(
            f"--dry-run prints the job scripts of --engine slurm; --engine {options.engine} has none. What would be "
            f"trained is shown by: empathy-transfer plan {options.study}"
        )
    check_package("slurm")
    from harness.engines.slurm_engine import scripts

    study = study_of(options)
    study.on(options.device, options.engine)
    plan = study.plan.only(options.only_target) if options.only_target else study.plan
    steps = steps_of(plan, study.store, GridReport())
    wanted = record_of(Slurm, study.config.slurm)
    texts = list(scripts(wanted, study.launch(options.device, options.threads), steps))
    if options.json:
        print_json({"scripts": texts})
    else:
        verbatim("\n".join(texts) if texts else "nothing to submit: the store has every cell")
    return 0


def run_study(options: argparse.Namespace) -> int:
    """Train the cells of a study that the store lacks. `run demo` does so on made-up data, and writes a report.

    Exit code 1 when a cell failed or could not be run.
    """
    if options.cancel:
        return cancel_study(options)
    if options.dry_run:
        return show_scripts(options)
    study = study_of(options)
    if options.failed:
        # train the cells that failed and the transfers stacked on them; exit code 1 when a cell fails again
        from harness.run import notes

        study.on(options.device, options.engine)
        name, noted = study.config.name, notes.failures(study.store).keys()
        failed = noted & {cell.key for cell in study.plan.cells}
        if not failed and name in study.store.manifests():
            stored = stored_manifest(study.store, name, cells_only=True)["cells"]
            if noted & {cell["key"] for cell in stored}:
                raise BadInput(
                    f"the cells of study {name!r} that failed are of other changes than these; give --set, --seeds and"
                    " --limit as in the run in which they failed"
                )
        above = {cell.key for cell in study.plan.cells if failed.intersection(cell.stands_on)}
        if not failed and not options.json:
            print(f"no cell of study {name!r} has failed since it was last tried")
            return 0
        return train(study, options, failed | above)
    if options.study == DEMO and not (options.smoke or options.trained):
        return run_demo(study, options)
    code = take(study, options) if options.trained else train(study, options)
    if code == 0 and not (options.json or options.quiet or options.smoke):
        # what a finished study says in short; what explains gains takes longer to compute, and ``report`` says it
        from analysis.results.study_results import StudyResults
        from analysis.sections.in_short import sentences

        print("", *sentences(StudyResults.of(study.store, study.manifest())), sep="\n")
        print_next("report", options.study, *places(options))
    if options.smoke:
        print(NOTE, file=sys.stderr if options.json else sys.stdout)
    return code


def run_demo(study: Study, options: argparse.Namespace) -> int:
    """Run the demo study and write its report; by default with a worker for every core."""
    from analysis.report import report
    from harness.study.device import cores

    if options.workers is None and options.engine == "local":
        options.workers = cores()
    code = train(study, options)
    out = Path(options.out or "results/demo")
    with Steps(quiet=options.quiet) as steps:
        written = report(study.store, study.manifest(), out, progress=steps.step)
    if not options.json:
        print("", *written.sentences, "", sep="\n")
        print(f"report: {written.page}; tables and figures beside it, and report.html to look around in")
        print_next("study", "power", DEMO, *places(options))
    return code


def take(study: Study, options: argparse.Namespace) -> int:
    """Store what a closed node has trained of a study, and print the report; the exit code."""
    report = study.take(options.trained, device=options.device)
    if options.json:
        print_json(_report_json(report) | {"missing": study.plan.missing, "warnings": warnings_of(study.plan)})
    else:
        print(f"done     {len(report.done)} stored from {options.trained}, {len(report.stored)} were in the store")
        print(f"left     {len(report.not_run)}, which run without --trained trains here")
        print_missing(study.plan.missing)
    return 0 if report.is_complete else 1


def train(study: Study, options: argparse.Namespace, only_keys: Collection[str] | None = None) -> int:
    """Train what the store lacks of a study, or of some of its cells, and print the report; the exit code."""
    from harness.study.device import Device

    set_threads(options.threads)
    engine = options.engine
    if engine == "local":
        Device(options.device)  # one that is not here is refused before anything is read
    elif options.workers is not None:
        raise BadInput(f"--workers is for --engine local; how many jobs --engine {engine} runs at once, it decides")
    workers = 1 if options.workers is None else options.workers
    if workers < 1:
        raise BadInput(f"--workers {workers} is not a whole number from 1")
    study.on(options.device, engine)
    plan = study.plan.only(options.only_target) if options.only_target else study.plan
    plan = plan if only_keys is None else plan.only_keys(only_keys)
    with ProgressBar(len(plan.cells), quiet=options.quiet) as progress:
        report = study.run(
            only_targets=options.only_target,
            only_keys=only_keys,
            workers=workers,
            threads=options.threads,
            device=options.device,
            engine=engine,
            on_epoch=progress.on_epoch,
            on_cell=progress.on_cell,
        )
    if options.json:
        print_json(_report_json(report) | {"missing": plan.missing, "warnings": warnings_of(plan)})
    else:
        print(f"done     {len(report.done)} trained, {len(report.stored)} were in the store")
        print(f"failed   {len(report.failed)}")
        for cell, reason in report.failed:
            print(f"  {cell.label}: {reason}")
        print(f"not run  {len(report.not_run)}")
        for cell, reason in report.not_run:
            print(f"  {cell.label}: {reason}")
        print_missing(plan.missing)
        print_warnings(plan)
    return 0 if report.is_complete else 1


def _report_json(report: GridReport) -> dict[str, object]:
    def rows(pairs: list[tuple[Cell, str]]) -> list[dict[str, str]]:
        return [{"cell": cell.label, "key": cell.key, "reason": reason} for cell, reason in pairs]

    keys = {"stored": [c.key for c in report.stored], "done": [c.key for c in report.done]}
    return {**keys, "failed": rows(report.failed), "not_run": rows(report.not_run)}


# ``run --cancel``: end what runs of a study. A process runs it if it is this user's own and was started as its ``run``.


def cancel_study(options: argparse.Namespace) -> int:
    """End what runs or is queued for a study; exit code 1 if something is left that cannot be ended from here."""
    from harness.engines.ending import end_study

    store, name = Store(Path(options.store)), name_of(options.study) + (SMOKE if options.smoke else "")
    stored_manifest(store, name, cells_only=True)  # NotRun if the store does not know it
    ended, left = end_study(store, name, drivers(name, store.root))
    if options.json:
        print_json({"ended": ended, "left": left})
        return 1 if left else 0
    for line in (*ended, *left):
        print(line)
    if ended:
        print(f"finished cells and checkpoints stay in the store; to go on: empathy-transfer run {study_words(name)}")
    if not ended and not left:
        print(f"nothing of study {name!r} runs or is queued")
    return 1 if left else 0


def drivers(study: str, root: Path) -> list[int]:
    """Ids of processes that were started as a ``run`` of the study on the store at ``root``."""
    from harness.engines.ending import own_processes

    return [pid for pid, process in own_processes() if pid != os.getpid() and _runs(process, study, root.resolve())]


def _runs(process: Process, study: str, root: Path) -> bool:
    from harness.engines.ending import words_after_program

    words, options, name = words_after_program(process.arguments), None, None
    if words:
        parser = argparse.ArgumentParser()
        add(parser.add_subparsers(required=True))
        with suppress(SystemExit), redirect_stderr(io.StringIO()):  # words that are none of a ``run``
            options = parser.parse_args(list(words))
    if options is None or options.cancel:
        return False
    with suppress(BadInput):  # the name under which the store knows it; a file may be no study
        typed = options.study
        name = name_of(str(process.folder / typed) if typed.endswith(".toml") else typed)
        name += SMOKE if options.smoke else ""
    if name != study:
        return False
    is_named = any(word.startswith("--st") for word in words)
    store = options.store if is_named else process.environment.get("EMPATHY_STORE") or "runs"
    return (process.folder / store).resolve() == root
