"""Epitome's three files: the same post and response pairs, a level per mechanism and rationale spans."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import NamedTuple

from tasks.synthetic.lexicon import CLOTHES, FOODS, OBJECTS, PEOPLE, cue, pick, weighted_index

FOLDER = "epitome/raw/dataset"
COLUMNS = ("sp_id", "rp_id", "seeker_post", "response_post", "level", "rationales")
FILES = {
    "emotional-reactions-reddit.csv": (5, 3, 2),
    "explorations-reddit.csv": (5, 2, 3),
    "interpretations-reddit.csv": (5, 2, 4),
}
WORDS = (OBJECTS, FOODS, CLOTHES)
SEEKER = (
    "{name} said nothing helps, not even my {thing}.",
    "Some days I feel alone, and {name} is {thing}.",
    'They told me to "move on" but {thing} hurts.',
)
RESPONSE = ("I see {0}, {1}, {2}.", "I see {1} with {0} and {2}.", "I see {2} near {0}, {1}.")
THINGS = ("asleep", "leaving", "gone", "work", "talking", "today", "exams", "family")


class Pair(NamedTuple):
    """A post and a response, with levels and the words that carry them per mechanism in the order of ``FILES``."""

    post_id: str
    response_id: str
    post: str
    response: str
    levels: tuple[int, ...]
    spans: tuple[str, ...]


def write_epitome(folder: Path, rng: random.Random, rows: int) -> None:
    """Write ``rows`` distinct pairs to each of the three files, then repeats of every fiftieth, some relabelled."""
    raw = folder / FOLDER
    raw.mkdir(parents=True, exist_ok=True)
    pairs = [_pair(rng, index) for index in range(rows)]
    for mechanism, name in enumerate(FILES):
        lines = [_line(pair, mechanism, 0) for pair in pairs]
        lines += [_line(pair, mechanism, again % 6 == 5) for again, pair in enumerate(pairs[::50])]
        _write_csv(raw / name, lines)


def _pair(rng: random.Random, index: int) -> Pair:
    """A response whose object carries ER, its food EX and its garment IP; some posts get a second response."""
    number = index - (index % 25 == 24)
    post = SEEKER[number % 3].format(name=PEOPLE[number % 10], thing=THINGS[number // 30 % 8])
    levels = tuple(weighted_index(rng, weights) for weights in FILES.values())
    thing, food, garment = (cue(rng, words, 3, level) for words, level in zip(WORDS, levels, strict=True))
    spans = (f"the {thing}", f"some {food}", f"one {garment}")
    response = pick(rng, RESPONSE).format(*spans)
    return Pair(f"s{number:05x}", f"r{index:05x}", post, response, levels, spans)


def _line(pair: Pair, mechanism: int, shift: int) -> tuple[str, ...]:
    """One row of the file of mechanism ``place``; ``shift`` moves the level of a repeat."""
    level = (pair.levels[mechanism] + shift) % 3
    rationale = f"{pair.spans[mechanism]}|" if level else ""
    return pair.post_id, pair.response_id, pair.post, pair.response, str(level), rationale


def _write_csv(path: Path, lines: list[tuple[str, ...]]) -> None:
    """Write comma-separated rows with carriage returns and no line end after the last one, as the real files do."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(lines)
        file.truncate(file.tell() - 2)
