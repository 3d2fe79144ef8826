"""``tasks check``: what is to be known of tasks before training, and what of their test items training has seen."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adapters_store import Store
from harness.cli.table import print_json, print_rows
from harness.contamination import measured
from harness.lengths import token_lengths
from tasks.contamination import Contact
from tasks.errors import BadInput, MissingData
from tasks.loading import KINDS, Splits, load
from tasks.near import Texts
from tasks.quality import quality
from tasks.readers.wassa import wassa_people
from tasks.registry import Registry
from tasks.splits import NAMES
from tasks.task import Task


def check_tasks(options: argparse.Namespace) -> int:
    """Print facts about one task or all, and which test items are training material, clean and as published.

    Writes the contamination map as CSV and heatmaps into ``--out``; counts are kept in the store.
    """
    registry = Registry.load([Path(folder) for folder in options.registry])
    chosen = [registry.task(options.id)] if options.id else list(registry.tasks.values())
    splits, missing = _loaded(registry.tasks.values(), options)
    if options.id and options.id in missing:
        raise BadInput(missing[options.id])
    texts = Texts([getattr(one, name) for one in splits["clean"].values() for name in NAMES])
    data = Path(options.data)
    facts = [
        quality(splits["clean"][task.id], _people(task, data), texts)
        | {"tokens": token_lengths(splits["clean"][task.id], options.backbone) if options.backbone else None}
        for task in chosen
        if task.id in splits["clean"]
    ]
    store = Store(Path(options.store))
    contacts = {kind: measured(splits[kind], store, texts) for kind in KINDS}
    shown = {kind: _about(found, options.id) for kind, found in contacts.items()}
    if options.json:
        rows = [{"splits": kind} | one._asdict() for kind, found in shown.items() for one in found]
        print_json({"tasks": facts, "contamination": rows, "missing": missing})
        return 0
    _print_facts(facts, is_one=bool(options.id))
    for kind, found in shown.items():
        _print_contacts(kind, found)
    for path in _written(contacts, Path(options.out or "results/check")):
        print(path)
    return 0


def _loaded(tasks: Any, options: argparse.Namespace) -> tuple[dict[str, dict[str, Splits]], dict[str, str]]:  # noqa: ANN401
    """Splits of both kinds by task, and why a task has none."""
    ids = Path(options.splits) if options.splits else None
    found: dict[str, dict[str, Splits]] = {kind: {} for kind in KINDS}
    missing: dict[str, str] = {}
    for task in tasks:
        try:
            for kind in KINDS:
                found[kind][task.id] = load(task, Path(options.data), kind, ids)
        except MissingData as reason:
            missing[task.id] = str(reason)
    return found, missing


def _people(task: Task, data: Path) -> Mapping[str, str]:
    return wassa_people(task, data) if task.reader.startswith("wassa_") else {}


def _about(contacts: Sequence[Contact], task: str | None) -> list[Contact]:
    return [one for one in contacts if task in (None, one.target, one.intermediate)]


def _print_facts(facts: Sequence[Mapping[str, Any]], *, is_one: bool) -> None:
    if not is_one:
        print_rows([_row(one) for one in facts], as_json=False)
        print("\nrepeats: test rows with the context and text, the text, or nearly the text of a training row")
        print("effect: smallest gain in points that a paired test finds (power 80 %, level 5 %), from the test groups")
        return
    for name, value in facts[0].items():
        if isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values()):
            for inner, numbers in value.items():
                print(f"{name:19} {inner:24} {_plain(numbers)}")
        else:
            print(f"{name:19} {_plain(value)}")


def _row(facts: Mapping[str, Any]) -> dict[str, object]:
    repeated, effect, people = facts["repeated"]["test in train"], facts["smallest_effect"], facts["people"]
    words = facts["words_with_context"]["train"]
    return {
        "task": facts["task"],
        **facts["rows"],
        "groups": facts["groups"]["test"],
        "words (median, 95 %)": f"{words['median']:.0f}, {words['p95']:.0f}",
        "repeats": "/".join(map(str, repeated.values())),
        "people shared": f"{people['people']} of {people['test_people']}" if people else "-",
        "floor": f"{facts['floor']:.3f}",
        "effect": "-" if effect["points"] is None else f"{effect['points']:.1f}",
        "warnings": len(facts["warnings"]),
    }


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_contacts(kind: str, contacts: Sequence[Contact]) -> None:
    """Print the contaminated pairs, those with equal counts on one line."""
    trained: dict[tuple[object, ...], list[str]] = {}
    for one in contacts:
        if one.is_contaminated:
            trained.setdefault((one.target, *one[2:]), []).append(one.intermediate)
    targets: dict[tuple[object, ...], list[str]] = {}
    for (target, *counts), named in trained.items():
        targets.setdefault((", ".join(named), *counts), []).append(str(target))
    print(f"\n{kind} splits: test items that are training material")
    if not targets:
        print("none, neither by row, group nor context and text; what chance repeats is in contamination.csv")
        return
    lines = [_line(Contact(", ".join(named), *key)) for key, named in targets.items()]  # type: ignore[arg-type]
    print_rows(lines, as_json=False)


def _line(one: Contact) -> dict[str, object]:
    return {
        "target": one.target,
        "rows": _share(one.same_row, one.n_test),
        "by group": _share(one.same_group, one.n_test),
        "groups": _share(one.groups_in_train, one.n_groups),
        "context and text": _share(one.same_pair, one.n_test),
        "text": _share(one.same_text, one.n_test),
        "nearly": _share(one.near_text, one.n_long),
        "in training data of": one.intermediate,
    }


def _share(count: int, of: int) -> str:
    return f"{count} of {of} ({100 * count / max(of, 1):.1f} %)" if count else "0"


def _written(contacts: Mapping[str, Sequence[Contact]], out: Path) -> list[Path]:
    """Write contamination.csv and a heatmap of either kind of splits; the files."""
    import pandas as pd

    from analysis.contamination import frame_of
    from analysis.contamination_map import write_map
    from analysis.frames import write_csv

    frames = {kind: frame_of(found) for kind, found in contacts.items()}
    write_csv(pd.concat([frame.assign(splits=kind) for kind, frame in frames.items()]), out / "contamination")
    drawn = [path for kind, frame in frames.items() for path in write_map(frame, out / f"contamination-{kind}", kind)]
    return [out / "contamination.csv", *drawn]
