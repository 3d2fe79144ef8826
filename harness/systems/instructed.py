"""Models that read an instruction and a window of turns and rank the options: prompts, trainings and predictions.

Xu and Jiang 2024, "Multi-dimensional Evaluation of Empathetic Dialog Responses", section 4.3: an intent, a definition,
the domain and the options stand around the dialogue. Without an instruction the turns and the text remain. A subclass
of ``Instructed`` builds its network, and says what a batch's loss is and how its options rank.
"""

from __future__ import annotations

import copy
import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from harness.study.backbone import Backbone
from harness.study.systems import Fit, Place, Predicted
from harness.systems.epochs import EpochTrained, Schedule, with_tuples
from harness.training.batches import evaluation_batches
from harness.training.inputs import sides
from harness.training.tensors import to_device
from harness.training.tokenizer import Tokenizer
from tasks.errors import BadInput
from tasks.task import TEXT_OF_ROW, Example, Instruction

TURN = "- "  # before every turn; sentencepiece takes a line end for a space, so that alone would part none
LEAST = 8  # tokens of a text that an instruction has to leave room for


class Frame(NamedTuple):
    """The words around a row: above its turns, and before and after its text in the question; all may be empty."""

    above: str = ""
    before: str = ""
    after: str = ""


class Marks(NamedTuple):
    """What a model's prompts have beside words: ids before and behind all of them, and what stands before a turn."""

    opening: tuple[int, ...] = ()
    turn: str = TURN
    closing: tuple[int, ...] = ()


class Read(NamedTuple):
    """``ids [tokens]`` of a prompt; ``is_cut`` where not every token of the text and its turns is read."""

    ids: tuple[int, ...]
    is_cut: bool


def frame_of(instruction: Instruction) -> Frame:
    """The words of an instruction, with its options as the answers that may be given."""
    *others, last = instruction.options
    domain = f", which is {instruction.domain}" if instruction.domain else ""
    definition = f"\nDefinition: {instruction.definition}" if instruction.definition else ""
    before, after = instruction.question.split(TEXT_OF_ROW)
    above = f"You are an annotator. Read what follows{domain}, and answer the question.{definition}"
    return Frame(above, f"Question: {before}", f"{after} Answer with {', '.join(others)} or {last}.")


class Reader:
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
        read: list[str] = []
        for row in rows:
            turns = (*(turn.text for turn in row.context), row.text, *(turn.text for turn in row.after))
            read += [row.text, *(f"{self.marks.turn}{turn}" for turn in turns)]
        ids = iter(self.tokenizer.ids(read))
        each = [[next(ids) for _ in range(2 + len(row.context) + len(row.after))] for row in rows]
        return [self._read(texts[0], texts[1:], len(row.context)) for texts, row in zip(each, rows, strict=True)]

    def _read(self, text: list[int], turns: list[list[int]], place: int) -> Read:
        """The prompt of a row's text and turns, of which the one at ``place`` is the text's own."""
        asked = text[: self.room]
        turn = turns[place][: self.room - len(asked)]
        earlier = [id for other in turns[:place] for id in other]
        later = [id for other in turns[place + 1 :] for id in other]
        of_earlier, of_later = sides(len(earlier), len(later), self.room - len(asked) - len(turn))
        dialogue = (*earlier[len(earlier) - of_earlier :], *turn, *later[:of_later])
        is_cut = len(asked) < len(text) or of_earlier < len(earlier) or of_later < len(later)
        return Read((*self.above, *dialogue, *self.before, *asked, *self.after), is_cut)


IGNORED = -100  # a place of a batch's answers that has no token


class Instructed(EpochTrained):
    """A network with the instruction that it is asked by. A subclass sets all that is declared here."""

    instruction: Instruction
    backbone: Backbone
    device: torch.device
    read: Reader
    options: Sequence[tuple[int, ...]]

    def __init__(self, config: Any, place: Place, instruction: Instruction, seed: int) -> None:  # noqa: ANN401 - a kind's
        """Nothing is built yet; a subclass does it, and draws from ``seed`` whatever is drawn."""
        super().__init__()
        self.config, self.instruction, self.device = config, instruction, place.device.ready()

    def check_length(self, system: str, of_answer: int = 0) -> None:
        """BadInput where the settings of the ``system`` ask for more tokens than its weights read.

        ``of_answer`` tokens are read behind a prompt, where the same network reads both.
        """
        most = self.backbone.max_tokens - of_answer
        if self.config.tokens > most:
            raise BadInput(
                f"system {system!r} is to read tokens = {self.config.tokens}, and {self.backbone.name!r} reads at most"
                f" {most}; set tokens to that or less"
            )

    @abstractmethod
    def loss(self, prompts: Sequence[Read], gold: Sequence[int]) -> Tensor:
        """The mean cross-entropy over all tokens of the gold options, ends included."""

    def mean_over_tokens(self, logits: Tensor, targets: Sequence[Sequence[int]]) -> Tensor:
        """The mean cross-entropy of logits ``[n, t, vocabulary]`` at the places that have a token, not IGNORED."""
        flat = to_device(torch.tensor(targets), self.device).flatten()
        return functional.cross_entropy(logits.float().flatten(0, 1), flat, ignore_index=IGNORED)

    @abstractmethod
    def rank(self, prompts: Sequence[Read]) -> Tensor:
        """Log-probabilities ``[n, options]`` of the options after these prompts, fp32."""

    @abstractmethod
    def most_rows(self, tokens: int) -> int:
        """How many prompts of so many tokens are ranked at a time."""

    @abstractmethod
    def reword(self, instruction: Instruction, classes: Sequence[int]) -> None:
        """Read and rank by other words, whose option i stands for the class ``classes[i]``."""

    def asked_by(self, instruction: Instruction, classes: Sequence[int]) -> Self:
        """The same weights, asked by other words.

        BadInput where nothing is asked, or where two options are the same tokens.
        """
        if not self.config.instruction:
            raise BadInput("it was trained without an instruction, so that no option is read")
        other = copy.copy(self)
        other.reword(instruction, classes)
        other.instruction = instruction
        return other

    def fit(self, fit: Fit) -> None:
        """Train for all epochs, or until validation rows gain no more; not at all where there is no epoch."""
        config = self.config
        if not config.epochs:
            return
        prompts = self.read(fit.train)
        gold = [int(row.label) for row in fit.train if not isinstance(row.label, tuple)]
        schedule = Schedule(config.epochs, config.batch_size, config.learning_rate, False, config.patience)

        def loss_of(numbers: Sequence[int], epoch: int) -> Tensor:
            return self.loss([prompts[number] for number in numbers], [gold[number] for number in numbers])

        self.train(fit, schedule, [len(prompt.ids) for prompt in prompts], loss_of)

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """The log-probability of every option, as the logit of its class."""
        self.network.eval()
        prompts = self.read(rows)
        logits = np.zeros((len(rows), len(self.options)), dtype=np.float32)
        with torch.inference_mode():
            for batch in evaluation_batches([len(prompt.ids) for prompt in prompts]):
                most = self.most_rows(len(prompts[batch[0]].ids))
                for first in range(0, len(batch), most):
                    numbers = batch[first : first + most]
                    logits[numbers] = self.rank([prompts[number] for number in numbers]).cpu().numpy()
        return Predicted(logits, is_cut=np.array([prompt.is_cut for prompt in prompts], dtype=bool))

    def in_precision(self) -> torch.autocast:
        """A context in which products are computed as the settings say."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16")

    def save(self, folder: Path) -> None:
        """Write what was trained, the settings, and the instruction."""
        self.write(folder, {"instruction": asdict(self.instruction), "weights": self.backbone.identity()})

    @classmethod
    def load(cls, folder: Path, place: Place, config: type) -> Self:
        """What ``save`` has written; BadInput if its weights are others than those that are here."""
        facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        instruction = Instruction(**with_tuples(facts["instruction"]))
        fitted = cls(config(**with_tuples(facts["config"])), place, instruction, seed=0)
        if odd := fitted.backbone.unlike(facts["weights"]):
            raise BadInput(f"{folder}: trained from other weights ({odd}); load it with its own")
        fitted.put(load_file(folder / "model.safetensors"))
        return fitted
