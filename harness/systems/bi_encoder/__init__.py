"""The bi-encoder of EPITOME: two encoders, the level of a response and the part of it that is the reason.

Sharma, Miner, Atkins and Althoff 2020, "A Computational Approach to Understanding Empathy Expressed in Text-Based
Mental Health Support". Defaults are those of the paper and of its code at 0e11f98. Its encoders were first adapted to
461 million tokens of posts that nobody else has: its row "without pre-training" is what this one has to meet.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from harness.study.backbone import Backbone
from harness.study.systems import ENCODER, Reads, Settings
from harness.systems.networks import BYTES, BatchSize, Dropout, Epochs, NetworkKind, Precision, Rate
from tasks.fields import Range


@dataclass(frozen=True)
class BiEncoderSettings(Settings):
    """Training, and the ablations of the paper's Table 5.

    ``joins`` is ``attention``; ``concatenated``, the post's first vector beside each of the response; or ``response``,
    which reads no post. A ``rationale_weight`` of 0 leaves rationales out. ``is_masked`` false lets the response attend
    to padding, as the published code does. ``marks_all_without``: of a text without a rationale every token counts as
    marked, as in the published code; false, none does. ``is_seeker_trained`` trains the post's encoder, too, which the
    code freezes. ``tokens`` is how many are read of a text.
    """

    epochs: Epochs = 4
    batch_size: BatchSize = 32
    learning_rate: Rate = 2e-5
    tokens: Annotated[int, Range(3, 512)] = 64
    dropout: Dropout = 0.1
    level_weight: Annotated[float, Range(1e-6, 1e6)] = 1.0
    rationale_weight: Annotated[float, Range(0.0, 1e6)] = 0.5
    joins: Literal["attention", "concatenated", "response"] = "attention"
    is_masked: bool = True
    is_seeker_trained: bool = False
    marks_all_without: bool = True
    precision: Precision = "fp32"


class BiEncoderKind(NetworkKind[BiEncoderSettings]):
    """Two encoders of the study's backbone with their heads."""

    version = 2  # 1 drew dropout one value after another
    reads = Reads(rationales=True, weights=ENCODER, labels=("binary", "multiclass", "ordinal"))
    config = BiEncoderSettings

    def passes(self, config: BiEncoderSettings) -> float:
        """Three forward passes of a trained encoder, one of a frozen one; half of all tokens are the post's."""
        of_post = 3 if config.is_seeker_trained else 1
        return (3 + (0 if config.joins == "response" else of_post)) / 2

    def kept_bytes(self, config: BiEncoderSettings, outputs: int, backbone: Backbone) -> int:
        """Bytes of the weights that are saved: of the encoders that are trained, of attention and of the heads.

        An encoder's own are the size of its file, which is nothing for the built-in random one.
        """
        width, joined = backbone.width, backbone.width * (2 if config.joins == "concatenated" else 1)
        heads = joined * (joined + 1) + outputs * (joined + 1) + (2 * (joined + 1) if config.rationale_weight else 0)
        attention = 4 * width * (width + 1) if config.joins == "attention" else 0
        encoders = 1 + (config.is_seeker_trained and config.joins != "response")
        return BYTES * (heads + attention) + encoders * backbone.weight_bytes
