"""Weights that no adapter stands on: DeBERTa, ELECTRA, MPNet, ModernBERT, T5 or its encoder, causal language models.

They are looked at as backbones are (harness.study.backbone): safetensors alone, no code of the folder's own, hashes of
weights, config and tokenizer in the keys, and weights that the config does not describe are refused. No torch is loaded
to look. ``smollm2`` is a causal language model that a package carries (harness.systems.smollm2). ``random-tiny`` is a
small random one, or a T5, with a token per byte, for trying a study out.
"""

import json
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adapters_store.disk import sha256_of
from harness.study.backbone import MODEL_TYPES, Backbone, BadBackbone, refuse_kernels, resolve
from harness.study.backbone_files import DECODERS, FOREIGN, absent, digest
from harness.systems.smollm2 import NAME as SMOLLM2
from harness.systems.smollm2 import smollm2
from tasks.errors import BadInput

TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
VOCABULARIES = ("spiece.model", "spm.model", "vocab.txt", "vocab.json", "merges.txt")
LORA = ("peft", "accelerate")  # without the second, the first keeps sentence-transformers from loading
ALPHA = 2  # factor of a low-rank product
SPARE = ("pooler.", "decoder.", "lm_head.", "shared.")  # of files whose encoder alone is taken


def need_lora(who: str) -> None:
    """BadInput, naming ``who`` asks for them, unless the packages of low-rank products are installed."""
    if not all(map(find_spec, LORA)):
        raise BadInput(f"{who} needs optional packages; install them with: pip install 'empathy-transfer[lora]'")


def with_products(network: Any, rank: int) -> Any:  # noqa: ANN401 - a torch module
    """The network with a product of low rank beside each linear layer of its blocks; the products begin at 0.

    LoRA by the package peft (Hu et al. 2022, equation 3); random factors are drawn from torch's generator.
    """
    from peft import LoraConfig, inject_adapter_in_model
    from transformers.pytorch_utils import Conv1D

    pooler = r".*pooler.*" if any("pooler" in name for name, _ in network.named_modules()) else None
    is_transposed = any(isinstance(module, Conv1D) for module in network.modules())  # GPT-2's linear layers
    layers = {"target_modules": "all-linear", "exclude_modules": pooler, "fan_in_fan_out": is_transposed}
    return inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=ALPHA * rank, **layers), network)


def resolve_encoder(name: str) -> Backbone:
    """The encoder of this name: any backbone of a study, or a folder of another family; BadBackbone if unusable."""
    folder = Path(name).expanduser()
    if not folder.is_dir() or model_type_of(folder) in MODEL_TYPES:
        return resolve(name)
    return _foreign(folder, "encoder", (*MODEL_TYPES, *FOREIGN), *_state(folder, "encoder"))


def model_type_of(folder: Path) -> str:
    """What the folder's config says that it is; empty where there is none to read."""
    try:
        return str(json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _state(folder: Path, what: str) -> tuple[int, int]:
    """What tells the cache that the weights have changed; BadBackbone where there are none."""
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise BadBackbone(f"{what} {folder.name!r}: {absent(folder)}")
    return weights.stat().st_mtime_ns, weights.stat().st_size


@cache
def _foreign(folder: Path, what: str, families: tuple[str, ...], mtime_ns: int, size: int) -> Backbone:
    """Weights of one of these families, as a backbone that no adapter can stand on; ``what`` they are, for messages."""
    file, kind = folder / "config.json", model_type_of(folder)
    if kind not in families:
        raise BadBackbone(
            f"{what} {folder.name!r}: {file} says model type {kind!r}, which is not one of {', '.join(families)}"
        )
    config = json.loads(file.read_text(encoding="utf-8"))
    refuse_kernels(folder.name, file, config)
    family = (FOREIGN | DECODERS)[kind]
    tokens = config.get(family.field, family.tokens)
    if type(tokens) is not int or tokens <= family.spare:
        raise BadBackbone(
            f"{what} {folder.name!r}: {file}: {family.field} {tokens!r} is no number of tokens; correct it"
        )
    weights = sha256_of(folder / "model.safetensors")
    tokenizer = {name: sha256_of(folder / name) for name in (*TOKENIZERS, *VOCABULARIES) if (folder / name).is_file()}
    if not tokenizer:
        raise BadBackbone(f"{what} {folder.name!r}: no tokenizer is in {folder}; put its files there")
    return Backbone(folder.name, kind, weights, tokens - family.spare, digest(config), digest(tokenizer), folder)


def load_encoder(encoder: Backbone) -> Any:  # noqa: ANN401 - the library's model classes share no useful type
    """The encoder's network, in evaluation mode, whose forward pass has ``last_hidden_state``."""
    from harness.systems.dropout import with_quick_dropout
    from harness.training.model import load_backbone

    if encoder.model_type not in FOREIGN:
        return with_quick_dropout(load_backbone(encoder).base_model)
    from transformers import AutoModel, T5EncoderModel

    return with_quick_dropout(load_foreign(encoder, T5EncoderModel if encoder.model_type == "t5" else AutoModel))


def load_foreign(weights: Backbone, kind: Any, spare: tuple[str, ...] = SPARE, what: str = "encoder") -> Any:  # noqa: ANN401
    """The network of another family, of the library's class ``kind``, in evaluation mode; ``what`` it is, for messages.

    BadBackbone unless all of it came from the folder's weights, those apart whose names begin with one of ``spare``.
    """
    from harness.training.model import check_finite, from_folder

    network, account = from_folder(kind, weights)
    odd = [key for key in (*account["missing_keys"], *account["mismatched_keys"]) if not str(key).startswith(spare)]
    if odd:
        raise BadBackbone(
            f"{what} {weights.name!r}: {len(odd)} tensors of its config are not among its weights, first {odd[0]};"
            " take weights and config.json that belong together"
        )
    check_finite(weights.name, network)
    return network.eval()


T5 = "t5"
RANDOM_TINY = "random-tiny"  # the name of small random models, whose texts have a token per byte
TINY_VERSION = 1  # raised when their weights come out otherwise
TINY_POSITIONS = 4096
TINY_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "dropout_rate": 0.1}
TINY_CAUSAL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def resolve_t5(name: str) -> Backbone:
    """The T5 of this folder; BadInput where none is named, BadBackbone where it cannot be used."""
    if not name:
        raise BadInput("system 'seq2seq' answers by the weights of a T5; name their folder: system.seq2seq.weights")
    if name == RANDOM_TINY:
        return _tiny("t5", T5, [TINY_VERSION, TINY_T5])
    backbone = resolve_encoder(str(_folder(name)))
    if backbone.model_type != T5:
        raise BadBackbone(
            f"weights {backbone.name!r} are of the family {backbone.model_type!r}; system 'seq2seq' answers by a T5"
        )
    return backbone


def resolve_causal(name: str) -> Backbone:
    """The causal language model of this folder; BadBackbone where there is none, or it cannot be used."""
    if name == RANDOM_TINY:
        return _tiny("decoder", "llama", [TINY_VERSION, TINY_CAUSAL, TINY_POSITIONS])
    folder = smollm2() if name == SMOLLM2 else _folder(name)
    return _foreign(folder, "decoder", tuple(DECODERS), *_state(folder, "decoder"))


def resolve_answering(name: str) -> Backbone:
    """The causal language model or the T5 of this folder, either of which answers as it is; BadBackbone as above."""
    return resolve_t5(name) if model_type_of(Path(name).expanduser()) == T5 else resolve_causal(name)


def chat_template(weights: Backbone) -> str:
    """The template, in Jinja, by which these weights were taught to be spoken to; empty where their folder has none."""
    if weights.folder is None:
        return ""
    file, settings = weights.folder / "chat_template.jinja", weights.folder / "tokenizer_config.json"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    every = json.loads(settings.read_text(encoding="utf-8")).get("chat_template") if settings.is_file() else None
    named = {each["name"]: each["template"] for each in every} if isinstance(every, list) else {"default": every or ""}
    return str(named.get("default", ""))


def asked_identity(weights: Backbone, *, chat: bool) -> dict[str, Any]:
    """What tells a model that is asked from any other: its weights and, in a chat, the template that they come with."""
    template = chat_template(weights) if chat else ""
    return {"weights": weights.identity(), **({"chat": sha256(template.encode()).hexdigest()} if template else {})}


def _folder(name: str) -> Path:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise BadBackbone(f"weights {name!r}: there is no such folder; download them and name the folder")
    return folder


def _tiny(words: str, kind: str, weights: list[Any]) -> Backbone:
    """A random model whose digests are of the numbers that it is made by."""
    facts = {"weights": weights, "config": 1, "tokenizer": 1}
    hashes = {part: digest({f"{RANDOM_TINY} {words} {part}": fact}) for part, fact in facts.items()}
    return Backbone(RANDOM_TINY, kind, hashes["weights"], TINY_POSITIONS, hashes["config"], hashes["tokenizer"])


def load_answering(weights: Backbone) -> Any:  # noqa: ANN401 - the library's model classes share no useful type
    """A whole T5 or causal language model, in evaluation mode; BadBackbone unless all of it is in the folder."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

    from harness.training.tokenizer import byte_vocabulary

    is_t5 = weights.model_type == T5
    if weights.folder is not None:
        kind, what = (T5ForConditionalGeneration, "encoder") if is_t5 else (AutoModelForCausalLM, "decoder")
        return load_foreign(weights, kind, spare=(), what=what)
    shared = {"vocab_size": len(byte_vocabulary()), "pad_token_id": 1, "eos_token_id": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(TINY_VERSION)
        if is_t5:
            return T5ForConditionalGeneration(T5Config(decoder_start_token_id=1, **shared, **TINY_T5)).eval()
        shape = {"max_position_embeddings": TINY_POSITIONS, "bos_token_id": 0, **shared, **TINY_CAUSAL}
        return LlamaForCausalLM(LlamaConfig(**shape)).eval()
