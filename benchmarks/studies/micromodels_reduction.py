"""How few seeds rationales need: seeds that fire least are dropped, and sentences marked by those that are left.

Figure 3 of Lee et al. 2023, where seeds are ranked by how often they fire on the very rows that are scored. Here they
are ranked on the validation rows; a ``leak`` of the configuration ranks them on the test rows, as the paper does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.study.systems import NO_LEAK, Fit
from harness.systems.micromodels.parts import (
    Floats,
    Seeds,
    SentenceVectors,
    chosen_threshold,
    encoder_of,
    nearest,
    read,
    seeds_of,
)
from harness.training.tokenizer import load_tokenizer
from tasks.rationales import FORMS, iou_f1, marked, placed, token_f1
from tasks.task import Example


class Reduced(NamedTuple):
    """F1 of tokens and of spans on the test rows by so many seeds, in a form of tasks.rationales."""

    seeds: int
    form: str
    token_f1: float
    iou_f1: float


def reduction(fit: Fit, test: Sequence[Example], counts: Sequence[int]) -> list[Reduced]:
    """Scores with all seeds of the training rows, and with every smaller number of ``counts``, from many to few.

    The threshold is chosen on the validation rows with all seeds, and stays. Tokens are the encoder's. ``fit`` is what
    a system is handed; its configuration is that of micromodels.
    """
    encoder, device = encoder_of(fit.config.encoder), fit.place.device
    seeds = seeds_of(fit.train, encoder, device)
    validation, shown = (read(rows, encoder, device) for rows in (fit.validation, test))
    cosines = nearest(validation, seeds).cosines
    threshold = chosen_threshold(fit.config.thresholds, fit.validation, validation, cosines)
    ranking = validation if fit.config.leak == NO_LEAK else shown
    pieces = load_tokenizer(encoder).pieces
    tokens = [[place for _, place in pieces(row.text)] for row in test]
    gold = [marked(own, placed(row.text, row.rationale).spans) for own, row in zip(tokens, test, strict=True)]
    reduced = []
    for kept in fewer((ranking.vectors @ seeds.vectors.T).astype(np.float64), threshold, counts):
        spans = _spans(shown, seeds, kept, threshold, len(test))
        marks = [marked(own, of_row) for own, of_row in zip(tokens, spans, strict=True)]
        reduced += [Reduced(len(kept), form, token_f1(gold, marks, form), iou_f1(gold, marks, form)) for form in FORMS]
    return reduced


def fewer(cosines: Floats, threshold: float, counts: Sequence[int]) -> Iterator[NDArray[np.int64]]:
    """All seeds of ``cosines [sentences, seeds]``, then the numbers of those left at every count, from many to few.

    A sentence fires the nearest of the seeds that are left, if that is as near as the threshold. Seeds that fire most
    stay, of equals the nearer to any sentence, of these the first.
    """
    kept = np.arange(cosines.shape[1])
    yield kept
    for count in sorted({count for count in counts if count < len(kept)}, reverse=True):
        own = cosines[:, kept]
        fired = own.argmax(axis=1)[own.max(axis=1) >= threshold]
        times = np.bincount(fired, minlength=len(kept))
        order = np.lexsort((-own.max(axis=0), -times))
        kept = np.sort(kept[order[:count]])
        yield kept


def _spans(
    sentences: SentenceVectors, seeds: Seeds, kept: NDArray[np.int64], threshold: float, rows: int
) -> list[list[tuple[int, int]]]:
    """The sentences of every row that are near enough to a seed that is kept."""
    left = Seeds(seeds.vectors[kept], tuple(seeds.ids[number] for number in kept), seeds.places[kept])
    spans: list[list[tuple[int, int]]] = [[] for _ in range(rows)]
    for number in np.flatnonzero(nearest(sentences, left).cosines >= threshold).tolist():
        spans[sentences.rows[number]].append(sentences.places[number])
    return spans
