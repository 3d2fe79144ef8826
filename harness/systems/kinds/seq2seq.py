"""A T5 that is asked by an instruction, and answers by the option that is likeliest.

Xu and Jiang 2024, "Multi-dimensional Evaluation of Empathetic Dialog Responses" (Findings of EMNLP), sections 4.3 and
5.5: AdamW at 5e-6, at most 30 epochs, three turns before and three after, Yes and No as answers, and three new tokens
for EPITOME's levels. They stopped by the test set; here validation rows stop a training, and no setting changes that,
because no system is handed a test row before it has learned. Batch size and length of the input are not printed.

What it reads and how it ranks stand in harness.systems.seq2seq; this file loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.study.backbone import Backbone
from harness.study.systems import Fit, Place, Reads, check_fields
from tasks.errors import BadInput
from tasks.task import ASKED, Instruction

if TYPE_CHECKING:
    from harness.systems.seq2seq import Trained

VERSION = 1
READS = Reads(instructions=True, labels=ASKED)
PACKAGES = ("adapters", "torch", "transformers", "tokenizers", "numpy")
CHECKPOINT_COPIES = 8  # weights, best ones and two moments, in the checkpoint before and the new one
PRECISIONS = ("fp32", "bf16")


@dataclass(frozen=True)
class Config:
    """``window`` is how many turns are read before the text and after it, and ``weights`` a folder of a T5.

    Without ``instruction`` the turns and the text are read and not a word of the task, which still names the answers.
    With ``new_tokens`` tasks whose instruction says so are answered by new tokens, else by the words of the options.
    ``tokens`` bounds what is read, the instruction included. With a ``lora_rank`` every linear layer of the blocks
    learns a product of that rank (Hu et al. 2022), instead of all weights. With a ``patience`` of 0 the last epoch is
    kept, else the epoch that is best on validation rows, and training stops after so many that are no better. With 0
    ``epochs`` nothing is trained, and answers are words. ``precision`` ``bf16`` computes products in 16 bits.
    """

    epochs: int = 30
    patience: int = 5
    batch_size: int = 32
    learning_rate: float = 5e-6
    window: tuple[int, int] = (3, 3)
    tokens: int = 512
    weights: str = ""
    lora_rank: int = 0
    instruction: bool = True
    new_tokens: bool = True
    precision: str = "fp32"

    def __post_init__(self) -> None:
        """Check the closed vocabulary and ranges; ValueError naming the field."""
        ranges = {
            "epochs": (0, 1000),
            "patience": (0, 1000),
            "batch_size": (1, 4096),
            "learning_rate": (1e-9, 1.0),
            "tokens": (16, 8192),
            "lora_rank": (0, 1024),
        }
        check_fields(self, {"precision": PRECISIONS}, ranges)
        if self.lora_rank and not self.epochs:
            raise ValueError(f"lora_rank {self.lora_rank} is to be trained in 0 epochs; leave one of the two out")

    def has_new_tokens(self, instruction: Instruction) -> bool:
        """Whether a task with this instruction is answered by new tokens."""
        return bool(self.epochs and self.new_tokens and instruction.new_tokens)


def fit(fit: Fit) -> Trained:
    """Train a T5 on the training rows, or take it as it is."""
    from harness.systems.seq2seq import Trained

    if fit.instruction is None:
        raise BadInput(
            "system 'seq2seq' asks by an instruction, and the task has none; write [instruction] in its entry"
        )
    fitted = Trained(fit.config, fit.place, fit.instruction, fit.seed)
    fitted.fit(fit)
    return fitted


def load(folder: Path, place: Place) -> Trained:
    """What ``save`` has written."""
    from harness.systems.seq2seq import Trained

    return Trained.load(folder, place, Config)


def identity(config: Config) -> dict[str, Any]:
    """The hashes of the weights; BadInput where none are named, or packages of low-rank products are not installed."""
    from harness.systems.weights import need_lora, resolve_t5

    if config.lora_rank:
        need_lora("lora_rank")
    return {"weights": resolve_t5(config.weights).identity()}


def kept_bytes(config: Config, outputs: int, backbone: Backbone) -> int:
    """The size of the weights' file, where all of them are trained; else it is not known beforehand."""
    from harness.systems.weights import resolve_t5

    return resolve_t5(config.weights).weight_bytes if config.epochs and not config.lora_rank else 0
