"""What designs of the wide study would cost and see: ``python -m benchmarks.studies.wide_design``.

Gains are simulated with the spreads of studies that were trained (RUNS from twelve targets alone, two seeds each of the
reference study anew; ITEMS from its test rows), and put to the tests of declared questions. Printed for each design:
its transfers and processor hours, and the smallest effect that four of five such studies would see, in points.
"""

import numpy as np
import pandas as pd

from analysis.importance import questions
from benchmarks.calibrations import questions as simulation

GRIDS, SEED = 60, 7
RUNS = 3.0  # points: standard deviation of a score between seeds; of twelve targets median 2.6, root mean square 3.9
ITEMS = {500: 2.0, 2000: 1.0}  # points: standard error of a gain through so many test rows
ALONE, TRANSFER = 120.0, 45.0  # processor seconds of a cell: 800 rows, 12 epochs, MiniLM
SQUARE = ("all thirty", ())
FEW = ("nine of seven families", simulation.tasks_of()[1])
FIVE = ("five of five families", ("dialogue_emotion", "empdial_ei", "positive_strategy", "tweet_hate", "iempathize"))


def seen(targets: tuple[str, ...], seeds: int, rows: int) -> dict[str, float]:
    """The smallest visible effect of every question, median over grids; and of a single gain."""
    intermediates, _, family, theme = simulation.tasks_of()
    background = simulation.Background(tasks=simulation.ROLES)
    simulated = simulation.Simulated(
        intermediates, targets or intermediates, family, theme, background, seeds, RUNS, ITEMS[rows]
    )
    rng = np.random.default_rng(SEED)
    names = list(simulation.PLANTED)
    frames = [questions.answers(simulated.layout(rng), names) for _ in range(GRIDS)]
    smallest = pd.concat(frames).groupby(["question", "part"]).smallest.median()
    error = np.sqrt(ITEMS[rows] ** 2 + 2 * RUNS**2 / seeds)
    return {"single gain": 2.8 * error, **{f"{q}: {part}": value for (q, part), value in smallest.items()}}


def main() -> None:
    """Print a row for each design."""
    n_tasks = len(simulation.tasks_of()[0])
    lines = []
    for name, targets in (SQUARE, FEW, FIVE):
        for seeds, rows in ((1, 2000), (2, 2000), (3, 500), (3, 2000), (6, 2000)):
            columns = len(targets) or n_tasks
            hours = seeds * (n_tasks * ALONE + columns * (n_tasks + 2) * TRANSFER) / 3600
            facts = {"targets": name, "seeds": seeds, "test rows": rows, "hours": hours}
            lines.append({**facts, **seen(targets, seeds, rows)})
    print(pd.DataFrame(lines).round(1).T.to_string())


if __name__ == "__main__":
    main()
