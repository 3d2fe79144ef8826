"""``ratings``: forms on which people rate the tasks of a study."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from adapters_store.disk import atomic, write_text
from harness.cli.options import leaf_of, registry_option
from harness.cli.terminal import print_json
from tasks.errors import BadInput
from tasks.ratings import constructs, form
from tasks.registry import Registry
from tasks.task import Task


def add_ratings(ratings: argparse.ArgumentParser) -> None:
    """Add ``sheet``."""
    sheet = leaf_of(
        ratings.add_subparsers(required=True, metavar="COMMAND"),
        "sheet",
        "Write a form on which a new rater rates a study's tasks, with the criteria.",
        "ratings sheet muddy-waters --rater C",
        write_sheet,
    )
    sheet.add_argument("study", metavar="STUDY", help="a built-in study or a .toml file")
    sheet.add_argument("--rater", metavar="NAME", default="", help="name or letter of the rater, filled in already")
    registry_option(sheet)


def write_sheet(options: argparse.Namespace) -> int:
    """Write a rating form and a page of its criteria, and print where they are; nothing is overwritten."""
    from harness.study.file import load_study

    study = load_study(options.study)
    registry = Registry.load([Path(folder) for folder in (*study.registry, *options.registry)])
    tasks = [registry.task(name) for name in study.tasks]
    out = Path(options.out or f"results/{study.name}")
    sheet, page = out / f"{'-'.join(['ratings', *options.rater.split()])}.csv", out / "ratings-criteria.md"
    if sheet.exists():
        raise BadInput(f"{sheet} exists and may hold ratings; move it away or give another --out or --rater")
    rows = form(tasks, options.rater)
    write_text(page, _criteria(tasks))
    with atomic(sheet) as part, part.open("w", encoding="utf-8-sig", newline="") as handle:  # marked, for spreadsheets
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    if options.json:
        print_json({"form": str(sheet), "criteria": str(page), "rows": len(rows)})
    else:
        print(f"{sheet}\n{page}")
    return 0


def _criteria(tasks: list[Task]) -> str:
    """The page that a rater reads first."""
    lines = [
        "# How to rate",
        "",
        f"Rate every one of the {len(tasks)} tasks on every construct below, from the papers that present their data. "
        "Write a number into the column `value`; leave it empty where you cannot tell. Rate alone, and without "
        "looking at the ratings of others.",
    ]
    for construct in constructs().values():
        lines += [
            "",
            f"## {construct.title} ({construct.minimum:g} to {construct.maximum:g})",
            "",
            construct.description,
            "",
        ]
        lines += [f"- {point}: {meaning}." for point, meaning in construct.criteria.items()]
    lines += ["", "## Tasks", ""]
    lines += [
        f"- `{task.id}` ({task.title}): {task.description or 'see its entry'} {task.dataset.url}" for task in tasks
    ]
    return "\n".join(lines) + "\n"
