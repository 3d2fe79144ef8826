"""CLSN: empathy and its intent learned together, each by attention to the other, and its single-task controls.

Jiang et al. 2023, "Empathy Intent Drives Empathy Detection", sections 4 and 5. Two tasks of the same rows share an
encoder; predictions are the target's, and the sibling is learned beside it. Without a sibling it is the control that
the paper lacks: the same network of the target alone, which has nothing to interact with. ``network = "plain"`` is the
paper's "empirical study", a shared encoder with a linear head for each task, and without a sibling a single encoder.

No code was published. What the paper leaves open is decided here and said in harness.systems.clsn: how sums
of unequal shapes are taken, and where dropout stands. Of training it leaves open the weights of the two losses, whether
the rate falls (here it does not), which epoch is kept and how many tokens are read.

The network stands in harness.systems.clsn; this file loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.study.backbone import Backbone
from harness.study.config import LARGEST_GAMMA
from harness.study.systems import ENCODER, Fit, Place, Reads, check_fields

if TYPE_CHECKING:
    from harness.systems.clsn import Trained

VERSION = 2  # 1 drew dropout one value after another
CLASSES = ("binary", "multiclass", "ordinal")
READS = Reads(siblings=True, weights=ENCODER, labels=CLASSES, sibling_labels=CLASSES)
PACKAGES = ("adapters", "torch", "transformers", "tokenizers", "numpy")
NETWORKS = ("clsn", "plain")
LOSSES = ("focal", "cross-entropy")
SIBLING_LABELS = ("true", "shuffled")
PRECISIONS = ("fp32", "bf16")
BYTES = 4  # of an fp32 number
CASCADE = 4  # attentions of the cascade: each task to the other, and each back


@dataclass(frozen=True)
class Config:
    """Training, and the parts of the network, which can be left out one by one (the paper's Table 4).

    ``siblings`` names one task of the same rows that is learned beside the target, or none. ``sibling_labels``
    ``shuffled`` permutes its training labels among rows, once and by the seed: a sibling of equal frequencies that
    tells nothing. ``target_weight`` and ``sibling_weight`` are the paper's alpha and beta, whose values it does not
    print. ``gamma`` is its eta, of the focal loss alone. ``cascade`` lets the tasks attend to each other,
    ``label_signal`` their labels to the text; ``width`` is of both. ``patience`` keeps the best epoch on validation
    rows and stops after so many that are no better; 0 trains all and keeps the last, since the paper names no other.
    ``tokens`` are read of a text; ``precision`` ``bf16`` computes products in 16 bits, as in the bi-encoder.
    """

    siblings: tuple[str, ...] = ()
    sibling_labels: str = "true"
    network: str = "clsn"
    cascade: bool = True
    label_signal: bool = True
    width: int = 128
    loss: str = "focal"
    gamma: float = 5.0
    target_weight: float = 1.0
    sibling_weight: float = 1.0
    epochs: int = 100
    batch_size: int = 32
    learning_rate: float = 1e-4
    dropout: float = 0.2
    patience: int = 0
    tokens: int = 128
    precision: str = "fp32"

    def __post_init__(self) -> None:
        """Check the closed vocabularies and ranges; ValueError naming the field."""
        words = {"network": NETWORKS, "loss": LOSSES, "sibling_labels": SIBLING_LABELS, "precision": PRECISIONS}
        check_fields(self, words, RANGES)
        if len(self.siblings) > 1:
            raise ValueError(f"siblings {list(self.siblings)!r} are {len(self.siblings)} tasks; name one, or none")
        if self.sibling_labels == "shuffled" and not self.siblings:
            raise ValueError("sibling_labels 'shuffled' has no sibling to shuffle; name it in siblings")


RANGES = {
    "width": (1, 4096),
    "gamma": (0.0, LARGEST_GAMMA),
    "target_weight": (1e-6, 1e6),
    "sibling_weight": (0.0, 1e6),
    "epochs": (1, 1000),
    "batch_size": (1, 4096),
    "learning_rate": (1e-9, 1.0),
    "dropout": (0.0, 0.9),
    "patience": (0, 1000),
    "tokens": (3, 512),
}


def fit(fit: Fit) -> Trained:
    """Train the encoder and what stands on it on the training rows."""
    from harness.systems.clsn import Trained

    fitted = Trained(fit.config, fit.place, Trained.outputs_of(fit), fit.seed)
    fitted.fit(fit)
    return fitted


def load(folder: Path, place: Place) -> Trained:
    """What ``save`` has written."""
    from harness.systems.clsn import Trained

    return Trained.load(folder, place, Config)


def passes(config: Config) -> float:
    """Forward passes of a trained encoder; what stands on it is small beside that."""
    return 3.0


def kept_bytes(config: Config, outputs: int, backbone: Backbone) -> int:
    """Bytes of the weights that are saved: of the encoder, as large as its file, and of what stands on it.

    A sibling is counted as if it had as many classes as the target, for its own are not known here; the encoder's are
    nothing for the built-in random one.
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
