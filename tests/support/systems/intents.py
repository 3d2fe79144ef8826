"""Made-up intents of made-up IEMPATHIZE rows: a user's file of them, its entry, and rows on which they must help.

Intents depend on empathy as Table 2 of Jiang et al. 2023 counts them; the paper's own intents were never published.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path

from tasks.registry import Registry
from tasks.splits.folds import Protocol
from tasks.splits.loading import load
from tasks.synthetic.lexicon import pick, weighted_index
from tasks.synthetic.posts import VERBS

ROWS = 400
EMPATHY = ("none", "seeking", "providing")
COUNTS = {  # of training rows by empathy, in the order above
    "acknowledging": (141, 38, 50),
    "consoling": (42, 26, 202),
    "neutral": (1126, 38, 49),
    "questioning": (92, 26, 4),
    "sympathizing": (3, 3, 39),
    "wishing": (14, 10, 104),
    "positive": (189, 26, 103),
    "negative": (187, 463, 29),
}
INTENTS = tuple(COUNTS)
ENTRY = f"""
id = "iempathize_intent"
title = "IEmpathize intents"
family = "iempathize"
reader = "numbered"
files = ["intents.csv", "iempathize/raw/data/dataset.csv"]
row_id = "row"
label = "intent"
kind = "multiclass"
text = "text"
encoding = "cp1252"
history = "none"
classes = [{", ".join(f'"{name}"' for name in INTENTS)}]
"""
TEXTS = "iempathize/raw/data/dataset.csv"


def write_entry(folder: Path, entry: str = ENTRY) -> None:
    """Write the entry of a user's registry."""
    (folder / "iempathize_intent.toml").write_text(entry, encoding="utf-8")


def write_intents(folder: Path, rng: random.Random) -> None:
    """Write an intent for every row of the empathy file that is there, drawn by its label from Table 2."""
    with (folder / TEXTS).open(encoding="cp1252", newline="") as file:
        labels = [int(row["label"]) for row in csv.DictReader(file)]
    intents = [intent_of(rng, label) for label in labels]
    _write(folder / "intents.csv", ("row", "intent"), list(enumerate(intents)))


def intent_of(rng: random.Random, empathy: int) -> str:
    """An intent as often as Table 2 counts it beside this class of empathy."""
    return INTENTS[weighted_index(rng, [counts[empathy] for counts in COUNTS.values()])]


def _write(path: Path, columns: tuple[str, ...], rows: list[tuple[object, ...]], encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


# Rows whose intents tell what their few, unreliable empathy labels do not.

WORDS_OF_INTENT = 4
OF_INTENT = (0, 0, 0, 1, 1, 1, 2, 2)  # empathy by intent
PROTOCOL = {"shares": [0.25, 0.1, 0.65]}
FLIPPED = 0.5  # share of training rows whose empathy is drawn anew


def write_planted(folder: Path, rng: random.Random, rows: int) -> None:
    """Write rows whose word tells the intent, and the intent the empathy; of half of the training rows it is chance.

    Intents are right. A word is one of few training rows, an intent of many: to learn intents is to learn what words
    have in common.
    """
    write_entry(folder)
    intents = [int(rng.random() * len(INTENTS)) for _ in range(rows)]
    texts = [
        f"{pick(rng, VERBS[intent :: len(INTENTS)][:WORDS_OF_INTENT])} {number}"
        for number, intent in enumerate(intents)
    ]
    labels = [OF_INTENT[intent] for intent in intents]
    _write(folder / "intents.csv", ("row", "intent"), [(n, INTENTS[intent]) for n, intent in enumerate(intents)])
    _write_texts(folder, texts, labels)
    protocol = Protocol(tuple(PROTOCOL["shares"]))
    for row in load(Registry.load([folder]).task("iempathize"), folder, protocol.name).train:
        if rng.random() < FLIPPED:
            labels[int(row.id)] = int(rng.random() * len(EMPATHY))
    _write_texts(folder, texts, labels)


def _write_texts(folder: Path, texts: list[str], labels: list[int]) -> None:
    _write(folder / TEXTS, ("text", "label"), list(zip(texts, labels, strict=True)), encoding="cp1252")
