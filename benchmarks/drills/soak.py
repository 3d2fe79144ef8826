"""Kills ``tiny`` again and again, in lanes and one by one, and prints what came of it.

python -m benchmarks.drills.soak --kills 100. Exit code 1 if a study did not end with the tables of one that was left
alone, or something finished was trained again.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.faults.kill_drill import CELLS, LANES, Tally, kill_and_continue, tables, two_drivers, whole_run

WAYS = ((), LANES)


def main():
    """Print a line for each study that was killed on its way, and the counts at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally, alike = Tally(), []
    with tempfile.TemporaryDirectory() as folder:
        wholes = [_whole(Path(folder) / f"whole-{number}", way) for number, way in enumerate(WAYS)]
        while sum(tally.kills) < options.kills:
            number = len(tally.kills)
            way = number % len(WAYS)
            place, left = Path(folder) / str(number), options.kills - sum(tally.kills)
            kill_and_continue(place, left, options.seed + number, wholes[way], WAYS[way], tally)
            say(f"{'lanes' if way else 'one by one'}: {counts(tally)}")
        for number, way in enumerate(WAYS):
            codes, _, counted = two_drivers(Path(folder) / f"two-{number}", way)
            is_same = tables(Path(folder) / f"two-{number}" / "runs") == wholes[number]
            alike.append(codes == [0, 0] and is_same)
            say(
                f"two drivers at once, {'lanes' if number else 'one by one'}: exit codes {codes}, the same tables:"
                f" {is_same}; {counted.total()} trainings came to their end, {counted['again']} of stored cells"
            )
    return 0 if all([*tally.survived, *alike]) and not (tally.again or tally.changed) else 1


def _whole(store, way):
    return tables(whole_run(store, *way))


def counts(tally):
    """The counts in words."""
    good = sum(kills for kills, is_same in zip(tally.kills, tally.survived, strict=True) if is_same)
    return (
        f"{good} of {sum(tally.kills)} kills led to the uninterrupted tables ({len(tally.kills)} studies of {CELLS}"
        f" cells); {tally.trained} trainings came to their end, {tally.again} of cells that were stored;"
        f" {tally.changed} finished records were touched"
    )


def say(text):
    """Print at once, also into a file."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
