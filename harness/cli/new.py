"""``tasks new``: from a file to an entry that loads and trains."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store.disk import atomic, new_folder
from harness.api import dry_run
from harness.cli.options import Leaves, add_options, leaf_of
from harness.cli.terminal import downloads, print_json, verbatim
from tasks.columns import cells_of
from tasks.errors import BadEntry, BadInput, MissingData
from tasks.proposal import (
    columns_text,
    entry_text,
    label_candidates,
    path_in_entry,
    proposal,
    read_file,
    remarks,
    task_id,
)
from tasks.readers.rows import refuse_folder
from tasks.registry import Registry, tasks_of
from tasks.task import ID_PATTERN, KINDS, why_taken

if TYPE_CHECKING:
    from tasks.splits.contamination import Texts
    from tasks.splits.loading import Splits


def add(leaves: Leaves) -> None:
    """Add ``new``."""
    new = leaf_of(
        leaves,
        "new FILE",
        "Make an entry for a file or a dataset of the hub, check it and train it for some seconds.",
        "tasks new replies.csv --text reply --label kind",
        new_task,
        "data json quiet",
    )
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
    """Write the entry of a file, check how its rows come out, and train it for some seconds."""
    from tasks.splits.contamination import Texts

    folders = [Path(folder) for folder in options.registry or [DEFAULT_REGISTRY]]
    entry, doubts = _entry(folders[0], options)
    data = Path(options.data)
    from tasks.splits.loading import load

    id = str(entry["id"])
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
        verbatim(_listed(doubts))
    shared = _sharing(splits, folders, data)
    if not options.json:
        for line in shared:
            print(f"shared    texts of another task: {line}")
    # of some seconds; DryRunFailed when the task does not train
    result = None if options.skip_training else asdict(dry_run(splits.task.id, folders, data, options.backbone))
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


def _entry(folder: Path, options: argparse.Namespace) -> tuple[dict[str, object], list[str]]:
    """Fields of the entry, from flags and columns, confirmed by whoever sits at a terminal; and what to look at."""
    from harness.raw.fetch import PREFIX

    path, defaults = _hub_file(options) if options.file.startswith(PREFIX) else _local_file(folder, options)
    table = read_file(path)
    fields_wanted: dict[str, object] = {
        "id": options.id,
        "text": options.text,
        "label": _columns_named(options.label),
        "kind": options.kind,
        "context": options.context,
        "group": options.group,
        "language": options.language,
        "split": options.split,
    }
    fields_wanted = defaults | {name: value for name, value in fields_wanted.items() if value or name not in defaults}
    fields = proposal(table, fields_wanted)
    if sys.stdin.isatty() and sys.stdout.isatty() and not options.json:
        print(columns_text(table.raw.header, {name: cells_of(table.raw, name) for name in table.raw.header}))
        print(_listed(remarks(table, fields)))
        own = {name: value for name, value in fields.items() if name not in ASKED}
        fields = own | proposal(table, fields_wanted | _ask(fields, fields_wanted), guessed=())
    for name in MANDATORY:
        if name not in fields:
            could = label_candidates(table) if name == "label" else ""
            others = f"{could} could be it" if could else f"the columns are {', '.join(table.raw.header)}"
            raise BadEntry(f"{path}: no column looks like the {name}, or several do; give --{name}; {others}")
    return fields, remarks(table, fields)


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"look at   {line}" for line in lines)


def _local_file(folder: Path, options: argparse.Namespace) -> tuple[Path, dict[str, object]]:
    """The file that was given, and what an entry calls it."""
    path = Path(options.file)
    refuse_folder(path)
    if not path.is_file():
        raise MissingData(f"no file {path}; give the file that holds the rows")
    return path, {"id": task_id(path.stem), "files": [path_in_entry(path, folder, Path(options.data))]}


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


def _ask(fields: Mapping[str, object], answered: Mapping[str, object]) -> dict[str, object]:
    """What a person answers to each open question; Enter takes the proposal, - leaves a field out."""
    answers: dict[str, object] = {}
    for name in (field for field in ASKED if field == "id" or not answered[field]):
        proposed = fields.get(name, "")
        choices = f" ({', '.join(KINDS)})" if name == "kind" else ""
        answer = input(f"{name}{choices} [{proposed or '-'}]: ").strip()
        answers[name] = {"": proposed, "-": ""}.get(answer, answer)
    return answers | {"label": _columns_named(answers["label"])} if "label" in answers else answers


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


def _sharing(own: Splits, folders: Sequence[Path], data: Path) -> list[str]:
    """What would split tasks of the registry like this one that share its texts, of those whose files are there."""
    from tasks.splits.contamination import joined_families, sharing_texts
    from tasks.splits.loading import load_kinds

    splits = {own.task.id: own}
    for task in Registry.load(folders).tasks.values():
        with suppress(BadInput):  # which ``tasks check`` says of each
            splits.setdefault(task.id, load_kinds(task, data, hashed=False)["clean"])
    return joined_families(sharing_texts(splits, own.task.id), splits)
