"""A T5 that is asked by an instruction, and answers by the option that is likeliest.

Xu and Jiang 2024, "Multi-dimensional Evaluation of Empathetic Dialog Responses" (Findings of EMNLP), sections 4.3 and
5.5: AdamW at 5e-6, at most 30 epochs, three turns before and three after, Yes and No as answers, and three new tokens
for EPITOME's levels. They stopped by the test set; here validation rows stop a training, and no setting changes that,
because no system is handed a test row before it has learned. Batch size and length of the input are not printed.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from harness.study.backbone import Backbone
from harness.study.systems import Reads, Settings
from harness.systems.networks import BEST_KEPT, BatchSize, NetworkKind, Patience, Precision, Rank, Rate
from harness.systems.weights import need_lora, resolve_t5
from tasks.fields import Range
from tasks.task import ASKED, Instruction


@dataclass(frozen=True)
class Seq2SeqSettings(Settings):
    """``window`` is how many turns are read before the text and after it, and ``weights`` a folder of a T5.

    Without ``instruction`` the turns and the text are read and not a word of the task, which still names the answers.
    With ``new_tokens`` tasks whose instruction says so are answered by new tokens, else by the words of the options.
    ``tokens`` bounds what is read, the instruction included. With a ``lora_rank`` every linear layer of the blocks
    learns a product of that rank (Hu et al. 2022), instead of all weights. With 0 ``epochs`` nothing is trained, and
    answers are words.
    """

    epochs: Annotated[int, Range(0, 1000)] = 30
    patience: Patience = 5
    batch_size: BatchSize = 32
    learning_rate: Rate = 5e-6
    window: tuple[int, int] = (3, 3)
    tokens: Annotated[int, Range(16, 8192)] = 512
    weights: str = ""
    lora_rank: Rank = 0
    instruction: bool = True
    new_tokens: bool = True
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        """Check every field, and that products are trained; ValueError naming the field."""
        super().__post_init__()
        if self.lora_rank and not self.epochs:
            raise ValueError(f"lora_rank {self.lora_rank} is to be trained in 0 epochs; leave one of the two out")

    def has_new_tokens(self, instruction: Instruction) -> bool:
        """Whether a task with this instruction is answered by new tokens."""
        return bool(self.epochs and self.new_tokens and instruction.new_tokens)


class Seq2SeqKind(NetworkKind[Seq2SeqSettings]):
    """A T5, whole or with products of low rank."""

    version = 2  # 1 took a batch whole, whatever memory it needed
    reads = Reads(instructions=True, labels=ASKED)
    config = Seq2SeqSettings
    checkpoint_copies = BEST_KEPT

    def identity(self, config: Seq2SeqSettings) -> dict[str, Any]:
        """The hashes of the weights; BadInput where none are named, or packages of low-rank products are missing."""
        if config.lora_rank:
            need_lora("lora_rank")
        return {"weights": resolve_t5(config.weights).identity()}

    def kept_bytes(self, config: Seq2SeqSettings, outputs: int, backbone: Backbone) -> int:
        """The size of the weights' file, where all of them are trained; else it is not known beforehand."""
        return resolve_t5(config.weights).weight_bytes if config.epochs and not config.lora_rank else 0
