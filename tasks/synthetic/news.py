"""News essays in the format of WASSA 2023: labelled train file, unlabelled dev file, gold file without header."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path

from tasks.synthetic.lexicon import (
    ANIMALS,
    EMOTIONS,
    MATERIALS,
    PEOPLE,
    PLACES,
    chance,
    cue,
    pick,
    steps,
    total,
    weighted_index,
)

FOLDER = "news_stories/raw"
EMOTION_WEIGHTS = (3, 2, 2, 2, 2, 4, 5, 2)
TRAITS = (
    "personality_conscientiousness", "personality_openess", "personality_extraversion",
    "personality_agreeableness", "personality_stability", "iri_perspective_taking",
    "iri_personal_distress", "iri_fantasy", "iri_empathatic_concern",
)  # fmt: skip
ABOUT = ("speaker_id", "gender", "education", "race", "age", "income")
TRAIN = (
    "conversation_id", "article_id", "essay", "empathy", "distress", *ABOUT, *TRAITS,
    "speaker_number", "split", "essay_id", "emotion",
)  # fmt: skip
DEV = ("conversation_id", "article_id", "essay", *ABOUT, "speaker_number", "split", "essay_id")
GOLD = ("empathy", "distress", "emotion", *TRAITS)
TEMPLATES = (
    "{name} saw {a}, {b}, {c} by the {m} {p} and {q}.",
    '"the {m} {p}": {a}, {b}, {c}, {q}.',
    "From {p} to {q}: {a}, {b}, {c}, {m} wall.",
)


def articles(rows: int) -> int:
    """How many news articles the essays and conversations of a data set of this size are about."""
    return max(rows // 2, 12)


def write_news(folder: Path, rng: random.Random, rows: int) -> None:
    """Write ``rows`` essays below ``folder``, four fifths of them as train, in the order of their articles."""
    essays = [_essay(rng, index, rows) for index in range(rows)]
    essays.sort(key=lambda essay: int(essay["article_id"]))
    train = [essay for essay in essays if essay["split"] == "train"]
    dev = [essay for essay in essays if essay["split"] == "dev"]
    raw = folder / FOLDER
    raw.mkdir(parents=True, exist_ok=True)
    write_tsv(raw / "WASSA23_essay_level_with_labels_train.tsv", TRAIN, train)
    write_tsv(raw / "WASSA23_essay_level_dev.tsv", DEV, dev)
    write_tsv(raw / "goldstandard_dev.tsv", GOLD, dev, header=False)


def write_tsv(path: Path, columns: Sequence[str], rows: Sequence[dict[str, str]], *, header: bool = True) -> None:
    """Write these columns of the rows, tab-separated, quoted where needed, with line feeds."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", delimiter="\t", lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)


def _essay(rng: random.Random, index: int, rows: int) -> dict[str, str]:
    """One essay as the columns of all three files; its animals carry empathy, places distress, material emotion."""
    animals = [pick(rng, ANIMALS) for _ in range(3)]
    places = [pick(rng, PLACES) for _ in range(2)]
    emotion = weighted_index(rng, EMOTION_WEIGHTS)
    text = pick(rng, TEMPLATES).format(
        name=pick(rng, PEOPLE), a=animals[0], b=animals[1], c=animals[2],
        p=places[0], q=places[1], m=cue(rng, MATERIALS, len(EMOTIONS), emotion),
    )  # fmt: skip
    speaker = int(rng.random() * max(rows // 12, 4))
    traits = random.Random(speaker)
    return {
        "conversation_id": str(index // 2 + 1),
        "article_id": str(index * 7 % articles(rows) + 1),
        "essay": text,
        "empathy": str(steps(4 + 0.8 * total(ANIMALS, animals) + rng.random() - 0.5, 1, 7, 6)),
        "distress": str(steps(4 + 0.9 * total(PLACES, places) + rng.random() - 0.5, 1, 7, 8)),
        "emotion": "/".join(_emotions(rng, emotion)),
        "speaker_id": str(speaker),
        "gender": pick(traits, ("1", "2", "unknown")),
        "education": pick(traits, "234567"),
        "race": pick(traits, "12345"),
        "age": str(18 + int(traits.random() * 50)),
        "income": str(1000 * int(10 + traits.random() * 90)),
        **{trait: str(steps(1 + 6 * traits.random(), 1, 7, 2)) for trait in TRAITS},
        "speaker_number": str(index % 2 + 1),
        "split": "dev" if index % 5 == 4 else "train",
        "essay_id": str(index),
    }


def _emotions(rng: random.Random, first: int) -> list[str]:
    """The emotion, sometimes with another one after it in the alphabet."""
    later = EMOTIONS[first + 1 :]
    return [EMOTIONS[first], pick(rng, later)] if later and chance(rng, 0.15) else [EMOTIONS[first]]
