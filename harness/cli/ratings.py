"""``tasks sheet`` and ``ask``: forms on which people rate the tasks of a study, and the same asked of a model."""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adapters_store.disk import atomic, write_text
from harness.cli.options import Leaves, add_options, leaf_of, out_option, print_next, repeatable
from harness.cli.terminal import print_json, print_rows
from tasks.errors import BadInput
from tasks.plain_text import counted, nearest
from tasks.ratings import constructs, criteria_page, form, rating_files, ratings, ratings_in
from tasks.registry import Registry
from tasks.task import Task

if TYPE_CHECKING:
    import pandas as pd


def add(leaves: Leaves) -> None:
    """Add ``sheet`` and ``ask``; options of calls are called as the settings of a prompted system."""
    sheet = leaf_of(
        leaves,
        "sheet STUDY",
        "Write a form on which a new rater rates a study's tasks, with the criteria.",
        "tasks sheet muddy-waters --rater C",
        write_sheet,
        "json",
    )
    sheet.add_argument("study", metavar="STUDY", help="a built-in study or a .toml file")
    sheet.add_argument("--rater", metavar="NAME", default="", help="name or letter of the rater, filled in already")
    out_option(sheet, "folder for the form and its criteria (default: results/STUDY)")
    add_options(sheet, "registry")
    ask = leaf_of(
        leaves,
        "ask [STUDY]",
        "Ask a model to rate tasks by the criteria of the sheet, and say how it agrees with people.",
        "tasks ask real-small --model gpt-4 --url https://api.openai.com/v1 --dry-run; "
        "the key comes from the environment: EMPATHY_API_KEY, or OPENAI_API_KEY for OpenAI",
        ask_model,
        "store json",
    )
    ask.add_argument("study", metavar="STUDY", nargs="?", help="whose tasks are rated (default: all of the registry)")
    add_options(ask, "registry")
    ask.add_argument("--model", required=True, help="its name there, a dated one where there is one")
    ask.add_argument("--url", default="", help="of an OpenAI-compatible server (default: EMPATHY_SERVER)")
    ask.add_argument("--limit", default="max_tokens", help="field of that number: max_tokens or max_completion_tokens")
    for name, metavar, default, text in NUMBERS:
        ask.add_argument(f"--{name}", metavar=metavar, type=type(default), default=default, help=text)
    repeatable(ask, "--allow", "TASK", "send this private task's description")
    ask.add_argument("--dry-run", action="store_true", help="say what would leave, to whom, at what price; ask nothing")
    out_option(ask, "file to write (default: results/STUDY/ratings-MODEL.csv)", "FILE")


NUMBERS = (
    ("repeats", "N", 1, "how often everything is asked (default: 1)"),
    ("temperature", "T", 0.0, "from 0, the default, to 2"),
    ("answer-tokens", "N", 16, "most tokens of an answer (default: 16)"),
    ("price-in", "DOLLARS", 0.0, "per 1,000 tokens in"),
    ("price-out", "DOLLARS", 0.0, "per 1,000 tokens out"),
    ("most-cost", "DOLLARS", 0.0, "most that the model may cost in this store"),
    ("in-flight", "N", 32, "calls at a time (default: 32)"),
    ("timeout", "SECONDS", 60.0, "for an answer (default: 60)"),
)


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
    write_text(page, criteria_page(tasks))
    with atomic(sheet) as part, part.open("w", encoding="utf-8-sig", newline="") as handle:  # marked, for spreadsheets
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    if options.json:
        print_json({"form": str(sheet), "criteria": str(page), "rows": len(rows)})
    else:
        print(f"{sheet}\n{page}")
        if bare := ", ".join(task.id for task in tasks if not task.description):
            print(f"raters see no more than the id of {bare}: write `description` in the entry")
    return 0


# ``tasks ask``: a model rates, through the client, the cap and the folder of answers that prompted systems have.


def ask_model(options: argparse.Namespace) -> int:
    """Ask for what is not kept, write a file of ratings, and print how the model agrees with people."""
    from analysis.ratings.agreement import Beside, agreements, frame_of, repeats
    from harness.systems.prompted.asking import CallSettings
    from harness.systems.prompted.rater import ask, items, missing
    from harness.systems.system import answers_beside
    from tasks.ratings import readings_in, rows_of

    given = {field.name: getattr(options, field.name) for field in fields(CallSettings)}
    try:
        settings = CallSettings(**{**given, "allow": tuple(options.allow)})
    except ValueError as problem:
        raise BadInput(f"tasks ask: {problem}") from None
    rateable = _rateable(options)
    wanted = items(rateable.tasks, constructs(), settings.allow)
    model = re.sub(r"[^A-Za-z0-9._-]+", "-", options.model).strip("-.") or "model"
    out = Path(options.out or f"results/{rateable.name}/ratings-{model}.csv")
    answers = answers_beside(Path(options.store))
    if options.dry_run:
        from harness.preflight.estimate import price, whom
        from harness.systems.prompted.rater import SENT, outlay
        from harness.systems.prompted.server import is_this_machine

        costs, stays = outlay(wanted, settings, answers), is_this_machine(settings.host)
        tasks = len({item.task.id for item in wanted})
        if options.json:
            print_json({"tasks": tasks, "host": settings.host, "stays": stays, "sent": SENT, **asdict(costs)})
        elif not costs.calls:
            print("nothing is sent, every answer is kept")
        else:
            print(
                f"descriptions of {counted(tasks, 'task')} in {counted(costs.calls, 'call')}, about {costs.tokens:,}"
                f" tokens, go to {whom(settings.host, stays=stays)}; {price(costs.dollars, settings.most_cost)}"
            )
            print(f"sent: {SENT}")
        return 0
    if out.exists():
        raise BadInput(f"{out} exists and may hold ratings; move it away or give another --out")
    if not settings.address:
        raise BadInput(f"no server to ask {settings.model!r}: give --url, or set the variable EMPATHY_SERVER")
    others = ratings(rating_files(rateable.folders))  # before anything is paid: a file of theirs may be damaged
    rated = ask(wanted, settings, answers)
    gaps = missing(rated.readings, constructs())
    if all(reading.value is None for reading in rated.readings):
        raise BadInput(
            f"no answer of {settings.model!r} is a single whole number on the scale, so there are no ratings to write;"
            f" try another model, or more --answer-tokens (answers are kept in {answers})"
        )
    rows = rows_of(rated.readings, rated.rater)
    with atomic(out) as part, part.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    # how they agree with those of others who have rated these tasks, and their readings among them
    own = Beside.of(ratings_in([out]), readings_in(out))
    asked = set(own.ratings.task)
    people = [row for row in others if row.task in asked and row.rater != rated.rater]
    agreed, repeated = agreements(own.ratings, frame_of(people)), repeats(own.readings)
    if options.json:
        from analysis.sections.importance import rows as records_of

        facts = {"ratings": str(out), "rater": rated.rater, "calls": rated.calls, **rated.cost, "missing": gaps}
        print_json(facts | {"agreement": records_of(agreed), "repeats": records_of(repeated)})
        return 0
    tokens, money = rated.cost["tokens_in"] + rated.cost["tokens_out"], rated.cost.get("money")
    paid = "" if money is None else f", {money:.2g} dollars"
    print(
        out,
        f"{rated.rater} rated {counted(len(rateable.tasks), 'task')} on {counted(len(constructs()), 'construct')}:"
        f" {counted(rated.calls, 'answer')}, {tokens:,.0f} tokens{paid}, paid for now or earlier",
        *gaps,
        sep="\n",
    )
    _print_agreement(agreed, repeated)
    print_next("study", "analyze", options.study or "published", "--model-ratings", str(out))
    return 0


class _Rateable(NamedTuple):
    """What is to be rated: the tasks of a study or of the registry, and the folders that may hold ratings of them."""

    name: str
    tasks: list[Task]
    folders: list[str]


def _rateable(options: argparse.Namespace) -> _Rateable:
    from harness.study.file import load_study

    study = load_study(options.study) if options.study else None
    folders = [*(study.registry if study else ()), *options.registry]
    registry = Registry.load([Path(folder) for folder in folders])
    names = study.tasks if study else list(registry.tasks)
    for name in options.allow:
        if name not in names:
            raise BadInput(f"--allow {name}: no such task is rated{nearest(name, names) or '; leave it out'}")
    return _Rateable(study.name if study else "registry", [registry.task(name) for name in names], folders)


def _print_agreement(agreed: pd.DataFrame, repeated: pd.DataFrame) -> None:
    """Tables of agreement with others and from run to run, with 95 % intervals over tasks."""
    from analysis.tables import interval, number, percent

    pairs = [
        {
            **_what(row, f"{row['rater']}, {row['other']}"),
            **_alpha(row),
            "Spearman": number(row["spearman"], 2),
            "Spearman 95 %": interval(row["low_spearman"], row["high_spearman"], 2),
        }
        for row in agreed.to_dict("records")
    ]
    runs = [
        {**_what(row, f"{row['n_readings']} readings"), **_alpha(row), "same number": percent(row["same"])}
        for row in repeated.to_dict("records")
    ]
    for head, lines in (("agreement over tasks:", pairs), ("from run to run:", runs)):
        if lines:
            print("", head, sep="\n")
            print_rows(lines, as_json=False)
    if not pairs:
        print("nobody else has rated these tasks")


def _what(row: Mapping[str, Any], whom: str) -> dict[str, object]:
    known = constructs().get(row["construct"])
    return {"construct": known.title if known else row["construct"], "of": whom, "tasks": row["n_tasks"]}


def _alpha(row: Mapping[str, Any]) -> dict[str, str]:
    from analysis.tables import interval, number

    ends = interval(row["low_interval"], row["high_interval"], 2)
    return {"alpha": number(row["alpha_interval"], 2), "alpha 95 %": ends}
