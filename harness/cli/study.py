"""``study``: list and show studies, and how options change one."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from harness.api import Study
from harness.cli.options import best_option, leaf_of, study_options
from harness.cli.terminal import print_json, print_rows
from harness.preflight.smoke import smoke_of
from tasks.errors import BadStudy

if TYPE_CHECKING:
    from harness.study.config import StudyConfig
    from tasks.registry import Registry
    from tasks.splits.loading import Splits


def add_study(study: argparse.ArgumentParser) -> None:
    """Add ``list`` and ``show``."""
    leaves = study.add_subparsers(required=True, metavar="COMMAND")
    leaf_of(leaves, "list", "List the built-in studies.", "study list", list_studies)
    show = leaf_of(
        leaves,
        "show",
        "Show a study as resolved, with where each training setting comes from.",
        "study show demo",
        show_study,
    )
    study_options(show)
    best_option(show)


def study_of(options: argparse.Namespace, further: Sequence[str] = ()) -> Study:
    """The study that a command names, changed as its options say and by ``further`` lines ``key=value``."""
    if files := getattr(options, "system", []):
        from harness.study.systems import add_files

        add_files(files)
    places = {"data": options.data, "store": options.store, "splits": options.splits}
    study = Study(options.study, overrides=[*overrides(options), *further], best=options.best, **places)
    if getattr(options, "smoke", False):
        study.config = smoke_of(study.config)
    return study


def overrides(options: argparse.Namespace) -> list[str]:
    """``--set``, ``--registry``, ``--limit`` and ``--seeds`` as ``key=value`` lines."""
    from harness.study.file import load_study

    changes = list(options.set)
    if options.registry:  # beside the folders that the study names itself
        changes.append(f"registry={[*load_study(options.study, changes).registry, *options.registry]}")
    if options.limit is not None:
        changes += [f"{name}={options.limit}" for name in ("max_train", "max_val", "max_test")]
    if options.seed:
        whole = load_study(options.study, changes).seeds_of_baselines
        circle = list(whole) if set(options.seed) < set(whole) else []  # the cells of the whole study, by their keys
        changes += [f"seeds={options.seed}", "baseline_seeds=[]", f"self_seeds={circle}"]
    return changes


def list_studies(options: argparse.Namespace) -> int:
    """Print one row per built-in study."""
    from harness.study.file import load_study, study_names

    studies = [load_study(name) for name in study_names()]
    rows: list[dict[str, object]] = [
        {
            "study": s.name,
            "tasks": len(s.tasks),
            "seeds": len(s.seeds),
            "backbone": s.backbone,
            "data": s.data,
            "title": s.title,
        }
        for s in studies
    ]
    print_rows(rows, as_json=options.json)
    return 0


def show_study(options: argparse.Namespace) -> int:
    """Print the resolved study and, per task, every training setting with the layer that won."""
    from harness.search.outcome import with_best
    from harness.study.file import load_study
    from harness.study.intermediates.imported import with_imported
    from tasks.registry import Registry

    study = with_imported(load_study(options.study, overrides(options)), Store(Path(options.store)))
    if options.best:
        study = with_best(study, Store(Path(options.store)), overrides(options))
    registry = Registry.load([Path(folder) for folder in study.registry])
    rows = [_training_row(study, registry, name) for name in study.tasks]
    fields = {k: v for k, v in study.as_json().items() if k not in ("tasks", "training", "task", "best")}
    if study.analysis:
        fields["analysis"] |= {"key": study.analysis.key}
    if options.json:
        print_json(fields | {"tasks": rows})
        return 0
    width = max(map(len, fields))
    for name, value in fields.items():
        print(f"{name:{width}}  {_in_words(value)}")
    print("\ntraining, and where each value comes from (study.task > search > study > entry > default)")
    print_rows(list(_training_lines(rows)), as_json=False)
    return 0


def _in_words(value: object) -> str:
    """A field's value as people write it: no brackets, quotes or words of Python."""
    if isinstance(value, Mapping):
        given = {name: inner for name, inner in value.items() if inner is not None}
        return ", ".join(f"{name} {_in_words(inner)}" for name, inner in given.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in (None, "") else str(value)


def _training_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, object]]:
    """A row for each value of each setting, with the tasks that have it."""
    for setting in [name for name in rows[0] if name != "task"]:
        values = [(_in_words(row[setting]["value"]), row[setting]["from"]) for row in rows]
        for value, origin in dict.fromkeys(values):
            tasks = [row["task"] for row, own in zip(rows, values, strict=True) if own == (value, origin)]
            shown = "all" if len(tasks) == len(rows) else ", ".join(tasks)
            yield {"setting": setting, "value": value, "from": origin, "tasks": shown}


def _training_row(study: StudyConfig, registry: Registry, name: str) -> dict[str, Any]:
    training, origin = study.training_for(registry.task(name))
    values = dataclasses.asdict(training)
    if study.best:
        values["method"] = study.adapter_for(name).method
        origin["method"] = "search" if "method" in study.best.get(name, {}) else "study"
    if study.loss:
        loss, label = study.loss_for(registry.task(name)), registry.task(name).label.kind
        is_usual = loss.kind == "cross-entropy"
        words = "squared error" if label == "continuous" else _in_words(loss.as_json()).removeprefix("kind ")
        values["loss"], origin["loss"] = words, "default" if is_usual else "study"
    return {"task": name} | {key: {"value": value, "from": origin[key]} for key, value in values.items()}


def splits_of(options: argparse.Namespace, store: Store, manifest: Mapping[str, Any], task: str) -> Splits:
    """A task's rows, read where the options say; BadInput where the files are not those of the stored study."""
    from harness.raw.stored_study import stored_splits

    ids = Path(options.splits) if options.splits else None
    return stored_splits(store, manifest, task, Path(options.data), ids=ids, registry=options.registry)


def name_of(study: str) -> str:
    """The name under which the store knows a study given by name or by .toml file."""
    from harness.study.file import load_study

    try:
        return load_study(study).name
    except BadStudy:
        if study.endswith(".toml"):
            raise
        return study
