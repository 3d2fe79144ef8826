"""What can be typed: commands, their options, and an example each."""

from __future__ import annotations

import argparse
from importlib import metadata

from harness.cli.options import best_option, change_options, device_option, leaf_of, registry_option, splits_option
from harness.cli.parser_before import add_before, dry_run_option, smoke_option, why_option
from harness.cli.parser_compare import add_weighing
from harness.cli.parser_deposit import add_deposit
from harness.cli.parser_flips import add_flips
from harness.cli.parser_paper import add_paper
from harness.cli.parser_results import add_results
from harness.cli.parser_score import add_uses
from harness.cli.parser_store import add_store
from harness.cli.parser_watch import add_watching
from harness.engines.cluster import ENGINES
from harness.study.device import cores
from tasks.task import KINDS


def parser() -> argparse.ArgumentParser:
    """The whole command line; every leaf has ``command``, a function from options to an exit code."""
    top = argparse.ArgumentParser(
        prog="empathy-transfer",
        description="Transfer studies between empathy tasks: train adapters, stack them, test the gains.",
        epilog="Exit codes: 0 all done, 1 some cells failed, 2 bad input, 130 interrupted (state saved).",
    )
    top.add_argument("--version", action="version", version=f"empathy-transfer {metadata.version('empathy-transfer')}")
    nouns = top.add_subparsers(required=True, metavar="COMMAND")
    _add_tasks(nouns)
    _add_data(nouns)
    _add_ratings(nouns)
    _add_study(nouns)
    _add_runs(nouns)
    add_before(nouns)
    add_watching(nouns)
    add_store(nouns)
    add_results(nouns)
    add_flips(nouns)
    add_weighing(nouns)
    add_paper(nouns)
    add_uses(nouns)
    add_deposit(nouns)
    return top


def _add_tasks(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    tasks = nouns.add_parser("tasks", help="the registry of tasks").add_subparsers(required=True, metavar="COMMAND")
    listing = leaf_of(tasks, "list", "List the tasks of the registry.", "tasks list --theme direct", "tasks:list_tasks")
    for name in ("theme", "family", "language"):
        listing.add_argument(f"--{name}", help=f"only tasks of this {name}")
    show = leaf_of(
        tasks,
        "show",
        "Show one task: its entry, its ratings and, if its files are there, its rows.",
        "tasks show epitome_er",
        "tasks:show_task",
    )
    show.add_argument("id", metavar="ID")
    leaf_of(tasks, "fields", "Print what every field of an entry means.", "tasks fields", "tasks:show_fields")
    for leaf in (listing, show):
        registry_option(leaf)
    _add_new(tasks)
    _add_checks(tasks)


def _add_new(tasks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    new = leaf_of(
        tasks,
        "new",
        "Make an entry for a file or a dataset of the hub, check it and train it for some seconds.",
        "tasks new replies.csv --text reply --label kind",
        "new:new_task",
    )
    new.add_argument(
        "file",
        metavar="FILE",
        help="csv, tsv, json, jsonl, parquet or arrow; or hub:OWNER/NAME of the Hugging Face hub",
    )
    new.add_argument("--id", default="", help="default: the file's name")
    for name in ("text", "label", "context", "group"):
        more = "; several with commas for 0/1 columns, or annotators" if name == "label" else ""
        new.add_argument(f"--{name}", metavar="COLUMN", default="", help=f"default: guessed from the columns{more}")
    new.add_argument("--kind", choices=KINDS, default="", help="default: guessed from the labels")
    new.add_argument("--split", metavar="SPLIT", default="", help="clean (default), or cv2 to cv20: folds for few rows")
    new.add_argument("--language", metavar="CODE", default="", help="of the texts, e.g. zh (default: en)")
    new.add_argument("--backbone", metavar="NAME", default="random-tiny", help="of the dry training")
    new.add_argument("--skip-training", action="store_true", help="no dry training")
    registry_option(new)


def _add_checks(tasks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = leaf_of(
        tasks,
        "check",
        "Check one task or all: balance, lengths, repetitions, floors, and which test items are training material.",
        "tasks check epitome_er --data data",
        "tasks:check_tasks",
    )
    check.add_argument("id", metavar="ID", nargs="?", help="default: every task whose files are there")
    check.add_argument("--backbone", metavar="NAME", help="also count this backbone's tokens, and the rows it cuts")
    registry_option(check)
    audit = leaf_of(
        tasks,
        "audit",
        "Compare rows, label shares and splits with those that the paper prints.",
        "tasks audit --data data --splits ids",
        "tasks:audit_tasks",
    )
    for leaf in (check, audit):
        splits_option(leaf)


def _add_data(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    data = nouns.add_parser("data", help="the raw files").add_subparsers(required=True, metavar="COMMAND")
    status = leaf_of(
        data,
        "status",
        "Show which raw files are here and verified, their licences, and how to get the rest.",
        "data status --data data",
        "data:show_status",
    )
    fetch = leaf_of(
        data,
        "fetch",
        "Download the raw files that may be downloaded; say of the rest whom to ask.",
        "data fetch epitome --data data",
        "data:fetch_data",
    )
    for leaf in (status, fetch):
        leaf.add_argument("id", metavar="ID", nargs="*", help="datasets or tasks (default: all)")
        registry_option(leaf)


def _add_ratings(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    ratings = nouns.add_parser("ratings", help="human ratings of the tasks").add_subparsers(
        required=True, metavar="COMMAND"
    )
    sheet = leaf_of(
        ratings,
        "sheet",
        "Write a form on which a new rater rates a study's tasks, with the criteria.",
        "ratings sheet muddy-waters --rater C",
        "ratings:write_sheet",
    )
    sheet.add_argument("study", metavar="STUDY", help="a built-in study or a .toml file")
    sheet.add_argument("--rater", metavar="NAME", default="", help="name or letter of the rater, filled in already")
    registry_option(sheet)


def _add_study(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    study = nouns.add_parser("study", help="the studies").add_subparsers(required=True, metavar="COMMAND")
    leaf_of(study, "list", "List the built-in studies.", "study list", "study:list_studies")
    show = leaf_of(
        study,
        "show",
        "Show a study as resolved, with where each training setting comes from.",
        "study show demo",
        "study:show_study",
    )
    _study_options(show)
    best_option(show)


def _study_options(leaf: argparse.ArgumentParser) -> None:
    leaf.add_argument("study", metavar="STUDY", help="a built-in study or a .toml file")
    change_options(leaf)


def _run_options(leaf: argparse.ArgumentParser) -> None:
    leaf.add_argument(
        "--only-target", metavar="ID", action="append", default=[], help="only this target's column (repeatable)"
    )
    leaf.add_argument("--workers", metavar="N", type=int, help="packs at a time, each in its own process (default: 1)")
    leaf.add_argument("--threads", metavar="N", type=int, help="threads of each process (default: its share of cores)")


def _add_runs(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    plan = leaf_of(
        nouns, "plan", "Show which cells a study has and which of them are stored.", "plan demo", "plan:show_plan"
    )
    run = leaf_of(nouns, "run", "Train what the store does not have.", "run real-small --data data", "run:run_study")
    retry = leaf_of(
        nouns,
        "retry",
        "Train only what has failed, and what was not run on its account.",
        "retry real-small --failed --data data",
        "jobs:retry_study",
    )
    retry.add_argument("--failed", action="store_true", required=True, help="the cells that failed when last tried")
    for leaf in (plan, run, retry):
        _study_options(leaf)
        best_option(leaf)
        _run_options(leaf)
        splits_option(leaf)
    why_option(plan)
    dry_run_option(run)
    for leaf in (run, retry):
        smoke_option(leaf)
        device_option(leaf)
        leaf.add_argument(
            "--engine",
            choices=ENGINES,
            default="local",
            help="what runs packs: this machine, or jobs of Slurm or Ray (default: local)",
        )
    _add_search(nouns)
    demo = leaf_of(nouns, "demo", "Run the demo study on synthetic data and write its report.", "demo", "run:run_demo")
    _run_options(demo)
    device_option(demo)
    demo.set_defaults(workers=cores())


def _add_search(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    search = leaf_of(
        nouns,
        "search",
        "Search a task's learning rate, batch size, epochs and adapter method, on validation rows only.",
        "search real-small --task epitome_er --data data",
        "search:run_search",
    )
    _study_options(search)
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
