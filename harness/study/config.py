"""A study: tasks, backbone, adapter, seeds, settings and caps, which name every cell; harness.study.file reads it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from adapters_store import key_of
from tasks.errors import BadStudy
from tasks.plain_text import nearest
from tasks.task import Task

NAMED_SHARES = {"full": 1.0, "half": 0.5, "half-stratified": 0.5}
LARGEST = 1e300  # of a number; TOML has infinity, and whole numbers that no float can hold
PERCENT = re.compile(r"([0-9]{1,2}(?:\.[0-9]+)?)%(?:-stratified)?")


@dataclass(frozen=True)
class Training:
    """How a cell is trained; ``warmup`` is a share of all steps, ``clip`` the largest gradient norm."""

    epochs: int = 10
    batch_size: int = 32
    learning_rate: float = 5e-4
    weight_decay: float = 0.0
    warmup: float = 0.0
    clip: float = 1.0


TRAINING_TYPES = get_type_hints(Training)


@dataclass(frozen=True)
class Adapter:
    """The adapter of every cell, in the adapters library's terms; None is the method's own value (``METHODS``)."""

    method: str = "seq_bn"
    reduction_factor: int | None = None
    non_linearity: str | None = None

    def of_method(self, method: str) -> Adapter:
        """The adapter itself if it is of the method, else the library's own of that method."""
        return self if method == self.method else Adapter(method)


@dataclass(frozen=True)
class Analysis:
    """The primary analysis, declared before results are seen; the choices are those of analysis.importance.grid.

    ``draws`` is how often ratings are permuted among tasks, ``margin`` the loss in points that counts with less
    data. Nothing of it enters a cell's key.
    """

    outcome: str = "points"
    left_out: str = "target"
    cells: str = "all"
    without_rater: str = ""
    weights: str = "inverse variance"
    draws: int = 999
    margin: float = 2.0

    @property
    def key(self) -> str:
        """Names the declaration: the sha256 of its canonical JSON."""
        return key_of({**dataclasses.asdict(self), "margin": float(self.margin)})


@dataclass(frozen=True)
class StudyConfig:
    """A resolved study file; see ``training_for``.

    ``training`` and ``task`` hold only what the file says, ``best`` what searches found (harness.search.outcome).
    ``keep`` says whose weights are stored: of ``all``, of ``adapters`` and no system, of ``baselines`` alone; it,
    ``slurm`` and ``ray`` change no key.
    """

    name: str
    tasks: tuple[str, ...]
    title: str = ""
    backbone: str = "roberta-base"
    adapter: Adapter = Adapter()
    training: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    best: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by "target" or "intermediate -> target"
    seeds: tuple[int, ...] = (1,)
    settings: tuple[str, ...] = ("full",)
    splits: str = "clean"
    protocol: Mapping[str, Any] = field(default_factory=dict)  # of tasks.splits.protocol, whose name ``splits`` then is
    baseline_seeds: tuple[int, ...] = ()
    controls: tuple[str, ...] = ()
    imported: Mapping[str, str] = field(default_factory=dict)  # keys of their records by name
    transfers: bool = True
    composition: str = "stack"
    references: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    system: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by a system's name: kind, tasks, settings
    finetune_learning_rate: float = 2e-5
    retry_collapsed: bool = False
    input_format: str = "pair"
    trainer: str = "lanes"
    precision: str = "fp32"
    shared_noise: bool = True
    max_tokens: int = 512
    max_train: int | None = None
    max_val: int | None = None
    max_test: int | None = None
    data: str = "files"
    synthetic_rows: int = 2400
    registry: tuple[str, ...] = ()
    keep: str = "all"
    slurm: Mapping[str, Any] = field(default_factory=dict)  # of harness.study.schedulers.Slurm
    ray: Mapping[str, Any] = field(default_factory=dict)  # of harness.study.schedulers.Ray
    analysis: Analysis | None = None
    device: str = "auto"  # of a run, never of a file: names cells that are trained through the library (harness.cell)

    @property
    def seeds_of_baselines(self) -> tuple[int, ...]:
        """The seeds for which baselines are trained: ``baseline_seeds``, by default those of the transfers."""
        return self.baseline_seeds or self.seeds

    def training_for(self, task: Task, intermediate: str | None = None) -> tuple[Training, dict[str, str]]:
        """The training settings of ``task`` and, per field, what won: study.task > search > study > entry > default.

        A search of the task on ``intermediate`` wins over that of the task alone.
        """
        layers = (
            ("entry", task.training),
            ("study", self.training),
            *(("search", settings) for settings in self._search_results(task.id, intermediate)),
            ("study.task", self.task.get(task.id, {})),
        )
        values = dataclasses.asdict(Training())
        origin = dict.fromkeys(values, "default")
        for name, layer in layers:
            for key, value in layer.items():
                if (name, key) == ("search", "method"):
                    continue  # see adapter_for
                values[key] = checked_training(key, value, f"{name} ({task.id})")
                origin[key] = name
        return Training(**values), origin

    def adapter_for(self, task: str, intermediate: str | None = None) -> Adapter:
        """The adapter of ``task``: the study's, or that of the method that a search found."""
        methods = [settings["method"] for settings in self._search_results(task, intermediate) if "method" in settings]
        return self.adapter.of_method(methods[-1]) if methods else self.adapter

    def _search_results(self, task: str, intermediate: str | None) -> list[Mapping[str, Any]]:
        """The settings that searches found for the task alone, then for the pair; empty where there was none."""
        return [self.best.get(name, {}) for name in (task, f"{intermediate} -> {task}")]

    def as_json(self) -> dict[str, Any]:
        """The study as plain JSON data, every field of a file written out."""
        return {
            **{name: value for name, value in dataclasses.asdict(self).items() if name != "device"},
            "training": dict(self.training),
            "imported": dict(self.imported),
            "protocol": dict(self.protocol),
            "slurm": dict(self.slurm),
            "ray": dict(self.ray),
            "task": {k: dict(v) for k, v in self.task.items()},
            "system": {k: dict(v) for k, v in self.system.items()},
            "best": {k: dict(v) for k, v in self.best.items()},
        }


def share_of(setting: str) -> float:
    """The share of its training rows that a target has in a setting, above 0; BadStudy if it is none.

    ``full`` is 1.0, ``half`` 0.5, ``25%`` and ``25%-stratified`` 0.25.
    """
    if setting in NAMED_SHARES:
        return NAMED_SHARES[setting]
    match = PERCENT.fullmatch(setting)
    if not match or match[1] != f"{float(match[1]):g}" or float(match[1]) == 0:
        raise BadStudy(
            f"setting {setting!r} is not one of {', '.join(NAMED_SHARES)}, nor a share such as 25% or 25%-stratified"
        )
    return float(match[1]) / 100


def positive_int(name: str, value: object, where: str) -> int:
    """The value; BadStudy unless it is a whole number from 1."""
    if type(value) is not int or value < 1:
        raise BadStudy(f"{where}: {name} {value!r} is not a whole number from 1")
    return value


def checked_training(key: str, value: object, where: str) -> int | float:
    """The value of a training field in its type; BadStudy, naming ``where``, if it is unknown or out of range."""
    if key not in TRAINING_TYPES:
        raise BadStudy(f"{where}: unknown training field {key!r}{nearest(key, sorted(TRAINING_TYPES))}")
    if TRAINING_TYPES[key] is int:
        return positive_int(key, value, where)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadStudy(f"{where}: {key} {value!r} is not a number")
    strict = key in ("learning_rate", "clip")
    if not (value > 0 if strict else value >= 0) or not value < LARGEST or (key == "warmup" and value > 1):
        raise BadStudy(f"{where}: {key} {value!r} is out of range")
    return float(value)
