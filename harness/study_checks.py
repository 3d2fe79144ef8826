"""What a study may say: closed lists, ranges, and which fields go together."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from harness.cell import trainer_of
from harness.engines.options import Ray, Slurm, options_of
from harness.methods import METHODS, check_stack, settings_of
from harness.study import LARGEST, StudyConfig, checked_training, positive_int, share_of
from tasks.entry import ID_PATTERN
from tasks.errors import BadStudy
from tasks.loading import KINDS
from tasks.toml_file import nearest

INPUT_FORMATS = ("pair", "tags")
DATA = ("files", "synthetic")
TRAINERS = ("lanes", "library")
PRECISIONS = ("fp32", "bf16")
COMPOSITIONS = ("stack", "stack-trainable", "sequential")
CONTROLS = ("self", "shuffled", "random")
REFERENCES = ("finetuned",)
KEPT = ("all", "baselines")
ANALYSIS = {
    "outcome": ("points", "percent", "ranks", "winsorised"),
    "left_out": ("target", "intermediate", "both"),
    "cells": ("all", "not collapsed", "not contaminated"),
    "weights": ("inverse variance", "equal"),
}
KEY = re.compile(r"[0-9a-f]{6,64}")
FEWEST_DRAWS = 19  # fewer cannot give a p of .05
TYPES = {"str": ("a text", str), "str | None": ("a text", str), "bool": ("true or false", bool)}
TYPES["tuple[str, ...]"] = ("a list of texts", str)


def check(study: StudyConfig, where: str) -> None:
    """Raise BadStudy, naming ``where`` it stands, if a field of the study is out of range."""
    _check_types(study, where)
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", study.name):
        raise BadStudy(f"{where}: name {study.name!r}: use small letters, digits, dots, dashes and underscores")
    _check_closed(study, where)
    _check_numbers(study, where)
    _check_method(study, where)
    _check_settings(study, where)
    _check_analysis(study, where)
    _check_imported(study, where)
    options_of(Slurm, study.slurm, where)
    options_of(Ray, study.ray, where)
    if unknown := sorted(set(study.task) - set(study.tasks)):
        raise BadStudy(f"{where}: [task.{unknown[0]}] is not among the study's tasks{nearest(unknown[0], study.tasks)}")


def _check_types(study: StudyConfig, where: str) -> None:
    """Texts and switches must be of their type, and tasks ids: any of them may end in a file's name or a manifest."""
    for record, prefix in ((study, ""), (study.adapter, "adapter.")):
        for one in dataclasses.fields(record):
            value, (what, kind) = getattr(record, one.name), TYPES.get(str(one.type), ("", object))
            values = value if isinstance(value, tuple) else [] if value is None else [value]
            if not all(isinstance(part, kind) for part in values):
                raise BadStudy(f"{where}: {prefix}{one.name} {value!r} is not {what}")
    for task in study.tasks:
        if not ID_PATTERN.fullmatch(task):
            raise BadStudy(f"{where}: task {task!r}: an id may hold only small letters, digits and _")


def _check_closed(study: StudyConfig, where: str) -> None:
    closed: list[tuple[str, object, Sequence[str]]] = [
        ("splits", study.splits, KINDS),
        ("input_format", study.input_format, INPUT_FORMATS),
        ("data", study.data, DATA),
        ("trainer", study.trainer, TRAINERS),
        ("precision", study.precision, PRECISIONS),
        ("composition", study.composition, COMPOSITIONS),
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
    for seed in (*study.seeds, *study.baseline_seeds):
        if type(seed) is not int or seed < 0:
            raise BadStudy(f"{where}: seed {seed!r} is not a whole number from 0")
    for task, table in (("", study.training), *study.task.items()):
        for key, value in table.items():
            checked_training(key, value, f"{where} {task}".strip())


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
    for role in ("baseline", *study.references):
        if study.precision == "bf16" and trainer_of(study, role) == "library":
            raise BadStudy(
                f"{where}: precision 'bf16' is for lanes, but a {role} of this study trains through the "
                "adapters library; say precision = 'fp32'"
            )
