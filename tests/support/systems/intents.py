"""Made-up intents of made-up IEMPATHIZE rows: a user's file of them, and its entry.

Intents depend on empathy as Table 2 of Jiang et al. 2023 counts them; the paper's own intents were never published.
"""

import csv
from pathlib import Path

from tasks.synthetic.lexicon import Draws
from tests.support.entry_files import write_rows

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


def write_intents(folder: Path, rng: Draws) -> None:
    """Write an intent for every row of the empathy file that is there, drawn by its label from Table 2."""
    with (folder / TEXTS).open(encoding="cp1252", newline="") as file:
        labels = [int(row["label"]) for row in csv.DictReader(file)]
    intents = [intent_of(rng, label) for label in labels]
    write_rows(folder / "intents.csv", [{"row": str(row), "intent": intent} for row, intent in enumerate(intents)])


def intent_of(rng: Draws, empathy: int) -> str:
    """An intent as often as Table 2 counts it beside this class of empathy."""
    return INTENTS[rng.weighted_index([counts[empathy] for counts in COUNTS.values()])]
