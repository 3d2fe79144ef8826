"""A study: tasks, backbone, adapter, seeds, settings and caps, which name every cell; harness.study.file reads it.

Every field of a study file is declared here, with what it may hold and means (tasks.fields); which of them go together
is for harness.study.file. What a study asks of a scheduler, in its tables ``[slurm]`` and ``[ray]``, is here, too.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from adapters_store import key_of
from adapters_store.roles import REFERENCES, ROLES
from harness.study.methods import Adapter
from tasks.errors import BadStudy
from tasks.fields import (
    Count,
    Line,
    Number,
    OneOf,
    Positive,
    Range,
    Text,
    as_kind,
    check_record,
    check_table,
    distinct,
    excerpt,
    fields_of,
    matching,
)
from tasks.splits.protocol import KINDS, Protocol
from tasks.task import Id, Task

Seeds = Annotated[tuple[Count, ...], distinct]


def _are_options(table: Mapping[str, Any]) -> str:
    if ours := sorted({"array", "output", "dependency", "signal"} & table.keys()):
        return f"{ours[0]} is what this project sets itself"
    fits = (isinstance(value, str | int | float) and f"{name}{value}".isprintable() for name, value in table.items())
    return "" if all(fits) else f"{excerpt(table)} is not a table of options in one line each"


@dataclass(frozen=True)
class Slurm:
    """How jobs are submitted, in sbatch's words; empty or None is the site's own default."""

    partition: Annotated[Line, "where jobs run"] = ""
    account: Annotated[Line, "who pays"] = ""
    time: Annotated[Number, "minutes that a job may take"] = 240
    gres: Annotated[Line, "what else a job needs, such as a GPU"] = ""
    cpus_per_task: Annotated[Number, "processors of a job"] = 1
    mem: Annotated[Line, "memory of a job"] = ""
    throttle: Annotated[Number | None, "how many jobs may run at once"] = None
    signal_delay: Annotated[Number, "seconds before the end in which a job saves what it has"] = 90
    tries: Annotated[Number, "how often a job that died without a word is submitted"] = 2
    extra: Annotated[Mapping[str, Any], _are_options, "further options by their long names"] = field(
        default_factory=dict
    )
    setup: Annotated[tuple[Line, ...], "lines of shell before each job"] = ()


@dataclass(frozen=True)
class Ray:
    """Which cluster runs jobs and what each of them takes."""

    address: Annotated[Line, "the cluster; empty starts one on this machine"] = ""
    cpus: Annotated[float, Range(least=0), "processors of a job"] = 1
    gpus: Annotated[float, Range(least=0), "GPUs of a job; may be a share of one"] = 0
    tries: Annotated[Number, "how often a job is begun whose process or machine dies"] = 4


NAMED_SHARES = {"full": 1.0, "half": 0.5, "half-stratified": 0.5}


def share_of(setting: str) -> float:
    """The share of its training rows that a target has in a setting: ``full`` is 1.0, ``25%-stratified`` 0.25."""
    return NAMED_SHARES.get(setting) or float(setting.partition("%")[0]) / 100


@dataclass(frozen=True)
class Training:
    """How a cell is trained."""

    epochs: Annotated[Number, "how often all rows are seen"] = 10
    batch_size: Annotated[Number, "rows of a step"] = 32
    learning_rate: Annotated[Positive, "the highest, after the warm-up"] = 5e-4
    weight_decay: Annotated[float, Range(least=0), "of AdamW"] = 0.0
    warmup: Annotated[float, Range(0, 1), "share of all steps in which the rate rises"] = 0.0
    clip: Annotated[Positive, "largest norm of a gradient"] = 1.0


TrainingTable = Annotated[Mapping[str, Any], Training]
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

    Defaults are those of the papers. ValueError for a kind that is not known, and numbers out of their ranges.
    """

    kind: Annotated[str, OneOf(LOSSES), "focal is of Lin et al. 2017, LDAM of Cao et al. 2019"] = "cross-entropy"
    gamma: Annotated[float, Range(0, LARGEST_GAMMA), "of focal"] = 2.0
    largest_margin: Annotated[float, Range(least=0), "of LDAM, in logits"] = 0.5
    scale: Annotated[Positive, "of LDAM: by which logits and margins are multiplied"] = 30.0
    deferred_from: Annotated[Count, "of LDAM: the epoch from which on classes are weighed; 0: never"] = 0
    beta: Annotated[float, Range(least=0, below=1), "effective rows of these weights (Cui et al. 2019)"] = 0.9999

    def __post_init__(self) -> None:
        """Refuse a kind that is not known and numbers out of their ranges."""
        check_record(self, "loss.")

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
class LossTable(Loss):
    """What a study says of its loss."""

    tasks: Annotated[tuple[str, ...], "for which tasks; the study's own where it is left out"] = ()


QUESTIONS = ("unrelated", "controls", "ratings", "alike", "family", "pair")  # see analysis.importance.questions
OUTCOMES = ("points", "percent", "ranks", "winsorised")
FEWEST_DRAWS = 19  # fewer cannot give a p of .05


@dataclass(frozen=True)
class Analysis:
    """The primary analysis, declared before results are seen; the choices are those of analysis.importance.grid.

    ``left_out`` and ``draws`` were of a regression that is gone, and stay for the hash of a declaration. Nothing of it
    enters a cell's key.
    """

    outcome: Annotated[str, OneOf(OUTCOMES), "what a gain is measured in"] = "points"
    left_out: Annotated[str, OneOf(("target", "intermediate", "both")), "of no effect"] = "target"
    cells: Annotated[str, OneOf(("all", "not collapsed", "not contaminated")), "which cells are counted"] = "all"
    without_rater: Annotated[str, "a rater whose ratings are left out"] = ""
    weights: Annotated[str, OneOf(("inverse variance", "equal")), "how gains are weighed"] = "inverse variance"
    draws: Annotated[int, Range(FEWEST_DRAWS), "of no effect"] = 999
    margin: Annotated[Positive, "the loss in points that counts with less data"] = 2.0
    questions: Annotated[
        tuple[Annotated[str, OneOf(QUESTIONS)], ...], distinct, "what is asked, each with one test"
    ] = ()

    @property
    def key(self) -> str:
        """Names the declaration: the sha256 of its canonical JSON."""
        questions = {"questions": list(self.questions)} if self.questions else {}
        values = {name: value for name, value in dataclasses.asdict(self).items() if name != "questions"}
        return key_of({**values, "margin": float(self.margin), **questions})


PERCENT = r"(?!0%)[1-9]?[0-9](\.[0-9]*[1-9])?%(-stratified)?"
Setting = Annotated[
    str,
    matching(
        f"{'|'.join(NAMED_SHARES)}|{PERCENT}",
        f"one of {', '.join(NAMED_SHARES)}, nor a share such as 25% or 25%-stratified",
    ),
]
SystemName = Annotated[str, matching(r"[a-z0-9][a-z0-9_-]*", "a name of small letters, digits, - and _")]
StudyName = Annotated[str, matching(r"[a-z0-9][a-z0-9._-]*", "a name; use small letters, digits, dots, - and _")]
RecordKey = Annotated[str, matching("[0-9a-f]{6,64}", "the key of a record, nor 6 digits of it, in quotes")]
Control = Annotated[str, OneOf(role.name for role in ROLES.values() if role.is_control and role.is_asked_for)]
Reference = Annotated[str, OneOf(REFERENCES)]
Table = Mapping[str, Any]
INPUT_FORMATS, COMPOSITIONS = ("pair", "tags"), ("stack", "stack-trainable", "sequential")


@dataclass(frozen=True)
class StudyConfig:
    """A resolved study file; see ``training_for``.

    ``training`` and ``task`` hold only what the file says. Of no file are ``best``, what searches found
    (harness.search.outcome), by "target" or "intermediate -> target"; and ``device``, of a run, which names cells that
    are trained through the library (harness.study.cell). ``keep``, ``slurm`` and ``ray`` change no key.
    """

    name: Annotated[StudyName, "how stores and reports call it; default: the file's name"]
    tasks: Annotated[tuple[Id, ...], distinct, "ids of its tasks"]
    title: Annotated[Text, "how reports call it"] = ""
    backbone: Annotated[str, "a folder, a name of the hub, or one that comes with the package"] = "roberta-base"
    adapter: Annotated[Adapter, "the adapter of every cell"] = field(default_factory=Adapter)
    training: Annotated[Table, Training, "of all tasks; wins over their entries"] = field(default_factory=dict)
    task: Annotated[Mapping[str, TrainingTable], "training of one task; wins over all"] = field(default_factory=dict)
    best: Mapping[str, Table] = field(default_factory=dict)
    seeds: Annotated[Seeds, "each is one replicate of every cell"] = (1,)
    settings: Annotated[tuple[Setting, ...], distinct, "shares of targets' training rows, such as `25%`"] = ("full",)
    splits: Annotated[str, f"how rows are cut: {', '.join(f'`{kind}`' for kind in KINDS)}"] = "clean"
    protocol: Annotated[Table, Protocol, "rows cut as in a publication, without `splits`"] = field(default_factory=dict)
    baseline_seeds: Annotated[Seeds, "of baselines; default: `seeds`"] = ()
    self_seeds: Annotated[Seeds, "the circle of seeds that `self` goes round; default: those of baselines"] = ()
    controls: Annotated[tuple[Control, ...], distinct, "intermediates that teach nothing"] = ()
    imported: Annotated[Mapping[str, RecordKey], "adapters of others: their records' keys"] = field(
        default_factory=dict
    )
    merged: Annotated[Mapping[str, Table], "adapters made of others, by row"] = field(default_factory=dict)
    start: Annotated[str, OneOf(("task", "shared")), "adapters' first weights are each task's, or a seed's"] = "task"
    transfers: Annotated[bool, "whether there are transfers beside baselines"] = True
    targets: Annotated[tuple[Id, ...], distinct, "tasks that have a column; the others are intermediates alone"] = ()
    composition: Annotated[str, OneOf(COMPOSITIONS), "how a transfer uses its intermediate"] = "stack"
    references: Annotated[tuple[Reference, ...], distinct, "other trainings of targets alone"] = ()
    systems: Annotated[tuple[SystemName, ...], distinct, "ways to solve a task that are no adapters"] = ()
    system: Annotated[Mapping[str, Table], "their kinds, tasks and settings, by name"] = field(default_factory=dict)
    floors: Annotated[bool, "whether the plan adds the systems that a target alone has to beat"] = True
    loss: Annotated[Table, LossTable, "what is minimised, and for which tasks"] = field(default_factory=dict)
    finetune_learning_rate: Annotated[Positive, "of the reference that trains the whole backbone"] = 2e-5
    retry_collapsed: Annotated[bool, "whether a cell that came to nothing on validation rows is trained again"] = False
    input_format: Annotated[str, OneOf(INPUT_FORMATS), "how context and text are put together"] = "pair"
    trainer: Annotated[str, OneOf(("lanes", "library")), "what trains adapters"] = "lanes"
    precision: Annotated[str, OneOf(("fp32", "bf16")), "of the backbone's products"] = "fp32"
    shared_noise: Annotated[bool, "whether cells of a column see the same batches and dropout"] = True
    max_tokens: Annotated[Number, "longest input"] = 512
    max_train: Annotated[Number | None, "most training rows of a task"] = None
    max_val: Annotated[Number | None, "most validation rows of a task"] = None
    max_test: Annotated[Number | None, "most test rows of a task"] = None
    data: Annotated[str, OneOf(("files", "synthetic")), "raw files, or rows made up in their format"] = "files"
    synthetic_rows: Annotated[Number, "how many rows are made up"] = 2400
    registry: Annotated[tuple[str, ...], distinct, "folders of further entries"] = ()
    keep: Annotated[str, OneOf(("all", "adapters", "baselines")), "whose weights are stored, of adapters or all"] = (
        "all"
    )
    slurm: Annotated[Table, Slurm, "what Slurm is asked for"] = field(default_factory=dict)
    ray: Annotated[Table, Ray, "what Ray is asked for"] = field(default_factory=dict)
    analysis: Annotated[Analysis | None, "the analysis that counts, declared before results are seen"] = None
    device: str = "auto"

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
        values, fields = dataclasses.asdict(Training()), fields_of(Training)
        origin = dict.fromkeys(values, "default")
        for name, layer in layers:
            for key, value in layer.items():
                if (name, key) == ("search", "method"):
                    continue  # see adapter_for
                check_table({key: value}, fields, BadStudy, f"{name} ({task.id})")
                values[key] = as_kind(value, fields[key].kind, floats=True)
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
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "device"}
