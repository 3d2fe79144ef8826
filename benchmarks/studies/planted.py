"""How often the planted effects of a study on synthetic data come out, over seeds of the data and of the training.

Seed s trains with s and draws texts of its own (seed 1000 + s, so that none are those that ``demo`` is shipped with).
Only what decides is trained: the named pairs, their intermediates in full data, and their targets alone. A gain is in
points, with the 95 % interval that the study's own table of gains prints, uncorrected. A planted pair came out if its
interval is above 0; a pair that is not planted stayed away if it is not. Beside each count stands the exact (Clopper
and Pearson) 95 % interval of its chance. CPU seconds are those of a seed: making texts, training, the table of gains.

    python -m benchmarks.studies.planted --seeds 20
    python -m benchmarks.studies.planted --seeds 20 --pairs 'news_empathy>conv_empathy' --set 'training.epochs=3'
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch
from scipy import stats

from benchmarks import machine
from harness.api import Study
from harness.study.cell import Cell
from tasks import synthetic
from tasks.registry import Registry
from tasks.synthetic import PLANTED

FIRST_OF_DATA = 1000
PAIRS = "conv_empathy>news_empathy,news_emotion>epitome_er"
Pair = tuple[str, str]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the gains of every seed as it ends, then how often each pair did as was planted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="demo")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--pairs", default=PAIRS, help="intermediate>target, separated by commas")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the study")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    pairs = [(names[0], names[2]) for names in (pair.partition(">") for pair in options.pairs.split(","))]
    frames = []
    for seed in range(1, options.seeds + 1):
        started = time.process_time()
        frames.append(gains_of(options.study, seed, pairs, options.set).assign(seed=seed))
        said = ", ".join(
            f"{row.intermediate}>{row.target} {row.points:+.1f} [{row.low:.1f}, {row.high:.1f}]"
            for row in frames[-1].itertuples()
        )
        print(f"seed {seed}, {time.process_time() - started:.0f} CPU s: {said}", flush=True)
    print(summary(pd.concat(frames)).round(2).to_string(index=False))
    print(machine.described())


def gains_of(name: str, seed: int, pairs: Sequence[Pair], changes: Sequence[str]) -> pd.DataFrame:
    """The rows of these pairs in a study's table of gains, trained with a seed on texts of that seed."""
    overrides = ["data='files'", f"seeds=[{seed}]", *changes]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        study = Study(name, data=folder / "data", store=folder / "runs", overrides=overrides)
        datasets = {Registry.load().task(task).dataset.id for task in study.config.tasks}
        synthetic.write(folder / "data", sorted(datasets), rows=study.config.synthetic_rows, seed=FIRST_OF_DATA + seed)
        report = study.run(only_keys=deciding(study.plan.cells, pairs), device="cpu")
        if report.failed:
            raise SystemExit(f"seed {seed}: {len(report.failed)} cells failed")
        gains = study.gains()
    return gains[[pair in pairs for pair in zip(gains.intermediate, gains.target, strict=True)]].dropna(subset="points")


def deciding(cells: Sequence[Cell], pairs: Sequence[Pair]) -> set[str]:
    """Keys of the pairs' cells and of their targets alone in the same settings; a run adds what these stand on."""
    targets = {target for _, target in pairs}
    settings = {cell.setting for cell in cells if cell.intermediate is not None}
    return {
        cell.key
        for cell in cells
        if (cell.intermediate, cell.target) in pairs
        or (cell.intermediate is None and cell.target in targets and cell.setting in settings)
    }


def summary(gains: pd.DataFrame) -> pd.DataFrame:
    """One row per pair: seeds, mean and spread of its gain, how often it did as planted, bounds of that chance (%)."""
    rows = []
    for (intermediate, target), own in gains.groupby(["intermediate", "target"], sort=False):
        is_planted = (intermediate, target) in PLANTED
        count = int((own.low > 0).sum() if is_planted else (own.low <= 0).sum())
        chance = stats.binomtest(count, len(own)).proportion_ci(method="exact")
        rows.append(
            {
                "pair": f"{intermediate}>{target}",
                "planted": is_planted,
                "seeds": len(own),
                "points": own.points.mean(),
                "seed sd": own.points.std(),
                "lowest": own.points.min(),
                "above 0": int((own.points > 0).sum()),
                "as planted": count,
                "from %": 100 * chance.low,
                "to %": 100 * chance.high,
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
