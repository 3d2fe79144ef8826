"""``tasks``: the tasks of the registry, an entry for a new file, and ratings of tasks by people and models."""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from adapters_store.disk import atomic, new_folder, write_text
from harness.api import dry_run
from harness.cli.options import BUILT_IN, Leaves, add_options, leaf_of, out_option, print_next, repeatable
from harness.cli.terminal import Steps, downloads, print_json, print_rows, verbatim
from tasks.columns import cells_of
from tasks.errors import BadEntry, BadInput, MissingData
from tasks.fields import field_page, field_rows
from tasks.plain_text import counted, nearest
from tasks.proposal import (
    ReadableFile,
    columns_text,
    entry_text,
    label_candidates,
    path_in_entry,
    proposal,
    read_file,
    remarks,
    task_id,
)
from tasks.ratings import constructs, criteria_page, form, of_no_task, rating_files, ratings, ratings_in
from tasks.readers.published import wassa_people
from tasks.readers.rows import data_path, refuse_folder, uses_fallback
from tasks.registry import REFERENCE, Registry, tasks_of
from tasks.task import ID_PATTERN, KINDS, Task, classes_of, why_taken

if TYPE_CHECKING:
    import pandas as pd

    from analysis.results.published import Verdict
    from tasks.splits.contamination import Contact, Texts
    from tasks.splits.loading import Splits

PARTS = ("train", "validation", "test")


def add(leaves: Leaves) -> None:
    """Add ``list``, ``show``, ``fields``, ``check`` and ``audit``."""
    check = leaf_of(leaves, "check [TASK]", check_tasks, "tasks check epitome_er --data data", "data store json quiet")
    check.add_argument("id", metavar="TASK", nargs="?", help="default: every task whose files are there")
    check.add_argument("--backbone", metavar="NAME", help="also count this backbone's tokens, and the rows it cuts")
    out_option(check, "folder for tables and heatmaps (default: results/check)")
    audit = leaf_of(leaves, "audit", audit_tasks, "tasks audit --data data --splits ids", "data json")
    add_options(check, "registry splits")
    add_options(audit, "splits")
    listing = leaf_of(leaves, "list", list_tasks, "tasks list --theme direct", "data store json")
    for name in ("theme", "family", "language"):
        listing.add_argument(f"--{name}", help=f"only tasks of this {name}")
    listing.add_argument("--long", action="store_true", help="also rows, groups, and what words alone score (seconds)")
    show = leaf_of(leaves, "show TASK", show_task, "tasks show epitome_er", "data store json")
    show.add_argument("id", metavar="TASK")
    leaf_of(leaves, "fields", show_fields, "tasks fields", "json")
    for leaf in (listing, show):
        add_options(leaf, "registry")


def list_tasks(options: argparse.Namespace) -> int:
    """List the tasks of the registry."""
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
                steps.step(number, len(rows), "fitting words")
    print_json(rows) if options.json else print_rows(rows, ("language", "title", "metric", "family"))
    return 0


def show_task(options: argparse.Namespace) -> int:
    """Show one task: its entry, its ratings and, if its files are there, its rows."""
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
            print(f"{name:18} {_text(value)}")
    return 0


def show_fields(options: argparse.Namespace) -> int:
    """Print what every field of an entry means."""
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
        **{name: getattr(task, name) for name in ("title", "description")},
        "dataset": f"{dataset.title} (version {dataset.version}, family {dataset.family})",
        "theme": task.theme,
        "label": {
            "column": task.label.column,
            "kind": task.label.kind,
            "classes": list(task.label.names or task.label.classes),
        },
        **{name: getattr(task, name) for name in ("metric", "role", "split", "history", "truncation", "tags")},
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


# ``tasks check``: what is to be known of tasks before training, and what of their test items training has seen.


def check_tasks(options: argparse.Namespace) -> int:
    """Check one task or all: balance, lengths, repetitions, floors, and which test items are training material.

    Writes the counts as CSV into ``--out``, and those of all tasks as heatmaps, too; these are kept in the store.
    """
    from tasks.splits.contamination import Texts, joined_families
    from tasks.splits.loading import without_collection

    registry = Registry.load([Path(folder) for folder in options.registry])
    chosen = [registry.task(options.id)] if options.id else list(registry.tasks.values())
    with Steps(quiet=options.quiet) as steps, without_collection():
        splits, missing, broken = _load_splits(registry, options, steps)
        focus = [getattr(kind[options.id], name) for kind in splits.values() for name in PARTS] if options.id else None
        parts = [getattr(task_splits, name) for task_splits in splits["clean"].values() for name in PARTS]
        texts = Texts(parts, focus, lambda done, of: steps.step(100 * done // of, 100, "comparing texts, percent"))
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
    for line in of_no_task(rating_files(options.registry), registry.tasks):
        print(f"warning: {line}")
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
        steps.step(number, len(tasks), "reading tasks")
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
        print_rows([_check_row(task_facts) for task_facts in facts])
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
    print_rows(lines)


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
    """Compare rows, label shares and splits with those that the paper prints."""
    from analysis.results.published import published_task, verdict_of

    registry = Registry.load()
    ids = Path(options.splits) if options.splits else None
    verdicts: list[tuple[Verdict, dict[str, object]]] = []
    for task in registry.tasks.values():
        published = published_task(task.id, task.dataset.id)
        if published is not None:
            verdicts.append(verdict_of(task, published, Path(options.data), ids))
    if options.json:
        print_json([asdict(verdict) | sizes for verdict, sizes in verdicts])
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
    print_rows(rows)
    print("\n~ drawn with the published shares, because the ids are not known")
    for note in dict.fromkeys(
        verdict.note for verdict, _ in verdicts if verdict.note and verdict.verdict != "data missing"
    ):
        names = ", ".join(verdict.task for verdict, _ in verdicts if verdict.note == note)
        print(f"\n{names}: {note}")
    return 0


def add_new(leaves: Leaves) -> None:
    """Add ``new``."""
    example = "tasks new replies.csv --text reply --label kind"
    new = leaf_of(leaves, "new FILE", new_task, example, "data json quiet")
    new.add_argument("file", metavar="FILE", help="csv, tsv, json, jsonl, parquet or arrow; or hub:OWNER/NAME of a hub")
    new.add_argument("--id", default="", help="default: the file's name")
    for name in ("text", "label", "context", "group"):
        more = "; several with commas for 0/1 columns, or annotators" if name == "label" else ""
        new.add_argument(f"--{name}", metavar="COLUMN", default="", help=f"default: guessed from the columns{more}")
    text = f"{', '.join(KINDS)} (default: guessed from the labels)"
    new.add_argument("--kind", metavar="KIND", choices=KINDS, default="", help=text)
    new.add_argument("--split", metavar="SPLIT", default="", help="clean (default), or cv2 to cv20: folds for few rows")
    new.add_argument("--language", metavar="CODE", default="", help="of the texts, e.g. zh (default: en)")
    new.add_argument("--backbone", metavar="NAME", default="random-tiny", help="of the dry training")
    new.add_argument("--skip-training", action="store_true", help="no dry training")
    add_options(new, "registry")


DEFAULT_REGISTRY = "my-tasks"
ASKED = ("id", "text", "label", "kind", "context", "group")
MANDATORY = ("text", "label", "kind")


def new_task(options: argparse.Namespace) -> int:
    """Make an entry for a file or a dataset of the hub, check it and train it for some seconds."""
    from tasks.splits.contamination import Texts, joined_families, sharing_texts
    from tasks.splits.loading import load, load_kinds

    folders = [Path(folder) for folder in options.registry or [DEFAULT_REGISTRY]]
    entry, doubts = _proposed_entry(folders[0], options)
    data, id = Path(options.data), str(entry["id"])
    if not ID_PATTERN.fullmatch(id):
        raise BadEntry(f"id {id!r} may hold only small letters, digits and _; give another --id")
    if reason := why_taken(id):
        raise BadEntry(f"id {id!r} {reason}; give another --id")
    file = folders[0] / f"{id}.toml"
    if file.exists():
        raise BadInput(f"{file} exists; give another --id, or edit that file")
    new_folder(folders[0])
    if id in Registry.load(folders).tasks:
        raise BadInput(f"there is a task {id!r} already; give another --id")
    with atomic(file) as draft:
        draft.write_text(entry_text(entry), encoding="utf-8")
        try:
            splits = load(tasks_of(draft)[0], data)
        except BadInput as problem:
            raise type(problem)(str(problem).replace(str(draft), str(file))) from None
    facts = facts_of(splits, {}, Texts([splits.train, splits.validation, splits.test]))
    if not options.json:
        verbatim(f"wrote {file}\n\n{file.read_text(encoding='utf-8')}")
        # what a person should know before training on these rows
        labels, repeating = (
            ", ".join(f"{name} {value:.4g}" for name, value in facts.get(part, {}).get("train", {}).items())
            for part in ("labels", "labels_before")
        )
        words, repeated, least = facts["words"]["train"], facts["repeated"]["test in train"], facts["smallest_at_best"]
        points = "none, with so few rows or groups" if least is None else f"{least:.1f} points"
        lines = [
            "rows      " + ", ".join(f"{name} {count}" for name, count in facts["rows"].items()),
            "groups    " + ", ".join(f"{name} {count}" for name, count in facts["groups"].items()),
            f"labels    {labels} (% of training rows, or moments)",
            *([f"before    {repeating} (with the rows that repeat a later split's text)"] if repeating else []),
            f"conflicts {facts['conflicting']['rows']} rows are equal in context and text and differ in their label",
            f"words     median {words['median']:g}, 95 % up to {words['p95']:g}, longest {words['max']:g}",
            f"repeated  {repeated['text']} test texts stand in training, {repeated['near']} nearly",
            f"floor     {facts['floor']:.3f}; smallest gain that the test rows can show at best: {points}",
            *(f"warning   {warning}" for warning in facts["warnings"]),
        ]
        print("\n".join(lines))
        verbatim(_hints(doubts))
    # what would split tasks of the registry like this one that share its texts, of those whose files are there
    every = {splits.task.id: splits}
    for task in Registry.load(folders).tasks.values():
        with suppress(BadInput):  # which ``tasks check`` says of each
            every.setdefault(task.id, load_kinds(task, data, hashed=False)["clean"])
    shared = joined_families(sharing_texts(every, splits.task.id), every)
    if not options.json:
        for line in shared:
            print(f"shared    texts of another task: {line}")
    result = None if options.skip_training else dry_run(splits.task.id, folders, data, options.backbone)
    if options.json:
        print_json({"entry": str(file), "check": facts, "look_at": doubts, "shared": shared, "dry_training": result})
        return 0
    if result:
        print(
            f"dry training: {result['n_train']} rows, {result['epochs']} epochs on {options.backbone} in "
            f"{result['seconds']:.0f} s. It trains; after so few steps its score means nothing"
        )
    print(f'\nin a study: tasks = ["{splits.task.id}", ...] and registry = {[str(folder) for folder in folders]}')
    return 0


def _proposed_entry(folder: Path, options: argparse.Namespace) -> tuple[dict[str, object], list[str]]:
    """Fields of the entry, from flags and columns, confirmed by whoever sits at a terminal; and what to look at."""
    from harness.raw.fetch import PREFIX

    if options.file.startswith(PREFIX):
        path, defaults = _hub_file(options)
    else:
        path = Path(options.file)
        refuse_folder(path)
        if not path.is_file():
            raise MissingData(f"no file {path}; give the file that holds the rows")
        defaults = {"id": task_id(path.stem), "files": [path_in_entry(path, folder, Path(options.data))]}
    table = read_file(path)
    fields_wanted: dict[str, object] = {name: getattr(options, name) for name in (*ASKED, "language", "split")}
    fields_wanted["label"] = _columns_named(options.label)
    fields_wanted = defaults | {name: value for name, value in fields_wanted.items() if value or name not in defaults}
    fields = proposal(table, fields_wanted)
    if sys.stdin.isatty() and sys.stdout.isatty() and not options.json:
        print(columns_text(table.raw.header, {name: cells_of(table.raw, name) for name in table.raw.header}))
        print(_hints(remarks(table, fields)))
        fields = _confirmed(table, fields, fields_wanted)
    for name in MANDATORY:
        if name not in fields:
            could = label_candidates(table) if name == "label" else ""
            others = f"{could} could be it" if could else f"the columns are {', '.join(table.raw.header)}"
            raise BadEntry(f"{path}: no column looks like the {name}, or several do; give --{name}; {others}")
    return fields, remarks(table, fields)


def _hints(lines: Sequence[str]) -> str:
    return "\n".join(f"look at   {line}" for line in lines)


def _hub_file(options: argparse.Namespace) -> tuple[Path, dict[str, object]]:
    """The first file of a dataset of the hub, after fetching all of them, and what an entry says of the dataset."""
    from harness.raw.fetch import fetch, hub_dataset

    dataset, data = hub_dataset(options.file), Path(options.data)
    with downloads(options.quiet) as watch:
        paths = [download.path for download, _ in fetch(dataset.downloads, data, watch)]
    fields = {
        "id": task_id(dataset.name.partition("/")[2]),
        "files": paths,
        "version": dataset.revision[:12],
        "licence": dataset.licence,
        "url": dataset.url,
        "downloads": [{k: v for k, v in asdict(download).items() if v} for download in dataset.downloads],
    }
    return data / paths[0], {name: value for name, value in fields.items() if value}


def _confirmed(table: ReadableFile, fields: Mapping[str, object], stated: Mapping[str, object]) -> dict[str, object]:
    """The fields after a person has answered each open question; Enter takes the proposal, - leaves a field out."""
    answers = dict(stated)
    for name in (field for field in ASKED if field == "id" or not stated[field]):
        proposed = fields.get(name, "")
        choices = f" ({', '.join(KINDS)})" if name == "kind" else ""
        given = input(f"{name}{choices} [{proposed or '-'}]: ").strip()
        answer: object = {"": proposed, "-": ""}.get(given, given)
        answers[name] = _columns_named(answer) if name == "label" and isinstance(answer, str) else answer
        if name in ("text", "label") and answers[name] != proposed:
            fields = proposal(table, answers)  # what follows from the column is that of this one
    rest = {name: value for name, value in fields.items() if name not in ASKED}
    return rest | proposal(table, answers, guessed=())


def _columns_named(label: object) -> object:
    """One column, or several separated by commas."""
    names = [name.strip() for name in str(label).split(",")]
    return names if len(names) > 1 else names[0]


def facts_of(splits: Splits, people: Mapping[str, str], texts: Texts) -> dict[str, Any]:
    """What ``tasks.quality`` says of a task, and the smallest gain in points that its test rows show at best."""
    from analysis.gains.power import smallest_at_best
    from tasks.quality import quality

    labels, groups = ([getattr(row, name) for row in splits.test] for name in ("label", "group"))
    points = smallest_at_best(splits.task.metric, labels, groups)
    return quality(splits, people, texts) | {"smallest_at_best": points if math.isfinite(points) else None}


def add_ratings(leaves: Leaves) -> None:
    """Add ``sheet`` and ``ask``; options of calls are called as the settings of a prompted system."""
    sheet = leaf_of(leaves, "sheet STUDY", write_sheet, "tasks sheet muddy-waters --rater C", "json", BUILT_IN)
    sheet.add_argument("--rater", metavar="NAME", default="", help="name or letter of the rater, filled in already")
    out_option(sheet, "folder for the form and its criteria (default: results/STUDY)")
    add_options(sheet, "registry")
    example = (
        "tasks ask real-small --model gpt-4 --url https://api.openai.com/v1 --dry-run; "
        "the key comes from the environment: EMPATHY_API_KEY, or OPENAI_API_KEY for OpenAI"
    )
    ask = leaf_of(leaves, "ask [STUDY]", ask_model, example, "store json")
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
    """Write a form on which a new rater rates a study's tasks, with the criteria."""
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
    _write_ratings(sheet, rows, "utf-8-sig")  # marked, for spreadsheets
    if options.json:
        print_json({"form": str(sheet), "criteria": str(page), "rows": len(rows)})
    else:
        print(f"{sheet}\n{page}")
        if bare := ", ".join(task.id for task in tasks if not task.description):
            print(f"raters see no more than the id of {bare}: write `description` in the entry")
    return 0


def _write_ratings(path: Path, rows: Sequence[Mapping[str, object]], encoding: str) -> None:
    with atomic(path) as part, part.open("w", encoding=encoding, newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


# ``tasks ask``: a model rates, through the client, the cap and the folder of answers that prompted systems have.


def ask_model(options: argparse.Namespace) -> int:
    """Ask a model to rate tasks by the criteria of the sheet, and say how it agrees with people."""
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
    study, tasks, folders = _rateable(options)
    wanted = items(tasks, constructs(), settings.allow)
    model = re.sub(r"[^A-Za-z0-9._-]+", "-", options.model).strip("-.") or "model"
    out = Path(options.out or f"results/{study}/ratings-{model}.csv")
    answers = answers_beside(Path(options.store))
    if options.dry_run:
        from harness.preflight.estimate import price, whom
        from harness.systems.prompted.rater import SENT, outlay
        from harness.systems.prompted.server import is_this_machine

        costs, stays = outlay(wanted, settings, answers), is_this_machine(settings.host)
        number = len({item.task.id for item in wanted})
        if options.json:
            print_json({"tasks": number, "host": settings.host, "stays": stays, "sent": SENT, **asdict(costs)})
        elif not costs.calls:
            print("nothing is sent, every answer is kept")
        else:
            print(
                f"descriptions of {counted(number, 'task')} in {counted(costs.calls, 'call')}, about {costs.tokens:,}"
                f" tokens, go to {whom(settings.host, stays=stays)}; {price(costs.dollars, settings.most_cost)}"
            )
            print(f"sent: {SENT}")
        return 0
    if out.exists():
        raise BadInput(f"{out} exists and may hold ratings; move it away or give another --out")
    if not settings.address:
        raise BadInput(f"no server to ask {settings.model!r}: give --url, or set the variable EMPATHY_SERVER")
    others = ratings(rating_files(folders))  # before anything is paid: a file of theirs may be damaged
    rated = ask(wanted, settings, answers)
    gaps = missing(rated.readings, constructs())
    if all(reading.value is None for reading in rated.readings):
        raise BadInput(
            f"no answer of {settings.model!r} is a single whole number on the scale, so there are no ratings to write;"
            f" try another model, or more --answer-tokens (answers are kept in {answers})"
        )
    _write_ratings(out, rows_of(rated.readings, rated.rater), "utf-8")
    # how they agree with those of others who have rated these tasks, and their readings among them
    sheet = Beside.of(ratings_in([out]), readings_in(out))
    names = set(sheet.ratings.task)
    people = [row for row in others if row.task in names and row.rater != rated.rater]
    agreed, repeated = agreements(sheet.ratings, frame_of(people)), repeats(sheet.readings)
    if options.json:
        from analysis.sections.importance import rows as records_of

        facts = {"ratings": str(out), "rater": rated.rater, "calls": rated.calls, **rated.cost, "missing": gaps}
        print_json(facts | {"agreement": records_of(agreed), "repeats": records_of(repeated)})
        return 0
    tokens, money = rated.cost["tokens_in"] + rated.cost["tokens_out"], rated.cost.get("money")
    paid = "" if money is None else f", {money:.2g} dollars"
    print(
        out,
        f"{rated.rater} rated {counted(len(tasks), 'task')} on {counted(len(constructs()), 'construct')}:"
        f" {counted(rated.calls, 'answer')}, {tokens:,.0f} tokens{paid}, paid for now or earlier",
        *gaps,
        sep="\n",
    )
    _print_agreement(agreed, repeated)
    print_next("study", "analyze", options.study or "published", "--model-ratings", str(out))
    return 0


def _rateable(options: argparse.Namespace) -> tuple[str, list[Task], list[str]]:
    """What is to be rated: a name, the tasks of a study or of the registry, and folders that may hold their ratings."""
    from harness.study.file import load_study

    study = load_study(options.study) if options.study else None
    folders = [*(study.registry if study else ()), *options.registry]
    registry = Registry.load([Path(folder) for folder in folders])
    names = study.tasks if study else list(registry.tasks)
    for name in options.allow:
        if name not in names:
            raise BadInput(f"--allow {name}: no such task is rated{nearest(name, names) or '; leave it out'}")
    return study.name if study else "registry", [registry.task(name) for name in names], folders


def _print_agreement(agreed: pd.DataFrame, repeated: pd.DataFrame) -> None:
    """Tables of agreement with others and from run to run, with 95 % intervals over tasks."""
    from analysis.tables import interval, number, percent

    pairs = [
        {
            **_subject(row, f"{row['rater']}, {row['other']}"),
            **_alpha(row),
            "Spearman": number(row["spearman"], 2),
            "Spearman 95 %": interval(row["low_spearman"], row["high_spearman"], 2),
        }
        for row in agreed.to_dict("records")
    ]
    runs = [
        {**_subject(row, f"{row['n_readings']} readings"), **_alpha(row), "same number": percent(row["same"])}
        for row in repeated.to_dict("records")
    ]
    for head, lines in (("agreement over tasks:", pairs), ("from run to run:", runs)):
        if lines:
            print("", head, sep="\n")
            print_rows(lines)
    if not pairs:
        print("nobody else has rated these tasks")


def _subject(row: Mapping[str, Any], whom: str) -> dict[str, object]:
    construct = constructs().get(row["construct"])
    return {"construct": construct.title if construct else row["construct"], "of": whom, "tasks": row["n_tasks"]}


def _alpha(row: Mapping[str, Any]) -> dict[str, str]:
    from analysis.tables import interval, number

    ends = interval(row["low_interval"], row["high_interval"], 2)
    return {"alpha": number(row["alpha_interval"], 2), "alpha 95 %": ends}
