"""Seeds and sentences of micromodels: how near the sentences of a reply come to rationales of other rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.study.backbones.backbone import Backbone
from harness.study.device import Device
from harness.systems.micromodels.sentences import Vectors, sentences_in, vectors_of
from tasks.errors import BadInput
from tasks.rationales import marked, placed, token_f1
from tasks.task import Example

FARTHEST = -1.0  # the cosine where there is no sentence, or no seed
DECIMALS = 5  # of a cosine; more of them depend on which texts were encoded together
WORD = re.compile(r"\S+")
FORM = "micromodels"  # of T-F1, by which a threshold is chosen

Floats = NDArray[np.float64]


class Seeds(NamedTuple):
    """Rationales of rows: their vectors ``[seeds, width]``, and the row and characters ``[seeds, 2]`` of each.

    The characters of one that is not found in its row's text are -1.
    """

    vectors: Vectors
    ids: tuple[str, ...]
    places: NDArray[np.int64]


class Sentences(NamedTuple):
    """Of every sentence the number of its row, its characters, and its vector ``[sentences, width]``."""

    rows: NDArray[np.int64]
    places: Sequence[tuple[int, int]]
    vectors: Vectors


class Nearest(NamedTuple):
    """Of every sentence the cosine to the nearest seed, and which that is."""

    cosines: Floats
    seeds: NDArray[np.int64]


def nearest(sentences: Sentences, seeds: Seeds, left_out: Sequence[str] = ()) -> Nearest:
    """The nearest seed of every sentence; with ``left_out``, the ids of the rows, none of a sentence's own row."""
    if not len(sentences.rows) or not len(seeds.ids):
        count = len(sentences.rows)
        return Nearest(np.full(count, FARTHEST), np.zeros(count, dtype=np.int64))
    cosines = sentences.vectors @ seeds.vectors.T
    if left_out:
        own = np.array(left_out)[sentences.rows]
        cosines[own[:, None] == np.array(seeds.ids)[None, :]] = FARTHEST
    best = cosines.argmax(axis=1)
    values = np.round(cosines[np.arange(len(best)), best].astype(np.float64), DECIMALS)
    return Nearest(np.clip(values, FARTHEST, 1.0), best)


def feature(sentences: Sentences, cosines: Floats, rows: int) -> Floats:
    """The largest cosine of the sentences of each row ``[rows]``."""
    largest = np.full(rows, FARTHEST)
    np.maximum.at(largest, sentences.rows, cosines)
    return largest


def read(rows: Sequence[Example], encoder: Backbone, device: Device) -> Sentences:
    """The sentences of rows and their vectors."""
    places = [(number, place) for number, row in enumerate(rows) for place in sentences_in(row.text)]
    texts = [rows[number].text[start:end] for number, (start, end) in places]
    numbers = np.array([number for number, _ in places], dtype=np.int64)
    return Sentences(numbers, [place for _, place in places], vectors_of(texts, encoder, device))


def seeds_of(rows: Sequence[Example], encoder: Backbone, device: Device) -> Seeds:
    """Every rationale of the rows that has a letter or digit."""
    seeds = [(row, text) for row in rows for text in row.rationale if any(map(str.isalnum, text))]
    places = [next(iter(placed(row.text, [text]).spans), (-1, -1)) for row, text in seeds]
    return Seeds(
        vectors_of([text.strip() for _, text in seeds], encoder, device),
        tuple(row.id for row, _ in seeds),
        np.array(places, dtype=np.int64).reshape(len(seeds), 2),
    )


def chosen_threshold(
    thresholds: Sequence[float], rows: Sequence[Example], sentences: Sentences, cosines: Floats
) -> float:
    """The threshold of the highest T-F1 of words on these rows, the lowest of equals; BadInput if none marks any.

    One that marks no sentence of the rows is not asked: it would mark nothing for good.
    """
    highest = float(cosines.max(initial=FARTHEST))
    firing = sorted(threshold for threshold in thresholds if threshold <= highest)
    if not firing:
        raise BadInput(
            f"micromodels: no sentence of the {len(rows)} validation rows is as near to a seed as thresholds"
            f" {', '.join(f'{threshold:g}' for threshold in sorted(thresholds))} ask; the nearest has {highest:.3f};"
            " set lower ones"
        )
    words = [[match.span() for match in WORD.finditer(row.text)] for row in rows]
    gold = [marked(of_row, placed(row.text, row.rationale).spans) for of_row, row in zip(words, rows, strict=True)]

    def score(threshold: float) -> float:
        spans: list[list[tuple[int, int]]] = [[] for _ in rows]
        for number in np.flatnonzero(cosines >= threshold).tolist():
            spans[sentences.rows[number]].append(sentences.places[number])
        predicted = [marked(of_row, own) for of_row, own in zip(words, spans, strict=True)]
        return token_f1(gold, predicted, FORM)

    return max(firing, key=score)
