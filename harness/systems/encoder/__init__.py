"""One encoder over a window of turns: the mean of the target turn's vectors, and a linear head.

Xu and Jiang 2024, "Multi-dimensional Evaluation of Empathetic Dialog Responses" (Findings of EMNLP), section 4.2 and
the details before Table 4: AdamW at 5e-6, at most 30 epochs, three turns before and three after. They stopped by the
test set; here validation rows stop a training. Batch size, length of the input and dropout are not printed.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from harness.study.backbone import Backbone
from harness.study.backbone_files import FOREIGN
from harness.study.config import Loss
from harness.study.systems import ENCODER, Reads, Settings
from harness.systems.networks import (
    BEST_KEPT,
    BYTES,
    BatchSize,
    Dropout,
    Epochs,
    NetworkKind,
    Patience,
    Precision,
    Rank,
    Rate,
)
from harness.systems.weights import need_lora, resolve_encoder
from tasks.fields import Range

PASSES = 3.0  # a trained encoder's backward pass costs two forward passes
LORA_PASSES = 2.0  # without gradients of its weights, the backward pass costs what a forward pass does


@dataclass(frozen=True)
class EncoderSettings(Settings):
    """``window`` is how many turns are read before the target and after it.

    ``weights`` is empty for the study's backbone, or a folder of another encoder: BERT, RoBERTa, XLM-R, CamemBERT,
    DeBERTa, ELECTRA, MPNet, ModernBERT, or T5, whose encoder is taken. With a ``lora_rank`` the encoder's linear layers
    each learn a product of that rank (Hu et al. 2022), whose factor alpha / rank is 2, instead of all weights.
    ``tokens`` bounds what is read of a window; the target is read first, then the turns nearest to it. ``loss`` is
    ``cross-entropy``, ``focal`` with its ``gamma``, or ``ldam`` with ``largest_margin``, ``scale``, and from epoch
    ``deferred_from`` on (0: never) weights of classes; a number is not of a class, and its squared error is taken.
    """

    epochs: Epochs = 30
    patience: Patience = 5
    batch_size: BatchSize = 32
    learning_rate: Rate = 5e-6
    window: tuple[int, int] = (3, 3)
    tokens: Annotated[int, Range(8, 8192)] = 256
    dropout: Dropout = 0.1
    weights: str = ""
    lora_rank: Rank = 0
    loss: str = "cross-entropy"
    gamma: float = 2.0
    largest_margin: float = 0.5
    scale: float = 30.0
    deferred_from: int = 0
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        """Check every field, and the loss; ValueError naming the field."""
        super().__post_init__()
        if self.objective.kind == "ldam" and self.deferred_from > self.epochs:
            raise ValueError(f"deferred_from {self.deferred_from} is no epoch of {self.epochs}")

    @property
    def objective(self) -> Loss:
        """The loss with its numbers; ValueError where it is none."""
        return Loss(self.loss, self.gamma, self.largest_margin, self.scale, self.deferred_from)


class EncoderKind(NetworkKind[EncoderSettings]):
    """The study's backbone, or another encoder."""

    version = 2  # 1 drew dropout one value after another
    reads = Reads(weights=ENCODER)
    config = EncoderSettings
    checkpoint_copies = BEST_KEPT

    def identity(self, config: EncoderSettings) -> dict[str, Any]:
        """The hashes of another encoder than the study's; BadBackbone where it cannot be used.

        BadInput where low-rank products are asked for and their packages are not installed.
        """
        if config.lora_rank:
            need_lora("lora_rank")
        # before, a batch's loss was divided by its rows, not by what classes make them weigh
        weighed = {"mean": "by weight"} if config.objective.kind == "ldam" and config.deferred_from else {}
        return {"weights": resolve_encoder(config.weights).identity(), **weighed} if config.weights else weighed

    def passes(self, config: EncoderSettings) -> float | None:
        """What the study's backbone costs; another encoder's costs are known from its own records alone."""
        return None if config.weights else LORA_PASSES if config.lora_rank else PASSES

    def kept_bytes(self, config: EncoderSettings, outputs: int, backbone: Backbone) -> int:
        """The size of the encoder's file; with low-rank products these and the head, where layers are a backbone's."""
        encoder = resolve_encoder(config.weights) if config.weights else backbone
        if config.lora_rank:
            if encoder.model_type in FOREIGN:
                return 0
            layers, width, inner = encoder.shape
            return BYTES * (layers * config.lora_rank * (8 * width + 2 * (width + inner)) + outputs * (width + 1))
        return encoder.weight_bytes
