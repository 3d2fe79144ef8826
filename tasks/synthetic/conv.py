"""Conversations in the format of WASSA 2023: turns out of order, ratings in thirds, gold file without header."""

from __future__ import annotations

import random
from pathlib import Path

from tasks.synthetic.lexicon import ANIMALS, INSTRUMENTS, TIMES, pick, steps, total
from tasks.synthetic.news import articles, write_tsv

FOLDER = "conv/raw"
RATINGS = ("EmotionalPolarity", "Emotion", "Empathy")
PLACEMENT = ("speaker_number", "article_id", "speaker_id", "essay_id")
TRAIN = ("conversation_id", "turn_id", "text", *RATINGS, *PLACEMENT)
DEV = ("conversation_id", "turn_id", "text", *PLACEMENT)
SHORTEST, LENGTHS = 10, (0, 0, 0, 1, 2)
TEMPLATES = (
    "on {t} the {a}, the {b}, the {c} and {i}",
    "the {i} for the {a}, the {b}, the {c} on {t}",
    "saw the {a}, the {b}, the {c} and {i} on {t}",
)


def write_conv(folder: Path, rng: random.Random, rows: int) -> None:
    """Write conversations of ten turns and more to train and, every fifth of them, to dev.

    They hold a quarter more turns than ``rows``: splits by article are uneven where an article has so many turns.
    """
    turns: list[dict[str, str]] = []
    conversation = 0
    while len(turns) < rows * 5 // 4:
        turns += _conversation(rng, conversation, rows)
        conversation += 1
    # The real files put turn 10 before turn 2, as a sort of strings does.
    turns.sort(key=lambda turn: (float(turn["article_id"]), turn["conversation_id"], turn["turn_id"]))
    train = [turn for turn in turns if int(turn["conversation_id"]) % 5]
    dev = [turn for turn in turns if int(turn["conversation_id"]) % 5 == 0]
    raw = folder / FOLDER
    raw.mkdir(parents=True, exist_ok=True)
    write_tsv(raw / "WASSA23_conv_level_with_labels_train.tsv", TRAIN, train)
    write_tsv(raw / "WASSA23_conv_level_dev.tsv", DEV, dev)
    write_tsv(raw / "goldstandard_CONV_dev.tsv", RATINGS, dev, header=False)


def _conversation(rng: random.Random, index: int, rows: int) -> list[dict[str, str]]:
    """The turns of one conversation; some pairs of conversations are about the same article."""
    article = (index - (index % 10 == 9)) % articles(rows) + 1
    turns: list[dict[str, str]] = []
    earlier = 0
    for number in range(SHORTEST + pick(rng, LENGTHS)):
        animals = [pick(rng, ANIMALS) for _ in range(3)]
        instrument, time = pick(rng, INSTRUMENTS), pick(rng, TIMES)
        worth = total(ANIMALS, animals)
        text = pick(rng, TEMPLATES).format(a=animals[0], b=animals[1], c=animals[2], i=instrument, t=time)
        turns.append({
            "conversation_id": str(index + 1),
            "turn_id": str(number),
            "text": text,
            "EmotionalPolarity": _third(rng, 1 + 0.45 * total(INSTRUMENTS, [instrument]), 2),
            "Emotion": _third(rng, 2.5 + 0.9 * total(TIMES, [time]), 5),
            "Empathy": _third(rng, 2.5 + 0.45 * worth + 0.2 * earlier, 5),
            "speaker_number": str(number % 2 + 1),
            "article_id": f"{article}.0",
            "speaker_id": f"{2 * index + number % 2}.0",
            "essay_id": f"{2 * index + 500 * (number % 2)}.0",
        })  # fmt: skip
        earlier = worth
    return turns


def _third(rng: random.Random, value: float, high: int) -> str:
    """The mean of three raters between 0 and ``high``, printed as the real files do: ``2.3333``."""
    return str(round(steps(value + (rng.random() - 0.5) / 2, 0, high, 3), 4))
