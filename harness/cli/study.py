"""``study``: list, show and prepare studies, and how options change one."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from adapters_store.measures import MINILM, MPNET, POOLED
from harness.api import Study
from harness.cli.options import (
    BUILT_IN,
    Leaves,
    add_options,
    change_options,
    changes,
    leaf_of,
    out_option,
    places,
    print_next,
    repeatable,
    set_threads,
    study_options,
)
from harness.cli.terminal import Bars, ProgressBar, downloads, print_json, print_rows
from harness.preflight.smoke import smoke_of
from tasks.errors import BadStudy

if TYPE_CHECKING:
    import pandas as pd

    from harness.search.outcome import SearchResult
    from harness.study.config import StudyConfig
    from tasks.registry import Registry
    from tasks.splits.loading import Splits


def add(leaves: Leaves) -> None:
    """Add what looks at studies before they run: ``list`` to ``suggest``."""
    leaf_of(leaves, "list", list_studies, "study list", "json")
    show = leaf_of(leaves, "show STUDY", show_study, "study show demo", "store json", BUILT_IN)
    change_options(show)
    add_options(show, "best")
    doctor = leaf_of(leaves, "doctor [STUDY]", show_doctor, "study doctor demo", "data store json")
    doctor.add_argument("study", metavar="STUDY", nargs="?", help="also look at what this study needs")
    change_options(doctor)
    add_options(doctor, "best splits")
    example = "study prefetch muddy-waters --data data"
    prefetch = leaf_of(leaves, "prefetch STUDY", fetch_study, example, "data store json quiet")
    study_options(prefetch)
    folder = "fetch nothing; pack what a node without network and libraries needs to train what the store lacks"
    prefetch.add_argument("--folder", metavar="DIR", help=folder)
    most = "the most that a part of --folder may have (default: 60)"
    prefetch.add_argument("--megabytes", metavar="N", type=int, default=60, help=most)
    example = "study search real-small --task epitome_er --data data"
    search = leaf_of(leaves, "search STUDY", run_search, example, "data store json quiet")
    study_options(search)
    repeatable(search, "--task", "ID", "only this task")
    search.add_argument("--intermediate", metavar="ID", help="search for the task on this one's stored baseline")
    search.add_argument("--trials", metavar="N", type=int, default=60, help="how many in all (default: 60)")
    repeatable(search, "--method", "NAME", "an adapter method to try")
    search.add_argument("--no-halving", action="store_true", help="train every trial to its end")
    add_options(search, "device")
    search.add_argument("--threads", metavar="N", type=int, help="threads of this process (default: all cores)")
    example = "study similarities real-small --data data"
    similarities = leaf_of(leaves, "similarities STUDY", measure_similarities, example, "data store json quiet")
    measures = f"one of {', '.join(MEASURES)} (repeatable; default: all but task-vu and retention)"
    similarities.add_argument("--measure", metavar="NAME", action="append", choices=MEASURES, help=measures)
    example = "study suggest real-small epitome_er --data data"
    suggestion = leaf_of(leaves, "suggest STUDY TASK", suggest, example, "data store json quiet")
    out_option(suggestion)
    encoders = (
        f"what embeds texts: {MPNET}, {MINILM}, or {POOLED}, its own mean token vectors (default: the backbone's)"
    )
    for leaf in (similarities, suggestion):
        study_options(leaf)
        leaf.add_argument("--encoder", metavar="NAME", choices=(MPNET, MINILM, POOLED), help=encoders)
        add_options(leaf, "device")
    suggestion.add_argument("task", metavar="TASK", help="a task of the study, or any other of the registry")


# Those of harness.similarity.fill.
MEASURES = ("data", "vocabulary", "weights", "task", "task-vu", "logme", "retention")


def study_of(options: argparse.Namespace, further: Sequence[str] = ()) -> Study:
    """The study that a command names, changed as its options say and by ``further`` lines ``key=value``."""
    if files := getattr(options, "system", []):
        from harness.study.systems import add_files

        add_files(files)
    places = {"data": options.data, "store": options.store, "splits": options.splits}
    study = Study(options.study, overrides=[*overrides(options), *further], best=options.best, **places)
    if getattr(options, "smoke", False):
        study.config = smoke_of(study.config)
    return study


def overrides(options: argparse.Namespace) -> list[str]:
    """``--set``, ``--registry``, ``--limit`` and ``--seeds`` as ``key=value`` lines."""
    from harness.study.file import load_study

    changes = list(options.set)
    if options.registry:  # beside the folders that the study names itself
        changes.append(f"registry={[*load_study(options.study, changes).registry, *options.registry]}")
    if options.limit is not None:
        changes += [f"{name}={options.limit}" for name in ("max_train", "max_val", "max_test")]
    if options.seed:
        study = load_study(options.study, changes)
        whole = list(study.self_seeds or study.seeds_of_baselines)  # the cells of the whole study, by their keys
        circle = whole if set(options.seed) <= set(whole) and options.seed != whole else []
        changes += [f"seeds={options.seed}", "baseline_seeds=[]", f"self_seeds={circle}"]
        named = {name: table["seeds"] for name, table in study.system.items() if "seeds" in table}
        changes += [f"system.{name}.seeds={sorted({*seeds} & {*options.seed})}" for name, seeds in named.items()]
    return changes


def list_studies(options: argparse.Namespace) -> int:
    """List the built-in studies."""
    from harness.study.file import load_study, study_names

    studies = [load_study(name) for name in study_names()]
    rows = [
        {"study": s.name, "tasks": len(s.tasks), "seeds": len(s.seeds)}
        | {name: getattr(s, name) for name in ("backbone", "data", "title")}
        for s in studies
    ]
    print_json(rows) if options.json else print_rows(rows)
    return 0


def show_study(options: argparse.Namespace) -> int:
    """Show a study as resolved, with where each training setting comes from."""
    from harness.search.outcome import with_best
    from harness.study.file import load_study
    from harness.study.intermediates import with_imported
    from tasks.registry import Registry

    study = with_imported(load_study(options.study, overrides(options)), Store(Path(options.store)))
    if options.best:
        study = with_best(study, Store(Path(options.store)), overrides(options))
    registry = Registry.load([Path(folder) for folder in study.registry])
    rows = [_training_row(study, registry, name) for name in study.tasks]
    fields = {k: v for k, v in study.as_json().items() if k not in ("tasks", "training", "task", "best")}
    if study.analysis:
        fields["analysis"] |= {"key": study.analysis.key}
    if options.json:
        print_json(fields | {"tasks": rows})
        return 0
    width = max(map(len, fields))
    for name, value in fields.items():
        print(f"{name:{width}}  {_in_words(value)}")
    print("\ntraining, and where each value comes from (study.task > search > study > entry > default)")
    lines: list[dict[str, object]] = []  # for each value of each setting, with the tasks that have it
    for setting in [name for name in rows[0] if name != "task"]:
        values = [(_in_words(row[setting]["value"]), row[setting]["from"]) for row in rows]
        for value, origin in dict.fromkeys(values):
            tasks = [row["task"] for row, pair in zip(rows, values, strict=True) if pair == (value, origin)]
            shown = "all" if len(tasks) == len(rows) else ", ".join(tasks)
            lines.append({"setting": setting, "value": value, "from": origin, "tasks": shown})
    print_rows(lines)
    return 0


def _in_words(value: object) -> str:
    """A field's value as people write it: no brackets, quotes or words of Python."""
    if isinstance(value, Mapping):
        given = {name: inner for name, inner in value.items() if inner is not None}
        return ", ".join(f"{name} {_in_words(inner)}" for name, inner in given.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in (None, "") else str(value)


def _training_row(study: StudyConfig, registry: Registry, name: str) -> dict[str, Any]:
    training, origin = study.training_for(registry.task(name))
    values = dataclasses.asdict(training)
    if study.best:
        values["method"] = study.adapter_for(name).method
        origin["method"] = "search" if "method" in study.best.get(name, {}) else "study"
    if study.loss:
        loss, label = study.loss_for(registry.task(name)), registry.task(name).label.kind
        is_usual = loss.kind == "cross-entropy"
        words = "squared error" if label == "continuous" else _in_words(loss.as_json()).removeprefix("kind ")
        values["loss"], origin["loss"] = words, "default" if is_usual else "study"
    return {"task": name} | {key: {"value": value, "from": origin[key]} for key, value in values.items()}


def splits_of(options: argparse.Namespace, store: Store, manifest: Mapping[str, Any], task: str) -> Splits:
    """A task's rows, read where the options say; BadInput where the files are not those of the stored study."""
    from harness.raw.holdings import stored_splits

    ids = Path(options.splits) if options.splits else None
    return stored_splits(store, manifest, task, Path(options.data), ids=ids, registry=options.registry)


def name_of(study: str) -> str:
    """The name under which the store knows a study given by name or by .toml file."""
    from harness.study.file import load_study

    try:
        return load_study(study).name
    except BadStudy:
        if study.endswith(".toml"):
            raise
        return study


# ``study doctor``: what a machine lacks before anything is trained on it.


def show_doctor(options: argparse.Namespace) -> int:
    """Check requirements and say how to fix what is missing: packages, device, backbone, data, store, scheduler.

    Exit code 1 when something is a problem.
    """
    from harness.preflight.doctor import PROBLEM, machine_lines, store_lines, study_lines

    study = study_of(options) if options.study else None
    of_study = study_lines(study.config, study.registry, study.data) if study else ()
    lines = []
    for line in chain(machine_lines(study.config if study else None), of_study, store_lines(Path(options.store))):
        lines.append(line)
        if not options.json:
            cure = f"; cure: {line.cure}" if line.cure else ""
            print(f"{line.state:8} {line.what:24} {' '.join(line.detail.split())}{cure}")
    if options.json:
        print_json([line._asdict() for line in lines])
    return 1 if any(line.state == PROBLEM for line in lines) else 0


# ``study prefetch``: bring what a study needs before jobs run where there is no internet.


def fetch_study(options: argparse.Namespace) -> int:
    """Bring what a study needs from the internet, for jobs without it: backbone, sentence encoder, raw files.

    Exit code 1 when a download failed.
    """
    if options.folder:
        return pack_study(options)
    from harness.preflight.doctor import FAILED, environment, prefetch

    study = study_of(options)
    line, results = environment(study.data, study.store.root), []
    with downloads(options.quiet) as watch:
        for got in prefetch(study.config, study.registry, study.data, watch):
            results.append(got)
            if not options.json:
                print(f"{got.state:8} {got.what:24} {' '.join(got.detail.split())}")
    if options.json:
        print_json({"found": [result._asdict() for result in results], "environment": line})
    else:
        print(f"\nfor the jobs:\n  {line}")
    return 1 if any(result.state == FAILED for result in results) else 0


def pack_study(options: argparse.Namespace) -> int:
    """Pack what is to be trained on a closed node, and print what goes, what stays and the next commands."""
    from harness.closed.home import pack

    study, folder = study_of(options), Path(options.folder)
    packed = pack(study.plan, study.store, folder, options.megabytes)
    if options.json:
        print_json({"cells": [cell.key for cell in packed.cells], "left": packed.left, "bytes": packed.parts})
        return 0
    sizes = ", ".join(f"{size / 1e6:.1f} MB" for size in packed.parts)
    print(f"packed   {len(packed.cells)} cells into {folder}: {len(packed.parts)} parts ({sizes})")
    print(f"stay     {len(packed.left)} cells, which are trained here")
    reasons = Counter(packed.left.values())
    for reason, count in reasons.most_common():
        print(f"  {count}: {reason}")
    print(f"\nthere, with torch, numpy and safetensors:\n  python {folder.name}/part-1/train.py --minutes 10")
    words = ["--trained", f"{options.folder}/out", *changes(options), *places(options)]
    print_next("run", options.study, *words)
    return 0


# ``study search``: the best training settings of a study's tasks.


def run_search(options: argparse.Namespace) -> int:
    """Search a task's learning rate, batch size, epochs and adapter method, on validation rows only.

    Exit code 1 when a trial failed.
    """
    set_threads(options.threads)
    study = study_of(options)
    tasks = options.task or [name for name in study.config.tasks if name != options.intermediate]
    outcomes = []
    for name in tasks:
        with ProgressBar(options.trials, quiet=options.quiet) as progress:
            outcome = study.search(
                name,
                intermediate=options.intermediate,
                trials=options.trials,
                methods=options.method,
                is_halving=not options.no_halving,
                device=options.device,
                on_epoch=progress.on_epoch,
                on_trial=progress.on_trials,
            )
        outcomes.append(outcome)
    failed = [trial for outcome in outcomes for trial in outcome.trials if trial.state == "failed"]
    if options.json:
        print_json([outcome.as_json() for outcome in outcomes])
    else:
        print_rows([_search_row(outcome) for outcome in outcomes], spare=("trial", "dropped", "failed"))
        for trial in failed:
            print(f"trial {trial.number} failed: {trial.reason}")
        print(f"\nuse them with: empathy-transfer run {options.study} --best")
    return 1 if failed else 0


def _search_row(outcome: SearchResult) -> dict[str, object]:
    states, best = [trial.state for trial in outcome.trials], outcome.best
    shown = best.settings | {"learning_rate": f"{best.learning_rate:.2g}"} if best else dict.fromkeys(SEARCHED, "-")
    return {
        "task": outcome.task,
        **({"intermediate": outcome.intermediate} if outcome.intermediate else {}),
        **{name: shown[name] for name in SEARCHED},
        "validation": f"{best.validation:.3f}" if best and best.validation is not None else "-",
        "trial": best.number if best else "-",
        "trials": len(states),
        "dropped": states.count("dropped"),
        "failed": states.count("failed"),
    }


SEARCHED = ("learning_rate", "batch_size", "epochs", "method")


# ``study similarities``: how alike tasks are.


def measure_similarities(options: argparse.Namespace) -> int:
    """Measure how alike a study's tasks are, by texts and trained adapters, and keep it in the store."""
    from harness.similarity.fill import USUAL, fill, stored_measures
    from harness.study.device import Device

    device = Device(options.device)
    study, measures = study_of(options), options.measure or USUAL
    if shipped := study.shipped_results():
        filled = stored_measures(*shipped, measures, encoder=options.encoder)
    else:
        with Bars(quiet=options.quiet) as bars:
            made = {"encoder": options.encoder, "device": device, "watch": bars.show}
            filled = fill(study.plan, study.store, measures, **made)
    if options.json:
        print_json([vars(measure) for measure in filled])
        return 0
    rows = [
        {
            "measure": measure.measure,
            "made now": measure.made,
            "stored before": measure.stored,
            "seconds in all": f"{measure.seconds:.1f}",
            "tasks without": len(measure.missing) or "-",
        }
        for measure in filled
    ]
    print_rows(rows)
    print_missing({measure.measure: measure.missing for measure in filled})
    return 0


def print_missing(missing: Mapping[str, Mapping[str, str]]) -> None:
    """Print by measure which tasks have none and why, tasks with the same reason on one line."""
    for measure, reasons in missing.items():
        for reason in dict.fromkeys(reasons.values()):
            tasks = ", ".join(name for name, why in reasons.items() if why == reason)
            print(f"{measure}: not measured for {tasks}: {reason}", file=sys.stderr)


# ``study suggest``: which intermediates a task should be tried on first, and how far such advice was right before.

SHOWN_WHOLE = 100  # from here numbers are shown without decimals
QUALITIES = {"ndcg": "NDCG", "regret_1": "regret@1", "regret_3": "regret@3", "tau": "tau"}
SPARE = (
    *("vocabulary_jaccard", "vocabulary_share", "subspace_similarity", "weight_similarity", "logme"),
    *("size", "task_similarity", "data_similarity"),
)
UNJUDGED = "no target of the study has four finished transfers and stored similarities: nothing says how right this is"


def suggest(options: argparse.Namespace) -> int:
    """Rank intermediates for a task before any transfer onto it is run, and say how far such rankings were right."""
    from analysis.sections.importance import rows as records_of
    from analysis.tables import TABLES, write_csv

    study = study_of(options)
    with Bars(quiet=options.quiet) as bars:
        advice = study.suggest(options.task, encoder=options.encoder, device=options.device, watch=bars.show)
    out = Path(options.out or f"results/{study.config.name}")
    frames = {f"suggest-{options.task}": advice.intermediates, "choosing-targets": advice.targets}
    for name, frame in {**frames, "choosing": advice.quality}.items():
        write_csv(frame, out / TABLES / name)
    if options.json:
        rows = {"intermediates": records_of(advice.intermediates), "rankings": records_of(advice.quality)}
        print_json({"task": options.task, **rows})
    else:
        # the columns that are known of some intermediate, as numbers of three digits
        ranked = advice.intermediates.drop(columns="target").dropna(axis="columns", how="all").to_dict("records")
        shown = [{"rank": i, **{name: _short(value) for name, value in row.items()}} for i, row in enumerate(ranked, 1)]
        print_rows(shown, SPARE)
        print(
            "\nbest first by fusion, the reciprocal ranks of all similarities and the size;"
            " model: expected gain in points"
        )
        _print_quality(advice.quality)
    print_missing(advice.missing)
    if not options.json:
        tasks = study.config.tasks
        added = [] if options.task in tasks else ["--set", f"tasks={json.dumps([*tasks, options.task])}"]
        print_next("plan", options.study, "--only-target", options.task, *added, *changes(options), *places(options))
    return 0


def _print_quality(quality: pd.DataFrame) -> None:
    from analysis.importance.choosing import better

    if quality.empty:
        print(UNJUDGED)
        return
    targets = " to ".join(dict.fromkeys(map(str, (quality.n_targets.min(), quality.n_targets.max()))))
    print(
        f"\nhow right such rankings were on {targets} finished targets: means (of a random order); NDCG of a perfect"
        " ranking is 1, regret@k: percent by which the best of the first k falls short of the best intermediate, tau:"
        " Kendall's rank correlation, p: of NDCG, tasks and families permuted, corrected for all rankings"
    )
    rows = []
    for row in quality.to_dict("records"):
        cells = {title: f"{_short(row[name])} ({_short(row[f'{name}_chance'])})" for name, title in QUALITIES.items()}
        limits = f"{_short(row['ndcg_low'])}, {_short(row['ndcg_high'])}"
        ndcg = {"NDCG": cells.pop("NDCG"), "95 % limits": limits}
        rows.append({"ranking": row["ranking"], **ndcg, **cells, "p": _short(row["p_corrected"])})
    print_rows(rows)
    names = ", ".join(better(quality)) or "none"
    print(f"\nbetter than a random order (p <= .05): {names}")


def _short(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= SHOWN_WHOLE else f"{value:.3g}"
