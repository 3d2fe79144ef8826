"""Study files: built-in ones by name, others by path; ``extends`` and ``key=value`` overrides.

A study is built in layers: the file that ``extends`` names, the file's own fields over it, the overrides over both.
What comes out is checked as a whole: closed lists, ranges, and which fields go together.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, get_type_hints

from adapters_store.roles import BASELINE, REFERENCES, ROLES
from harness.study.cell import trainer_of
from harness.study.config import (
    LARGEST,
    LOSSES,
    Adapter,
    Analysis,
    Loss,
    Ray,
    Slurm,
    StudyConfig,
    Training,
    checked_training,
    options_of,
    positive_int,
    share_of,
)
from harness.study.intermediates import check_merged
from harness.study.methods import METHODS, check_stack, settings_of
from harness.study.systems import check_systems
from tasks.errors import BadInput, BadStudy
from tasks.plain_text import control_character, is_inside, nearest, read_toml
from tasks.registry import ID_PATTERN
from tasks.splits.folds import Protocol
from tasks.splits.loading import KINDS

NOT_OF_FILES = {"best", "device"}  # the results of searches, and what a run was started with
LISTS = ("tasks", "seeds", "baseline_seeds", "self_seeds", "controls", "references", "systems", "settings", "registry")
INPUT_FORMATS = ("pair", "tags")
DATA = ("files", "synthetic")
TRAINERS = ("lanes", "library")
PRECISIONS = ("fp32", "bf16")
STARTS = ("task", "shared")
COMPOSITIONS = ("stack", "stack-trainable", "sequential")
CONTROLS = tuple(role.name for role in ROLES.values() if role.is_control and role.is_asked_for)
KEPT = ("all", "adapters", "baselines")
ANALYSIS = {
    "outcome": ("points", "percent", "ranks", "winsorised"),
    "left_out": ("target", "intermediate", "both"),
    "cells": ("all", "not collapsed", "not contaminated"),
    "weights": ("inverse variance", "equal"),
}
KEY = re.compile(r"[0-9a-f]{6,64}")
FEWEST_DRAWS = 19  # fewer cannot give a p of .05
FIELDS = {field.name for field in dataclasses.fields(StudyConfig)}
TABLES: Mapping[str, type] = {
    **{"adapter": Adapter, "analysis": Analysis, "protocol": Protocol, "slurm": Slurm, "ray": Ray, "loss": Loss},
    "training": Training,
}
IN_TABLES = {  # fields of a table that may be meant where its name is left out
    field.name: f"{table}.{field.name}"
    for table in ("training", "adapter", "analysis")
    for field in dataclasses.fields(TABLES[table])
    if field.name not in FIELDS
}
MEANT = {  # words of the command line or of others, and what a study file has for them
    "limit": "; write max_train, max_val and max_test, or type --limit",
    "rows": "; write max_train, max_val and max_test",
}
TYPES: Mapping[object, tuple[str, type]] = {  # of fields: in words, and the class of the value or of its parts
    str: ("a text", str),
    str | None: ("a text", str),
    bool: ("true or false", bool),
    tuple[str, ...]: ("a list of texts", str),
}


def load_study(name_or_path: str, overrides: Sequence[str] = ()) -> StudyConfig:
    """The study of a built-in name or file, after ``extends`` and ``key=value`` overrides; BadStudy if unusable.

    For instance ``load_study("demo", ["training.epochs=3", "seeds=[1, 2]"])``.
    """
    values = _read_layers(name_or_path, ())
    for override in overrides:
        _apply_override(values, override)
    if not values.get("tasks"):
        raise BadStudy(f"{name_or_path}: `tasks` is missing or empty; name at least one task id")
    listed: dict[str, Any] = {key: _tuple_of(values[key], key, name_or_path) for key in LISTS if key in values}
    adapter = _adapter(values.get("adapter", {}), name_or_path)
    analysis = Analysis(**values["analysis"]) if "analysis" in values else None
    if values.get("protocol"):
        listed["splits"] = _protocol_name(values, name_or_path)
    study = StudyConfig(**(values | listed | {"adapter": adapter, "analysis": analysis}))
    check(study, name_or_path)
    return study


def override_fields(overrides: Sequence[str]) -> set[str]:
    """The fields of ``training`` and ``adapter`` that ``key=value`` overrides set for all tasks."""
    values: dict[str, Any] = {}
    for override in overrides:
        _apply_override(values, override)
    return {*values.get("training", {}), *values.get("adapter", {})}


def overrides_of(changes: Mapping[str, Any]) -> list[str]:
    """``changes`` as overrides; the fields of training, adapter and analysis may stand without their table's name.

    >>> overrides_of({"epochs": 3, "seeds": [1, 2], "task": {"conv_empathy": {"learning_rate": 0.001}}})
    ['training.epochs=3', 'seeds=[1, 2]', 'task.conv_empathy.learning_rate=0.001']
    """
    return list(_overrides({IN_TABLES.get(name, name): value for name, value in changes.items()}))


def _overrides(table: Mapping[str, Any]) -> Iterator[str]:
    """``key=value`` of every value of a table and of the tables in it."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from (f"{key}.{override}" for override in _overrides(value))
        else:
            yield f"{key}={_toml(key.rpartition('.')[2], value)}"


def _toml(name: str, value: object) -> str:
    """A value as it stands in a study file."""
    refusal = BadStudy(f"{name}={value!r}: a field is a text, a number, true or false, or a list of these")
    if value is None:
        raise refusal
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise refusal from None


def study_names() -> list[str]:
    """Names of the studies that are shipped."""
    files = resources.files("harness.study.shipped").iterdir()
    return sorted(file.name[: -len(".toml")] for file in files if file.name.endswith(".toml"))


def _study_path(name_or_path: str, folder: Path | None = None) -> Path:
    if name_or_path in study_names():
        return Path(str(resources.files("harness.study.shipped") / f"{name_or_path}.toml"))
    path = Path(name_or_path) if folder is None else folder / name_or_path
    if path.suffix == ".toml" and path.is_file():
        if folder is not None and not path.resolve().is_relative_to(folder.resolve()):
            raise BadStudy(f"{path}: a link that leads out of the folder; extend a study file that lies in it")
        return path
    if path.suffix == ".toml":
        raise BadStudy(f"{path}: no such study file; `empathy-transfer study list` shows the built-in ones")
    raise BadStudy(
        f"no study {name_or_path!r}{nearest(name_or_path, study_names())}; "
        f"built-in: {', '.join(study_names())}, or give a .toml file"
    )


def _read_layers(name_or_path: str, seen: tuple[Path, ...]) -> dict[str, Any]:
    path = _study_path(name_or_path, seen[-1].parent if seen else None)
    if path in seen:
        raise BadStudy(f"{path}: `extends` goes in a circle: {' -> '.join(p.stem for p in (*seen, path))}")
    own = read_toml(path, BadStudy)
    _refuse_unknown(own, str(path))
    if letter := control_character(str(own.get("title", ""))):
        raise BadStudy(f"{path}: title has the control character {letter}; remove it")
    parent = own.pop("extends", None)
    if parent is not None and not (isinstance(parent, str) and is_inside(parent)):
        raise BadStudy(f"{path}: extends {parent!r} is no built-in study, nor a file in the folder of this one")
    base = _read_layers(parent, (*seen, path)) if parent is not None else {}
    base.pop("title", None)  # it says what that study was of, and this is another
    if isinstance(own.get("loss"), dict) and "kind" in own["loss"] and "loss" in base:
        base["loss"] = _without_numbers(base["loss"], own["loss"]["kind"])
    return _merged(base, {"name": path.stem, **own})


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        both_tables = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both_tables else value
    return merged


def _without_numbers(loss: Mapping[str, Any], kind: object) -> dict[str, Any]:
    """A study's loss without the numbers that another ``kind`` has not; who sets the kind means to replace it."""
    own = LOSSES[kind][0] if isinstance(kind, str) and kind in LOSSES else ()
    return {name: value for name, value in loss.items() if name in (*own, "tasks")}


def _refuse_unknown(values: Mapping[str, Any], where: str) -> None:
    tables: list[tuple[Any, set[str], str]] = [(values, FIELDS - NOT_OF_FILES | {"extends"}, "")]
    tables += [(values.get(name, {}), _names_of(kind), f"{name}.") for name, kind in TABLES.items()]
    imported = values.get("imported", {})
    tables.append((imported, _names_in(imported), "imported."))  # names are free
    for name, part in (("task", "task"), ("system", "system"), ("merged", "row")):
        inner = values.get(name, {})
        if not isinstance(inner, Mapping):
            raise BadStudy(f"{where}: {name} is a table of tables, one per {part}, got {inner!r}")
        for key, table in inner.items():  # check_systems and check_merged look at the fields of theirs
            tables.append((table, _names_of(Training) if name == "task" else _names_in(table), f"{name}.{key}."))
    for table, allowed, prefix in tables:
        if not isinstance(table, Mapping):
            raise BadStudy(f"{where}: {prefix.rstrip('.')} is a table of fields, got {table!r}")
        for key in table:
            if key not in allowed:
                written = {name: prefix + name for name in sorted(allowed)} | ({} if prefix else IN_TABLES)
                hint = MEANT.get(key) if not prefix else None
                raise BadStudy(f"{where}: unknown field {prefix + key!r}{hint or nearest(key, written, written)}")


def _names_of(kind: type) -> set[str]:
    """The fields that a table may have."""
    return {field.name for field in dataclasses.fields(kind)} | ({"tasks"} if kind is Loss else set())


def _names_in(table: object) -> set[str]:
    return set(table) if isinstance(table, Mapping) else set()


def _apply_override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise BadStudy(f"--set {override!r}: write key=value, for instance training.epochs=3")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    except (ValueError, RecursionError) as problem:  # a number of thousands of digits, thousands of brackets
        reason = f"cannot be used as a value ({type(problem).__name__})"
        raise BadStudy(f"--set {key.strip()}=...: what follows {reason}, it has {len(text):,} characters") from None
    *tables, last = key.strip().split(".")
    table = values
    for name in tables:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise BadStudy(f"--set {override!r}: {name!r} is not a table")
    if (tables, last) == (["loss"], "kind"):
        table = values["loss"] = _without_numbers(table, value)
    table[last] = value
    if "extends" in values:
        raise BadStudy(f"--set {override!r}: a study extends another in its file only")
    _refuse_unknown(values, f"--set {override}")


def _protocol_name(values: Mapping[str, Any], where: str) -> str:
    """The protocol's name, which is what ``splits`` of the study says; BadStudy where both are written."""
    table = dict(values["protocol"])
    if "splits" in values:
        raise BadStudy(f"{where}: splits {values['splits']!r} and [protocol] are two ways to cut rows; leave one out")
    if "shares" in table:
        table["shares"] = _tuple_of(table["shares"], "protocol.shares", where, distinct=False)
    try:
        return Protocol(**table).name
    except BadInput as problem:
        raise BadStudy(f"{where}: {problem}") from None


def _tuple_of(value: Any, key: str, where: str, *, distinct: bool = True) -> tuple[Any, ...]:  # noqa: ANN401 - any TOML
    if not isinstance(value, list | tuple):
        raise BadStudy(f"{where}: {key} is a list, got {value!r}")
    if distinct and len(set(map(str, value))) != len(value):
        raise BadStudy(f"{where}: {key} names something twice: {', '.join(map(str, value))}")
    return tuple(value)


def check(study: StudyConfig, where: str) -> None:
    """Raise BadStudy, naming ``where`` it stands, if a field of the study is out of range."""
    # texts and switches must be of their type, and tasks ids: any of them may end in a file's name or a manifest
    for record, prefix in ((study, ""), (study.adapter, "adapter.")):
        for name, field_type in get_type_hints(type(record)).items():
            value, (what, kind) = getattr(record, name), TYPES.get(field_type, ("", object))
            values = value if isinstance(value, tuple) else [] if value is None else [value]
            if not all(isinstance(part, kind) for part in values):
                raise BadStudy(f"{where}: {prefix}{name} {value!r} is not {what}")
    for task in study.tasks:
        if not ID_PATTERN.fullmatch(task):
            raise BadStudy(f"{where}: task {task!r}: an id may hold only small letters, digits and _")
    for system in study.systems:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", system):
            raise BadStudy(f"{where}: system {system!r}: a name may hold only small letters, digits, - and _")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", study.name):
        raise BadStudy(f"{where}: name {study.name!r}: use small letters, digits, dots, dashes and underscores")
    _check_closed(study, where)
    _check_numbers(study, where)
    _check_loss(study, where)
    _check_method(study, where)
    _check_settings(study, where)
    _check_analysis(study, where)
    _check_imported(study, where)
    check_merged(study, where)
    check_systems(study.systems, study.system, study.tasks, where)
    options_of(Slurm, study.slurm, where)
    options_of(Ray, study.ray, where)
    if unknown := sorted(set(study.task) - set(study.tasks)):
        raise BadStudy(f"{where}: [task.{unknown[0]}] is not among the study's tasks{nearest(unknown[0], study.tasks)}")


def _adapter(table: Mapping[str, Any], where: str) -> Adapter:
    """The adapter of a table; BadStudy unless the layers that it leaves out are a list of different whole numbers."""
    if "leave_out" not in table:
        return Adapter(**table)
    layers = table["leave_out"]
    is_list = isinstance(layers, list | tuple) and all(type(layer) is int and layer >= 0 for layer in layers)
    if not is_list or len(set(layers)) < len(layers):
        raise BadStudy(f"{where}: adapter.leave_out {layers!r} is no list of different layers, from 0, as in [0, 1, 2]")
    return Adapter(**{**table, "leave_out": tuple(layers)})


def _check_closed(study: StudyConfig, where: str) -> None:
    closed: list[tuple[str, object, Sequence[str]]] = [
        ("splits", study.splits, (study.splits,) if study.protocol else KINDS),
        ("input_format", study.input_format, INPUT_FORMATS),
        ("data", study.data, DATA),
        ("trainer", study.trainer, TRAINERS),
        ("precision", study.precision, PRECISIONS),
        ("composition", study.composition, COMPOSITIONS),
        ("start", study.start, STARTS),
        ("keep", study.keep, KEPT),
        ("adapter.method", study.adapter.method, tuple(METHODS)),
        *(("control", control, CONTROLS) for control in study.controls),
        *(("reference", reference, REFERENCES) for reference in study.references),
        *((f"analysis.{name}", getattr(study.analysis, name), ANALYSIS[name]) for name in ANALYSIS if study.analysis),
    ]
    for name, value, allowed in closed:
        if value not in allowed:
            raise BadStudy(f"{where}: {name} {value!r} is not one of {', '.join(allowed)}")


def _check_settings(study: StudyConfig, where: str) -> None:
    for setting in study.settings:
        try:
            share_of(str(setting))
        except BadStudy as problem:
            raise BadStudy(f"{where}: {problem}") from None
    if study.baseline_seeds and (absent := sorted(set(study.seeds) - set(study.baseline_seeds))):
        raise BadStudy(
            f"{where}: baseline_seeds {list(study.baseline_seeds)} lacks seed {absent[0]} of `seeds`; a transfer is "
            "stacked on baselines of its own seed, so add it"
        )
    if study.self_seeds and (absent := sorted(set(study.seeds) - set(study.self_seeds))):
        raise BadStudy(f"{where}: self_seeds {list(study.self_seeds)} lacks seed {absent[0]} of `seeds`; add it")


def _check_analysis(study: StudyConfig, where: str) -> None:
    if study.analysis is None:
        return
    margin, draws = study.analysis.margin, study.analysis.draws
    if type(study.analysis.without_rater) is not str:
        raise BadStudy(f"{where}: analysis.without_rater {study.analysis.without_rater!r} is not a rater's name")
    if positive_int("analysis.draws", draws, where) < FEWEST_DRAWS:
        raise BadStudy(f"{where}: analysis.draws {draws} cannot give a p of .05; say at least {FEWEST_DRAWS}")
    if type(margin) not in (int, float) or not 0 < margin < LARGEST:
        raise BadStudy(f"{where}: analysis.margin {margin!r} is not a number of points above 0")


def _check_imported(study: StudyConfig, where: str) -> None:
    """Imported adapters are a table of names that are no tasks of the study, with a key or its beginning for each."""
    for name, key in study.imported.items():
        if not ID_PATTERN.fullmatch(name) or name in study.tasks:
            raise BadStudy(
                f"{where}: imported.{name}: not a name of small letters, digits and _, or a task of the study"
            )
        if not (isinstance(key, str) and KEY.fullmatch(key)):
            raise BadStudy(
                f"{where}: imported.{name} {key!r} is not the key of a record, nor 6 digits of it, in quotes"
            )


def _check_numbers(study: StudyConfig, where: str) -> None:
    names = ("max_tokens", "synthetic_rows", "max_train", "max_val", "max_test")
    numbers = {name: value for name in names if (value := getattr(study, name)) is not None}
    if study.adapter.reduction_factor is not None:
        numbers["adapter.reduction_factor"] = study.adapter.reduction_factor
    for name, value in numbers.items():
        positive_int(name, value, where)
    checked_training("learning_rate", study.finetune_learning_rate, f"{where} finetune")
    for seed in (*study.seeds, *study.baseline_seeds, *study.self_seeds):
        if type(seed) is not int or seed < 0:
            raise BadStudy(f"{where}: seed {seed!r} is not a whole number from 0")
    for task, table in (("", study.training), *study.task.items()):
        for key, value in table.items():
            checked_training(key, value, f"{where} {task}".strip())


def _check_loss(study: StudyConfig, where: str) -> None:
    """The loss is known, has no number of another and none out of range, and is for tasks of the study."""
    values = dict(study.loss)
    tasks = values.pop("tasks", list(study.tasks))
    if not (isinstance(tasks, list | tuple) and tasks and all(task in study.tasks for task in tasks)):
        raise BadStudy(f"{where}: loss.tasks {tasks!r} is not a list of the study's own tasks")
    if not isinstance(values.get("kind", ""), str):
        raise BadStudy(f"{where}: loss.kind {values['kind']!r} is not a text")
    for name in values.keys() - {"kind"}:
        types, words = ((int,), "a whole number") if name == "deferred_from" else ((int, float), "a number")
        if type(values[name]) not in types:
            raise BadStudy(f"{where}: loss.{name} {values[name]!r} is not {words}")
    try:
        _check_owners(Loss(**values), values)
    except ValueError as problem:
        raise BadStudy(f"{where}: {problem}") from None


def _check_owners(loss: Loss, values: Mapping[str, Any]) -> None:
    """ValueError for a number that has no part in the loss."""
    for name in values.keys() - {"kind", *LOSSES[loss.kind][0]}:
        owner = next(other for other, (numbers, _) in LOSSES.items() if name in numbers)
        raise ValueError(f"loss.{name} is a number of {owner!r}, and the loss is {loss.kind!r}; leave it out")
    if "beta" in values and not loss.deferred_from:
        raise ValueError("loss.beta acts from epoch loss.deferred_from on; set that too, or leave beta out")


def _check_method(study: StudyConfig, where: str) -> None:
    """The adapter's settings, whether it can do what the transfers need, and whether bf16 is trained as lanes."""
    if study.controls and not study.transfers:
        raise BadStudy(f"{where}: controls stand beside transfers, and transfers = false; leave one of them out")
    try:
        settings_of(study.adapter)
        if study.transfers and study.composition != "sequential":
            check_stack(study.adapter.method)
    except BadStudy as problem:
        raise BadStudy(f"{where}: {problem}") from None
    for role in (BASELINE, *study.references):
        if study.precision == "bf16" and trainer_of(study, role) == "library":
            raise BadStudy(
                f"{where}: precision 'bf16' is for lanes, but a {role} of this study trains through the "
                "adapters library; say precision = 'fp32'"
            )
