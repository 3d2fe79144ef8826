"""``tasks list``, ``show``, ``fields``, ``check`` and ``audit``: the tasks of the registry."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from harness.cli.options import Leaves, add_options, leaf_of, out_option
from harness.cli.terminal import Steps, print_json, print_rows
from tasks.errors import BadInput, MissingData
from tasks.fields import field_page, field_rows
from tasks.ratings import rating_files, ratings
from tasks.readers.published import wassa_people
from tasks.readers.rows import data_path, uses_fallback
from tasks.registry import REFERENCE, Registry
from tasks.task import Task, classes_of

if TYPE_CHECKING:
    from analysis.results.published import Verdict
    from tasks.splits.contamination import Contact, Texts
    from tasks.splits.loading import Splits

PARTS = ("train", "validation", "test")


def add(leaves: Leaves) -> None:
    """Add ``list``, ``show``, ``fields``, ``check`` and ``audit``."""
    check = leaf_of(
        leaves,
        "check [TASK]",
        "Check one task or all: balance, lengths, repetitions, floors, and which test items are training material.",
        "tasks check epitome_er --data data",
        check_tasks,
        "data store json quiet",
    )
    check.add_argument("id", metavar="TASK", nargs="?", help="default: every task whose files are there")
    check.add_argument("--backbone", metavar="NAME", help="also count this backbone's tokens, and the rows it cuts")
    out_option(check, "folder for tables and heatmaps (default: results/check)")
    add_options(check, "registry")
    audit = leaf_of(
        leaves,
        "audit",
        "Compare rows, label shares and splits with those that the paper prints.",
        "tasks audit --data data --splits ids",
        audit_tasks,
        "data json",
    )
    for leaf in (check, audit):
        add_options(leaf, "splits")
    listing = leaf_of(
        leaves, "list", "List the tasks of the registry.", "tasks list --theme direct", list_tasks, "data store json"
    )
    for name in ("theme", "family", "language"):
        listing.add_argument(f"--{name}", help=f"only tasks of this {name}")
    listing.add_argument("--long", action="store_true", help="also rows, groups, and what words alone score (seconds)")
    show = leaf_of(
        leaves,
        "show TASK",
        "Show one task: its entry, its ratings and, if its files are there, its rows.",
        "tasks show epitome_er",
        show_task,
        "data store json",
    )
    show.add_argument("id", metavar="TASK")
    leaf_of(leaves, "fields", "Print what every field of an entry means.", "tasks fields", show_fields, "json")
    for leaf in (listing, show):
        add_options(leaf, "registry")


def list_tasks(options: argparse.Namespace) -> int:
    """Print one row per task that passes the filters."""
    from tasks.splits.loading import load

    registry = Registry.load([Path(folder) for folder in options.registry])
    rows = [
        _list_row(task, Path(options.data))
        for task in registry.tasks.values()
        if options.theme in (None, task.theme)
        and options.family in (None, task.dataset.family)
        and options.language in (None, task.dataset.language)
    ]
    if options.long:
        with Steps(quiet=options.json) as steps:
            for number, row in enumerate(rows, start=1):
                try:
                    row |= _learnable(load(registry.task(str(row["task"])), Path(options.data)), options)
                except BadInput:  # its files are not here
                    row |= dict.fromkeys(("rows", "test groups", "majority", "words"), "-")
                steps.show(number, len(rows), "fitting words")
    print_rows(rows, as_json=options.json, spare=("language", "title", "metric", "family"))
    return 0


def show_task(options: argparse.Namespace) -> int:
    """Print one task's entry, ratings and, where the files are there, its splits."""
    from tasks.splits.loading import load

    task = Registry.load([Path(folder) for folder in options.registry]).task(options.id)
    rated = [rating for rating in ratings(rating_files(options.registry)) if rating.task == task.id]
    shown = _entry(task) | {"ratings": {f"{rating.construct}/{rating.rater}": rating.value for rating in rated}}
    try:
        splits = load(task, Path(options.data))
        shown["rows"], shown["without an adapter"] = _rows(splits), _learnable(splits, options)
    except MissingData as reason:
        shown["rows"] = f"data missing: {reason}"
    if options.json:
        print_json(shown)
    else:
        for name, value in shown.items():
            print(f"{name:18} {_shown_value(value)}")
    return 0


def show_fields(options: argparse.Namespace) -> int:
    """Print the reference of the fields of an entry, as in the documentation."""
    if options.json:
        print_json(field_rows(REFERENCE))
    else:
        print(field_page(REFERENCE), end="")
    return 0


def _list_row(task: Task, data: Path) -> dict[str, object]:
    is_here = all(data_path(task, name, data).is_file() for name in task.files)
    return {
        "task": task.id,
        "title": task.title,
        "theme": task.theme or "-",
        "family": task.dataset.family,
        "language": task.dataset.language,
        "kind": task.label.kind,
        "classes": len(task.label.classes) or "-",
        "metric": task.metric,
        "data": "here" if is_here else "fallback" if uses_fallback(task, data) else "data missing",
    }


def _learnable(splits: Splits, options: argparse.Namespace) -> dict[str, object]:
    """How much there is to learn from, and what is reached without an adapter: a floor, and a linear model of words."""
    from harness.study.measures import words_of
    from tasks.quality import floor_of

    return {
        "rows": sum(len(getattr(splits, name)) for name in splits.names),
        "test groups": len({row.group for row in splits.test}),
        "majority": f"{floor_of(splits):.3f}",
        "words": "undefined" if math.isnan(score := words_of(splits, Store(Path(options.store)))) else f"{score:.3f}",
    }


def _entry(task: Task) -> dict[str, object]:
    dataset = task.dataset
    return {
        "task": task.id,
        "title": task.title,
        "description": task.description,
        "dataset": f"{dataset.title} (version {dataset.version}, family {dataset.family})",
        "theme": task.theme,
        "label": {
            "column": task.label.column,
            "kind": task.label.kind,
            "classes": list(task.label.names or task.label.classes),
        },
        "metric": task.metric,
        "role": task.role,
        "split": task.split,
        "history": task.history,
        "truncation": task.truncation,
        "tags": task.tags,
        "class weights": task.class_weights,
        "training": dict(task.training),
        "licence": dataset.licence,
        "access": dataset.access,
        "entry": task.entry_file,
    }


def _rows(splits: Splits) -> dict[str, object]:
    import numpy as np

    from tasks.quality import conflicting

    shown: dict[str, object] = {name: len(getattr(splits, name)) for name in PARTS}
    shown["groups"] = {name: len({row.group for row in getattr(splits, name)}) for name in PARTS}
    everything = [row.label for name in splits.names for row in getattr(splits, name)]
    if splits.task.label.classes:
        counts = Counter(index for label in everything for index in classes_of(label))
        shown["balance"] = {
            name: counts[i] for i, name in enumerate(splits.task.label.names or splits.task.label.classes)
        }
    else:
        shown["mean"] = round(float(np.mean(everything)), 3)
    if (conflicts := conflicting(splits))["rows"]:
        shown["conflicting labels"] = f"{conflicts['rows']} rows of {conflicts['texts']} texts"
    return shown | {"warnings": list(splits.warnings)}


def _shown_value(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown_value(inner)}" for key, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# ``tasks check``: what is to be known of tasks before training, and what of their test items training has seen.


def check_tasks(options: argparse.Namespace) -> int:
    """Print facts about one task or all, and which test items are training material, clean and as published.

    Writes the counts as CSV into ``--out``, and those of all tasks as heatmaps, too; these are kept in the store.
    """
    from harness.cli.new import facts_of
    from tasks.splits.contamination import Texts, joined_families
    from tasks.splits.loading import without_collection

    registry = Registry.load([Path(folder) for folder in options.registry])
    chosen = [registry.task(options.id)] if options.id else list(registry.tasks.values())
    with Steps(quiet=options.quiet) as steps, without_collection():
        splits, missing, broken = _load_splits(registry, options, steps)
        asked = [getattr(kind[options.id], name) for kind in splits.values() for name in PARTS] if options.id else None
        parts = [getattr(task_splits, name) for task_splits in splits["clean"].values() for name in PARTS]
        texts = Texts(parts, asked, lambda done, of: steps.show(100 * done // of, 100, "comparing texts, percent"))
    data = Path(options.data)
    facts = []
    for clean in (splits["clean"][task.id] for task in chosen if task.id in splits["clean"]):
        people = wassa_people(clean.task, data) if clean.task.reader.startswith("wassa_") else {}
        tokens = None
        if options.backbone:
            from harness.training.inputs import token_lengths

            tokens = token_lengths(clean, options.backbone)
        facts.append(facts_of(clean, people, texts) | {"tokens": tokens})
    contacts = _contacts(splits, texts, options)
    if options.json:
        rows = [{"splits": kind} | contact._asdict() for kind, pairs in contacts.items() for contact in pairs]
        counts = {"tasks": facts, "contamination": rows, "left_out": texts.left_out._asdict()}
        print_json({**counts, "missing": missing, "broken": broken})
        return 2 if broken else 0
    _print_facts(facts, is_single=bool(options.id))
    for kind, pairs in contacts.items():
        _print_contacts(kind, pairs)
    contaminated = [(pair.target, pair.intermediate) for pair in contacts["clean"] if pair.is_contaminated]
    for line in joined_families(contaminated, splits["clean"]):
        print(line)
    if any(texts.left_out):
        print(f"\nnear duplicates: {texts.left_out}")
    for path in _write_contacts(contacts, Path(options.out or "results/check"), options.id):
        print(path)
    for reason in broken.values():
        print(f"left out, since it cannot be used: {reason}", file=sys.stderr)
    return 2 if broken else 0


def _load_splits(
    registry: Registry, options: argparse.Namespace, steps: Steps
) -> tuple[dict[str, dict[str, Splits]], dict[str, str], dict[str, str]]:
    """Splits of both kinds by task, and why a task has none: no files, or files or an entry that cannot be used.

    BadInput where that is the one asked for.
    """
    from tasks.splits.loading import load_kinds
    from tasks.splits.protocol import KINDS

    ids = Path(options.splits) if options.splits else None
    splits: dict[str, dict[str, Splits]] = {kind: {} for kind in KINDS}
    missing: dict[str, str] = {}
    broken: dict[str, str] = {}
    tasks = sorted(registry.tasks.values(), key=lambda task: task.id != options.id)  # the one asked for comes first
    for number, task in enumerate(tasks, start=1):
        try:
            for kind, task_splits in load_kinds(task, Path(options.data), ids, hashed=not options.id).items():
                splits[kind][task.id] = task_splits
        except BadInput as reason:
            if task.id == options.id:
                raise BadInput(str(reason)) from None
            (missing if isinstance(reason, MissingData) else broken)[task.id] = str(reason)
        steps.show(number, len(tasks), "reading tasks")
    in_order = {kind: {name: named[name] for name in registry.tasks if name in named} for kind, named in splits.items()}
    return in_order, missing, broken


def _contacts(
    splits: Mapping[str, Mapping[str, Splits]], texts: Texts, options: argparse.Namespace
) -> dict[str, list[Contact]]:
    """Contacts of either kind of splits: of all pairs of tasks, kept in the store, or of those with one task."""
    from harness.study.measures import contacts_of
    from tasks.splits.contamination import contacts

    if not options.id:
        store = Store(Path(options.store))
        return {kind: contacts_of(named, store, texts) for kind, named in splits.items()}
    pairs = [(target, other) for target, other in product(splits["clean"], repeat=2) if options.id in (target, other)]
    return {kind: contacts(named, pairs, texts) for kind, named in splits.items()}


def _print_facts(facts: Sequence[Mapping[str, Any]], *, is_single: bool) -> None:
    if not is_single:
        print_rows([_check_row(task_facts) for task_facts in facts], as_json=False)
        print("\nrepeats: test rows with the context and text, the text, or nearly the text of a training row")
        print("gain: smallest true gain in points that the test rows show at best, in four of five repeats")
        return
    for name, value in facts[0].items():
        if value is None:  # nobody's people, no backbone to count tokens by
            continue
        if isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values()):
            for inner, numbers in value.items():
                print(f"{name:19} {inner:24} {_text(numbers)}")
        else:
            print(f"{name:19} {_text(value)}")


def _check_row(facts: Mapping[str, Any]) -> dict[str, object]:
    repeated, least, people = facts["repeated"]["test in train"], facts["smallest_at_best"], facts["people"]
    words = facts["words_with_context"]["train"]
    return {
        "task": facts["task"],
        **facts["rows"],
        "groups": facts["groups"]["test"],
        "words (median, 95 %)": f"{words['median']:.0f}, {words['p95']:.0f}",
        "repeats": "/".join(map(str, repeated.values())),
        "people shared": f"{people['people']} of {people['test_people']}" if people else "-",
        "floor": f"{facts['floor']:.3f}",
        "gain": "-" if least is None else f"{least:.1f}",
        "warnings": len(facts["warnings"]),
    }


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_contacts(kind: str, contacts: Sequence[Contact]) -> None:
    """Print the contaminated pairs, pairs with equal counts on one line."""
    from tasks.splits.contamination import Contact

    trained: dict[tuple[object, ...], list[str]] = {}
    for contact in contacts:
        if contact.is_contaminated:
            trained.setdefault((contact.target, *contact[2:]), []).append(contact.intermediate)
    targets: dict[tuple[object, ...], list[str]] = {}
    for (target, *counts), intermediates in trained.items():
        targets.setdefault((", ".join(intermediates), *counts), []).append(str(target))
    print(f"\n{kind} splits: test items that are training material")
    if not targets:
        print("none, neither by row, group nor context and text; what chance repeats is in the file below")
        return
    lines = [_line(Contact(", ".join(intermediates), *key)) for key, intermediates in targets.items()]  # type: ignore[arg-type]
    print_rows(lines, as_json=False)


def _line(contact: Contact) -> dict[str, object]:
    return {
        "target": contact.target,
        "rows": _share(contact.same_row, contact.n_test),
        "by group": _share(contact.same_group, contact.n_test),
        "groups": _share(contact.groups_in_train, contact.n_groups),
        "context and text": _share(contact.same_pair, contact.n_test),
        "text": _share(contact.same_text, contact.n_test),
        "nearly": _share(contact.near_text, contact.n_long),
        "in training data of": contact.intermediate,
    }


def _share(count: int, of: int) -> str:
    return f"{count} of {of} ({100 * count / max(of, 1):.1f} %)" if count else "0"


def _write_contacts(contacts: Mapping[str, Sequence[Contact]], out: Path, task: str | None) -> list[Path]:
    """Write contamination.csv and a heatmap of either kind of splits, or a CSV of one task; the files."""
    import pandas as pd

    from analysis.gains.cells import frame_of
    from analysis.tables import write_csv

    frames = {kind: frame_of(pairs) for kind, pairs in contacts.items()}
    table = pd.concat([frame.assign(splits=kind) for kind, frame in frames.items()])
    if task:
        write_csv(table, out / f"contamination-{task}")
        return [out / f"contamination-{task}.csv"]
    from analysis.figures.heatmaps import write_map

    write_csv(table, out / "contamination")
    heatmaps = [
        path for kind, frame in frames.items() for path in write_map(frame, out / f"contamination-{kind}", kind)
    ]
    return [out / "contamination.csv", *heatmaps]


# ``tasks audit``: our rows against the numbers that the paper prints.


def audit_tasks(options: argparse.Namespace) -> int:
    """Print one line per task of the paper: what is equal, and what differs by how much and why."""
    from analysis.results.published import published_task, verdict_of

    registry = Registry.load()
    ids = Path(options.splits) if options.splits else None
    verdicts: list[tuple[Verdict, dict[str, object]]] = []
    for task in registry.tasks.values():
        published = published_task(task.id, task.dataset.id)
        if published is not None:
            verdicts.append(verdict_of(task, published, Path(options.data), ids))
    if options.json:
        print_json([dataclasses.asdict(verdict) | sizes for verdict, sizes in verdicts])
        return 0
    rows: list[dict[str, object]] = [
        {
            "task": verdict.task,
            "verdict": verdict.verdict,
            "rows": "-" if verdict.rows is None else f"{verdict.rows:,}",
            "published": f"{verdict.published_rows:,}",
            "columns": ", ".join(verdict.columns) or "-",
            "furthest from print": verdict.furthest or "-",
            **sizes,
        }
        for verdict, sizes in verdicts
    ]
    print_rows(rows, as_json=False)
    print("\n~ drawn with the published shares, because the ids are not known")
    for note in dict.fromkeys(
        verdict.note for verdict, _ in verdicts if verdict.note and verdict.verdict != "data missing"
    ):
        names = ", ".join(verdict.task for verdict, _ in verdicts if verdict.note == note)
        print(f"\n{names}: {note}")
    return 0
