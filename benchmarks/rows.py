"""What many rows cost: reading and splitting them, and looking for near duplicates among them.

    python -m benchmarks.rows --rows 1000000

The rows are made of the words of `tasks/synthetic`, twelve or more a text; of every two hundred texts one is another's
copy with one word changed, whose cosine to it is above the bound of a near duplicate. Each part runs in its own
process, one after the other: the table is loaded and split as a task of the registry, threads as groups, and the
near duplicates are looked for among the normalised texts. Beside seconds and memory stands how many of the planted
copies were met, and what the search says that it left out.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.machine import described
from tasks.registry import Registry
from tasks.splits.contamination import near_pairs, normalise
from tasks.splits.loading import load
from tasks.synthetic import lexicon

WORDS = sorted({
    word
    for words in (lexicon.OBJECTS, lexicon.ANIMALS, lexicon.MATERIALS, lexicon.PLACES, lexicon.FOODS, lexicon.JOBS)
    for word in words
})  # fmt: skip
WORDS_OF_A_TEXT = (12, 30)
COPIES_EVERY = 200
ROWS_OF_A_THREAD = 4
SEED = 35
ENTRY = """id = "rows"
title = "Rows"
files = ["rows.csv"]
text = "text"
label = "label"
group = "thread"
kind = "binary"
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what loading and what the search cost, and how many planted copies were met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args(arguments)
    print(described())
    for part in (loaded, searched):
        with multiprocessing.get_context("spawn").Pool(1) as process:
            print(process.apply(measured, (part, options.rows)))


def measured(part: Callable[[int], Callable[[], str]], rows: int) -> str:
    """What a part says, after its seconds and its peak of memory; making the texts is not counted in the seconds."""
    action = part(rows)
    clock, busy = time.perf_counter(), time.process_time()
    words = action()
    seconds, cpu = time.perf_counter() - clock, time.process_time() - busy
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{part.__name__} {rows:,} rows: {seconds:.1f} s, {cpu:.1f} CPU s, {megabytes:.0f} MB; {words}"


def loaded(rows: int) -> Callable[[], str]:
    """Reading and splitting a CSV of so many rows."""
    folder = tempfile.TemporaryDirectory()
    root = Path(folder.name)
    (root / "entries").mkdir()
    (root / "entries/rows.toml").write_text(ENTRY)
    with (root / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label", "thread"))
        for index, text in enumerate(texts(rows)):
            writer.writerow((text, "yes" if index % 3 else "no", index // ROWS_OF_A_THREAD))

    def action() -> str:
        with folder:
            splits = load(Registry.load([root / "entries"]).task("rows"), root)
        return f"{len(splits.train):,} train, {len(splits.validation):,} validation, {len(splits.test):,} test"

    return action


def searched(rows: int) -> Callable[[], str]:
    """Looking for near duplicates among so many texts."""
    normalised = list(dict.fromkeys(normalise(text) for text in texts(rows)))
    place = {text: index for index, text in enumerate(normalised)}
    planted = {
        tuple(sorted((place[normalise(text)], place[normalise(copy)]))) for text, copy in copies(rows) if text != copy
    }

    def action() -> str:
        result = near_pairs(normalised)
        met = {(int(first), int(second)) for first, second in result.pairs}
        return f"{len(met):,} pairs, {len(planted & met):,} of {len(planted):,} planted copies met; {result.left_out}"

    return action


def texts(rows: int) -> list[str]:
    """Texts of random words; the last of every ``COPIES_EVERY`` is the first with one word changed."""
    rng = lexicon.Draws(SEED)
    made: list[str] = []
    for index in range(rows):
        if index % COPIES_EVERY == COPIES_EVERY - 1:
            words = made[index + 1 - COPIES_EVERY].split()
            words[-1] = rng.pick(WORDS)
        else:
            words = [rng.pick(WORDS) for _ in range(rng.randint(*WORDS_OF_A_TEXT))]
        made.append(" ".join(words))
    return made


def copies(rows: int) -> list[tuple[str, str]]:
    """Each planted copy with what it was copied from."""
    made = texts(rows)
    return [(made[index + 1 - COPIES_EVERY], made[index]) for index in range(COPIES_EVERY - 1, rows, COPIES_EVERY)]


if __name__ == "__main__":
    main()
