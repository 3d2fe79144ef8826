"""Models that read an instruction and a window of turns and rank the options: prompts, trainings and predictions.

Xu and Jiang 2024, "Multi-dimensional Evaluation of Empathetic Dialog Responses", section 4.3: an intent, a definition,
the domain and the options stand around the dialogue. Without an instruction the turns and the text remain. A subclass
of ``Instructed`` says which weights those of its settings are, and what of them is trained.
"""

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.study.cell import seed_of
from harness.study.systems import Fit, Place
from harness.systems.answering import Ids, answering
from harness.systems.epochs import EpochTrained, LossOf
from harness.systems.weights import with_products
from harness.training.inputs import sides
from harness.training.tokenizer import Tokenizer
from tasks.errors import BadInput
from tasks.task import TEXT_OF_ROW, Example, Instruction

TURN = "- "  # before every turn; sentencepiece takes a line end for a space, so that alone would part none
MOST_TRAINED = {"cpu": 3 * 2**29, "cuda": 2**34}  # bytes of what is kept of a batch for its gradients
KEPT_OF_A_TOKEN = 120  # bytes for each layer and number of its vector, in fp32
LEAST = 8  # tokens of a text that an instruction has to leave room for


class Frame(NamedTuple):
    """The words around a row: above its turns, and before and after its text in the question; all may be empty."""

    above: str = ""
    before: str = ""
    after: str = ""


class Marks(NamedTuple):
    """What a model's prompts have beside words: ids before and behind all of them, and what stands before a turn."""

    opening: Ids = ()
    turn: str = TURN
    closing: Ids = ()


class Read(NamedTuple):
    """``ids [tokens]`` of a prompt; ``is_cut`` where not every token of the text and its turns is read."""

    ids: Ids
    is_cut: bool


def frame_of(instruction: Instruction) -> Frame:
    """The words of an instruction, with its options as the answers that may be given."""
    *others, last = instruction.options
    domain = f", which is {instruction.domain}" if instruction.domain else ""
    definition = f"\nDefinition: {instruction.definition}" if instruction.definition else ""
    before, after = instruction.question.split(TEXT_OF_ROW)
    above = f"You are an annotator. Read what follows{domain}, and answer the question.{definition}"
    return Frame(above, f"Question: {before}", f"{after} Answer with {', '.join(others)} or {last}.")


class PromptReader:
    """Reads rows with a tokenizer, in at most so many tokens.

    The words of the instruction are never cut. What is left out first is the beginning of the earliest turn and the end
    of the latest one, each side having half of the room; then the text's own turn, which the question repeats; and of a
    text that leaves no room for itself its end.
    """

    def __init__(self, tokenizer: Tokenizer, tokens: int, frame: Frame, marks: Marks, system: str) -> None:
        """Find how many ``tokens`` the frame leaves; BadInput, naming the ``system``, where these are too few."""
        self.tokenizer, self.marks = tokenizer, marks
        above, self.before, after = tokenizer.ids(list(frame))
        self.above, self.after = (*marks.opening, *above), (*after, *marks.closing)
        self.room = tokens - len(self.above) - len(self.before) - len(self.after)
        if self.room < LEAST:
            raise BadInput(
                f"system {system!r} reads tokens = {tokens}, of which the instruction takes {tokens - self.room}; set"
                f" tokens to {tokens - self.room + LEAST} or more, or shorten the instruction"
            )

    def __call__(self, rows: Sequence[Example]) -> list[Read]:
        """The prompts of rows, in their order."""
        texts: list[str] = []
        for row in rows:
            turns = (*(turn.text for turn in row.context), row.text, *(turn.text for turn in row.after))
            texts += [row.text, *(f"{self.marks.turn}{turn}" for turn in turns)]
        ids, read = iter(self.tokenizer.ids(texts)), []
        for row in rows:
            text, *before = [next(ids) for _ in (row, *row.context)]
            whole, *after = [next(ids) for _ in (row, *row.after)]
            asked = text[: self.room]
            turn = whole[: self.room - len(asked)]
            earlier, later = ([id for other in side for id in other] for side in (before, after))
            of_earlier, of_later = sides(len(earlier), len(later), self.room - len(asked) - len(turn))
            dialogue = (*earlier[len(earlier) - of_earlier :], *turn, *later[:of_later])
            is_cut = len(asked) < len(text) or of_earlier < len(earlier) or of_later < len(later)
            read.append(Read((*self.above, *dialogue, *self.before, *asked, *self.after), is_cut))
        return read


class Instructed(EpochTrained[Read]):
    """A network with the instruction that it is asked by."""

    stands_on = "weights"
    system: str  # its kind, for messages
    turn = TURN  # what stands before every turn
    before_answers = ""  # the words that an option goes on with
    instruction: Instruction
    options: Sequence[Ids]

    def __init__(self, config: Any, place: Place, seed: int, *, instruction: Mapping[str, Any]) -> None:  # noqa: ANN401
        """A model as its folder has it; products of low rank, which begin at 0, and new tokens are drawn from ``seed``.

        BadInput where the settings, the instruction and the weights do not fit each other.
        """
        super().__init__(config, place, seed, instruction=instruction)
        self.instruction = Instruction(**{**instruction, "options": tuple(instruction["options"])})
        self.model = answering(self.backbone, self.device, chat=getattr(config, "chat", False))
        torch.manual_seed(seed_of(seed, "answers"))
        if config.lora_rank:
            self.model.network = with_products(self.model.network, config.lora_rank)
        self.options = self.first_options()
        config_of_weights = self.model.network.config
        of_a_token = config_of_weights.num_hidden_layers * config_of_weights.hidden_size * KEPT_OF_A_TOKEN
        self.cut = max(1, MOST_TRAINED[self.device.type] // of_a_token)
        self.check_tokens(self.system, min(self.backbone.max_tokens, self.model.most_tokens(self.options)))
        self.reader = self.reader_of(self.instruction)
        self.model.network = self.network = self.model.network.to(self.device).eval()
        self.will_train(self.is_trained)

    @classmethod
    def facts_of(cls, fit: Fit) -> dict[str, Any]:
        """The instruction."""
        assert fit.instruction is not None  # a study is refused without (harness.study.systems)
        return {"instruction": asdict(fit.instruction)}

    @abstractmethod
    def is_trained(self, name: str) -> bool:
        """Whether the parameter of this name is trained."""

    def first_options(self) -> Sequence[Ids]:
        """The ids of the options that it is trained to answer by."""
        return self.model.options(self.instruction.options, self.before_answers)

    def options_of(self, instruction: Instruction, classes: Sequence[int]) -> Sequence[Ids]:
        """The ids of other options, of which i stands for the class ``classes[i]``; BadInput if two are the same."""
        return self.model.options(instruction.options, self.before_answers)

    def frame(self, instruction: Instruction) -> Frame:
        """The words around a row."""
        return frame_of(instruction) if self.config.instruction else Frame()

    def reader_of(self, instruction: Instruction) -> PromptReader:
        """What reads rows by this instruction; BadInput where it leaves a text no room."""
        marks = Marks(self.model.opening, self.turn, self.model.closing)
        return PromptReader(self.tokenizer, self.config.tokens, self.frame(instruction), marks, self.system)

    def asked_by(self, instruction: Instruction, classes: Sequence[int]) -> Self:
        """The same weights, asked by other words.

        BadInput where nothing is asked, or where two options are the same tokens.
        """
        if not self.config.instruction:
            raise BadInput("it was trained without an instruction, so that no option is read")
        other = copy.copy(self)
        other.options, other.reader = self.options_of(instruction, classes), self.reader_of(instruction)
        other.instruction = instruction
        return other

    def read(self, rows: Sequence[Example]) -> list[Read]:
        """The rows' prompts."""
        return self.reader(rows)

    def loss_of(self, fit: Fit, rows: Sequence[Read]) -> LossOf:
        """The cross-entropy of the gold options."""
        gold = [int(row.label) for row in fit.train if not isinstance(row.label, tuple)]
        self.said = [len(self.options[number]) for number in gold]
        return lambda numbers, _: self.loss([rows[row] for row in numbers], [gold[row] for row in numbers])

    def parts(self, numbers: Sequence[int], lengths: Sequence[int]) -> Iterable[Sequence[int]]:
        """All of them, where memory has room: parts draw other dropout."""
        fits = len(numbers) * max(lengths[number] for number in numbers) <= self.cut
        return [numbers] if fits else super().parts(numbers, lengths)

    def weight(self, numbers: Sequence[int], epoch: int) -> float:
        """The tokens of their options, over which a loss is a mean."""
        return sum(self.said[number] for number in numbers)

    def loss(self, prompts: Sequence[Read], gold: Sequence[int]) -> Tensor:
        """The mean cross-entropy over all tokens of the gold options, ends included."""
        with self.in_precision():
            return self.model.loss([prompt.ids for prompt in prompts], [self.options[number] for number in gold])

    def every_logit(self, rows: Sequence[Read]) -> NDArray[np.float32]:
        """The log-probability of every option, as the logit of its class."""
        with self.in_precision():
            return self.model.ranked([prompt.ids for prompt in rows], self.options)

    def logits(self, rows: Sequence[Read]) -> Tensor:
        """The same of a batch."""
        return torch.from_numpy(self.every_logit(rows))
