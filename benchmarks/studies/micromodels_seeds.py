"""How few seeds the rationales of micromodels need, on the three tasks of EPITOME over the repeats of a study.

    python -m benchmarks.studies.micromodels_seeds --data DATA --csv FILE.csv --plot FILE.png

Prints T-F1 (a text without a rationale: nothing should be marked) by the number of seeds, with seeds ranked on
validation rows and, as in the paper's Figure 3, on the test rows themselves, and T-F1 of all seeds at the thresholds of
the paper and of its code. ``--set protocol.repeats=5`` takes fewer repeats.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.studies.micromodels_reduction import reduction
from harness.api import Study
from harness.study.systems import Fit
from harness.systems.micromodels import MicromodelsSettings
from tasks.splits.loading import Splits

COUNTS = (100, 30, 10, 5, 3, 2, 1)
FORM = "micromodels"
WAYS = {
    "ranked on validation": ({}, COUNTS),
    "ranked on test": ({"leak": "published"}, COUNTS),
    "threshold .70": ({"thresholds": (0.7,)}, ()),
    "threshold .75": ({"thresholds": (0.75,)}, ()),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and write the frame and the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--data", "--csv", "--plot"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    file = str(Path(__file__).with_name("micromodels.toml"))
    splits = Study(file, data=options.data, store="runs", overrides=options.overrides).plan.splits
    frame = pd.DataFrame([row for own in splits.values() for row in curves(own)])
    shown = frame[frame.form == FORM]
    table = shown.groupby(["target", "way", "kept"], sort=False).token_f1.agg(["mean", "std"])
    print(table.unstack("target").round(3).to_string())
    frame.to_csv(options.csv, index=False)
    plot(shown, options.plot)


def curves(splits: Splits) -> Iterator[Mapping[str, Any]]:
    """Rows of the frame: of every repeat, way and number of seeds the scores in every form."""
    for repeat, fold in enumerate(splits.folds, start=1):
        for way, (settings, counts) in WAYS.items():
            task = splits.task
            config = MicromodelsSettings(**settings)  # type: ignore[arg-type]
            fit = Fit(fold.train, fold.validation, task.label, task.metric, 0, config, Path("none"))
            for number, point in enumerate(reduction(fit, fold.test, counts)):
                kept = "all" if number < 3 else str(point.seeds)  # three forms of the whole come first
                yield {"target": task.id, "repeat": repeat, "way": way, "kept": kept, **point._asdict()}


def plot(frame: pd.DataFrame, file: Path) -> None:
    """T-F1 by the number of seeds, mean and standard deviation over repeats, a panel per task."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    targets = list(dict.fromkeys(frame.target))
    figure, axes = pyplot.subplots(1, len(targets), figsize=(9, 3), layout="constrained")
    for axis, target in zip(axes, targets, strict=True):
        for way, colour in (("ranked on validation", "#2166ac"), ("ranked on test", "#a0522d")):
            own = frame[(frame.target == target) & (frame.way == way)].groupby("kept", sort=False)
            means, spread, seeds = own.token_f1.mean(), own.token_f1.std(), own.seeds.mean()
            axis.plot(seeds, means, marker="o", markersize=3, color=colour, label=way)
            axis.fill_between(seeds, means - spread, means + spread, color=colour, alpha=0.2, linewidth=0)
        axis.set(xscale="log", xlabel="seeds", title=target)
    axes[0].set_ylabel("T-F1, nothing to mark: 1")
    axes[0].legend(fontsize=7)
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    main()
