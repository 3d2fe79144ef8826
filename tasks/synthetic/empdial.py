"""EmpatheticDialogues with automatic labels: one file per grounding emotion, a situation, then alternating turns."""

from __future__ import annotations

import csv
import random
from pathlib import Path

from tasks.synthetic.lexicon import INTENTS, JOBS, OBJECTS, OPENERS, PLACES, chance, cue, pick, weighted_index

FOLDER = "empdial_ei/raw/datasets/empatheticdialogues_annotated"
COLUMNS = ("Dialog_ID", "Type", "Actor", "Text", "Label")
GROUNDS = (
    "afraid", "angry", "annoyed", "anticipating", "anxious", "apprehensive", "ashamed", "caring",
    "confident", "content", "devastated", "disappointed", "disgusted", "embarrassed", "excited", "faithful",
    "furious", "grateful", "guilty", "hopeful", "impressed", "jealous", "joyful", "lonely",
    "nostalgic", "prepared", "proud", "sad", "sentimental", "surprised", "terrified", "trusting",
)  # fmt: skip
INTENT_WEIGHTS = (5, 4, 4, 3, 3, 3, 3, 3, 3)
LENGTHS = (4, 4, 4, 5, 6)
TEMPLATES = (
    "{r} the {a} and {b} met the {m}.",
    "{r}, the {m} had {a} and {b}.",
    "{r} {a} and {b}, said the {m}.",
)


def write_empdial(folder: Path, rng: random.Random, rows: int) -> None:
    """Write dialogues of four turns and more to 32 files, with at least about ``rows`` turns that have an intent."""
    raw = folder / FOLDER
    raw.mkdir(parents=True, exist_ok=True)
    dialogues = -(-rows * 5 // 12)
    for ground, name in enumerate(GROUNDS):
        with (raw / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for number in range(ground, dialogues, len(GROUNDS)):
                writer.writerows(_dialogue(rng, number, ground))


def _dialogue(rng: random.Random, number: int, ground: int) -> list[tuple[str, ...]]:
    """The rows of one dialogue: its situation, then turns that half of the time carry an intent."""
    name, job = GROUNDS[ground], JOBS[ground]
    dialogue = f"hit:{number}_conv:{2 * number + 1}"
    situation = f"I felt {name}, and the {job} knew."
    rows: list[tuple[str, ...]] = [(dialogue, "situation", "none", situation, name)]
    for turn in range(pick(rng, LENGTHS)):
        label, words = _intent(rng, name)
        opener = cue(rng, OPENERS, 2, turn % 2).capitalize()
        text = pick(rng, TEMPLATES).format(r=opener, a=words[0], b=words[1], m=job)
        rows.append((dialogue, "utterance", ("speaker", "listener")[turn % 2], text, label))
    return rows


def _intent(rng: random.Random, ground: str) -> tuple[str, tuple[str, str]]:
    """A turn's label and its two telling words; a turn without an intent is labelled with the emotion."""
    if chance(rng, 0.45):
        return ground, (pick(rng, PLACES), pick(rng, PLACES))
    intent = weighted_index(rng, INTENT_WEIGHTS)
    return INTENTS[intent], (cue(rng, OBJECTS, 9, intent), cue(rng, OBJECTS, 9, intent))
