"""Posts and replies in the formats of IEmpathize, TwittEmp, Condolence, and Empathy and Hope."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from tasks.synthetic.lexicon import PEOPLE, chance, cue, pick, weighted_index

# Position modulo the number of classes is the label; no other lexicon has one of these words.
VERBS = (
    "walk", "sing", "jump", "read", "paint", "swim", "bake", "climb", "whisper", "dance", "gather", "polish", "fold",
    "wander", "juggle", "knit", "carve", "sail", "row", "ski", "skate", "hike", "camp", "angle", "plough", "harvest",
    "mow", "prune", "rake", "dig", "drill", "weld", "mend", "stitch", "weave", "spin", "press", "scrub", "sweep", "mop",
    "rinse", "wipe", "boil", "fry", "roast", "grill", "stir", "chop", "slice", "peel", "grate", "pour", "taste", "chew",
    "drink", "sip", "doze", "nap", "yawn", "stretch", "kneel", "crawl", "march", "gallop", "trot", "hop", "skip",
    "leap", "dive", "float", "drift", "glide", "soar", "hover", "land", "park", "steer", "brake", "honk", "wave",
    "clap", "cheer", "hum", "murmur",
)  # fmt: skip
SEEKING = (6, 2, 2)
TWEET_ID = 1385740850446045184
GOLD = ("Not Supportive", "Supportive")


def write_iempathize(folder: Path, rng: random.Random, rows: int) -> None:
    """Write sentences in Windows-1252, with curly quotes and hard spaces as in the real file."""
    lines = []
    for number in range(rows):
        label = weighted_index(rng, SEEKING)
        text = f"On day {number} they\u2019d {cue(rng, VERBS, 3, label)}, \u201cand\xa0{pick(rng, PEOPLE)}\u201d too."
        lines.append((text, str(label)))
    write_csv(folder / "iempathize/raw/data/dataset.csv", ("text", "label"), lines, encoding="cp1252")


def write_twittemp(folder: Path, rng: random.Random, rows: int) -> None:
    """Write tweets with emoji, of three classes."""
    lines = []
    for number in range(rows):
        label = weighted_index(rng, (1, 1, 1))
        text = f"@user{number} we {cue(rng, VERBS, 3, label)} \U0001f49b #{pick(rng, PEOPLE)}"
        lines.append((text, str(label)))
    write_csv(folder / "twittemp/raw/TwittEmp.csv", ("text", "label"), lines)


def write_condolence(folder: Path, rng: random.Random, rows: int) -> None:
    """Write posts and replies with the mean of two ratings in halves, and that mean rounded as upstream does."""
    lines = []
    for number in range(rows):
        level = weighted_index(rng, (2, 3, 3, 2, 1))
        first, second = (min(max(level + 1 + chance(rng, 0.2), 1), 5) for _ in range(2))
        rating = (first + second) / 2
        post = f"Post {number}: {pick(rng, PEOPLE)} is gone,\nand the house is quiet."
        reply = f"Then {cue(rng, VERBS, 5, level)} and {cue(rng, VERBS, 5, level)}, {pick(rng, PEOPLE)}."
        lines.append((str(rating), post, reply, str(round(rating)), str(first), str(second)))
    columns = ("rating", "target", "observer", "rounded", "user1", "user2")
    write_csv(folder / "condolence/raw/empathy.csv", columns, lines)


def write_hope(folder: Path, rng: random.Random, rows: int) -> None:
    """Write three annotations and their majority for half again as many tweets as there are texts."""
    labels, texts = [], []
    for number in range(rows * 3 // 2):
        gold = weighted_index(rng, (4, 5))
        id = str(TWEET_ID + number * 987654321)
        split = weighted_index(rng, (9, 1, 1, 1))
        votes = [GOLD[gold if rater != split else 1 - gold] for rater in range(1, 4)]
        labels.append((id, *votes, GOLD[gold]))
        if number % 3 < 2:
            verbs = " and ".join(cue(rng, VERBS, 2, gold) for _ in range(2))
            texts.append((id, f"Tweet {number}: {verbs} with {pick(rng, PEOPLE)} \U0001f64f"))
    raw = folder / "empathy_hope/raw"
    columns = ("tweet_id", "annotation1", "annotation2", "annotation3", "gold_label")
    write_csv(raw / "supportive_annotation.csv", columns, labels)
    write_csv(raw / "tweets.csv", ("tweet_id", "text"), texts)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]], *, encoding: str = "utf-8") -> None:
    """Write comma-separated rows with a header, in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
