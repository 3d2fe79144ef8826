"""A causal language model, finetuned by products of low rank, that is asked by an instruction and answers by an option.

The instruction and the window of turns are those of Xu and Jiang 2024 ("Multi-dimensional Evaluation of Empathetic
Dialog Responses", section 4.3), who asked encoder-decoders. Products of low rank are those of Hu et al. 2022 ("LoRA"),
with the rate, the batch and the epochs that they give for GPT-2 (their Table 11). Their rank there is 4, of two
matrices a layer; here all have one. Answers are ranked as by ``prompted``, which asks the same weights as they are.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from harness.study.systems import Reads, Settings
from harness.systems.networks import BEST_KEPT, BatchSize, Epochs, NetworkKind, Patience, Precision, Rate
from harness.systems.weights import asked_identity, need_lora, resolve_causal
from tasks.errors import BadInput
from tasks.fields import Range
from tasks.task import ASKED


@dataclass(frozen=True)
class DecoderSettings(Settings):
    """``window`` is how many turns are read before the text and after it, and ``weights`` a folder of the model.

    The weights' content is in the keys and their path is not. Weights with a template of a chat are asked in it, unless
    ``chat`` is false. Without ``instruction`` the turns and the text are read
    and not a word of the task, which still names the answers. ``tokens`` bounds what is read, the instruction included.
    Every linear layer of the blocks learns a product of rank ``lora_rank``.
    """

    epochs: Epochs = 5
    patience: Patience = 2
    batch_size: BatchSize = 8
    learning_rate: Rate = 2e-4
    window: tuple[int, int] = (3, 3)
    tokens: Annotated[int, Range(16, 131072)] = 512
    weights: str = ""
    lora_rank: Annotated[int, Range(1, 1024)] = 8
    instruction: bool = True
    chat: bool = True
    precision: Precision = "fp32"


class DecoderKind(NetworkKind[DecoderSettings]):
    """A causal language model with products of low rank."""

    version = 2  # 1 took a batch whole, whatever memory it needed
    reads = Reads(instructions=True, labels=ASKED, package="peft", extra="lora")
    config = DecoderSettings
    packages = ("peft", "torch", "transformers", "tokenizers", "numpy")
    local = ("weights",)
    added = ("chat",)
    checkpoint_copies = BEST_KEPT

    def identity(self, config: DecoderSettings) -> dict[str, Any]:
        """The hashes of the weights; BadInput where none are named, or packages of low-rank products are missing."""
        need_lora("system 'decoder'")
        if not config.weights:
            raise BadInput(
                "system 'decoder' finetunes a causal language model; name the folder of its weights:"
                " system.decoder.weights"
            )
        return asked_identity(resolve_causal(config.weights), chat=config.chat)
