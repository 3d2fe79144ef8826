"""Weights of a folder that answer prompts by the likeliest option: nothing is sent, sampled or parsed.

Every option is scored with its end, all on one pass of the prompt. A causal language model reads the prompt as the text
that an option goes on with, behind a space, as exemplars do. A T5 reads it with its encoder. Neither is given the marks
of a chat.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from torch import Tensor

from harness.study.systems import Place, Predicted
from harness.systems.answering import Answering, Ids, answering
from harness.systems.epochs import in_batches
from harness.systems.prompted.prompts import Shot, closing_of, prompt_of
from harness.systems.weights import resolve_answering
from tasks.errors import BadInput
from tasks.task import Example, Instruction

KEPT = 7 / 8  # of a text that is too long, again and again until it is not


class Ranked:
    """A folder's weights with an instruction whose options they rank; they are loaded once there is a prompt."""

    def __init__(self, name: str, instruction: Instruction, place: Place) -> None:
        """Look at the folder; BadBackbone where it cannot be used."""
        self.backbone, self.instruction, self.place = resolve_answering(name), instruction, place

    def asked_by(self, instruction: Instruction) -> Ranked:
        """The same weights, loaded once for all, with another instruction."""
        other = copy.copy(self)
        other.__dict__["weights"], other.instruction = self.weights, instruction
        return other

    @cached_property
    def weights(self) -> Answering:
        """The model, loaded."""
        model = answering(self.backbone, self.place.device.ready())
        model.network.to(model.device)
        return model

    def predicted(
        self, rows: Sequence[Example], template: str, shots: Sequence[Shot], *, is_trial: bool = False
    ) -> Predicted:
        """The log-probability of every option, as the logit of its class; a trial is as good as any."""
        options = self.weights.options(self.instruction.options, closing_of(template))
        read = [self._read(row, template, shots, self.weights.most_tokens(options)) for row in rows]
        prompts = [ids for ids, _ in read]

        def scores(numbers: Sequence[int]) -> Tensor:
            return self.weights.scores([prompts[number] for number in numbers], options)

        def most(tokens: int) -> int:
            return self.weights.most_rows(tokens, options)

        logits = in_batches([len(prompt) for prompt in prompts], len(options), scores, most)
        is_cut = np.array([is_cut for _, is_cut in read], dtype=bool)
        return Predicted(logits, is_cut=is_cut, notes={"weights": self.backbone.name})

    def _read(self, row: Example, template: str, shots: Sequence[Shot], most: int) -> tuple[Ids, bool]:
        """The ids of a row's prompt, at most so many, and whether it was cut for that.

        The outermost turn of the side that has more is left out first, then the end of the text. BadInput where the
        template and the exemplars alone are too long.
        """
        whole = row
        while len(ids := self.weights.ids(prompt_of(template, self.instruction, shots, row))) > most:
            if not row.text:
                raise BadInput(
                    f"system 'prompted': template and exemplars are {len(ids)} tokens without a text, and"
                    f" {self.backbone.name!r} reads at most {most} before an answer; take fewer shots, or other weights"
                )
            if len(row.context) >= max(1, len(row.after)):
                row = row._replace(context=row.context[1:])
            elif row.after:
                row = row._replace(after=row.after[:-1])
            else:
                row = row._replace(text=row.text[: int(len(row.text) * KEPT)])
        return ids, row is not whole
