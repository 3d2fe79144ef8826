"""The paragraphs and tables of a report, each from finished frames; nothing here reads a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from adapters_store.record import Record
from adapters_store.roles import BASELINE, TRANSFER, role_of
from analysis.figures.drawing import Drawn
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.gains.cells import Manifest
from analysis.gains.gains import FEW_GROUPS
from analysis.gains.other_metrics import OTHERS
from analysis.tables import bullets, count, few, framed, inline, interval, number, percent, table, tally, yes_no

MEANINGS = {
    "collapsed": "at or below what always the commonest answer scores",
    "baseline_collapsed": "the gain is against a collapsed baseline",
    "constant_prediction": "the same prediction for every test row",
    "dead_intermediate": "switching the intermediate off hardly moves the logits",
    "contaminated": "test items are training material of the target or the intermediate (tasks check)",
    "missing": "no finished cell of the target alone or of the transfer",
    "missing_seeds": "some planned seeds are not finished; the others are used",
    "undefined_r": "a correlation does not exist, so there is no gain and no p",
    "percent_undefined": "the baseline is too close to 0 for a percentage",
    "few_groups": f"fewer than {FEW_GROUPS} groups in the test set: intervals are wide and rough",
    "class_missing_in_test": "a class has no test row and is not averaged",
}


@dataclass(frozen=True)
class Findings:
    """What a report tells: a study's manifest and its frames of cells, gains, baselines and controls.

    ``others`` are the gains by second metrics (analysis.gains.other_metrics).
    ``shared`` says what is in a copy for others and what is not; empty in a study's own report.
    """

    manifest: Manifest
    cells: pd.DataFrame
    gains: pd.DataFrame
    baselines: pd.DataFrame
    controls: pd.DataFrame
    control_means: pd.DataFrame
    draws: int
    others: pd.DataFrame = field(default_factory=lambda: framed(pd.DataFrame(), OTHERS))
    shared: str = ""

    def title(self, task: str) -> str:
        """A task's title, by its id; what is no task is called by its name."""
        return str(self.manifest["tasks"].get(task, {"title": task})["title"])


def opening(found: Findings) -> list[str]:
    """Heading, banner and the study's settings."""
    study = found.manifest["study"]
    name = found.manifest["name"]
    lines = [f"# {study.get('title') or name}", *([found.shared] if found.shared else [])]
    if found.manifest["synthetic"]:
        lines.append(
            "> **SYNTHETIC DATA.** Every number on this page comes from made-up texts. It shows that the machinery"
            " works and says nothing about empathy tasks."
        )
    done = int((found.cells.status == "done").sum())
    facts = {
        "study": name,
        "cells": f"{done} of {len(found.cells)} finished ({_by_role(found.cells)})",
        "backbone": study.get("backbone"),
        "adapter": inline(study.get("adapter")),
        "training (where tasks do not differ)": inline(study.get("training")) or "defaults",
        "seeds": inline(study.get("seeds")),
        **({"seeds of baselines": inline(study["baseline_seeds"])} if study.get("baseline_seeds") else {}),
        "settings": inline(study.get("settings")),
        "splits": study.get("splits"),
    }
    caps = {
        part: study.get(f"max_{short}") for part, short in (("train", "train"), ("validation", "val"), ("test", "test"))
    }
    if any(caps.values()):
        facts["rows used per task, at most"] = inline({part: cap for part, cap in caps.items() if cap})
    return [*lines, bullets(facts)]


def tasks(found: Findings) -> list[str]:
    """Tables of the tasks in the study and of those whose data are not there."""
    head = ("task", "family", "metric", "train", "validation", "test", "data", "history cut", "text cut", "warnings")
    cut = found.cells.groupby("target")[["cut_history", "cut_target"]].max()
    rows = [
        (
            *(one["title"], one["family"], METRIC_NAMES[one["metric"]]),
            *(one["n_train"], one["n_validation"], one["n_test"]),
            f"version {one['version']}",
            *(percent(cut[part].get(name, float("nan"))) for part in ("cut_history", "cut_target")),
            "; ".join(one["warnings"]) or "none",
        )
        for name, one in found.manifest["tasks"].items()
    ]
    text = "History and text cut: the share of a task's rows that lost a part of them because they were too long."
    lines = ["## Tasks", table(head, rows), text]
    if found.manifest["missing"]:
        lines.append("Not in this study, because their data are missing:")
        lines.append(table(("task", "reason"), found.manifest["missing"].items()))
    return lines


def baselines(found: Findings) -> list[str]:
    """Table of the targets alone, with intervals and floors."""
    head = (
        "target",
        "trained",
        "data",
        "setting",
        "metric",
        "score",
        "95 % interval",
        "floor",
        "above floor",
        "rows",
        "groups",
        "conditional on",
        "flags",
    )
    rows = [
        (
            *(found.title(one.target), role_of(one.role).trains, f"version {one.version}"),
            *(one.setting, METRIC_NAMES[one.metric]),
            *(number(one.score), interval(one.low, one.high, 2)),
            *(number(one.floor), yes_no(one.is_above_floor)),
            *(count(one.n_test), count(one.n_groups), one.conditional or "missing"),
            flags or "none",
        )
        for one, flags in zip(found.baselines.itertuples(), found.baselines["flags"], strict=True)
    ]
    text = (
        "Each target alone. The floor is what a model that has learned nothing scores: always the commonest class,"
        " or r = 0; above it means that the whole interval is. Intervals come from resampled groups (dialogues, posts,"
        " articles) and, where there are several, the spread between seeds. Gains are against adapters; a whole model"
        " is a reference."
    )
    return ["## Baselines", text, table(head, rows), *_ordered(found)]


def _ordered(found: Findings) -> list[str]:
    """Table of the further metrics of targets whose classes have an order; nothing where there are none."""
    shown = found.baselines[found.baselines.quadratic_kappa.notna() | found.baselines.spearman_r.notna()]
    rows = [
        (found.title(one.target), one.setting, number(one.score), number(one.quadratic_kappa), number(one.spearman_r))
        for one in shown.itertuples()
    ]
    head = ("target", "setting", "macro-F1", "quadratic-weighted kappa", "Spearman r")
    return ["Targets alone whose classes have an order:", table(head, rows)] if rows else []


def heatmaps(drawn: Sequence[Drawn]) -> list[str]:
    """Every figure with its title."""
    return ["## Heatmaps", *(f"![{' '.join(one.title.splitlines())}]({one.png.name})" for one in drawn)]


def figures(drawn: Sequence[Drawn], undrawn: Sequence[str]) -> list[str]:
    """The paper's figures with their titles, and why others are not there."""
    shown = [f"![{' '.join(one.title.splitlines())}]({one.png.name})" for one in drawn]
    return ["## The paper's figures", *shown, *undrawn]


def flags(found: Findings) -> list[str]:
    """What is unusual about cells and gains, counted and named."""
    lines = ["## Flags"]
    missing = found.cells[found.cells.status == "missing"]
    if len(missing):
        lines.append(f"{len(missing)} of {len(found.cells)} planned cells are missing; run the study to add them.")
    of_cells = [
        (flag, f"{_cell_name(found, one)}, seed {one.seed}, {one.setting}")
        for one, text in zip(found.cells.itertuples(), found.cells["flags"], strict=True)
        for flag in text.split(";")
        if flag
    ]
    only_gains = [
        (flag, f"{_cell_name(found, one)}, {one.setting}")
        for one, text in zip(found.gains.itertuples(), found.gains["flags"], strict=True)
        for flag in text.split(";")
        if flag and flag not in {known for known, _ in of_cells}
    ]
    named: dict[str, list[str]] = {}
    for flag, where in of_cells + only_gains:
        named.setdefault(flag, []).append(where)
    if not named:
        return [*lines, "No cell and no gain is flagged." if len(lines) == 1 else "Nothing else is flagged."]
    rows = [(flag, MEANINGS.get(flag.split(":")[0], ""), len(where), few(where)) for flag, where in named.items()]
    return [*lines, table(("flag", "meaning", "times", "where"), rows)]


def caveats(found: Findings) -> list[str]:
    """What this page cannot tell."""
    points = [
        "Gains of one column share their baseline, so they are not independent of each other.",
        "The correction keeps down the share of false discoveries among all pairs; no single pair is certain.",
        "Tasks of one family share texts or people: a gain within a family may be recognition of texts.",
        "A group is the smallest unit that is resampled; with few groups an interval is only a rough guide.",
    ]
    if unrated := [name for name, one in found.manifest["tasks"].items() if not one.get("has_ratings", True)]:
        names = few([found.title(name) for name in unrated])
        points.append(f"Without ratings, and so left out of whatever explains gains by ratings: {names}.")
    of_one = found.gains[found.gains.n_seeds == 1]
    if (of_one.n_baseline_seeds == 1).any():
        points.insert(0, "With one training run, what another seed would give is not part of any interval or p.")
    if (of_one.n_baseline_seeds > 1).any():
        points.insert(0, "With one seed of a transfer, it is taken to vary between seeds as its baseline does.")
    if set(found.gains.n_seeds) & {2, 3}:
        points.insert(0, "Two or three seeds say little about the spread between seeds, so intervals are wide.")
    return ["## Caveats", "\n".join(f"- {point}" for point in points)]


def provenance(found: Findings, records: Sequence[Record], identities: Sequence[str]) -> list[str]:
    """Versions, machines and keys behind the page; ``identities`` says of each record what its key names."""
    facts = {
        "manifest written": found.manifest["created"],
        "training version": tally(record.spec["training_version"] for record in records),
        "backbone weights, sha256": tally(record.spec["backbone"]["weights_sha256"] for record in records),
        "backbone config and tokenizer": tally(identities),
        "code": tally(record.provenance["code"] for record in records),
        "devices": tally(record.provenance["device"] for record in records),
        "packages": tally(inline(record.provenance["versions"]) for record in records),
        "training time": f"{sum(record.provenance['wall_seconds'] for record in records) / 3600:.2f} hours in all",
        "keys": "of every cell in cells.csv",
    }
    return ["## Provenance", bullets(facts)]


def _cell_name(found: Findings, one: Any) -> str:  # noqa: ANN401 - a row of any frame
    target = found.title(one.target)
    name = target if one.intermediate is None else f"{found.title(one.intermediate)} -> {target}"
    role = getattr(one, "role", TRANSFER)
    return name if role in (BASELINE, TRANSFER) else f"{name} ({role})"


def _by_role(cells: pd.DataFrame) -> str:
    """How many cells of each role are planned."""
    return ", ".join(f"{role} {count}" for role, count in cells.role.value_counts(sort=False).items())
