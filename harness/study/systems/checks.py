"""Whether a study's systems can be had and can read its tasks; each refusal is one line, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.study.backbones.backbone import Backbone
from harness.study.systems import ENCODER, Kind, kind_and_config
from tasks.errors import BadInput, BadStudy
from tasks.plain_text import nearest
from tasks.splits.loading import Splits
from tasks.task import Label, Task


def check_systems(
    names: Sequence[str], tables: Mapping[str, Mapping[str, Any]], tasks: Sequence[str], where: str
) -> None:
    """BadStudy, naming ``where``, for a table that no system is called by, an unknown kind, setting or task."""
    for name in tables:
        if name not in names:
            raise BadStudy(f"{where}: [system.{name}] is not among the study's systems{nearest(name, names)}")
    for name in names:
        table = tables.get(name, {})
        kind_and_config(name, table, f"{where}: system.{name}")
        listed = table.get("tasks", [])
        if not isinstance(listed, list | tuple) or not set(listed) <= set(tasks):
            raise BadStudy(f"{where}: system.{name}.tasks {listed!r} is not a list of the study's own tasks")


def check_installed(kind: Kind, name: str) -> None:
    """BadInput, with the command that installs it, where the system's optional package is not here."""
    if not kind.is_installed:
        pip = f"'empathy-transfer[{kind.reads.extra}]'" if kind.reads.extra else kind.reads.package
        raise BadInput(f"system {name!r} needs an optional package; install it with: pip install {pip}")


def check_system(kind: Kind, name: str, backbone: Backbone) -> None:
    """BadInput where its package is not installed, or the study's backbone has weights of another kind."""
    check_installed(kind, name)
    if kind.reads.weights not in ("", ENCODER):
        raise BadStudy(
            f"system {name!r} reads weights of the kind {kind.reads.weights!r}, and backbone {backbone.name!r} is an"
            f" {ENCODER}; leave the system out, or give a backbone of that kind"
        )


def check_settings(
    kind: Kind,
    config: Any,  # noqa: ANN401 - the kind's own Config
    name: str,
    label: Label,
    backbone: Backbone,
) -> None:
    """BadStudy where settings ask for more tokens than the study's backbone reads, or a loss that no such label has.

    Settings say so by fields ``tokens`` (and ``weights``, where another encoder reads them) and ``objective``.
    """
    tokens, objective = getattr(config, "tokens", 0), getattr(config, "objective", None)
    if kind.reads.weights and tokens > backbone.max_tokens and not getattr(config, "weights", ""):
        raise BadStudy(
            f"system.{name}.tokens {tokens} is longer than backbone {backbone.name!r} reads; set it to at most"
            f" {backbone.max_tokens}"
        )
    if objective is not None and objective.kind != "cross-entropy" and not objective.fits(label.kind):
        raise BadStudy(
            f"system.{name}.loss {objective.kind!r} is not defined for the {label.kind} label of its tasks; take"
            f' "cross-entropy", or name other tasks: system.{name}.tasks'
        )


def check_rows(kind: Kind, name: str, rows: Splits, siblings: Mapping[str, Splits | None]) -> None:
    """BadStudy where a system cannot read the rows of a task: label, rationales, or those of its siblings."""
    task, only = rows.task, f"or name its tasks: system.{name}.tasks"
    if task.label.kind not in kind.reads.labels:
        raise BadStudy(f"system {name!r} predicts no {task.label.kind} label, and {task.id!r} has one; {only}")
    if kind.reads.rationales and not task.columns.get("rationale"):
        raise BadStudy(f"system {name!r} needs rationales, and task {task.id!r} has no column of them; {only}")
    if kind.reads.instructions and task.instruction is None:
        raise BadStudy(
            f"system {name!r} asks by an instruction, and task {task.id!r} has none; write [instruction] in its entry"
            f" (docs/adding-a-task.md), {only}"
        )
    for other, of in siblings.items():
        if of is None:
            raise BadStudy(f"system {name!r}: sibling {other!r} is no task of the study with data here; add it")
        _check_sibling(kind, name, task, of.task)
        for part in ("train", "validation", "test"):
            ids, of_other = ({row.id for row in getattr(splits, part)} for splits in (rows, of))
            if ids != of_other:
                raise BadStudy(
                    f"system {name!r}: {other!r} is no sibling of {task.id!r}: {len(ids ^ of_other)} ids of their"
                    f" {part} rows differ; siblings are cut alike (docs/systems-beside-adapters.md)"
                )


def _check_sibling(kind: Kind, name: str, task: Task, other: Task) -> None:
    """BadStudy where a system that learns from a sibling's labels can learn nothing from these."""
    known = kind.reads.sibling_labels
    if known and other.id == task.id:
        raise BadStudy(f"system {name!r}: {task.id!r} is named as its own sibling; name its tasks: system.{name}.tasks")
    if known and other.label.kind not in known:
        raise BadStudy(
            f"system {name!r} learns from no {other.label.kind} label, and sibling {other.id!r} has one; name a task of"
            f" another kind: {', '.join(known)}"
        )
