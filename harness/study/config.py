"""A study: tasks, backbone, adapter, seeds, settings and caps, which name every cell; study_file.py reads it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adapters_store import key_of
from tasks.errors import BadStudy
from tasks.task import Task
from tasks.toml_file import nearest

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


@dataclass(frozen=True)
class Adapter:
    """The adapter of every cell, in the adapters library's terms; None is the method's own value (methods.py)."""

    method: str = "seq_bn"
    reduction_factor: int | None = None
    non_linearity: str | None = None

    def of_method(self, method: str) -> Adapter:
        """The adapter itself if it is of the method, else the library's own of that method."""
        return self if method == self.method else Adapter(method)


@dataclass(frozen=True)
class Analysis:
    """The primary analysis, declared before results are seen; the choices are those of analysis.importance.grid.

    ``draws`` is how often ratings are handed round among tasks, ``margin`` the loss in points that counts with less
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
    ``keep`` says whose adapters are stored, ``all`` or those of ``baselines``; it, ``slurm`` and ``ray`` change no key.
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
    baseline_seeds: tuple[int, ...] = ()
    controls: tuple[str, ...] = ()
    imported: Mapping[str, str] = field(default_factory=dict)  # keys of their records by name
    transfers: bool = True
    composition: str = "stack"
    references: tuple[str, ...] = ()
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
    slurm: Mapping[str, Any] = field(default_factory=dict)  # of harness.engines.options.Slurm
    ray: Mapping[str, Any] = field(default_factory=dict)  # of harness.engines.options.Ray
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
            *(("search", found) for found in self._searched(task.id, intermediate)),
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
        found = [one["method"] for one in self._searched(task, intermediate) if "method" in one]
        return self.adapter.of_method(found[-1]) if found else self.adapter

    def _searched(self, task: str, intermediate: str | None) -> list[Mapping[str, Any]]:
        """What was found for the task alone, then for the pair."""
        return [self.best.get(name, {}) for name in (task, f"{intermediate} -> {task}")]

    def as_json(self) -> dict[str, Any]:
        """The study as plain JSON data, every field of a file written out."""
        return {
            **{name: value for name, value in dataclasses.asdict(self).items() if name != "device"},
            "training": dict(self.training),
            "imported": dict(self.imported),
            "slurm": dict(self.slurm),
            "ray": dict(self.ray),
            "task": {k: dict(v) for k, v in self.task.items()},
            "best": {k: dict(v) for k, v in self.best.items()},
        }


def share_of(setting: str) -> float:
    """The share of its training rows that a target has in a setting, above 0; BadStudy if it is none."""
    if setting in NAMED_SHARES:
        return NAMED_SHARES[setting]
    found = PERCENT.fullmatch(setting)
    if not found or found[1] != f"{float(found[1]):g}" or float(found[1]) == 0:
        raise BadStudy(
            f"setting {setting!r} is not one of {', '.join(NAMED_SHARES)}, nor a share such as 25% or 25%-stratified"
        )
    return float(found[1]) / 100


def positive_int(name: str, value: object, where: str) -> int:
    """The value; BadStudy unless it is a whole number from 1."""
    if type(value) is not int or value < 1:
        raise BadStudy(f"{where}: {name} {value!r} is not a whole number from 1")
    return value


def checked_training(key: str, value: object, where: str) -> int | float:
    """The value of a training field in its type; BadStudy, naming ``where``, if it is unknown or out of range."""
    fields = {f.name: f.type for f in dataclasses.fields(Training)}
    if key not in fields:
        raise BadStudy(f"{where}: unknown training field {key!r}{nearest(key, sorted(fields))}")
    if fields[key] == "int":
        return positive_int(key, value, where)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadStudy(f"{where}: {key} {value!r} is not a number")
    strict = key in ("learning_rate", "clip")
    if not (value > 0 if strict else value >= 0) or not value < LARGEST or (key == "warmup" and value > 1):
        raise BadStudy(f"{where}: {key} {value!r} is out of range")
    return float(value)


# Adapter methods: the adapters library's class and settings of each, and whether two make a stack.


@dataclass(frozen=True)
class Method:
    """A method: the library's configuration class, and the library's own values of what tells two adapters apart.

    ``library`` holds the library's values of everything else: adapters 1.3.0, with which a test compares them.
    ``no_stack`` says why the library's ``Stack`` of two, which runs without a word, is none; empty where it is one.
    """

    config: str
    settings: Mapping[str, int | float | str]
    library: Mapping[str, Any]
    no_stack: str = ""

    @property
    def stacks(self) -> bool:
        """True where two of its adapters make a stack."""
        return not self.no_stack


BOTTLENECK: Mapping[str, Any] = {  # of SeqBnConfig
    **dict.fromkeys(("output_adapter", "original_ln_before", "original_ln_after", "residual_before_ln"), True),
    **dict.fromkeys(("mh_adapter", "ln_before", "ln_after", "adapter_residual_before_ln"), False),
    **dict.fromkeys(("is_parallel", "use_gating", "cross_adapter", "phm_layer"), False),
    **dict.fromkeys(("shared_W_phm", "factorized_phm_rule"), False),
    **dict.fromkeys(("factorized_phm_W", "shared_phm_rule", "learn_phm", "phm_bias"), True),
    **dict.fromkeys(("init_weights_seed", "inv_adapter", "inv_adapter_reduction_factor"), None),
    **dict.fromkeys(("dropout", "stochastic_depth"), 0.0),
    "init_weights": "bert",
    "scaling": 1.0,
    "leave_out": [],
    "phm_dim": 4,
    "phm_rank": 1,
    "phm_c_init": "normal",
    "phm_init_range": 0.0001,
    "hypercomplex_nonlinearity": "glorot-uniform",
}
DOUBLE = {**BOTTLENECK, "mh_adapter": True, "original_ln_before": False}
LORA: Mapping[str, Any] = {
    "architecture": "lora",
    "selfattn_lora": True,
    "attn_matrices": ["q", "v"],
    "composition_mode": "add",
    "init_weights": "lora",
    "dropout": 0.0,
    "leave_out": [],
    **dict.fromkeys(("intermediate_lora", "output_lora", "use_gating", "use_dora"), False),
    **dict.fromkeys(("init_weights_seed", "vera_d", "vera_b", "dtype"), None),
}
PREFIX: Mapping[str, Any] = {
    "architecture": "prefix_tuning",
    "non_linearity": "tanh",
    "dropout": 0.0,
    "leave_out": [],
    "init_weights_seed": None,
    **dict.fromkeys(("encoder_prefix", "cross_prefix", "shared_gating"), True),
    **dict.fromkeys(("flat", "use_gating"), False),
}
PROMPT: Mapping[str, Any] = {
    "architecture": "prompt_tuning",
    "prompt_init": "random_uniform",
    "prompt_init_text": None,
    "random_uniform_scale": 0.5,
    "combine": "prefix",
    "init_weights_seed": None,
}
METHODS: Mapping[str, Method] = {
    "seq_bn": Method("SeqBnConfig", {"reduction_factor": 16, "non_linearity": "relu"}, BOTTLENECK),
    "double_seq_bn": Method("DoubleSeqBnConfig", {"reduction_factor": 16, "non_linearity": "swish"}, DOUBLE),
    "lora": Method(
        "LoRAConfig",
        {"r": 8, "alpha": 8},
        LORA,
        no_stack="the second sees the first's output alone, so an untrained target switches the intermediate off",
    ),
    "compacter": Method(
        "CompacterConfig",
        {"reduction_factor": 32, "non_linearity": "gelu", "phm_dim": 4},
        {**DOUBLE, "phm_layer": True},
    ),
    "prefix_tuning": Method("PrefixTuningConfig", {"prefix_length": 30, "bottleneck_size": 512}, PREFIX),
    "prompt_tuning": Method("PromptTuningConfig", {"prompt_length": 10}, PROMPT, no_stack="the second is ignored"),
    "par_bn": Method(
        "ParBnConfig",
        {"reduction_factor": 2, "non_linearity": "relu", "scaling": 4.0},
        {**BOTTLENECK, "original_ln_before": False, "init_weights": "mam_adapter", "is_parallel": True},
        no_stack="the first is ignored",
    ),
}
OWN_FIELDS = ("reduction_factor", "non_linearity")  # what a study may set; everything else is the library's


def settings_of(adapter: Adapter) -> dict[str, int | float | str]:
    """The method's name and every setting that names it; BadStudy if the study sets one that the method has not."""
    settings = dict(METHODS[adapter.method].settings)
    for name in OWN_FIELDS:
        value = getattr(adapter, name)
        if value is not None and name not in settings:
            raise BadStudy(f"adapter.{name} {value!r}: method {adapter.method!r} has no such setting; leave it out")
        if value is not None:
            settings[name] = value
    return {"method": adapter.method, **settings}


def library_config(settings: Mapping[str, int | float | str]) -> dict[str, Any]:
    """Everything that the library decides by of an adapter with these settings, all fields written out."""
    own = {name: value for name, value in settings.items() if name != "method"}
    return {**METHODS[str(settings["method"])].library, **own}


def check_stack(method: str) -> None:
    """BadStudy, with what to do instead, if two adapters of the method make no stack."""
    if reason := METHODS[method].no_stack:
        raise BadStudy(
            f"adapter.method {method!r} makes no stack in the adapters library ({reason}); say transfers = false for "
            "baselines alone, or composition = 'sequential'"
        )


def check_width(settings: Mapping[str, int | float | str], width: int) -> None:
    """BadStudy if an adapter with these settings cannot be built on a backbone of this ``width``."""
    parts, factor = settings.get("phm_dim"), settings.get("reduction_factor")
    if isinstance(parts, int) and isinstance(factor, int) and (inner := max(1, width // factor)) % parts:
        raise BadStudy(
            f"adapter.method {settings['method']!r}: width {width} over reduction_factor {factor} leaves {inner}, not "
            f"a multiple of {parts}; set adapter.reduction_factor to another value"
        )


def serves_lanes(settings: Mapping[str, int | float | str]) -> bool:
    """True for the settings of the one adapter whose mathematics the lanes have: ``seq_bn`` with relu."""
    return (settings["method"], settings.get("non_linearity")) == ("seq_bn", "relu")
