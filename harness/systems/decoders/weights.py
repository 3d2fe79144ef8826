"""The causal language model that a system is made of: a folder of weights that is looked at as a backbone is.

``random-tiny`` is a small random one with a token per byte, for trying a study out. No torch is loaded to look.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.study.backbones.backbone import Backbone, BadBackbone
from harness.study.backbones.identity import digest
from harness.systems.encoders.foreign import model_type_of, resolve_decoder
from harness.systems.seq2seq.weights import FAMILY
from harness.systems.seq2seq.weights import resolve_weights as resolve_t5

RANDOM_TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
RANDOM_TINY_POSITIONS = 4096
RANDOM_TINY_VERSION = 1  # raised when its weights come out otherwise


def resolve_weights(name: str) -> Backbone:
    """The causal language model of this folder; BadBackbone where there is none, or it cannot be used."""
    if name == "random-tiny":
        facts = {"weights": [RANDOM_TINY_VERSION, RANDOM_TINY, RANDOM_TINY_POSITIONS], "config": 1, "tokenizer": 1}
        weights, config, tokenizer = (digest({f"random-tiny decoder {what}": fact}) for what, fact in facts.items())
        return Backbone(name, "llama", weights, RANDOM_TINY_POSITIONS, config, tokenizer)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise BadBackbone(f"weights {name!r}: there is no such folder; download them and name the folder")
    return resolve_decoder(folder)


def resolve_answering(name: str) -> Backbone:
    """The causal language model or the T5 of this folder, either of which answers as it is; BadBackbone as above."""
    return resolve_t5(name) if model_type_of(Path(name).expanduser()) == FAMILY else resolve_weights(name)


def load_network(weights: Backbone) -> Any:  # noqa: ANN401 - the library's model classes share no useful type
    """The whole model in evaluation mode; BadBackbone unless all of it is in the folder."""
    from transformers import AutoModelForCausalLM

    from harness.systems.encoders.foreign import load_foreign

    if weights.folder is None:
        return _random_tiny()
    return load_foreign(weights, AutoModelForCausalLM, spare=(), what="decoder")


def _random_tiny() -> Any:  # noqa: ANN401
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from harness.training.tokens.tokenizer import byte_vocabulary

    config = LlamaConfig(
        vocab_size=len(byte_vocabulary()),
        max_position_embeddings=RANDOM_TINY_POSITIONS,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        **RANDOM_TINY,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(RANDOM_TINY_VERSION)
        return LlamaForCausalLM(config).eval()
