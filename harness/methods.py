"""Adapter methods: the adapters library's class and settings of each, and whether two make a stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.study import Adapter
from tasks.errors import BadStudy


@dataclass(frozen=True)
class Method:
    """A method: the library's configuration class, and the library's own values of what tells two adapters apart.

    ``no_stack`` says why the library's ``Stack`` of two, which runs without a word, is none; empty where it is one.
    """

    config: str
    settings: Mapping[str, int | float | str]
    no_stack: str = ""

    @property
    def stacks(self) -> bool:
        """True where two of its adapters make a stack."""
        return not self.no_stack


METHODS: Mapping[str, Method] = {
    "seq_bn": Method("SeqBnConfig", {"reduction_factor": 16, "non_linearity": "relu"}),
    "double_seq_bn": Method("DoubleSeqBnConfig", {"reduction_factor": 16, "non_linearity": "swish"}),
    "lora": Method(
        "LoRAConfig",
        {"r": 8, "alpha": 8},
        no_stack="the second sees the first's output alone, so an untrained target switches the intermediate off",
    ),
    "compacter": Method("CompacterConfig", {"reduction_factor": 32, "non_linearity": "gelu", "phm_dim": 4}),
    "prefix_tuning": Method("PrefixTuningConfig", {"prefix_length": 30, "bottleneck_size": 512}),
    "prompt_tuning": Method("PromptTuningConfig", {"prompt_length": 10}, no_stack="the second is ignored"),
    "par_bn": Method(
        "ParBnConfig",
        {"reduction_factor": 2, "non_linearity": "relu", "scaling": 4.0},
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
