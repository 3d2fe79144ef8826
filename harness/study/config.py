"""A study: tasks, backbone, adapter, seeds, settings and caps, which name every cell; harness.study.file reads it.

What a study asks of a scheduler, in the tables ``[slurm]`` and ``[ray]`` of its file, is here, too.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

from adapters_store import key_of
from tasks.errors import BadStudy
from tasks.plain_text import nearest
from tasks.task import Task


@dataclass(frozen=True)
class Slurm:
    """How jobs are submitted, in sbatch's words; empty or None is the site's own default.

    ``time`` and ``signal_delay`` are minutes and seconds; ``throttle`` is how many jobs may run at once, ``tries`` how
    often a job that died without a word is submitted. ``extra`` holds further sbatch options by their long names,
    ``setup`` lines of shell before each job.
    """

    partition: str = ""
    account: str = ""
    time: int = 240
    gres: str = ""
    cpus_per_task: int = 1
    mem: str = ""
    throttle: int | None = None
    signal_delay: int = 90
    tries: int = 2
    extra: Mapping[str, Any] = field(default_factory=dict)
    setup: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ray:
    """Which cluster runs jobs (``address``; empty starts one on this machine) and what each of them takes.

    ``gpus`` may be a share of one; ``tries`` is how often a job is begun whose process or machine dies.
    """

    address: str = ""
    cpus: float = 1
    gpus: float = 0
    tries: int = 4


Options = TypeVar("Options", Slurm, Ray)


def options_of(kind: type[Options], values: Mapping[str, Any], where: str) -> Options:
    """The options in a study's table; BadStudy, naming ``where``, for a value that is none."""
    table, types = kind.__name__.lower(), get_type_hints(kind)
    for name, value in values.items():
        if not _fits(value, types[name]):
            raise BadStudy(f"{where}: {table}.{name} {value!r} is not {WANTED[types[name]]}")
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return kind(**options)


WANTED: Mapping[object, str] = {  # what a value must be, by the type of its field
    str: "a text in one line",
    int: "a whole number from 1",
    int | None: "a whole number from 1",
    float: "a number from 0",
    Mapping[str, Any]: "a table of options",
    tuple[str, ...]: "a list of lines",
}


def _fits(value: object, field_type: object) -> bool:
    """Whether a field of this type can hold the value; those of tables and lists are tested too."""
    if field_type is str:
        return _is_line(value)
    if field_type in (int, int | None):
        return type(value) is int and value >= 1
    if field_type is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    if field_type == Mapping[str, Any]:
        return isinstance(value, Mapping) and all(
            _is_line(name) and (_is_line(option) or isinstance(option, int | float)) for name, option in value.items()
        )
    return isinstance(value, list | tuple) and all(_is_line(line) for line in value)


def _is_line(value: object) -> bool:
    """Whether it is a text that cannot add a line of its own to a job's script."""
    return isinstance(value, str) and value.isprintable()


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
CLASSES = ("binary", "multiclass", "ordinal")  # kinds of labels that are one class a row
LOSSES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # its numbers, and the kinds of labels that it fits
    "cross-entropy": ((), (*CLASSES, "multilabel")),
    "focal": (("gamma",), (*CLASSES, "multilabel")),
    "ldam": (("largest_margin", "scale", "deferred_from", "beta"), CLASSES),
}
LARGEST_GAMMA = 5.0  # of Lin et al. 2017 (Table 1b) and Jiang et al. 2023 (equation 11): none has tried more


@dataclass(frozen=True)
class Loss:
    """What a training minimises of a row with classes; harness.training.objective has the formulas.

    Focal (Lin et al. 2017) has ``gamma``. LDAM (Cao et al. 2019) has ``largest_margin``, in logits, and ``scale``, by
    which logits and margins are multiplied; from epoch ``deferred_from`` on (0: never) classes are weighed by their
    effective number of rows under ``beta`` (Cui et al. 2019). Defaults are those papers'. ValueError for what is none.
    """

    kind: str = "cross-entropy"
    gamma: float = 2.0
    largest_margin: float = 0.5
    scale: float = 30.0
    deferred_from: int = 0
    beta: float = 0.9999

    def __post_init__(self) -> None:
        """Refuse a kind that is not known and numbers out of their ranges."""
        if self.kind not in LOSSES:
            raise ValueError(f"loss {self.kind!r} is not known{nearest(self.kind, LOSSES)}; known: {', '.join(LOSSES)}")
        ranges = (
            ("gamma", 0 <= self.gamma <= LARGEST_GAMMA, f"from 0 to {LARGEST_GAMMA:g}"),
            ("largest_margin", 0 <= self.largest_margin < LARGEST, "from 0"),
            ("scale", 0 < self.scale < LARGEST, "above 0"),
            ("deferred_from", self.deferred_from >= 0, "from 0"),
            ("beta", 0 <= self.beta < 1, "from 0 to below 1"),
        )
        for name, is_inside, words in ranges:
            if not is_inside:
                raise ValueError(f"{name} {getattr(self, name)!r} of loss {self.kind!r} is not a number {words}")

    def numbers(self) -> dict[str, float | int]:
        """Those of its numbers that act, by name."""
        names = LOSSES[self.kind][0]
        if self.kind == "ldam" and not self.deferred_from:
            names = ("largest_margin", "scale")
        return {name: getattr(self, name) if name == "deferred_from" else float(getattr(self, name)) for name in names}

    def as_json(self) -> dict[str, Any]:
        """What names it in a cell's spec: its kind, and the numbers that act."""
        return {"kind": self.kind, **self.numbers()}

    def fits(self, label: str) -> bool:
        """Whether it is defined for labels of this kind."""
        return label in LOSSES[self.kind][1]


@dataclass(frozen=True)
class Adapter:
    """The adapter of every cell, in the adapters library's terms; None is the method's own value (``METHODS``).

    ``leave_out`` numbers the layers, from 0, that have no adapter (AdapterDrop: Rücklé et al. 2021); below the first
    that has, lanes compute what is equal for all of them once.
    """

    method: str = "seq_bn"
    reduction_factor: int | None = None
    non_linearity: str | None = None
    leave_out: tuple[int, ...] | None = None

    def of_method(self, method: str) -> Adapter:
        """The adapter itself if it is of the method, else the library's own of that method."""
        return self if method == self.method else Adapter(method)


@dataclass(frozen=True)
class Analysis:
    """The primary analysis, declared before results are seen; the choices are those of analysis.importance.grid.

    ``margin`` is the loss in points that counts with less data. ``left_out`` and ``draws`` were of a regression that is
    gone, and stay for the hash of a declaration. Nothing of it enters a cell's key.
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
    protocol: Mapping[str, Any] = field(default_factory=dict)  # of tasks.splits.folds, whose name ``splits`` then is
    baseline_seeds: tuple[int, ...] = ()
    self_seeds: tuple[int, ...] = ()  # the circle of seeds that ``self`` goes round (default: those of baselines)
    controls: tuple[str, ...] = ()
    imported: Mapping[str, str] = field(default_factory=dict)  # keys of their records by name
    merged: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by row: see harness.study.intermediates
    start: str = "task"  # of adapters' weights: drawn for each task, or one for all of a seed (shared)
    transfers: bool = True
    composition: str = "stack"
    references: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    system: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by a system's name: kind, tasks, settings
    floors: bool = True  # whether the plan adds the systems that a target alone has to beat (harness.study.plan.FLOORS)
    loss: Mapping[str, Any] = field(default_factory=dict)  # what the file says of Loss, and for which tasks
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
    slurm: Mapping[str, Any] = field(default_factory=dict)  # of harness.study.config.Slurm
    ray: Mapping[str, Any] = field(default_factory=dict)  # of harness.study.config.Ray
    analysis: Analysis | None = None
    device: str = (
        "auto"  # of a run, never of a file: names cells that are trained through the library (harness.study.cell)
    )

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

    def loss_for(self, task: Task) -> Loss:
        """The loss of ``task``: the study's where that names this task or none, else the usual one.

        BadStudy, in one line, where it does not fit the task's label or weighs classes that the entry weighs already.
        """
        loss = Loss(**{name: value for name, value in self.loss.items() if name != "tasks"})
        if loss.kind == "cross-entropy" or task.id not in self.loss.get("tasks", (task.id,)):
            return Loss()
        if not loss.fits(task.label.kind):
            kinds = ", ".join(LOSSES[loss.kind][1])
            raise BadStudy(
                f"loss {loss.kind!r} does not fit task {task.id!r}, whose label is {task.label.kind}: it is for "
                f"{kinds} labels; list the tasks that it is for: loss.tasks"
            )
        if loss.deferred_from and task.class_weights != "none":
            raise BadStudy(
                f"task {task.id!r} weighs its classes in every epoch (class_weights {task.class_weights!r}), and "
                f"loss.deferred_from {loss.deferred_from} would weigh them otherwise; leave one of them out"
            )
        return loss

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
            "loss": dict(self.loss),
            "imported": dict(self.imported),
            "merged": {k: dict(v) for k, v in self.merged.items()},
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
