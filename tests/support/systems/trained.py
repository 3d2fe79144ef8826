"""Rows whose text tells their label, what a system is handed of them, and trainings by their settings."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.study.backbone import resolve
from harness.study.systems import Fit, Fitted, Kind
from harness.training.tokenizer import load_tokenizer
from tasks.task import METRICS, Example, Instruction, Label, Turn

WORDS = ("calm", "warm", "cold", "harsh", "grey", "loud")
ASKS = Instruction("Is {text} no?", ("no", "no communication", "much"), "a chat", "A level is what it is.")
SAID = "You are an annotator Read what follows which is a chat and answer the question Definition Question Answer with"
SPOKEN = (*SAID.split(), "or", *"Is no communication much means x z : , . ? -".split(), *WORDS)  # by prompts of ASKS
CLASSES = {"binary": 2, "multiclass": 3, "multilabel": 3, "ordinal": 3, "continuous": 0}


def label_of(kind):
    classes = tuple(f"class {number}" for number in range(CLASSES[kind]))
    return Label("label", kind, classes, separator="," if kind == "multilabel" else "")


def rows_of(kind, count, seed):
    """Rows whose text tells their label: a word per class, or a number that grows with the word."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(count):
        place = int(rng.integers(max(CLASSES[kind], 2)))
        answer = place
        if kind == "continuous":
            answer = place + float(rng.normal(0, 0.1))
        elif kind == "multilabel":
            answer = tuple(int(other in (place, 0)) for other in range(3))
        text = f"filler{number} {WORDS[place]} words{int(rng.integers(5))}"
        context = (Turn("speaker", f"secret{number} question"),)
        rationale = (WORDS[place],) if place else ()
        rows.append(Example(f"r{number}", f"g{number}", f"g{number}", context, text, answer, rationale))
    return tuple(rows)


def ids_of(text):
    """The ids of a text by the tiny backbone, which has a token per byte."""
    return tuple(load_tokenizer(resolve("random-tiny")).ids([text])[0])


def row_of(earlier, text, later):
    """A row with these turns before and behind its text."""
    before, after = (tuple(Turn("speaker", turn) for turn in side) for side in (earlier, later))
    return Example("r", "g", "g", before, text, 0, after=after)


def handed(kind, folder, settings, *, label="multiclass", rows=48, validation=15, **changes):
    """What a kind with these settings is handed: rows of a label, and whatever ``changes`` say of the rest."""
    config = kind.configured(settings, "test")
    parts = rows_of(label, rows, 1), rows_of(label, validation, 2)
    return dataclasses.replace(Fit(*parts, label_of(label), METRICS[label], 7, config, folder), **changes)


def trainings(kind: Kind[Any], fit_of: Callable[..., Fit], folders: pytest.TempPathFactory) -> Callable[..., Fitted]:
    """A function that trains a kind with these settings, or gives back what it has trained with them."""
    made: dict[str, Fitted] = {}

    def of(**settings: Any) -> Fitted:
        name = json.dumps(settings, sort_keys=True)
        if name not in made:
            made[name] = kind.fit(fit_of(folders.mktemp("fit"), resolve("random-tiny"), **settings))
        return made[name]

    return of
