"""What a backbone's files say: whether its weights and its tokenizer can be used, and what of both decides numbers.

No model is loaded: what the libraries would make of the files is written down here, and a test compares both.

The fields of the config that act and the tokenizer are hashed; a default that a file writes out, and a field that
changes no token and no activation, leave the hashes as they are.

The library makes a tokenizer of ``tokenizer.json``, or of a vocabulary where there is none, and adds each special
token that the vocabulary lacks at its end. An id beyond the embedding would end a training in its first batch.

The library fills what a file lacks with random numbers, new ones at every load, and drops what the encoder has no
tensor for. Both are a warning there and an error here: tensors of an encoder are all present, of the config's sizes,
of a type that needs no scale, and finite. The pooler and heads of language models may be missing or left over: no
cell uses them. Sizes are read from the file's header alone; only ``check_finite`` reads the numbers.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from tasks.errors import BadInput
from tasks.fields import Field, Number, OneOf, Positive, Range, as_kind, check_table, fields_of

ACTIVATIONS = (
    "gelu gelu_10 gelu_fast gelu_new gelu_python gelu_pytorch_tanh gelu_python_tanh gelu_accurate laplace leaky_relu "
    "linear mish quick_gelu relu relu2 relu6 sigmoid silu swish tanh prelu xielu".split()
)
Probability = Annotated[float, Range(0, 1)]


@dataclass(frozen=True)
class EncoderConfig:
    """What the configs of encoders of all kinds have in common, with the library's defaults."""

    hidden_size: Number = 768
    num_hidden_layers: Number = 12
    num_attention_heads: Number = 12
    intermediate_size: Number = 3072
    hidden_act: Annotated[str, OneOf(ACTIVATIONS)] = "gelu"
    hidden_dropout_prob: Probability = 0.1
    attention_probs_dropout_prob: Probability = 0.1
    classifier_dropout: Probability | None = None
    max_position_embeddings: Number = 512
    type_vocab_size: Number = 2
    layer_norm_eps: Positive = 1e-12


SHARED = asdict(EncoderConfig())
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "roberta": {**SHARED, "vocab_size": 50265, "pad_token_id": 1},
    "xlm-roberta": {**SHARED, "vocab_size": 30522, "pad_token_id": 1},
    "camembert": {**SHARED, "vocab_size": 30522, "pad_token_id": 1},
    "bert": {**SHARED, "vocab_size": 30522, "pad_token_id": 0},
}
ATTENTION = "sdpa"  # how the library computes attention where a config does not say
BERT = "BertTokenizer"
ANGLED = {
    **dict.fromkeys(("bos_token", "cls_token"), "<s>"),
    **dict.fromkeys(("eos_token", "sep_token"), "</s>"),
    **{f"{name}_token": f"<{name}>" for name in ("unk", "pad", "mask")},
}
FURTHER = "additional_special_tokens"
SPECIAL: Mapping[str, Mapping[str, Any]] = {  # by the kind of tokenizer
    "RobertaTokenizer": ANGLED,
    "XLMRobertaTokenizer": ANGLED,
    "CamembertTokenizer": {**ANGLED, FURTHER: ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]},
    BERT: {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")},
}
KINDS = {
    "roberta": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "camembert": "CamembertTokenizer",
    "bert": BERT,
}
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
BERT_NORMALIZER = {  # fields of tokenizer_config.json and their defaults, by the normaliser's own names
    "lowercase": ("do_lower_case", True),
    "strip_accents": ("strip_accents", None),
    "handle_chinese_chars": ("tokenize_chinese_chars", True),
}
TOKEN = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": True, "special": False}
VOCABULARIES = ("vocab.json", "merges.txt", "vocab.txt", "sentencepiece.bpe.model")  # where there is no tokenizer.json


def digest(facts: Mapping[str, Any]) -> str:
    """Sha256 of the facts as sorted JSON, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def config_facts(model_type: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config that act, all written out: 0 and 0.0 are one probability."""
    facts = {name: config.get(name, default) for name, default in CONFIGS[model_type].items()}
    facts |= {name: as_kind(facts[name], field.kind, floats=True) for name, field in fields_of(EncoderConfig).items()}
    attention = [value for name, value in config.items() if "attn_implementation" in name and value is not None]
    return {"model_type": model_type, **facts, "attention": attention[0] if attention else ATTENTION}


def tokenizer_facts(folder: Path, model_type: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """What decides which ids a text becomes: vocabulary, merges, normaliser, special and added tokens.

    Not what a fast tokenizer does at other times: decoding, padding, cutting, and the template around a text, whose
    place the tokenizer's kind takes. ValueError, TypeError, KeyError or OSError for files that are missing or broken.
    """
    tokenizer_config = _json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}
    kind = kind_of(model_type, tokenizer_config, config)
    if (folder / "tokenizer.json").is_file():
        # the parts of a tokenizer.json that act, as a tokenizer of this kind would have them
        raw = _json(folder / "tokenizer.json")
        normalizer, pre_tokenizer = raw.get("normalizer"), raw.get("pre_tokenizer")
        if kind == BERT and normalizer and normalizer.get("type") == "BertNormalizer":
            normalizer = {**normalizer, **bert_settings(tokenizer_config)}
        if pre_tokenizer and pre_tokenizer.get("type") == "ByteLevel":
            pre_tokenizer = {**pre_tokenizer, "add_prefix_space": bool(tokenizer_config.get("add_prefix_space", False))}
            pre_tokenizer.pop("trim_offsets", None)
        added = [_token(token["id"], token) for token in raw.get("added_tokens") or []]
        # a model without what is only its default; merges as pairs, however they are written
        model = {
            name: value for name, value in raw["model"].items() if not (value is None or value is False or value == "")
        }
        if "merges" in model:
            model["merges"] = [pair.split(" ", 1) if isinstance(pair, str) else list(pair) for pair in model["merges"]]
        backend: dict[str, Any] = {
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "model": model,
            "added_tokens": sorted(added, key=lambda token: int(token["id"])),
        }
    else:
        # the same from the files of a tokenizer that was not saved as a whole
        there = [name for name in VOCABULARIES if (folder / name).is_file()]
        if not there:
            raise FileNotFoundError(f"no tokenizer.json, and none of {', '.join(VOCABULARIES)}")
        if kind == BERT:
            settings = bert_settings(tokenizer_config)
        else:
            settings = {"add_prefix_space": tokenizer_config.get("add_prefix_space", False)}
        backend = {"files": {name: _content(folder / name) for name in there}, "settings": settings, "added_tokens": []}
    listed = {(token["content"], _flags(token)) for token in backend["added_tokens"]}
    further = [_token(number, token) for number, token in tokenizer_config.get("added_tokens_decoder", {}).items()]
    return {
        "kind": kind,
        "special": special_tokens(folder, kind, tokenizer_config),
        **backend,
        "more_tokens": [token for token in further if (token["content"], _flags(token)) not in listed],
    }


def kind_of(model_type: str, tokenizer_config: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The kind of tokenizer that the library makes of a folder with these two files, without ``Fast``."""
    kind = tokenizer_config.get("tokenizer_class") or config.get("tokenizer_class") or KINDS[model_type]
    return str(kind).removesuffix("Fast")


def bert_settings(tokenizer_config: Mapping[str, Any]) -> dict[str, Any]:
    """What a BERT's normaliser does, whatever its own file says."""
    return {name: tokenizer_config.get(field, default) for name, (field, default) in BERT_NORMALIZER.items()}


def _content(file: Path) -> object:
    """A vocabulary by what it says: JSON in any order, lines without the ends that editors give them."""
    if file.suffix == ".json":
        return _json(file)
    if file.suffix == ".txt":
        return file.read_text(encoding="utf-8").splitlines()
    return hashlib.sha256(file.read_bytes()).hexdigest()


def special_tokens(folder: Path, kind: str, tokenizer_config: Mapping[str, Any]) -> dict[str, Any]:
    """The special tokens by their roles; an older folder's map of them goes before its config."""
    file = folder / "special_tokens_map.json"
    older = _json(file) if "added_tokens_decoder" not in tokenizer_config and file.is_file() else {}
    by_role = {**SPECIAL.get(kind, {}), **tokenizer_config, **older}
    further = [_text(token) for token in by_role.get(FURTHER) or []]
    return {**{role: _text(by_role.get(role)) for role in ROLES}, FURTHER: further}


def _text(token: object) -> str | None:
    return str(token["content"]) if isinstance(token, Mapping) else None if token is None else str(token)


def _token(number: object, token: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": str(number), "content": token["content"], **dict(zip(TOKEN, _flags(token), strict=True))}


def _flags(token: Mapping[str, Any]) -> tuple[bool, ...]:
    return tuple(bool(token.get(name, default)) for name, default in TOKEN.items())


def _json(file: Path) -> dict[str, Any]:
    values = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(values, dict):
        raise TypeError(f"{file.name} is not a JSON object")
    return values


WHOLE = "tokenizer.json"
VOCABULARY_FILES = {"roberta": ("vocab.json", "merges.txt"), "bert": ("vocab.txt",), "xlm-roberta": (), "camembert": ()}
CURE = "put the tokenizer's files there, as they come with the weights"


class BadTokenizer(BadInput):
    """A tokenizer's files are missing, cannot be read, or know more tokens than the embedding has rows."""


def check_tokenizer(folder: Path, model_type: str, facts: Mapping[str, Any], rows: int) -> None:
    """BadTokenizer, one line, unless every token that the folder's files name has one of the embedding's ``rows``.

    ``facts`` are those of harness.study.backbone_files: special tokens by their roles, and those added to them.
    """
    vocabulary, special = _vocabulary(folder, model_type), dict(facts["special"])
    tokens = {*special.pop(FURTHER), *special.values(), *(token["content"] for token in facts["more_tokens"])}
    check_ids(folder, vocabulary, len(tokens - vocabulary.keys() - {None}), rows)


def check_ids(folder: Path, vocabulary: Mapping[str, int], added: int, rows: int) -> None:
    """BadTokenizer if a token, or one of those that are ``added`` at the end, has no row of the embedding."""
    last = max(vocabulary.values(), default=-1) + added
    if last >= rows:
        raise BadTokenizer(
            f"{folder}: its tokenizer numbers tokens up to {last}, but the embedding has {rows} rows (vocab_size in "
            "config.json); take the tokenizer that belongs to the weights"
        )


def _vocabulary(folder: Path, model_type: str) -> dict[str, int]:
    """Every token and its id."""
    from tokenizers import Tokenizer, models

    files = [folder / name for name in VOCABULARY_FILES[model_type]]
    try:
        if (folder / WHOLE).is_file():
            tokenizer = Tokenizer.from_file(str(folder / WHOLE))
        elif files and all(file.is_file() for file in files):
            kind = models.WordPiece if model_type == "bert" else models.BPE
            tokenizer = Tokenizer(kind.from_file(*map(str, files)))
        else:
            other = f" and no {' with '.join(VOCABULARY_FILES[model_type])}" if files else ""
            raise BadTokenizer(f"{folder}: there is no {WHOLE}{other}; {CURE}")
    except BadTokenizer:
        raise
    except Exception as problem:  # the library raises nothing more special
        reason = " ".join(str(problem).split())
        raise BadTokenizer(f"{folder}: its tokenizer cannot be read ({reason}); {CURE}") from None
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    return vocabulary


Shape = tuple[int, ...]
Tensor = tuple[str, Shape]  # its type and shape
PREFIXES = {  # as the library has them
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), "roberta"),
    "bert": "bert",
    "mpnet": "mpnet",
}
SIZES = {name: default for name, default in SHARED.items() if isinstance(default, int)}


class Family(NamedTuple):
    """The library's defaults of weights that no adapter stands on: rows of the embedding, and tokens of a text.

    A config bounds the tokens by ``field``; ``spare`` of them no text has.
    """

    vocabulary: int
    tokens: int
    field: str = "max_position_embeddings"
    spare: int = 0


FOREIGN = {  # encoders, and T5, of which the encoder may be taken
    "deberta": Family(50265, 512),
    "deberta-v2": Family(128100, 512),
    "electra": Family(30522, 512),
    "modernbert": Family(50368, 8192),
    "mpnet": Family(30527, 512, spare=2),
    "t5": Family(32128, 512, "n_positions"),
}
DECODERS = {
    "gemma": Family(256000, 8192),
    "gemma2": Family(256000, 8192),
    "gemma3_text": Family(262208, 131072),
    "gpt2": Family(50257, 1024, "n_positions"),
    "gpt_neox": Family(50432, 2048),
    "granite": Family(32000, 2048),
    "llama": Family(32000, 2048),
    "mistral": Family(32000, 131072),
    "olmo2": Family(50304, 2048),
    "phi3": Family(32064, 4096),
    "qwen2": Family(151936, 32768),
    "qwen3": Family(151936, 32768),
    "smollm3": Family(128256, 32768),
}
VOCABULARY = {kind: int(fields["vocab_size"]) for kind, fields in CONFIGS.items()}
VOCABULARY |= {kind: family.vocabulary for kind, family in (FOREIGN | DECODERS).items()}
BUCKETS = 32  # MPNet's distances between tokens
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # numbers of positions, which old files hold
ADAPTERS = "adapter_config.json"
WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
OLD_NAMES = {"gamma": "weight", "beta": "bias"}  # of a LayerNorm's tensors
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
    file = folder / "config.json"
    fields = {**fields_of(EncoderConfig), "vocab_size": Field(Number)}
    check_table({name: config[name] for name in fields if name in config}, fields, BadWeights, str(file))
    sizes = {name: config.get(name, default) for name, default in SIZES.items()}
    sizes["vocab_size"] = config.get("vocab_size", VOCABULARY[model_type])
    if sizes["hidden_size"] % sizes["num_attention_heads"]:
        raise BadWeights(
            f"{file}: hidden_size {sizes['hidden_size']} cannot be divided among num_attention_heads "
            f"{sizes['num_attention_heads']}; take the config that belongs to the weights"
        )
    pad = padding(model_type, config)
    room = sizes["vocab_size"] if model_type == "bert" else min(sizes["vocab_size"], sizes["max_position_embeddings"])
    if not (type(pad) is int and 0 <= pad < room) and not (pad is None and model_type == "bert"):
        raise BadWeights(f"{file}: pad_token_id {pad!r} is not a whole number from 0 to {room - 1}; correct it")
    shapes = shapes_in(folder)
    check_shapes(folder, shapes, PREFIXES[model_type], needed(model_type, config))
    if is_read:
        check_finite(folder, shapes, PREFIXES[model_type])


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
    yield from _affine("embeddings.LayerNorm", width)
    if model_type == "mpnet":
        buckets = config.get("relative_attention_num_buckets", BUCKETS)
        yield "encoder.relative_attention_bias.weight", (buckets, size["num_attention_heads"])
    names = "attn.q attn.k attn.v attn.o" if model_type == "mpnet" else "self.query self.key self.value output.dense"
    norm = "attention.LayerNorm" if model_type == "mpnet" else "attention.output.LayerNorm"
    for number in range(size["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for name in names.split():
            yield from _affine(f"{layer}.attention.{name}", width, width)
        yield from _affine(f"{layer}.{norm}", width)
        yield from _affine(f"{layer}.intermediate.dense", inner, width)
        yield from _affine(f"{layer}.output.dense", width, inner)
        yield from _affine(f"{layer}.output.LayerNorm", width)


def _affine(name: str, outputs: int, *inputs: int) -> Iterator[tuple[str, Shape]]:
    """Weight and bias of a linear layer, or without ``inputs`` of a norm."""
    yield f"{name}.weight", (outputs, *inputs)
    yield f"{name}.bias", (outputs,)


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
        path = name.removeprefix(begins) if name.startswith(begins) else ""
        path = re.sub(r"LayerNorm\.(gamma|beta)$", lambda old: f"LayerNorm.{OLD_NAMES[old[1]]}", path)
        if path in names:
            raise BadWeights(f"{folder / WEIGHTS}: holds {path} under two names; save it again")
        if path and path not in BUFFERS:
            names[path] = name
    return names


def check_shapes(folder: Path, shapes: Mapping[str, Tensor], prefix: str, wanted: Iterable[tuple[str, Shape]]) -> None:
    """BadWeights unless the encoder's tensors are exactly the ``wanted`` ones, in shape too."""
    file, names = folder / WEIGHTS, _own_names(folder, shapes, prefix)
    for name, shape in wanted:
        if name not in names:
            holds = (
                f"the first of its {len(shapes)} tensors is {next(iter(shapes))}" if shapes else "it holds no tensor"
            )
            raise BadWeights(
                f"{file}: {name} is missing ({holds}), and random numbers would stand in for it; take weights and "
                "config.json that belong together, under the library's own names"
            )
        kind, actual = shapes[names.pop(name)]
        if actual != shape:
            raise BadWeights(
                f"{file}: {name} has the shape {list(actual)}, but by config.json it is {list(shape)}; take the config "
                "that belongs to the weights"
            )
        if kind not in FLOATS:
            raise BadWeights(f"{file}: {name} is of type {kind}; save the weights as floating-point numbers")
    if left := next((name for name in names if name.startswith(ENCODER)), None):
        raise BadWeights(
            f"{file}: {left} has no place in the encoder of config.json, so a part of the weights would be left out; "
            "take the config that belongs to the weights"
        )


def check_finite(folder: Path, shapes: Mapping[str, Tensor], prefix: str) -> None:
    """BadWeights if a tensor of the encoder holds a value that is not finite; the file's header is sound."""
    file, names = folder / WEIGHTS, _own_names(folder, shapes, prefix)
    try:
        with file.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            header = json.loads(handle.read(length))
            for name in (name for path, name in names.items() if path.startswith(ENCODER)):
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
