"""``run`` and ``demo``: train what the store does not have."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from harness.api import Study
from harness.cli.options import (
    device_option,
    leaf_options,
    places,
    plan_options,
    print_next,
    run_options,
    set_threads,
    train_options,
)
from harness.cli.plan import print_missing, print_warnings, warnings_of
from harness.cli.study import study_of
from harness.cli.terminal import Progress, Steps, print_json, verbatim
from harness.preflight.smoke import NOTE
from tasks.errors import BadInput

if TYPE_CHECKING:
    from harness.run.grid import GridReport
    from harness.study.cell import Cell


def add_run(run: argparse.ArgumentParser) -> None:
    """Add the options of ``run``."""
    leaf_options(run, "run real-small --data data", run_study)
    plan_options(run)
    run.add_argument("--dry-run", action="store_true", help="print the job scripts of --engine slurm; submit nothing")
    run.add_argument(
        "--trained", metavar="DIR", help="train nothing; store what a closed node has left in its folder `out`"
    )
    train_options(run)


def add_demo(demo: argparse.ArgumentParser) -> None:
    """Add the options of ``demo``."""
    leaf_options(demo, "demo", run_demo)
    run_options(demo)
    device_option(demo)


# ``run --dry-run``: the scripts of the jobs that a run would submit.


def show_scripts(options: argparse.Namespace) -> int:
    """Print what would be handed to sbatch, and submit nothing; BadInput for an engine that has no scripts."""
    from harness.engines.cluster import check_package
    from harness.run.grid import GridReport, steps_of
    from harness.study.schedulers import Slurm, options_of

    if options.engine != "slurm":
        raise BadInput(
            f"--dry-run prints the job scripts of --engine slurm; --engine {options.engine} has none. What would be "
            f"trained is shown by: empathy-transfer plan {options.study}"
        )
    check_package("slurm")
    from harness.engines.slurm_scripts import scripts

    study = study_of(options)
    study.on(options.device, options.engine)
    plan = study.plan.only(options.only_target) if options.only_target else study.plan
    steps = steps_of(plan, study.store, GridReport())
    wanted = options_of(Slurm, study.config.slurm, study.config.name)
    texts = list(scripts(wanted, study.launch(options.device, options.threads), steps))
    if options.json:
        print_json({"scripts": texts})
    else:
        verbatim("\n".join(texts) if texts else "nothing to submit: the store has every cell")
    return 0


def run_study(options: argparse.Namespace) -> int:
    """Run a study; exit code 1 when a cell failed or could not be run."""
    if options.dry_run:
        return show_scripts(options)
    study = study_of(options)
    code = take(study, options) if options.trained else train(study, options)
    if code == 0 and not (options.json or options.quiet or options.smoke):
        print_answer(study)
        print_next("report", options.study, *places(options))
    if options.smoke:
        print(NOTE, file=sys.stderr if options.json else sys.stdout)
    return code


def print_answer(study: Study) -> None:
    """What a finished study says in short; what explains gains takes longer to compute, and ``report`` says it."""
    from analysis.gains.power import visible_gains
    from analysis.results.leaderboard import has_systems
    from analysis.sections.in_short import sentences, sentences_of_systems
    from analysis.sections.study_results import Frames, StudyResults

    manifest = study.manifest()
    results = StudyResults.of(study.store, manifest, Path("results") / study.config.name)
    if results.gains.empty and has_systems(manifest):
        lines = sentences_of_systems(results, Frames.of(study.store, manifest).board())
    else:
        lines = sentences(results, visible_gains(results.gains))
    print("", *lines, sep="\n")


def run_demo(options: argparse.Namespace) -> int:
    """Run the demo study and write its report; by default with a worker for every core."""
    from analysis.report import report
    from harness.study.device import cores

    if options.workers is None:
        options.workers = cores()
    study = Study("demo", data=options.data, store=options.store)
    code = train(study, options)
    out = Path(options.out or "results/demo")
    with Steps(quiet=options.quiet) as steps:
        written = report(study.store, study.manifest(), out, progress=steps.show)
    if not options.json:
        print("", *written.sentences, "", sep="\n")
        print(f"report: {written.page}; tables and figures beside it, and report.html to look around in")
        print_next("power", "demo", *places(options))
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
    engine = getattr(options, "engine", "local")
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
    with Progress(len(plan.cells), quiet=options.quiet) as progress:
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
        _print_report(report, plan.missing)
        print_warnings(plan)
    return 0 if report.is_complete else 1


def _print_report(report: GridReport, missing: dict[str, str]) -> None:
    print(f"done     {len(report.done)} trained, {len(report.stored)} were in the store")
    print(f"failed   {len(report.failed)}")
    for cell, reason in report.failed:
        print(f"  {cell.label}: {reason}")
    print(f"not run  {len(report.not_run)}")
    for cell, reason in report.not_run:
        print(f"  {cell.label}: {reason}")
    print_missing(missing)


def _report_json(report: GridReport) -> dict[str, object]:
    def rows(pairs: list[tuple[Cell, str]]) -> list[dict[str, str]]:
        return [{"cell": cell.label, "key": cell.key, "reason": reason} for cell, reason in pairs]

    keys = {"stored": [c.key for c in report.stored], "done": [c.key for c in report.done]}
    return {**keys, "failed": rows(report.failed), "not_run": rows(report.not_run)}
