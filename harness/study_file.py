"""Study files: built-in ones by name, others by path; ``extends`` and ``key=value`` overrides."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from harness.engines.options import Ray, Slurm
from harness.study import Adapter, Analysis, StudyConfig, Training
from harness.study_checks import check
from tasks.errors import BadStudy
from tasks.plain_text import commanding
from tasks.toml_file import is_inside, nearest, read_toml

NOT_OF_FILES = {"best", "device"}  # what a search found, and what a run was started with
LISTS = ("tasks", "seeds", "baseline_seeds", "controls", "references", "settings", "registry")


def load_study(name_or_path: str, overrides: Sequence[str] = ()) -> StudyConfig:
    """The study of a built-in name or file, after ``extends`` and ``key=value`` overrides; BadStudy if unusable."""
    values = _read_layers(name_or_path, ())
    for override in overrides:
        _apply_override(values, override)
    return _build(values, name_or_path)


def overridden(overrides: Sequence[str]) -> set[str]:
    """The fields of ``training`` and ``adapter`` that ``key=value`` overrides set for all tasks."""
    values: dict[str, Any] = {}
    for override in overrides:
        _apply_override(values, override)
    return {*values.get("training", {}), *values.get("adapter", {})}


def study_names() -> list[str]:
    """Names of the studies that are shipped."""
    files = resources.files("harness.studies").iterdir()
    return sorted(file.name[: -len(".toml")] for file in files if file.name.endswith(".toml"))


def _study_path(name_or_path: str, below: Path | None = None) -> Path:
    if name_or_path in study_names():
        return Path(str(resources.files("harness.studies") / f"{name_or_path}.toml"))
    path = Path(name_or_path) if below is None else below / name_or_path
    if path.suffix == ".toml" and path.is_file():
        if below is not None and not path.resolve().is_relative_to(below.resolve()):
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
    if letter := commanding(str(own.get("title", ""))):
        raise BadStudy(f"{path}: title has the control character {letter}; remove it")
    parent = own.pop("extends", None)
    if parent is not None and not (isinstance(parent, str) and is_inside(parent)):
        raise BadStudy(f"{path}: extends {parent!r} is no built-in study, nor a file in the folder of this one")
    base = _read_layers(parent, (*seen, path)) if parent is not None else {}
    base.pop("title", None)  # it says what that study was of, and this is another
    return _merged(base, {"name": path.stem, **own})


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        both_tables = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both_tables else value
    return merged


def _refuse_unknown(values: Mapping[str, Any], where: str) -> None:
    known = {f.name for f in dataclasses.fields(StudyConfig)} - NOT_OF_FILES | {"extends"}
    training = {f.name for f in dataclasses.fields(Training)}
    tables: list[tuple[Any, set[str], str]] = [
        (values, known, ""),
        (values.get("adapter", {}), {f.name for f in dataclasses.fields(Adapter)}, "adapter."),
        (values.get("analysis", {}), {f.name for f in dataclasses.fields(Analysis)}, "analysis."),
        (values.get("slurm", {}), {f.name for f in dataclasses.fields(Slurm)}, "slurm."),
        (values.get("ray", {}), {f.name for f in dataclasses.fields(Ray)}, "ray."),
    ]
    tables += [(values.get("training", {}), training, "training.")]
    imported = values.get("imported", {})
    tables.append((imported, set(imported) if isinstance(imported, Mapping) else set(), "imported."))  # names are free
    tasks = values.get("task", {})
    if not isinstance(tasks, Mapping):
        raise BadStudy(f"{where}: task is a table of tables, one per task, got {tasks!r}")
    tables += [(table, training, f"task.{name}.") for name, table in tasks.items()]
    for table, allowed, prefix in tables:
        if not isinstance(table, Mapping):
            raise BadStudy(f"{where}: {prefix.rstrip('.')} is a table of fields, got {table!r}")
        for key in table:
            if key not in allowed:
                raise BadStudy(f"{where}: unknown field {prefix + key!r}{nearest(key, sorted(allowed))}")


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
    table[last] = value
    if "extends" in values:
        raise BadStudy(f"--set {override!r}: a study extends another in its file only")
    _refuse_unknown(values, f"--set {override}")


def _build(values: dict[str, Any], where: str) -> StudyConfig:
    if not values.get("tasks"):
        raise BadStudy(f"{where}: `tasks` is missing or empty; name at least one task id")
    listed: dict[str, Any] = {key: _tuple_of(values[key], key, where) for key in LISTS if key in values}
    adapter = Adapter(**values.get("adapter", {}))
    analysis = Analysis(**values["analysis"]) if "analysis" in values else None
    study = StudyConfig(**(values | listed | {"adapter": adapter, "analysis": analysis}))
    check(study, where)
    return study


def _tuple_of(value: Any, key: str, where: str) -> tuple[Any, ...]:  # noqa: ANN401 - any TOML value
    if not isinstance(value, list | tuple):
        raise BadStudy(f"{where}: {key} is a list, got {value!r}")
    if len(set(map(str, value))) != len(value):
        raise BadStudy(f"{where}: {key} names something twice: {', '.join(map(str, value))}")
    return tuple(value)
