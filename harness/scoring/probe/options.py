"""What a system answers where its options come in another order or under other names, kept in the store.

Systems that read an instruction choose among options (``tasks.task.Instruction``). They are asked again about the same
test rows with the order reversed, with letters in the place of names, and with these letters reversed. A measure named
by the record and the arrangement holds places of rows and the classes that were answered, never a text. What the store
has is not asked again; a server is asked through the folder of answers, up to the cap of the study.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from adapters_store import MissingRecord, Store, StoreError
from adapters_store.measures import (
    ARRANGEMENTS,
    AS_ASKED,
    LETTERS,
    LETTERS_REVERSED,
    OPTIONS,
    OPTIONS_ROWS,
    PROBE_SEED,
    options_inputs,
)
from harness.scoring.probe.measured import Asked, Watch, check_later_turns, tested_rows
from harness.scoring.system_scorer import SystemScorer
from harness.study.systems import kind_and_config
from tasks.errors import BadInput
from tasks.splits.loading import Splits
from tasks.task import Example, Instruction

NAMES = "BCDEFGHJKLMNOPQRSTUVWXYZ"  # letters that are no English word: an answer may say "a" and "I"
NO_ANSWER = -1


class Arranged(NamedTuple):
    """An instruction, and the class that each of its options stands for."""

    instruction: Instruction
    classes: tuple[int, ...]


def arranged(instruction: Instruction, arrangement: str) -> Arranged:
    """The instruction with its options arranged so; letters are explained behind the question.

    Reversed letters are given anew, from the last option on: what changes against letters is what each stands for.
    BadInput where there are more options than letters.
    """
    classes = tuple(range(len(instruction.options)))
    classes = classes if arrangement in (AS_ASKED, LETTERS) else classes[::-1]
    options = tuple(instruction.options[place] for place in classes)
    if arrangement in (LETTERS, LETTERS_REVERSED):
        if len(options) > len(NAMES):
            raise BadInput(f"{len(options)} options are more than there are letters ({len(NAMES)})")
        meaning = ", ".join(f'{letter} for "{option}"' for letter, option in zip(NAMES, options, strict=False))
        question = f"{instruction.question} Say {meaning}."
        return Arranged(replace(instruction, question=question, options=tuple(NAMES[: len(options)])), classes)
    return Arranged(replace(instruction, options=options), classes)


@dataclass
class OptionsProbe:
    """A probe of options of a stored study: ``splits_of`` gives a task's rows, ``missing`` says what was not asked.

    ``rows`` is how many test rows are asked about at most. ``allow`` are tasks whose texts may be sent to a server
    though nobody else may have them, and ``most_cost`` a cap in dollars instead of the study's.
    """

    store: Store
    manifest: Mapping[str, Any]
    splits_of: Callable[[str], Splits]
    rows: int = OPTIONS_ROWS
    device: str = "auto"
    allow: Sequence[str] = ()
    most_cost: float | None = None
    missing: dict[str, str] = field(default_factory=dict)

    def run(self, cells: Sequence[Asked], watch: Watch) -> None:
        """Put into the store what these cells answer; one that cannot be asked is named and left out."""
        for done, cell in enumerate(cells):
            watch("options", done, len(cells))
            try:
                self._cell(cell)
            except (BadInput, StoreError) as reason:
                self.missing[f"{cell.task} by {cell.system}, {cell.key[:12]}"] = str(reason)
        watch("options", len(cells), len(cells))

    def _cell(self, cell: Asked) -> None:
        wanted = [name for name in ARRANGEMENTS if not self._is_stored(cell, name)]
        if not wanted:
            return
        splits = self.splits_of(cell.task)
        # prices, cap and the like as the study has them; never its address, which others could have written. BadInput
        # where the texts of the task may not leave the machine
        table = self.manifest["study"].get("system", {}).get(cell.system, {})
        kind, config = kind_and_config(cell.system, table, f"system.{cell.system}")
        if not self.manifest["synthetic"]:
            allowed = {"allow": tuple(self.allow)} if "allow" in kind.local else {}
            kind.check(replace(config, **allowed), cell.system, splits.task)
        values = {name: getattr(config, name) for name in kind.local}
        local = {name: value for name, value in values.items() if isinstance(value, int | float)}
        if self.most_cost is not None and "most_cost" in local:
            local["most_cost"] = self.most_cost
        check_later_turns(self.store, cell.key, splits)
        every = tested_rows(self.store, cell.key, splits)
        places = drawn(len(every), self.rows)
        scorer = SystemScorer(self.store, self.manifest, cell.system, cells=[cell.key], device=self.device, local=local)
        rows = scorer.read(scorer.tasks[0], [every[place] for place in places])
        for name in wanted:
            started = time.perf_counter()
            answers, cost = self._asked(scorer, rows, name)
            result = {"places": places, "answers": answers, "cost": cost}
            inputs = options_inputs(cell.key, name, self.rows)
            self.store.put_measure(OPTIONS, inputs, result, time.perf_counter() - started)

    def _asked(
        self, scorer: SystemScorer, rows: Sequence[Example], arrangement: str
    ) -> tuple[list[int], dict[str, float]]:
        """The class that is answered to every row, -1 where none is, and what the answers cost."""
        (fitted,) = scorer.fitted
        if fitted.instruction is None:
            raise BadInput("it answers by no options")
        instruction, classes = arranged(fitted.instruction, arrangement)
        predicted = fitted.asked_by(instruction, classes).predict(rows)
        answers = np.array(classes)[predicted.logits.argmax(axis=1)]
        if predicted.unanswered is not None:
            answers[predicted.unanswered] = NO_ANSWER
        return answers.tolist(), dict(predicted.cost)

    def _is_stored(self, cell: Asked, arrangement: str) -> bool:
        try:
            self.store.measure(OPTIONS, options_inputs(cell.key, arrangement, self.rows))
        except MissingRecord:
            return False
        return True


def drawn(count: int, most: int) -> list[int]:
    """The places of at most so many rows among ``count``, in their order; equal for equal numbers."""
    order = np.random.default_rng(PROBE_SEED).permutation(count)[:most]
    return [int(place) for place in np.sort(order)]
