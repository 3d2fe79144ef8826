"""``similarities`` and ``suggest``: how alike tasks are, and which intermediates that speaks for."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store.measures import MINILM, MPNET, POOLED
from harness.cli.options import (
    best_option,
    change_options,
    changes,
    device_option,
    leaf_options,
    places,
    print_next,
    splits_option,
)
from harness.cli.study import study_of
from harness.cli.terminal import Bars, print_json, print_rows
from harness.study.device import Device

if TYPE_CHECKING:
    import pandas as pd

    from harness.similarity.fill import FillReport


MEASURES = (
    "data",
    "vocabulary",
    "weights",
    "task",
    "task-vu",
    "logme",
    "retention",
)  # those of harness.similarity.fill


def add_similarities(similarities: argparse.ArgumentParser) -> None:
    """Add the options of ``similarities``."""
    leaf_options(similarities, "similarities real-small --data data", measure_similarities)
    similarities.add_argument("study", metavar="STUDY", help="a built-in study or a .toml file")
    similarities.add_argument(
        "--measure",
        metavar="NAME",
        action="append",
        choices=MEASURES,
        help=f"one of {', '.join(MEASURES)} (repeatable; default: all but task-vu and retention)",
    )
    _encoder_options(similarities)


def add_suggest(leaf: argparse.ArgumentParser) -> None:
    """Add the options of ``suggest``."""
    leaf_options(leaf, "suggest epitome_er --study real-small --data data", suggest)
    leaf.add_argument("task", metavar="TASK", help="a task of the study, or any other of the registry")
    leaf.add_argument("--study", metavar="STUDY", required=True, help="whose trained adapters may serve")
    _encoder_options(leaf)


def _encoder_options(leaf: argparse.ArgumentParser) -> None:
    leaf.add_argument(
        "--encoder",
        metavar="NAME",
        choices=(MPNET, MINILM, POOLED),
        help=f"what embeds texts: {MPNET}, {MINILM}, or {POOLED}, its own mean token vectors"
        " (default: that of the study's backbone)",
    )
    device_option(leaf)
    change_options(leaf)  # those of the study's run: they decide which cells are the study's
    best_option(leaf)
    splits_option(leaf)


def measure_similarities(options: argparse.Namespace) -> int:
    """Measure what the store does not have, and print per measure what it took and what is missing and why."""
    from harness.similarity.fill import USUAL, fill

    device = Device(options.device)
    study = study_of(options)
    with Bars(quiet=options.quiet) as bars:
        filled = fill(
            study.plan, study.store, options.measure or USUAL, encoder=options.encoder, device=device, watch=bars.show
        )
    if options.json:
        print_json([vars(measure) for measure in filled])
        return 0
    print_rows([_row(measure) for measure in filled], as_json=False)
    print_missing({measure.measure: measure.missing for measure in filled})
    return 0


def print_missing(missing: Mapping[str, Mapping[str, str]]) -> None:
    """Print by measure which tasks have none and why, tasks with the same reason on one line."""
    for measure, reasons in missing.items():
        for reason in dict.fromkeys(reasons.values()):
            tasks = ", ".join(name for name, why in reasons.items() if why == reason)
            print(f"{measure}: not measured for {tasks}: {reason}", file=sys.stderr)


def _row(measure: FillReport) -> dict[str, object]:
    return {
        "measure": measure.measure,
        "made now": measure.made,
        "stored before": measure.stored,
        "seconds in all": f"{measure.seconds:.1f}",
        "tasks without": len(measure.missing) or "-",
    }


# ``suggest``: which intermediates a task should be tried on first, and how far such advice was right before.

SHOWN_WHOLE = 100  # from here numbers are shown without decimals
QUALITIES = {"ndcg": "NDCG", "regret_1": "regret@1", "regret_3": "regret@3", "tau": "tau"}
SPARE = (
    *("vocabulary_jaccard", "vocabulary_share", "subspace_similarity", "weight_similarity", "logme"),
    *("size", "task_similarity", "data_similarity"),
)
UNJUDGED = "no target of the study has four finished transfers and stored similarities: nothing says how right this is"


def suggest(options: argparse.Namespace) -> int:
    """Print intermediates for a task, best first, and how right such rankings were on the study's finished grid."""
    from analysis.tables import TABLES, write_csv

    study = study_of(options)
    with Bars(quiet=options.quiet) as bars:
        advice = study.suggest(options.task, encoder=options.encoder, device=options.device, watch=bars.show)
    out = Path(options.out or f"results/{study.config.name}")
    frames = {f"suggest-{options.task}": advice.intermediates, "choosing-targets": advice.targets}
    for name, frame in {**frames, "choosing": advice.quality}.items():
        write_csv(frame, out / TABLES / name)
    if options.json:
        rows = {"intermediates": _json_rows(advice.intermediates), "rankings": _json_rows(advice.quality)}
        print_json({"task": options.task, **rows})
    else:
        _print_advice(advice.intermediates)
        _print_quality(advice.quality)
    print_missing(advice.missing)
    if not options.json:
        tasks = study.config.tasks
        added = [] if options.task in tasks else ["--set", f"tasks={json.dumps([*tasks, options.task])}"]
        print_next("plan", options.study, "--only-target", options.task, *added, *changes(options), *places(options))
    return 0


def _print_advice(advice: pd.DataFrame) -> None:
    """The columns that are known of some intermediate, as numbers of three digits."""
    shown = advice.drop(columns="target").dropna(axis="columns", how="all")
    rows: list[dict[str, object]] = [
        {"rank": rank, **{name: _short(value) for name, value in row.items()}}
        for rank, row in enumerate(_records(shown), start=1)
    ]
    print_rows(rows, as_json=False, spare=SPARE)
    print(
        "\nbest first by fusion, the reciprocal ranks of all similarities and the size; model: expected gain in points"
    )


def _print_quality(quality: pd.DataFrame) -> None:
    from analysis.importance.choosing.ranking import better

    if quality.empty:
        print(UNJUDGED)
        return
    targets = " to ".join(dict.fromkeys(map(str, (quality.n_targets.min(), quality.n_targets.max()))))
    print(
        f"\nhow right such rankings were on {targets} finished targets: means (of a random order); NDCG of a perfect"
        " ranking is 1, regret@k: percent by which the best of the first k falls short of the best intermediate, tau:"
        " Kendall's rank correlation, p: of NDCG, tasks and families permuted, corrected for all rankings"
    )
    print_rows([_quality(row) for row in _records(quality)], as_json=False)
    names = ", ".join(better(quality)) or "none"
    print(f"\nbetter than a random order (p <= .05): {names}")


def _quality(row: Mapping[str, Any]) -> dict[str, object]:
    cells = {title: f"{_short(row[name])} ({_short(row[f'{name}_chance'])})" for name, title in QUALITIES.items()}
    limits = f"{_short(row['ndcg_low'])}, {_short(row['ndcg_high'])}"
    ndcg = {"NDCG": cells.pop("NDCG"), "95 % limits": limits}
    return {"ranking": row["ranking"], **ndcg, **cells, "p": _short(row["p_corrected"])}


def _records(frame: pd.DataFrame) -> Sequence[Mapping[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _json_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON, with null for what is undefined."""
    return [
        {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()}
        for row in _records(frame)
    ]


def _short(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= SHOWN_WHOLE else f"{value:.3g}"
