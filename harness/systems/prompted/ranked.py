"""Weights of a folder that answer prompts: by the option that ranks highest, or by what they say. Nothing is sent.

Every option is scored with its end, all on one pass of the prompt. A causal language model reads the prompt as the text
that an option goes on with, behind a space, as exemplars do; with the template of a chat, as what a user says, and an
option is the answer. A T5 reads it with its encoder.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from harness.study.systems import Place, Predicted
from harness.systems.answering import Answering, Ids, answering
from harness.systems.prompted.asked import PromptedSettings
from harness.systems.prompted.prompts import Shot, closing_of, option_of, prompt_of, voted
from harness.systems.weights import resolve_answering
from tasks.errors import BadInput
from tasks.task import Example, Instruction

GENERATED = "generated"  # of the settings' ranking: nothing is ranked
KEPT = 7 / 8  # of a text that is too long, again and again until it is not


class Ranked:
    """A folder's weights with an instruction whose options they rank; they are loaded once there is a prompt."""

    def __init__(self, config: PromptedSettings, instruction: Instruction, place: Place) -> None:
        """Look at the folder; BadBackbone where it cannot be used."""
        self.config, self.instruction, self.place = config, instruction, place
        self.backbone = resolve_answering(config.weights)

    def asked_by(self, instruction: Instruction) -> Ranked:
        """The same weights, loaded once for all, with another instruction."""
        other = copy.copy(self)
        other.__dict__["weights"], other.instruction = self.weights, instruction
        return other

    @cached_property
    def weights(self) -> Answering:
        """The model, loaded."""
        model = answering(self.backbone, self.place.device.ready(), chat=self.config.chat)
        model.network.to(model.device)
        return model

    def predicted(
        self, rows: Sequence[Example], template: str, shots: Sequence[Shot], *, is_trial: bool = False
    ) -> Predicted:
        """What options rank by, or votes for what is said, as logits of classes; a trial is as good as any."""
        texts, ranking, unanswered = self.instruction.options, self.config.ranking, None
        options = self.weights.options(texts, closing_of(template))
        room = [*options, (0,) * self.config.answer_tokens] if ranking == GENERATED else options
        read = [self._read(row, template, shots, self.weights.most_tokens(room)) for row in rows]
        prompts = [ids for ids, _ in read]
        if ranking == GENERATED:
            answers = self.weights.answers(prompts, self.config.answer_tokens)
            logits, unanswered = voted([[option_of(answer, texts)] for answer in answers], len(texts))
        else:
            logits = self.weights.ranked(prompts, options)
        if ranking == "mean":
            logits /= np.array([len(ids) for ids in options], dtype=np.float32)
        if ranking == "prior" and rows:
            nothing = rows[0]._replace(text="", context=(), after=())
            prompt = self.weights.ids(prompt_of(template, self.instruction, shots, nothing))
            logits -= self.weights.ranked([prompt], options)
        is_cut = np.array([is_cut for _, is_cut in read], dtype=bool)
        return Predicted(logits, is_cut=is_cut, unanswered=unanswered, notes={"weights": self.backbone.name})

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
