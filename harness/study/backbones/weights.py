"""Whether a folder's weights are those that its config describes, and finite; no model is loaded.

The library fills what a file lacks with random numbers, new ones at every load, and drops what the encoder has no
tensor for. Both are a warning there and an error here: tensors of an encoder are all present, of the config's sizes, of
a type that needs no scale, and finite. The pooler and heads of language models may be missing or left over: no cell
uses them. Sizes are read from the file's header alone; only ``check_finite`` reads the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from harness.study.backbones.identity import CONFIGS, SHARED
from tasks.errors import BadInput

Shape = tuple[int, ...]
Tensor = tuple[str, Shape]  # its type and shape
PREFIXES = {  # as the library has them
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), "roberta"),
    "bert": "bert",
    "mpnet": "mpnet",
}
SIZES = {  # fields of a config, with the library's defaults
    name: SHARED[name]
    for name in (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
        "type_vocab_size",
    )
}
VOCABULARY = {kind: int(fields["vocab_size"]) for kind, fields in CONFIGS.items()} | {
    "deberta": 50265,
    "deberta-v2": 128100,
    "electra": 30522,
    "modernbert": 50368,
    "mpnet": 30527,
    "t5": 32128,
    "gemma": 256000,
    "gemma2": 256000,
    "gemma3_text": 262208,
    "gpt2": 50257,
    "gpt_neox": 50432,
    "granite": 32000,
    "llama": 32000,
    "mistral": 32000,
    "olmo2": 50304,
    "phi3": 32064,
    "qwen2": 151936,
    "qwen3": 151936,
    "smollm3": 128256,
}
BUCKETS = 32  # MPNet's distances between tokens
ACTIVATIONS = frozenset(
    "gelu gelu_10 gelu_fast gelu_new gelu_python gelu_pytorch_tanh gelu_python_tanh gelu_accurate laplace leaky_relu "
    "linear mish quick_gelu relu relu2 relu6 sigmoid silu swish tanh prelu xielu".split()
)
SHARES = ("hidden_dropout_prob", "attention_probs_dropout_prob")
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # numbers of positions, which old files hold
ADAPTERS = "adapter_config.json"
WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
ENCODER = ("embeddings.", "encoder.")  # parts of an encoder that are not its pooler
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
BF16_EXPONENT = 0x7F80  # all ones where a bf16 is no finite number
CHUNK = 1 << 20  # values that are looked at together


class BadWeights(BadInput):
    """Weights are missing, damaged, or not those of the config beside them."""


def check_folder(folder: Path, model_type: str, config: Mapping[str, Any], *, is_read: bool = True) -> None:
    """BadWeights, one line, unless ``model.safetensors`` holds the encoder that ``config`` describes, all of it finite.

    It is read once, for the finite numbers, or not at all; everything else is in its header.
    """
    check_config(folder / "config.json", model_type, config)
    shapes = shapes_in(folder)
    check_shapes(folder, shapes, PREFIXES[model_type], needed(model_type, config))
    if is_read:
        check_finite(folder, shapes, PREFIXES[model_type])


def check_config(file: Path, model_type: str, config: Mapping[str, Any]) -> None:
    """BadWeights for sizes that are none, or do not go together."""
    sizes = {name: config.get(name, default) for name, default in SIZES.items()}
    sizes["vocab_size"] = config.get("vocab_size", VOCABULARY[model_type])
    for name, value in sizes.items():
        if type(value) is not int or value < 1:
            raise BadWeights(f"{file}: {name} {value!r} is not a whole number from 1; correct it")
    if sizes["hidden_size"] % sizes["num_attention_heads"]:
        raise BadWeights(
            f"{file}: hidden_size {sizes['hidden_size']} cannot be divided among num_attention_heads "
            f"{sizes['num_attention_heads']}; take the config that belongs to the weights"
        )
    function = config.get("hidden_act", "gelu")
    if not (isinstance(function, str) and function in ACTIVATIONS):
        raise BadWeights(f"{file}: hidden_act {function!r} is no activation that the library knows; correct it")
    for name in SHARES:
        if type(share := config.get(name, 0.1)) not in (int, float) or not 0 <= share <= 1:
            raise BadWeights(f"{file}: {name} {share!r} is not a probability; correct it")
    pad = padding(model_type, config)
    room = sizes["vocab_size"] if model_type == "bert" else min(sizes["vocab_size"], sizes["max_position_embeddings"])
    if not (type(pad) is int and 0 <= pad < room) and not (pad is None and model_type == "bert"):
        raise BadWeights(f"{file}: pad_token_id {pad!r} is not a whole number from 0 to {room - 1}; correct it")


def padding(model_type: str, config: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever the file says
    """The config's number of the padding token, after which RoBERTa begins to count positions."""
    return config.get("pad_token_id", 0 if model_type == "bert" else 1)


def needed(model_type: str, config: Mapping[str, Any]) -> Iterator[tuple[str, Shape]]:
    """Names and shapes of the encoder's tensors, without the prefix that a model with heads gives them."""
    size = {name: config.get(name, default) for name, default in SIZES.items()}
    width, inner = size["hidden_size"], size["intermediate_size"]
    yield "embeddings.word_embeddings.weight", (config.get("vocab_size", VOCABULARY[model_type]), width)
    yield "embeddings.position_embeddings.weight", (size["max_position_embeddings"], width)
    if model_type != "mpnet":
        yield "embeddings.token_type_embeddings.weight", (size["type_vocab_size"], width)
    yield from _norm("embeddings.LayerNorm", width)
    if model_type == "mpnet":
        buckets = config.get("relative_attention_num_buckets", BUCKETS)
        yield "encoder.relative_attention_bias.weight", (buckets, size["num_attention_heads"])
    names = "attn.q attn.k attn.v attn.o" if model_type == "mpnet" else "self.query self.key self.value output.dense"
    norm = "attention.LayerNorm" if model_type == "mpnet" else "attention.output.LayerNorm"
    for number in range(size["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for name in names.split():
            yield from _linear(f"{layer}.attention.{name}", width, width)
        yield from _norm(f"{layer}.{norm}", width)
        yield from _linear(f"{layer}.intermediate.dense", inner, width)
        yield from _linear(f"{layer}.output.dense", width, inner)
        yield from _norm(f"{layer}.output.LayerNorm", width)


def _linear(name: str, outputs: int, inputs: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _norm(name: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def shapes_in(folder: Path) -> dict[str, Tensor]:
    """Type and shape of every tensor of the folder's weights, by its name there; BadWeights for what is no such file.

    A folder of an adapter beside a backbone is refused: libraries would look for the weights that it stands on.
    """
    file = folder / WEIGHTS
    if (folder / ADAPTERS).is_file():
        raise BadWeights(f"{folder / ADAPTERS}: an adapter stands beside the weights; keep it in a folder of its own")
    if not file.is_file():
        raise BadWeights(absent(folder))
    try:
        with safe_open(file, framework="numpy") as weights:
            slices = {name: weights.get_slice(name) for name in weights.keys()}
            return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
    except (OSError, SafetensorError, ValueError) as problem:
        reason = " ".join(str(problem).split())
        raise BadWeights(f"{file}: not a whole safetensors file ({reason}); get or save it again") from None


def absent(folder: Path) -> str:
    """What to say of a folder without ``model.safetensors``."""
    if (folder / INDEX).is_file():
        return (
            f"{folder / INDEX}: the weights are in several files, which is not supported; save them as one, "
            'model.safetensors, with the library\'s save_pretrained(..., max_shard_size="10GB")'
        )
    return f"{folder / WEIGHTS} is missing; weights are read as safetensors only, never as pickles"


def _own_names(folder: Path, shapes: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Names in the file by those that the library takes them for in the encoder; some are of heads, or of nothing.

    As there, a prefix is expected of all names if any begins with it, and gamma and beta are old names.
    """
    begins = f"{prefix}." if any(name.startswith(prefix) for name in shapes) else ""
    names: dict[str, str] = {}
    for name in shapes:
        own = _current_name(name.removeprefix(begins)) if name.startswith(begins) else ""
        if own in names:
            raise BadWeights(f"{folder / WEIGHTS}: holds {own} under two names; save it again")
        if own and own not in BUFFERS:
            names[own] = name
    return names


def _current_name(name: str) -> str:
    """A tensor's name as the library has it today."""
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        if name.endswith(old):
            return name.replace(old, new)
    return name


def check_shapes(folder: Path, shapes: Mapping[str, Tensor], prefix: str, wanted: Iterable[tuple[str, Shape]]) -> None:
    """BadWeights unless the encoder's tensors are exactly the ``wanted`` ones, in shape too."""
    file, names = folder / WEIGHTS, _own_names(folder, shapes, prefix)
    for name, shape in wanted:
        if name not in names:
            raise BadWeights(_missing(file, name, shapes))
        kind, own = shapes[names.pop(name)]
        if own != shape:
            raise BadWeights(
                f"{file}: {name} has the shape {list(own)}, but by config.json it is {list(shape)}; take the config "
                "that belongs to the weights"
            )
        if kind not in FLOATS:
            raise BadWeights(f"{file}: {name} is of type {kind}; save the weights as floating-point numbers")
    if left := next((name for name in names if name.startswith(ENCODER)), None):
        raise BadWeights(
            f"{file}: {left} has no place in the encoder of config.json, so a part of the weights would be left out; "
            "take the config that belongs to the weights"
        )


def _missing(file: Path, name: str, shapes: Mapping[str, Tensor]) -> str:
    holds = f"the first of its {len(shapes)} tensors is {next(iter(shapes))}" if shapes else "it holds no tensor"
    return (
        f"{file}: {name} is missing ({holds}), and random numbers would stand in for it; take weights and config.json "
        "that belong together, under the library's own names"
    )


def check_finite(folder: Path, shapes: Mapping[str, Tensor], prefix: str) -> None:
    """BadWeights if a tensor of the encoder holds a value that is not finite; the file's header is sound."""
    file, names = folder / WEIGHTS, _own_names(folder, shapes, prefix)
    try:
        with file.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            header = json.loads(handle.read(length))
            for name in (name for own, name in names.items() if own.startswith(ENCODER)):
                start, end = header[name]["data_offsets"]
                handle.seek(8 + length + start)
                if not _is_finite(handle, header[name]["dtype"], end - start):
                    raise BadWeights(f"{file}: {name} holds values that are not finite numbers; get or save it again")
    except OSError as problem:
        raise BadWeights(f"{file}: cannot be read: {problem.strerror}") from None


def _is_finite(handle: Any, kind: str, size: int) -> bool:  # noqa: ANN401
    left = size // np.dtype(FLOATS[kind]).itemsize
    while left > 0:
        values = np.fromfile(handle, FLOATS[kind], min(left, CHUNK))
        is_finite = (values & BF16_EXPONENT) != BF16_EXPONENT if kind == "BF16" else np.isfinite(values)
        if not is_finite.all():
            return False
        left -= len(values) or left
    return True
