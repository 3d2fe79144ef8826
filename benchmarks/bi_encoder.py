"""The bi-encoder on EPITOME's own rows, cut 75/5/20 by seeker post: levels, and rationales in three forms.

    python -m benchmarks.bi_encoder --data data --task epitome_er --epochs 4 --backbone roberta-base

It prints counts and scores, and no text of a row. Scores of rationales are over the tokens that were read of a text.
With ``--epochs 0`` nothing is trained: the constants alone, which belong into every table of rationales.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.study.backbone import resolve
from harness.study.cell import seed_of
from harness.study.systems import Fit, Fitted, Place, Span, kind_of
from harness.training.tokenizer import load_tokenizer
from tasks import metrics
from tasks.rationales import FORMS, iou_f1, marked, placed, token_f1
from tasks.readers import read_task
from tasks.registry import Registry
from tasks.task import Example

SHARES = (0.75, 0.05, 0.20)
TOKENS = 64  # that the paper's encoders read of a text


def cut(rows: Sequence[Example], seed: int) -> list[list[Example]]:
    """Train, validation and test rows of these shares of the groups, drawn from the seed."""
    groups = sorted({row.group for row in rows})
    order = np.random.default_rng(seed_of("75/5/20", seed)).permutation(len(groups))
    bounds = (np.cumsum(SHARES) * len(groups)).round()
    part_of = {groups[place]: int(np.searchsorted(bounds, rank, side="right")) for rank, place in enumerate(order)}
    return [[row for row in rows if part_of[row.group] == part] for part in range(3)]


def rationale_scores(rows: Sequence[Example], spans: Sequence[Span] | None, backbone: str, read: int) -> None:
    """Print T-F1 and IOU-F1 of the system, if any, of marking every token and of marking none, in each form."""
    tokenizer = load_tokenizer(resolve(backbone))
    tokens = [[place for _, place in tokenizer.pieces(row.text)[: read - 2]] for row in rows]
    gold = [marked(each, placed(row.text, row.rationale).spans) for row, each in zip(rows, tokens, strict=True)]
    own: dict[int, list[tuple[int, int]]] = {}
    for span in spans or ():
        own.setdefault(span.row, []).append((span.start, span.end))
    answers = {
        "bi-encoder": [marked(each, own.get(number, [])) for number, each in enumerate(tokens)],
        "mark every word": [np.ones(len(each), dtype=bool) for each in tokens],
        "mark none": [np.zeros(len(each), dtype=bool) for each in tokens],
    }
    for name, predicted in list(answers.items())[spans is None :]:
        scores = ((form, token_f1(gold, predicted, form), iou_f1(gold, predicted, form)) for form in FORMS)
        written = ", ".join(f"{form} {t_f1:.3f} / {of_spans:.3f}" for form, t_f1, of_spans in scores)
        print(f"{name:16} T-F1 / IOU-F1: {written}")


def main() -> None:
    """Fit, predict the test rows, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", default="epitome_er")
    parser.add_argument("--backbone", default="minilm")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    parser.add_argument("--joins", default="attention")
    options = parser.parse_args()
    task, rows, _ = read_task(Registry.load().task(options.task), options.data)
    train, validation, test = cut(rows, options.seed)
    print(f"{task.id}: {len(train)} train, {len(validation)} validation, {len(test)} test rows", flush=True)
    labels = np.array([row.label for row in test])
    majority = np.full_like(labels, np.bincount([row.label for row in train]).argmax())
    print_levels("majority", labels, majority)
    if options.epochs == 0:
        return rationale_scores(test, None, options.backbone, TOKENS)
    kind = kind_of("bi-encoder")
    settings = {"epochs": options.epochs, "learning_rate": options.learning_rate, "joins": options.joins}
    config, started = kind.configured(settings, "options"), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        fit = Fit(train, validation, task.label, task.metric, options.seed, config, Path(folder), place_of(options))
        fitted: Fitted = kind.fit(fit)
    print(f"trained in {time.process_time() - started:.0f} CPU seconds: {list(fitted.history)}", flush=True)
    predicted = fitted.predict(test)
    print_levels("bi-encoder", labels, predicted.logits.argmax(axis=1))
    return rationale_scores(test, predicted.spans, options.backbone, config.tokens)


def print_levels(name: str, labels: NDArray[np.int64], answers: NDArray[np.int64]) -> None:
    """Print accuracy and macro-F1."""
    print(f"{name:16} accuracy {np.mean(answers == labels):.3f}, macro-F1 {metrics.macro_f1(labels, answers):.3f}")


def place_of(options: argparse.Namespace) -> Place:
    """The backbone that was asked for, on whatever device is here."""
    return Place(backbone=resolve(options.backbone))


if __name__ == "__main__":
    main()
