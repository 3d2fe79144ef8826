"""How time and memory of the analysis grow with the tasks of a study, on synthetic studies.

    python -m benchmarks.grids.scale --tasks 18 50 100 200 --csv benchmarks/grids/growth.csv --plot docs/growth.png

Each part runs in a process of its own, one at a time, after the study has been built: the gains of all pairs, the
guarded analysis of a table of their scores, a whole report, and the report again. Seconds are those of the processor,
which other work on the machine does not stretch as it does the clock; memory is the most that was resident. The
exponents are slopes of a straight line through the logarithms, against the number of tasks; a part that does not end
within ``--limit`` minutes is left out and named. ``--python`` runs another checkout's code, to compare the two. A row
is in the file of ``--csv`` as soon as it is measured, and what stands there is not measured again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.grids.synthetic_study import NAME, build
from benchmarks.machine import described

GAINS = """
import sys
from pathlib import Path
from adapters_store import Store
from analysis.gains.gains import gains
store = Store(Path(sys.argv[1]))
frame = gains(store, store.manifest(sys.argv[2]))
frame.to_csv(sys.argv[3], index=False)
"""
PARTS = ("gains", "guarded", "report", "report again")
COLUMNS = ("part", "tasks", "seeds", "cpu_seconds", "seconds", "megabytes")
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Spent:
    """What a process has cost: seconds of the processor and of the clock, and its peak of memory in megabytes."""

    cpu_seconds: float
    seconds: float
    megabytes: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what each part costs at each number of tasks, and how it grows; keep the table and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[18, 50, 100])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--limit", type=float, default=30, help="minutes after which a part is given up (default 30)")
    parser.add_argument("--python", default=sys.executable, help="the Python whose packages are measured")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    print(described())
    table = pd.DataFrame(columns=list(COLUMNS))
    if options.csv and options.csv.exists():
        table = pd.read_csv(options.csv)
    for tasks in options.tasks:
        is_known = (table.tasks == tasks) & (table.seeds == options.seeds)
        parts = [part for part in options.parts if part not in set(table.part[is_known])]
        for row in measured(tasks, options.seeds, parts, options.python, 60 * options.limit) if parts else ():
            print("{part:14s} {tasks:4d} tasks {cpu_seconds:8.1f} s {megabytes:7.0f} MB".format(**row), flush=True)
            table = pd.concat([table, pd.DataFrame([row])], ignore_index=True) if len(table) else pd.DataFrame([row])
            if options.csv:
                table.round(2).to_csv(options.csv, index=False)
    for part, (of_time, of_memory) in exponents(table).items():
        print(f"{part:14s} time grows with tasks^{of_time:.2f}, memory with tasks^{of_memory:.2f}")
    if options.plot:
        draw(table, options.plot)


def measured(
    tasks: int, seeds: int, parts: Sequence[str], python: str, limit: float
) -> Iterator[dict[str, str | float]]:
    """What each part costs on a study of so many tasks and seeds; one that fails or lasts too long has NaN."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        store = build(root / "store", tasks, seeds)
        facts = store.manifest(NAME)["tasks"]
        pd.DataFrame([{"task": task, "family": fact["family"]} for task, fact in facts.items()]).to_csv(
            root / "tasks.csv", index=False
        )
        command = str(Path(python).parent / "empathy-transfer")
        beside = ["--ratings", str(store.root / "registry" / "ratings.csv"), "--tasks", str(root / "tasks.csv")]
        commands = {
            "gains": [python, "-c", GAINS, str(store.root), NAME, str(root / "gains.csv")],
            "guarded": [command, "study", "analyze", str(root / "gains.csv"), *beside, "--out", str(root / "guarded")],
        }
        report = [command, "report", NAME, "--store", str(store.root), "--out", str(root / "report"), "--quiet"]
        for part in parts:
            if part == "guarded" and not (root / "gains.csv").exists():  # what it reads
                spent(commands["gains"], root, limit)
            cost = spent(commands.get(part, report), root, limit)
            yield {"part": part, "tasks": tasks, "seeds": seeds, **cost.__dict__}


def spent(command: Sequence[str], folder: Path, limit: float) -> Spent:
    """What a command costs, NaN if it fails or is given up after ``limit`` seconds; its words go to a file."""
    started = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env=environment)
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if time.perf_counter() - started > limit:
                process.kill()
            time.sleep(POLL_SECONDS)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        print((folder / "output.txt").read_text()[-500:], file=sys.stderr)
        return Spent(np.nan, np.nan, np.nan)
    return Spent(usage.ru_utime + usage.ru_stime, time.perf_counter() - started, usage.ru_maxrss / 1024)


def exponents(table: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """By part, the slopes of log seconds and log megabytes against log tasks; parts of one size are left out."""
    known = table.dropna(subset=["cpu_seconds", "megabytes"])
    return {
        str(part): tuple(np.polyfit(np.log(rows.tasks), np.log(rows[cost]), 1)[0] for cost in COLUMNS[3::2])
        for part, rows in known.groupby("part", sort=False)
        if rows.tasks.nunique() > 1
    }


def draw(table: pd.DataFrame, file: Path) -> None:
    """Draw seconds and megabytes against the number of tasks, both on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    words = {"cpu_seconds": "processor time (s)", "megabytes": "peak memory (MB)"}
    for axes, (cost, label) in zip(panels, words.items(), strict=True):
        for part, rows in table.dropna(subset=[cost]).groupby("part", sort=False):
            axes.plot(rows.tasks, rows[cost], marker="o", label=part)
        axes.set(xscale="log", yscale="log", xlabel="tasks", ylabel=label)
        axes.set_xticks(sorted(table.tasks.unique()), [str(tasks) for tasks in sorted(table.tasks.unique())])
        axes.minorticks_off()
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panels[0].legend(frameon=False)
    plt.rcParams["svg.hashsalt"] = "scale"
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
