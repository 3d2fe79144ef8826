"""A causal language model, finetuned by products of low rank, that is asked by an instruction and answers by an option.

The instruction and the window of turns are those of Xu and Jiang 2024 ("Multi-dimensional Evaluation of Empathetic
Dialog Responses", section 4.3), who asked encoder-decoders. Products of low rank are those of Hu et al. 2022 ("LoRA"),
with the rate, the batch and the epochs that they give for GPT-2 (their Table 11). Their rank there is 4, of two
matrices a layer; here all have one. Answers are ranked as by ``prompted``, which asks the same weights as they are.

What it reads and how it ranks stand in harness.systems.decoders; this file loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.study.systems import Fit, Place, Reads, check_fields
from tasks.errors import BadInput
from tasks.task import ASKED

if TYPE_CHECKING:
    from harness.systems.decoders import Trained

VERSION = 1
READS = Reads(instructions=True, labels=ASKED, package="peft", extra="lora")
PACKAGES = ("peft", "torch", "transformers", "tokenizers", "numpy")
LOCAL = ("weights",)
CHECKPOINT_COPIES = 8  # weights, best ones and two moments, in the checkpoint before and the new one
PRECISIONS = ("fp32", "bf16")


@dataclass(frozen=True)
class Config:
    """``window`` is how many turns are read before the text and after it, and ``weights`` a folder of the model.

    The weights' content is in the keys and their path is not. Without ``instruction`` the turns and the text are read
    and not a word of the task, which still names the answers. ``tokens`` bounds what is read, the instruction included.
    Every linear layer of the blocks learns a product of rank ``lora_rank``. With a ``patience`` of 0 the last epoch is
    kept, else the epoch that is best on validation rows, and training stops after so many that are no better.
    ``precision`` ``bf16`` computes products in 16 bits.
    """

    epochs: int = 5
    patience: int = 2
    batch_size: int = 8
    learning_rate: float = 2e-4
    window: tuple[int, int] = (3, 3)
    tokens: int = 512
    weights: str = ""
    lora_rank: int = 8
    instruction: bool = True
    precision: str = "fp32"

    def __post_init__(self) -> None:
        """Check the closed vocabulary and ranges; ValueError naming the field."""
        ranges = {
            "epochs": (1, 1000),
            "patience": (0, 1000),
            "batch_size": (1, 4096),
            "learning_rate": (1e-9, 1.0),
            "tokens": (16, 131072),
            "lora_rank": (1, 1024),
        }
        check_fields(self, {"precision": PRECISIONS}, ranges)


def fit(fit: Fit) -> Trained:
    """Train the products on the training rows."""
    from harness.systems.decoders import Trained

    assert fit.instruction is not None  # a study is refused without (harness.study.systems)
    fitted = Trained(fit.config, fit.place, fit.instruction, fit.seed)
    fitted.fit(fit)
    return fitted


def load(folder: Path, place: Place) -> Trained:
    """What ``save`` has written."""
    from harness.systems.decoders import Trained

    return Trained.load(folder, place, Config)


def identity(config: Config) -> dict[str, Any]:
    """The hashes of the weights; BadInput where none are named, or packages of low-rank products are not installed."""
    from harness.systems.weights import need_lora, resolve_causal

    need_lora("system 'decoder'")
    if not config.weights:
        raise BadInput(
            "system 'decoder' finetunes a causal language model; name the folder of its weights: system.decoder.weights"
        )
    return {"weights": resolve_causal(config.weights).identity()}
