"""Study files: built-in ones by name, others by path; ``extends`` and ``key=value`` overrides.

A study is built in layers: the file that ``extends`` names, the file's own fields over it, the overrides over both.
What comes out is checked as a whole: closed lists, ranges, and which fields go together.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from adapters_store.roles import BASELINE
from harness.study.cell import trainer_of
from harness.study.config import LOSSES, Analysis, Loss, LossTable, Ray, Slurm, StudyConfig, Training
from harness.study.intermediates import MergeRecipe, check_merged
from harness.study.methods import Adapter, check_stack, settings_of
from harness.study.systems import check_systems
from tasks.errors import BadInput, BadStudy
from tasks.fields import Field, check_table, record_of, written_fields
from tasks.plain_text import is_inside, nearest, read_toml
from tasks.splits.protocol import KINDS, Protocol
from tasks.task import ID_PATTERN


def _is_parent(name: str) -> str:
    return "" if is_inside(name) else f"{name!r} is no built-in study, nor a file in the folder of this one"


FIELDS = {
    **written_fields(StudyConfig),
    "name": replace(written_fields(StudyConfig)["name"], is_needed=False),  # a file has one
    "extends": Field(Annotated[str, _is_parent], "the study of which everything else is taken", is_needed=False),
}
TABLES = {
    **{"training": Training, "adapter": Adapter, "analysis": Analysis, "loss": LossTable, "protocol": Protocol},
    **{"merged.NAME": MergeRecipe, "slurm": Slurm, "ray": Ray},
}
REFERENCE = {"A study": FIELDS, **{f"[{name}]": written_fields(record) for name, record in TABLES.items()}}
IN_TABLES = {  # fields of a table that may be meant where its name is left out
    name: f"{table}.{name}"
    for table in ("training", "adapter", "analysis")
    for name in REFERENCE[f"[{table}]"]
    if name not in FIELDS
}
CAPS = "max_train, max_val and max_test, or --limit"
HINTS = {**IN_TABLES, "limit": CAPS, "rows": CAPS}


def load_study(name_or_path: str, overrides: Sequence[str] = ()) -> StudyConfig:
    """The study of a built-in name or file, after ``extends`` and ``key=value`` overrides; BadStudy if unusable.

    For instance ``load_study("demo", ["training.epochs=3", "seeds=[1, 2]"])``.
    """
    values = _read_layers(name_or_path, ())
    for override in overrides:
        _apply_override(values, override)
    if not values.get("tasks"):
        raise BadStudy(f"{name_or_path}: `tasks` is missing or empty; name at least one task id")
    if values.get("protocol"):
        if "splits" in values:
            two = f"splits {values['splits']!r} and [protocol] are two ways to cut rows"
            raise BadStudy(f"{name_or_path}: {two}; leave one out")
        try:
            values["splits"] = record_of(Protocol, values["protocol"]).name
        except BadInput as problem:
            raise BadStudy(f"{name_or_path}: {problem}") from None
    study = record_of(StudyConfig, values)
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
            try:
                if value is None:
                    raise TypeError
                text = json.dumps(value, allow_nan=False)
            except (TypeError, ValueError):
                name = key.rpartition(".")[2]
                raise BadStudy(
                    f"{name}={value!r}: a field is a text, a number, true or false, or a list of these"
                ) from None
            yield f"{key}={text}"


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
    table = read_toml(path, BadStudy)
    check_table(table, FIELDS, BadStudy, str(path), hints=HINTS)
    parent = table.pop("extends", None)
    base = _read_layers(parent, (*seen, path)) if parent is not None else {}
    base.pop("title", None)  # it says what that study was of, and this is another
    if isinstance(table.get("loss"), dict) and "kind" in table["loss"] and "loss" in base:
        base["loss"] = _without_numbers(base["loss"], table["loss"]["kind"])
    return _merge(base, {"name": path.stem, **table})


def _merge(base: dict[str, Any], layer: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in layer.items():
        both_tables = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both_tables else value
    return merged


def _without_numbers(loss: Mapping[str, Any], kind: object) -> dict[str, Any]:
    """A study's loss without the numbers that another ``kind`` has not; who sets the kind means to replace it."""
    numbers = LOSSES[kind][0] if isinstance(kind, str) and kind in LOSSES else ()
    return {name: value for name, value in loss.items() if name in (*numbers, "tasks")}


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
    check_table(values, FIELDS, BadStudy, f"--set {override}", hints=HINTS)


def check(study: StudyConfig, where: str) -> None:
    """Raise BadStudy, naming ``where`` they stand, if fields of the study, each in its range, do not go together."""
    fields = written_fields(StudyConfig)  # which no file has checked of a study that a search or code has made
    check_table({name: value for name, value in study.as_json().items() if name in fields}, fields, BadStudy, where)
    if not study.protocol and study.splits not in KINDS:
        raise BadStudy(f"{where}: splits {study.splits!r} is not one of {', '.join(KINDS)}")
    for name in ("seeds", "settings"):
        if not getattr(study, name):
            raise BadStudy(f"{where}: {name} is empty, so that nothing would be trained; name one or more")
    for name, seeds in (("baseline_seeds", study.baseline_seeds), ("self_seeds", study.self_seeds)):
        if seeds and (absent := sorted(set(study.seeds) - set(seeds))):
            raise BadStudy(
                f"{where}: {name} {list(seeds)} lacks seed {absent[0]} of `seeds`; a transfer is stacked on baselines "
                "of its own seed, so add it"
            )
    for name in study.imported:
        if not ID_PATTERN.fullmatch(name) or name in study.tasks:
            raise BadStudy(
                f"{where}: imported.{name}: not a name of small letters, digits and _, or a task of the study"
            )
    if unknown := sorted(set(study.targets) - set(study.tasks)):
        raise BadStudy(
            f"{where}: targets: {unknown[0]} is not among the study's tasks{nearest(unknown[0], study.tasks)}"
        )
    if unknown := sorted(set(study.task) - set(study.tasks)):
        raise BadStudy(f"{where}: [task.{unknown[0]}] is not among the study's tasks{nearest(unknown[0], study.tasks)}")
    if (asked := study.analysis) and set(asked.questions) - {"ratings"}:
        if (asked.outcome, asked.weights) != (Analysis.outcome, Analysis.weights):
            raise BadStudy(
                f"{where}: analysis.questions are asked of gains in {Analysis.outcome}, weighed by"
                f" {Analysis.weights}; leave out analysis.outcome and analysis.weights, or ask of ratings alone"
            )
    _check_loss(study, where)
    _check_method(study, where)
    check_merged(study, where)
    check_systems(study.systems, study.system, {"tasks": study.tasks, "seeds": study.seeds_of_baselines}, where)


def _check_loss(study: StudyConfig, where: str) -> None:
    """The loss has no number of another, and is for tasks of the study."""
    values = dict(study.loss)
    tasks = values.pop("tasks", study.tasks)
    if not tasks or not set(tasks) <= set(study.tasks):
        raise BadStudy(f"{where}: loss.tasks {tasks!r} is not a list of the study's own tasks")
    loss = Loss(**values)
    for name in values.keys() - {"kind", *LOSSES[loss.kind][0]}:
        owner = next(other for other, (numbers, _) in LOSSES.items() if name in numbers)
        raise BadStudy(f"{where}: loss.{name} is a number of {owner!r}, and the loss is {loss.kind!r}; leave it out")
    if "beta" in values and not loss.deferred_from:
        raise BadStudy(f"{where}: loss.beta acts from epoch loss.deferred_from on; set that too, or leave beta out")


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
