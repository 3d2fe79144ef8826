"""A short training on few rows of one task, to show that it trains before anybody waits for a study."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.api import Study
from tasks.errors import BadInput

ROWS, EPOCHS, MAX_TOKENS = 240, 4, 128  # under 30 seconds on two cores with a random tiny backbone, or MiniLM


class DryRunFailed(BadInput):
    """The task does not train."""


@dataclass(frozen=True)
class DryRun:
    """What came of it; scores say nothing about the task, because the training was far too short."""

    n_train: int
    epochs: int
    score: float | None
    floor: float
    metric: str
    flags: tuple[str, ...]
    seconds: float


def dry_run(task: str, registry: Sequence[Path], data: Path, backbone: str) -> DryRun:
    """Train the task alone on at most ``ROWS`` rows of each split in a store that is then thrown away.

    DryRunFailed when a cell fails.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dry-run.toml"
        file.write_text(_study(task, registry, backbone), encoding="utf-8")
        study = Study(str(file), data=data, store=Path(folder) / "runs")
        report = study.run()
        for cell, reason in (*report.failed, *report.not_run):
            raise DryRunFailed(f"{cell.label} does not train: {reason}")
        results = study.store.get(report.done[-1].key).results
    return DryRun(
        n_train=results["n_train"],
        epochs=EPOCHS,
        score=results["test"],
        floor=results["floor"],
        metric=results["metric"],
        flags=tuple(results["flags"]),
        seconds=time.perf_counter() - started,
    )


def _study(task: str, registry: Sequence[Path], backbone: str) -> str:
    fields: dict[str, object] = {"tasks": [task], "registry": [str(folder) for folder in registry]}
    fields |= {"backbone": backbone, "max_tokens": MAX_TOKENS}
    fields |= dict.fromkeys(("max_train", "max_val", "max_test"), ROWS)
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    return "\n".join([*lines, "[training]", f"epochs = {EPOCHS}", "batch_size = 16", "learning_rate = 2e-3"]) + "\n"
