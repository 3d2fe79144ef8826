"""CLSN: empathy and its intent learned together, each by attention to the other, and its single-task controls.

Jiang et al. 2023, "Empathy Intent Drives Empathy Detection", sections 4 and 5. Two tasks of the same rows share an
encoder; predictions are the target's, and the sibling is learned beside it. Without a sibling it is the control that
the paper lacks: the same network of the target alone, which has nothing to interact with. ``network = "plain"`` is the
paper's "empirical study", a shared encoder with a linear head for each task, and without a sibling a single encoder.

No code was published. What the paper leaves open is decided here and said in harness.systems.clsn.network: how sums
of unequal shapes are taken, and where dropout stands. Of training it leaves open the weights of the two losses, whether
the rate falls (here it does not), which epoch is kept and how many tokens are read.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from harness.study.backbone import Backbone
from harness.study.config import LARGEST_GAMMA
from harness.study.systems import ENCODER, Reads, Settings
from harness.systems.networks import BYTES, BatchSize, Dropout, Epochs, NetworkKind, Patience, Precision, Rate
from tasks.fields import Range

CLASSES = ("binary", "multiclass", "ordinal")
CASCADE = 4  # attentions of the cascade: each task to the other, and each back


@dataclass(frozen=True)
class ClsnSettings(Settings):
    """Training, and the parts of the network, which can be left out one by one (the paper's Table 4).

    ``siblings`` names one task of the same rows that is learned beside the target, or none. ``sibling_labels``
    ``shuffled`` permutes its training labels among rows, once and by the seed: a sibling of equal frequencies that
    tells nothing. ``target_weight`` and ``sibling_weight`` are the paper's alpha and beta, whose values it does not
    print. ``gamma`` is its eta, of the focal loss alone. ``cascade`` lets the tasks attend to each other,
    ``label_signal`` their labels to the text; ``width`` is of both. ``patience`` is 0, since the paper names no epoch
    but the last. ``tokens`` are read of a text.
    """

    siblings: tuple[str, ...] = ()
    sibling_labels: Literal["true", "shuffled"] = "true"
    network: Literal["clsn", "plain"] = "clsn"
    cascade: bool = True
    label_signal: bool = True
    width: Annotated[int, Range(1, 4096)] = 128
    loss: Literal["focal", "cross-entropy"] = "focal"
    gamma: Annotated[float, Range(0.0, LARGEST_GAMMA)] = 5.0
    target_weight: Annotated[float, Range(1e-6, 1e6)] = 1.0
    sibling_weight: Annotated[float, Range(0.0, 1e6)] = 1.0
    epochs: Epochs = 100
    batch_size: BatchSize = 32
    learning_rate: Rate = 1e-4
    dropout: Dropout = 0.2
    patience: Patience = 0
    tokens: Annotated[int, Range(3, 512)] = 128
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        """Check every field, and the sibling; ValueError naming the field."""
        super().__post_init__()
        if len(self.siblings) > 1:
            raise ValueError(f"siblings {list(self.siblings)!r} are {len(self.siblings)} tasks; name one, or none")
        if self.sibling_labels == "shuffled" and not self.siblings:
            raise ValueError("sibling_labels 'shuffled' has no sibling to shuffle; name it in siblings")


class ClsnKind(NetworkKind[ClsnSettings]):
    """The encoder of the study's backbone with what stands on it."""

    version = 2  # 1 drew dropout one value after another
    reads = Reads(siblings=True, weights=ENCODER, labels=CLASSES, sibling_labels=CLASSES)
    config = ClsnSettings

    def passes(self, config: ClsnSettings) -> float:
        """Forward passes of a trained encoder; what stands on it is small beside that."""
        return 3.0

    def kept_bytes(self, config: ClsnSettings, outputs: int, backbone: Backbone) -> int:
        """Bytes of the weights that are saved: of the encoder, as large as its file, and of what stands on it.

        A sibling is counted as if it had as many classes as the target, for its own are not known here; the encoder's
        are nothing for the built-in random one.
        """
        tasks = 1 + bool(config.siblings)
        if config.network == "plain":
            above = tasks * outputs * (backbone.width + 1)
        else:
            square = 3 * config.width * (config.width + 1)  # an attention
            above = (1 + tasks) * config.width * (backbone.width + 1) + tasks * outputs * (config.width + 1)
            above += CASCADE * square if config.cascade and config.siblings else 0
            above += tasks * (square + outputs * config.width) if config.label_signal else 0
        return BYTES * above + backbone.weight_bytes
