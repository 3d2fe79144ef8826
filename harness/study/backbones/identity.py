"""What decides numbers beside a backbone's weights: the fields of its config that act, and its tokenizer, as hashes.

Only files are read: what the libraries would make of them is written down here, and a test compares both. A default
that a file writes out, and a field that changes no token and no activation, leave the hashes as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SHARED = {  # the library's defaults of what the encoders of all kinds have in common
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "classifier_dropout": None,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}
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
WORDS = {int: "a whole number", float: "a number", str: "a name"}
VOCABULARIES = ("vocab.json", "merges.txt", "vocab.txt", "sentencepiece.bpe.model")  # where there is no tokenizer.json


def digest(facts: Mapping[str, Any]) -> str:
    """Sha256 of the facts as sorted JSON, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def config_facts(model_type: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config that act, all written out; TypeError for a value of another type."""
    facts = {name: _cast(name, config.get(name, default), default) for name, default in CONFIGS[model_type].items()}
    asked = [value for name, value in config.items() if "attn_implementation" in name and value is not None]
    return {"model_type": model_type, **facts, "attention": asked[0] if asked else ATTENTION}


def _cast(name: str, value: object, default: object) -> object:
    """The value in the default's type: 0 and 0.0 are one probability."""
    if value is None and name in ("classifier_dropout", "pad_token_id"):
        return None
    kind: type[Any] = float if name == "classifier_dropout" else type(default)
    fitting: tuple[type, ...] = (str,) if kind is str else (int, float)
    is_broken = kind is int and isinstance(value, float) and not value.is_integer()
    if isinstance(value, bool) or not isinstance(value, fitting) or is_broken:
        raise TypeError(f"{name} {value!r} is not {WORDS[kind]}")
    return kind(value)


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
