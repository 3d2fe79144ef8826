"""Adapter methods: the adapters library's class and settings of each, and whether two make a stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from tasks.errors import BadStudy
from tasks.fields import Count, Number, OneOf, distinct


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
FUSION: Mapping[str, Any] = {  # of AdapterFusion, the library's usual configuration "dynamic"
    **dict.fromkeys(("key", "query", "value", "regularization", "value_before_softmax", "value_initialized"), True),
    **dict.fromkeys(("query_before_ln", "residual_before", "temperature"), False),
    "dropout_prob": None,
}


@dataclass(frozen=True)
class Adapter:
    """The adapter of every cell, in the adapters library's terms; None is the method's own value (``METHODS``).

    Below the first layer that has an adapter, lanes compute what is equal for all of them once.
    """

    method: Annotated[str, OneOf(METHODS), "which kind of adapter"] = "seq_bn"
    reduction_factor: Annotated[Number | None, "width of the backbone over the adapter's; default: the method's"] = None
    non_linearity: Annotated[str | None, "function in the adapter; default: the method's"] = None
    leave_out: Annotated[
        tuple[Count, ...] | None, distinct, "layers, from 0, without an adapter (AdapterDrop: Rücklé et al. 2021)"
    ] = None

    def of_method(self, method: str) -> Adapter:
        """The adapter itself if it is of the method, else the library's own of that method."""
        return self if method == self.method else Adapter(method)


OWN_FIELDS = ("reduction_factor", "non_linearity")  # what a study may set; everything else is the library's


def settings_of(adapter: Adapter) -> dict[str, Any]:
    """The method's name and every setting that names it; BadStudy if the study sets one that the method has not.

    Layers without an adapter are among them only where there are any.
    """
    settings: dict[str, Any] = dict(METHODS[adapter.method].settings)
    for name in OWN_FIELDS:
        value = getattr(adapter, name)
        if value is not None and name not in settings:
            raise BadStudy(f"adapter.{name} {value!r}: method {adapter.method!r} has no such setting; leave it out")
        if value is not None:
            settings[name] = value
    if adapter.leave_out:
        if "leave_out" not in METHODS[adapter.method].library:
            raise BadStudy(f"adapter.leave_out: method {adapter.method!r} is in no layer; leave it out")
        settings["leave_out"] = sorted(adapter.leave_out)
    return {"method": adapter.method, **settings}


def library_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the library decides by of an adapter with these settings, all fields written out."""
    values = {name: value for name, value in settings.items() if name != "method"}
    return {**METHODS[str(settings["method"])].library, **values}


def fusion_parameters(layers: int, width: int) -> int:
    """How many numbers AdapterFusion trains: query and key with biases, and value, all as wide as the backbone."""
    return layers * (3 * width * width + 2 * width)


def check_stack(method: str) -> None:
    """BadStudy, with what to do instead, if two adapters of the method make no stack."""
    if reason := METHODS[method].no_stack:
        raise BadStudy(
            f"adapter.method {method!r} makes no stack in the adapters library ({reason}); say transfers = false for "
            "baselines alone, or composition = 'sequential'"
        )


def check_layers(settings: Mapping[str, Any], layers: int) -> None:
    """BadStudy if an adapter is left out of a layer that a backbone of so many ``layers`` has not, or of every one."""
    left_out = settings.get("leave_out", [])
    if absent := [layer for layer in left_out if layer >= layers]:
        raise BadStudy(
            f"adapter.leave_out names layer {absent[0]}, and the backbone's {layers} layers are 0 to {layers - 1}; "
            "correct it"
        )
    if left_out and len(left_out) == layers:
        raise BadStudy(f"adapter.leave_out names all {layers} layers, and nothing would be trained; keep one at least")


def layers_of(settings: Mapping[str, Any], layers: int) -> int:
    """In how many of a backbone's ``layers`` an adapter with these settings is."""
    return layers - len(settings.get("leave_out", []))


def check_width(settings: Mapping[str, Any], width: int) -> None:
    """BadStudy if an adapter with these settings cannot be built on a backbone of this ``width``."""
    parts, factor = settings.get("phm_dim"), settings.get("reduction_factor")
    if isinstance(parts, int) and isinstance(factor, int) and (inner := max(1, width // factor)) % parts:
        raise BadStudy(
            f"adapter.method {settings['method']!r}: width {width} over reduction_factor {factor} leaves {inner}, not "
            f"a multiple of {parts}; set adapter.reduction_factor to another value"
        )


def serves_lanes(settings: Mapping[str, Any]) -> bool:
    """True for the settings of the one adapter whose mathematics the lanes have: ``seq_bn`` with relu."""
    return (settings["method"], settings.get("non_linearity")) == ("seq_bn", "relu")
