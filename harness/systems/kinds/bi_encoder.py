"""The bi-encoder of EPITOME: two encoders, the level of a response and the part of it that is the reason.

Sharma, Miner, Atkins and Althoff 2020, "A Computational Approach to Understanding Empathy Expressed in Text-Based
Mental Health Support". Defaults are those of the paper and of its code at 0e11f98. Its encoders were first adapted to
461 million tokens of posts that nobody else has: its row "without pre-training" is what this one has to meet.

The network stands in harness.systems.bi_encoder; this file loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.study.backbone import Backbone
from harness.study.systems import ENCODER, Fit, Place, Reads, check_fields

if TYPE_CHECKING:
    from harness.systems.bi_encoder import Trained

VERSION = 2  # 1 drew dropout one value after another
READS = Reads(rationales=True, weights=ENCODER, labels=("binary", "multiclass", "ordinal"))
PACKAGES = ("adapters", "torch", "transformers", "tokenizers", "numpy")
PRECISIONS = ("fp32", "bf16")
JOINS = ("attention", "concatenated", "response")
BYTES = 4  # of an fp32 number


@dataclass(frozen=True)
class Config:
    """Training, and the ablations of the paper's Table 5.

    ``joins`` is ``attention``; ``concatenated``, the post's first vector beside each of the response; or ``response``,
    which reads no post. A ``rationale_weight`` of 0 leaves rationales out. ``is_masked`` false lets the response attend
    to padding, as the published code does. ``marks_all_without``: of a text without a rationale every token counts as
    marked, as in the published code; false, none does. ``is_seeker_trained`` trains the post's encoder, too, which the
    code freezes. ``tokens`` is how many are read of a text. ``precision`` ``bf16`` computes the network's products in
    16 bits; weights, losses and the optimizer's moments stay in 32.
    """

    epochs: int = 4
    batch_size: int = 32
    learning_rate: float = 2e-5
    tokens: int = 64
    dropout: float = 0.1
    level_weight: float = 1.0
    rationale_weight: float = 0.5
    joins: str = "attention"
    is_masked: bool = True
    is_seeker_trained: bool = False
    marks_all_without: bool = True
    precision: str = "fp32"

    def __post_init__(self) -> None:
        """Check the closed vocabularies and ranges; ValueError naming the field."""
        ranges = {
            "epochs": (1, 1000),
            "batch_size": (1, 4096),
            "learning_rate": (1e-9, 1.0),
            "tokens": (3, 512),
            "dropout": (0.0, 0.9),
            "level_weight": (1e-6, 1e6),
            "rationale_weight": (0.0, 1e6),
        }
        check_fields(self, {"joins": JOINS, "precision": PRECISIONS}, ranges)


def fit(fit: Fit) -> Trained:
    """Train both heads and the response's encoder on the training rows."""
    from harness.systems.bi_encoder import Trained

    fitted = Trained(fit.config, fit.place, fit.label.n_outputs, fit.seed)
    fitted.fit(fit)
    return fitted


def load(folder: Path, place: Place) -> Trained:
    """What ``save`` has written."""
    from harness.systems.bi_encoder import Trained

    return Trained.load(folder, place, Config)


def passes(config: Config) -> float:
    """Three forward passes for a token of a trained encoder and one of a frozen one; half of them are the post's."""
    of_post = 3 if config.is_seeker_trained else 1
    return (3 + (0 if config.joins == "response" else of_post)) / 2


def kept_bytes(config: Config, outputs: int, backbone: Backbone) -> int:
    """Bytes of the weights that are saved: of the encoders that are trained, of attention and of the heads.

    An encoder's own are the size of its file, which is nothing for the built-in random one.
    """
    width, joined = backbone.width, backbone.width * (2 if config.joins == "concatenated" else 1)
    heads = joined * (joined + 1) + outputs * (joined + 1) + (2 * (joined + 1) if config.rationale_weight else 0)
    attention = 4 * width * (width + 1) if config.joins == "attention" else 0
    encoders = 1 + (config.is_seeker_trained and config.joins != "response")
    return BYTES * (heads + attention) + encoders * backbone.weight_bytes
