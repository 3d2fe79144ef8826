"""The T5 that a system is made of: a folder of weights that is looked at as a backbone is.

``random-tiny`` is a small random one with a token per byte, for trying a study out. No torch is loaded to look.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.study.backbones.backbone import Backbone, BadBackbone
from harness.study.backbones.identity import digest
from harness.systems.encoders.foreign import resolve_encoder
from tasks.errors import BadInput

FAMILY = "t5"
RANDOM_TINY = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "dropout_rate": 0.1}
RANDOM_TINY_VERSION = 1  # raised when its weights come out otherwise


def resolve_weights(name: str) -> Backbone:
    """The T5 of this folder; BadInput where none is named, BadBackbone where it cannot be used."""
    if not name:
        raise BadInput("system 'seq2seq' answers by the weights of a T5; name their folder: system.seq2seq.weights")
    if name == "random-tiny":
        facts = {"weights": [RANDOM_TINY_VERSION, RANDOM_TINY], "config": 1, "tokenizer": 1}
        weights, config, tokenizer = (digest({f"random-tiny t5 {what}": fact}) for what, fact in facts.items())
        return Backbone(name, FAMILY, weights, 4096, config, tokenizer)
    if not Path(name).expanduser().is_dir():
        raise BadBackbone(f"weights {name!r}: there is no such folder; download them and name the folder")
    backbone = resolve_encoder(name)
    if backbone.model_type != FAMILY:
        raise BadBackbone(
            f"weights {backbone.name!r} are of the family {backbone.model_type!r}; system 'seq2seq' answers by a T5"
        )
    return backbone


def load_network(weights: Backbone) -> Any:  # noqa: ANN401 - the library's model classes share no useful type
    """The whole T5, encoder and decoder, in evaluation mode; BadBackbone unless all of it is in the folder."""
    from transformers import T5ForConditionalGeneration

    from harness.systems.encoders.foreign import load_foreign

    if weights.folder is None:
        return _random_tiny()
    return load_foreign(weights, T5ForConditionalGeneration, spare=())


def _random_tiny() -> Any:  # noqa: ANN401
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    from harness.training.tokens.tokenizer import byte_vocabulary

    config = T5Config(
        vocab_size=len(byte_vocabulary()), pad_token_id=1, eos_token_id=2, decoder_start_token_id=1, **RANDOM_TINY
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(RANDOM_TINY_VERSION)
        return T5ForConditionalGeneration(config).eval()
