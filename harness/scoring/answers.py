"""What scorers of texts have in common: rows made of texts, and a frame of what every task answers to them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, softmax

from harness.scoring.scoring_tasks import ScoringTask
from harness.study.systems import Span
from tasks import metrics
from tasks.errors import BadInput
from tasks.task import Example, Turn

COLUMNS = {
    "id": "str",
    "task": "str",
    "prediction": "str",
    "value": "float64",
    "probability": "float64",
    "probabilities": "str",
    "is_cut": "bool",
}
RATIONALE = "rationale"  # a further column, of systems that mark one
DIGITS = 6  # of a share


@dataclass(frozen=True)
class Answers:
    """A task's logits ``[rows, outputs]``, ``[rows]`` whether it read only a part of a row, and the spans it marks.

    ``spans`` is None for what marks no rationale.
    """

    task: ScoringTask
    logits: NDArray[np.float32]
    is_cut: NDArray[np.bool_]
    spans: Sequence[Span] | None = None


class TextScorer(ABC):
    """Tasks that answer to new texts."""

    tasks: Sequence[ScoringTask]

    @abstractmethod
    def answers(self, rows: Sequence[Example]) -> list[Answers]:
        """Those of every task, in the order of ``tasks``; labels of the rows mean nothing."""

    def score(
        self, texts: Sequence[str], contexts: Sequence[str | Sequence[str]] = (), ids: Sequence[str] = ()
    ) -> pd.DataFrame:
        """A row per text and task, sorted by text, with ``COLUMNS``.

        ``contexts`` are the earlier turns, a turn or a list of turns for each text; ``ids`` are by default the numbers
        of the texts from 0. ``prediction`` is a class, several classes joined by ``|``, or a number; ``value`` is a
        number in the label's own scale, ``probability`` that of the predicted class, ``probabilities`` those of all
        classes as JSON. A system that marks rationales adds ``rationale``: its spans in a text as JSON,
        ``[[start, end, score], ...]`` in characters from 0, the end not in it. BadInput for a text without words.
        """
        rows = rows_of_texts(texts, contexts, ids)
        frames = [frame_of(rows, answers) for answers in self.answers(rows)] if rows else []
        if not frames:
            return pd.DataFrame(columns=list(COLUMNS)).astype(COLUMNS)
        frame = pd.concat(frames).sort_index(kind="stable").reset_index(drop=True)
        marks = [RATIONALE] if RATIONALE in frame else []
        return frame[[*COLUMNS, *marks]].astype({**COLUMNS, **dict.fromkeys(marks, "str")})


def rows_of_texts(
    texts: Sequence[str], contexts: Sequence[str | Sequence[str]] = (), ids: Sequence[str] = ()
) -> list[Example]:
    """Texts as rows without a label that means anything; turns without words are left out. BadInput for empty texts."""
    if contexts and len(contexts) != len(texts):
        raise BadInput(f"{len(contexts)} contexts for {len(texts)} texts; give one for each, which may be empty")
    for number, text in enumerate(texts):
        if not text.strip():
            raise BadInput(f"text {number} is empty; leave it out")
    names = ids or [str(number) for number in range(len(texts))]
    return [_example(*parts) for parts in zip(names, texts, contexts or [""] * len(texts), strict=True)]


def _example(id: str, text: str, context: str | Sequence[str]) -> Example:
    earlier = [context] if isinstance(context, str) else context
    turns = tuple(Turn("speaker", turn) for turn in earlier if turn.strip())
    return Example(id, id, id, turns, text, 0)


def frame_of(rows: Sequence[Example], answers: Answers) -> pd.DataFrame:
    """What a task answers, in the order of the rows."""
    task, logits = answers.task, answers.logits
    decisions = metrics.decisions(task.metric, logits)
    answered = [_answer(task, row, decision) for row, decision in zip(logits, decisions, strict=True)]
    frame = pd.DataFrame(answered, columns=["prediction", "value", "probability", "probabilities"])
    frame = frame.assign(id=[row.id for row in rows], task=task.name, is_cut=answers.is_cut)
    return frame if answers.spans is None else frame.assign(**{RATIONALE: _rationales(len(rows), answers.spans)})


def _rationales(rows: int, spans: Sequence[Span]) -> list[str]:
    """The spans of each row as JSON."""
    marked: list[list[list[float]]] = [[] for _ in range(rows)]
    for span in spans:
        marked[span.row].append([span.start, span.end, round(span.score, DIGITS)])
    return [json.dumps(of_row) for of_row in marked]


def _answer(
    task: ScoringTask,
    logits: NDArray[np.float32],
    decision: Any,  # noqa: ANN401 - a class, a 0 or 1 per class, or a number
) -> tuple[str, float | None, float | None, str]:
    """Prediction, value, probability of what is predicted, and all probabilities as JSON."""
    if task.kind == "continuous":
        return f"{float(decision):.6g}", float(decision), None, ""
    outputs = logits.astype(np.float64)
    shares = (expit(outputs) if task.kind == "multilabel" else softmax(outputs)).tolist()
    every = json.dumps(
        {name: round(share, DIGITS) for name, share in zip(task.names, shares, strict=True)}, ensure_ascii=False
    )
    if task.kind == "multilabel":
        return "|".join(name for name, is_on in zip(task.names, decision, strict=True) if is_on), None, None, every
    return task.names[int(decision)], None, shares[int(decision)], every
