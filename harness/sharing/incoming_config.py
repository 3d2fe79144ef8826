"""What the configurations of an incoming folder mean today: an adapter's method and settings, a head's labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from harness.methods import METHODS
from harness.sharing.incoming import LONGEST_NAME, BadAdapter, Part, shown

RENAMED = {  # fields of adapter-transformers 1 by their names of today
    "LN_after": "ln_after",
    "LN_before": "ln_before",
    "MH_Adapter": "mh_adapter",
    "Output_Adapter": "output_adapter",
    "invertible_adapter": "inv_adapter",
}
OF_FUSION = ("attention_type", "new_attention_norm")  # once in every adapter's configuration, and never of one adapter
OF_TRAINING = (  # how it began and was trained: no part in what it computes
    "init_weights",
    "init_weights_seed",
    "dropout",
    "stochastic_depth",
    "phm_c_init",
    "phm_init_range",
    "hypercomplex_nonlinearity",
    "learn_phm",
)
OF_PHM = (
    "phm_dim",
    "phm_rank",
    "phm_bias",
    "shared_W_phm",
    "shared_phm_rule",
    "factorized_phm_W",
    "factorized_phm_rule",
)
MOST = 10_000  # of any size that a configuration may ask for, so that none takes all memory
ARCHITECTURES = ("prefix_tuning", "lora", "prompt_tuning")
BOTTLENECKS = ("seq_bn", "double_seq_bn", "compacter", "par_bn")
LAYERS, ACTIVATION = 2, "tanh"  # of the heads that a study trains, and that lanes have


class Head(NamedTuple):
    """What a head answers, and how its tensors are called in a model where it is called otherwise."""

    kind: str
    classes: tuple[str, ...]
    rename: Callable[[str], str]


def settings_in(part: Part) -> dict[str, int | float | str]:
    """The method and settings (as in ``methods.settings_of``) of an adapter's configuration, however old.

    BadAdapter for one that is none of the methods whose adapters can stand below others.
    """
    given = _today(part)
    architecture = given.pop("architecture", None)
    if architecture is not None and architecture not in ARCHITECTURES:
        raise BadAdapter(
            f"{part.where}: adapter of architecture {shown(architecture)}, which this project does not train"
        )
    methods = BOTTLENECKS if architecture is None else (architecture,)
    complete = _complete(part, given, "BnConfig" if architecture is None else METHODS[methods[0]].config)
    differing = {method: _differing(complete, method) for method in methods}
    method = min(differing, key=lambda one: len(differing[one]))
    if differing[method]:
        name, (found, wanted) = next(iter(differing[method].items()))
        raise BadAdapter(
            f"{part.where}: its adapter is no {method}, the nearest that this project trains: {name} is "
            f"{shown(found)}, not {wanted!r}"
        )
    if METHODS[method].no_stack:
        raise BadAdapter(f"{part.where}: a {method} adapter stands below no other ({METHODS[method].no_stack})")
    return {"method": method, **{name: complete[name] for name in METHODS[method].settings}}


def _today(part: Part) -> dict[str, Any]:
    """The fields under today's names, without those that mean nothing for one adapter."""
    from adapters.utils import ACTIVATION_RENAME

    given = part.config.get("config")
    if not isinstance(given, Mapping):
        raise BadAdapter(f"{part.where}: config {shown(given)} is not a table of settings; save the adapter again")
    found: dict[str, Any] = {
        RENAMED.get(str(name), str(name)): value for name, value in given.items() if name not in OF_FUSION
    }
    if part.config.get("type") == "text_task":  # it named the invertible adapter of its language, and had none
        found |= dict.fromkeys(found.keys() & {"inv_adapter", "inv_adapter_reduction_factor"})
    function = found.get("non_linearity")
    if isinstance(function, str):
        found["non_linearity"] = function if "version" in part.config else ACTIVATION_RENAME.get(function, function)
    return found


def _complete(part: Part, given: Mapping[str, Any], config: str) -> dict[str, Any]:
    """All settings, those that an older library did not know as it had them; BadAdapter for one that nobody knows."""
    import adapters

    kind = getattr(adapters, config)
    known = {one.name for one in dataclasses.fields(kind)}
    if unknown := sorted(set(given) - known):
        raise BadAdapter(f"{part.where}: setting {shown(unknown[0])} is unknown to adapters {adapters.__version__}")
    try:
        complete: dict[str, Any] = kind(**given).to_dict()
    except TypeError:
        plain = dataclasses.fields(kind)
        needed = [one.name for one in plain if one.default is one.default_factory is dataclasses.MISSING]
        lacking = next(name for name in needed if name not in given)
        raise BadAdapter(f"{part.where}: setting {lacking!r} is missing; save the adapter again") from None
    factor = complete.get("reduction_factor")
    if isinstance(factor, float) and factor.is_integer():
        complete["reduction_factor"] = int(factor)
    if isinstance(complete.get("non_linearity"), str):
        complete["non_linearity"] = complete["non_linearity"].lower()
    return complete


def _differing(complete: Mapping[str, Any], method: str) -> dict[str, tuple[Any, Any]]:
    """Settings that make another adapter than the library's own of a method, with their values and the library's."""
    import adapters

    plain = getattr(adapters, METHODS[method].config)().to_dict()
    unused = (*OF_TRAINING, *(() if complete.get("phm_layer") else OF_PHM))
    found = {}
    for name, usual in plain.items():
        value = complete.get(name)
        is_free = name in METHODS[method].settings
        if name not in unused and not (_can_be(value, usual) if is_free else value == usual):
            found[name] = (value, usual)
    return found


def _can_be(value: object, usual: object) -> bool:
    """Whether a free setting may be so: a text, or a number above 0, whole where it usually is."""
    if isinstance(usual, str):
        return isinstance(value, str)
    return type(value) is type(usual) and isinstance(value, int | float) and 0 < value <= MOST


def head_in(part: Part, name: str) -> Head:
    """What a head answers, and the names of its tensors in a model where it is called ``name``.

    BadAdapter for a head of another shape than those that score texts here.
    """
    from adapters.head_utils import STATIC_TO_FLEX_HEAD_MAP, get_head_config_and_rename_list

    model_class, config = part.text("model_class"), part.config.get("config")
    if model_class in STATIC_TO_FLEX_HEAD_MAP:  # the head of a transformers class, not of the library's own
        named, outputs = part.config.get("label2id"), part.config.get("num_labels")
        labels = named if isinstance(named, Mapping) else {}
        config, rename = get_head_config_and_rename_list(model_class, name, labels, num_labels=outputs or len(labels))
    elif isinstance(config, Mapping):
        old = f"heads.{part.name}."

        def rename(tensor: str) -> str:
            return f"heads.{name}.{tensor.removeprefix(old)}" if tensor.startswith(old) else tensor
    else:
        raise BadAdapter(f"{part.where}: config {shown(config)} is not a table of settings; save the head again")
    _check_shape(part, config)
    return Head(*_label(part, config), rename)


def _check_shape(part: Part, config: Mapping[str, Any]) -> None:
    kind, layers, function = (config.get(name) for name in ("head_type", "layers", "activation_function"))
    is_pooled, has_bias = config.get("use_pooler", False), config.get("bias", True)
    if kind not in ("classification", "multilabel_classification"):
        what = f"a head of type {shown(kind)}"
    elif (layers, function, is_pooled, has_bias) != (LAYERS, ACTIVATION, False, True):
        what = f"a head of {shown(layers)} layers with {shown(function)}{', over the pooler' if is_pooled else ''}"
    else:
        return
    raise BadAdapter(
        f"{part.where}: {what}, but texts are scored through classification heads of {LAYERS} layers with "
        f"{ACTIVATION}; take the head's files out of the folder to import the adapter alone"
    )


def _label(part: Part, config: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The kind of label and its classes in the order of the outputs; a head of one output gives a number."""
    outputs, labels = config.get("num_labels"), config.get("label2id")
    is_multilabel = config["head_type"] == "multilabel_classification"
    if type(outputs) is not int or not 1 + is_multilabel <= outputs <= MOST:
        raise BadAdapter(f"{part.where}: num_labels {shown(outputs)} is not a number of outputs; save the head again")
    if outputs == 1:
        return "continuous", ()
    if not labels:
        labels = {f"LABEL_{number}": number for number in range(outputs)}
    if not isinstance(labels, Mapping) or sorted(map(str, labels.values())) != sorted(map(str, range(outputs))):
        raise BadAdapter(f"{part.where}: label2id does not number the {outputs} outputs from 0; save the head again")
    classes = tuple(sorted(labels, key=lambda one: int(labels[one])))
    if odd := [one for one in classes if not (one.isprintable() and 0 < len(one) <= LONGEST_NAME)]:
        raise BadAdapter(f"{part.where}: label2id names a class {shown(odd[0])}; call it otherwise")
    return "multilabel" if is_multilabel else "binary" if outputs == 2 else "multiclass", classes
