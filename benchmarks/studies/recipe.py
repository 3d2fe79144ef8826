"""Which recipe learns on few rows: targets alone under several recipes, by validation rows and nothing else.

Every line of the CSV is one training: its layers without an adapter, batch size, rate and epochs, the best validation
score, the epoch that had it, and every epoch's score. Rates of one recipe are lanes of one training, as in ``search``;
a test row is neither read nor encoded. The seed is none of the study's own.

    python -m benchmarks.studies.recipe --data DATA --left-out 0 1 2 --rates 5e-3 1e-2 --epochs 16 --csv recipe.csv
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from adapters_store import Store
from harness.search.search import search_for
from harness.search.trials import try_lanes
from harness.study.file import load_study
from tasks.registry import Registry

SEED = 11
FIELDS = ("task", "left_out", "batch_size", "rate", "epochs", "options", "best", "at", "history", "cpu_seconds")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train every task under every rate, and add a line for each to the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="reference")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", nargs="*", default=[])
    parser.add_argument("--left-out", type=int, nargs="*", default=[])
    parser.add_argument("--rates", type=float, nargs="+", default=[2e-3, 5e-3, 1e-2])
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--csv", type=Path, required=True)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    is_new = not options.csv.exists()
    with options.csv.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        for row in _rows(options):
            writer.writerow(row)
            file.flush()
            print(f"{row['task']}: {row['best']} in epoch {row['at']} at rate {row['rate']}", flush=True)


def _rows(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    left_out = f"adapter.leave_out={options.left_out}"
    study = load_study(options.study, [f"seeds=[{SEED}]", f"training.epochs={options.epochs}", left_out, *options.set])
    shared = {"left_out": " ".join(map(str, options.left_out)), "options": " ".join(options.set)}
    shared |= {"batch_size": options.batch_size, "epochs": options.epochs}
    training = {"batch_size": options.batch_size, "epochs": options.epochs}
    with TemporaryDirectory() as folder:
        for task in options.tasks or study.tasks:
            started = time.process_time()
            search = search_for(study, Registry.load([]), options.data, Store(Path(folder)), task, None)
            method = study.adapter.method
            cells = [search.cell({"learning_rate": rate, **training}, method) for rate in options.rates]
            results = try_lanes(search.attempt(cells, lambda *_: None), is_halving=False)
            seconds = (time.process_time() - started) / len(cells)
            for rate, result in zip(options.rates, results, strict=True):
                scores = [epoch["validation"] for epoch in result.fitted.history]
                history = " ".join("-" if score is None else f"{score:.3f}" for score in scores)
                score = {"best": f"{result.fitted.validation:.4f}", "at": result.fitted.best_epoch}
                yield {"task": task, **shared, "rate": rate, **score, "history": history, "cpu_seconds": round(seconds)}


if __name__ == "__main__":
    main()
