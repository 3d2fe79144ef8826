"""The sections of a report on the study and its systems, and the study without its private tasks.

Each section is made from finished frames; nothing here reads a store. Private are tasks whose entry says
``private = true``, and of those whose data are missing all that this project does not ship, since nobody can know what
their entries say. For a report that others may read (``report --public``) they leave the manifest, with every cell that
one of them takes part in, before anything is computed, so that no table, figure or page can know of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from adapters_store.key import key_of
from adapters_store.measures import CONTAMINATION, SWAPPED, contamination_inputs
from adapters_store.roles import BASELINE, TRANSFER, role_of
from adapters_store.store import Measure, Store
from analysis.figures.boards import BOARD, CONTEXT, RELIABILITY
from analysis.figures.heatmaps import HEATMAP, METRIC_NAMES
from analysis.figures.paper_figures import FIGURE_2, NO_EVIDENCE, paper_figures, why_not_drawn
from analysis.figures.register import figures_of
from analysis.gains.cells import Manifest, Snapshot, mixed_columns, not_compared
from analysis.gains.pairs import FEW_GROUPS
from analysis.gains.significance import p_text
from analysis.importance.question import Question
from analysis.kept import versions
from analysis.results.leaderboard import has_systems
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import Block, Bullets, Column, Fold, Heading, Section, Table, Text, pictures
from analysis.sections.importance import paper_tables
from analysis.tables import count, few, inline, interval, number, percent, signed, tally, yes_no
from tasks.plain_text import counted
from tasks.rationales import FORMS
from tasks.registry import Registry
from tasks.splits.contamination import Contact

SYNTHETIC = Text(
    "Every number on this page comes from made-up texts. It shows that the machinery works and says nothing about"
    " empathy tasks.",
    lead="SYNTHETIC DATA.",
    is_quote=True,
)
MIXED = Text(
    "Cells that are compared here were trained on different devices or with other versions of packages. That moves last"
    " digits at least, and a gain may hold the difference:",
    lead="Mixed columns.",
)
IN_SAMPLE = (
    "How far R2 falls on the very pairs that the model was fitted on. A mark is what 95 % of importances stay below"
    " when all facts of tasks are permuted over tasks, so that none says anything. One bar of twenty is beyond its mark"
    " without any effect; more are where tasks of a family are alike. What holds is said under What explains a gain."
)
CAPS = {"train": "train", "validation": "val", "test": "test"}  # splits as the fields max_... of a study call them
MEANINGS = {
    "collapsed": "at or below the majority-class score (r: 0)",
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


def opening(study: StudyResults) -> Section:
    """Title and banner."""
    title = str(study.manifest["study"].get("title") or study.manifest["name"])
    blocks: list[Block] = [Heading(title), *([Text(study.left_out)] if study.left_out else [])]
    return Section("", [*blocks, *([SYNTHETIC] if study.manifest["synthetic"] else [])])


def settings(study: StudyResults) -> Section:
    """The study's settings."""
    name, settings = study.manifest["name"], study.manifest["study"]
    done = int((study.planned.status == "done").sum())
    roles = ", ".join(f"{role} {count}" for role, count in study.planned.role.value_counts(sort=False).items())
    facts = {
        "study": name,
        "cells": f"{done} of {len(study.planned)} finished ({roles})",
        "backbone": settings.get("backbone"),
        "adapter": inline(settings.get("adapter")),
        "training (where tasks do not differ)": inline(settings.get("training")) or "defaults",
        **({"loss": inline(settings["loss"])} if settings.get("loss") else {}),
        "seeds": inline(settings.get("seeds")),
        **({"seeds of baselines": inline(settings["baseline_seeds"])} if settings.get("baseline_seeds") else {}),
        "settings": inline(settings.get("settings")),
        "splits": settings.get("splits"),
    }
    caps = {part: settings.get(f"max_{short}") for part, short in CAPS.items()}
    if any(caps.values()):
        facts["rows used per task, at most"] = inline({part: cap for part, cap in caps.items() if cap})
    return Section("Settings", [Bullets.of(facts)])


def tasks(study: StudyResults) -> Section:
    """Tables of the tasks in the study and of those whose data are not there."""
    head = ("task", "family", "metric", "train", "validation", "test", "data", "history cut", "text cut", "warnings")
    cut = study.cells.groupby("target")[["cut_history", "cut_target"]].max()
    rows = [
        (
            *(task["title"], task["family"], METRIC_NAMES[task["metric"]]),
            *(task["n_train"], task["n_validation"], task["n_test"]),
            f"version {task['version']}",
            *(percent(cut[part].get(name, float("nan"))) for part in ("cut_history", "cut_target")),
            "; ".join(task["warnings"]) or "none",
        )
        for name, task in study.manifest["tasks"].items()
    ]
    text = "History and text cut: the share of a task's rows that lost a part of them because they were too long."
    blocks: list[Block] = [Table(head, rows), Text(text)]
    if study.manifest["missing"]:
        blocks.append(Text("Not in this study, because their data are missing:"))
        blocks.append(Table(("task", "reason"), study.manifest["missing"].items()))
    return Section("Tasks", blocks)


def baselines(study: StudyResults) -> Section:
    """Table of the targets alone, with intervals and floors."""
    target, *columns = alone_columns(study.title)
    columns[0:0] = [
        Column("trained", lambda row: role_of(row["role"]).trains),
        Column("data", lambda row: f"version {row['version']}"),
    ]
    columns.insert(-2, Column("above floor", lambda row: yes_no(row["is_above_floor"])))
    columns += [Column("conditional on", lambda row: row["conditional"] or "missing")]
    columns.append(Column("flags", lambda row: row["flags"] or "none"))
    text = (
        "Each task alone, intermediates too. The floor is the score of a model that has learned nothing: the majority"
        " class, or r = 0. Above floor: the whole interval lies above it. Intervals come from resampled groups"
        " (dialogues, posts, articles) and, where there are several, the spread between seeds. Gains are against"
        " adapters; a whole model is a reference."
    )
    blocks: list[Block] = [Text(text), Table.of(study.baselines, [target, *columns])]
    is_ordinal = study.baselines.quadratic_kappa.notna() | study.baselines.spearman_r.notna()
    if rows := [
        (study.title(row.target), row.setting, number(row.score), number(row.quadratic_kappa), number(row.spearman_r))
        for row in study.baselines[is_ordinal].itertuples()
    ]:
        head = ("target", "setting", "macro-F1", "quadratic-weighted kappa", "Spearman r")
        blocks += [Text("Targets alone whose classes have an order:"), Table(head, rows)]
    return Section("Baselines", blocks, {"baselines": study.baselines})


def alone_columns(title: Callable[[str], str]) -> list[Column]:
    """The columns of targets alone, which are called by their ``title``."""
    return [
        Column("target", lambda row: title(row["target"])),
        Column("setting", "setting"),
        Column("metric", lambda row: METRIC_NAMES[row["metric"]]),
        Column("score", "score", "score"),
        Column("95 % interval", ("low", "high"), "score"),
        Column("floor", "floor", "score"),
        Column("rows", "n_test", "count"),
        Column("groups", "n_groups", "count"),
    ]


def heatmaps(study: StudyResults) -> Section:
    """Every heatmap with its title."""
    figures = figures_of(study, HEATMAP)
    return Section("Heatmaps", pictures(figures), figures=figures)


def figures(question: Question) -> Section:
    """The paper's figures with their titles, importances behind a fold, and why others are not there."""
    drawn = paper_figures(question)
    shown = [
        Fold(NO_EVIDENCE, [Text(IN_SAMPLE), *pictures([figure])]) if figure.name == FIGURE_2 else pictures([figure])[0]
        for figure in drawn
    ]
    why_not = map(Text, why_not_drawn(question.results, question.similarities))
    return Section("The paper's figures", [*shown, *why_not], lists=paper_tables(question), figures=drawn)


def flags(study: StudyResults) -> Section:
    """What is unusual about cells and gains, counted and named, and whose cells were not trained alike."""
    # The columns whose cells were trained on different devices or with other versions; nothing where none were.
    columns = mixed_columns(study.cells, study.records)
    mixed: list[Block] = [MIXED, Bullets(columns)] if columns else []
    return Section("Flags", [*_flags(study), *mixed])


def _flags(study: StudyResults) -> list[Block]:
    blocks: list[Block] = []
    missing = study.cells[study.cells.status == "missing"]
    if len(missing):
        text = f"{len(missing)} of {len(study.cells)} planned cells are missing; run the study to add them."
        blocks.append(Text(text))
    of_cells = [
        (flag, f"{_cell_name(study, cell)}, seed {cell.seed}, {cell.setting}")
        for cell, text in zip(study.cells.itertuples(), study.cells["flags"], strict=True)
        for flag in text.split(";")
        if flag
    ]
    only_gains = [
        (flag, f"{_cell_name(study, gain)}, {gain.setting}")
        for gain, text in zip(study.gains.itertuples(), study.gains["flags"], strict=True)
        for flag in text.split(";")
        if flag and flag not in {label for label, _ in of_cells}
    ]
    by_flag: dict[str, list[str]] = {}
    for flag, where in of_cells + only_gains:
        by_flag.setdefault(flag, []).append(where)
    if not by_flag:
        return [*blocks, Text("Nothing else is flagged." if blocks else "No cell and no gain is flagged.")]
    rows = [(flag, MEANINGS.get(flag.split(":")[0], ""), len(where), few(where)) for flag, where in by_flag.items()]
    return [*blocks, Table(("flag", "meaning", "times", "where"), rows)]


def caveats(study: StudyResults) -> Section:
    """What this page cannot tell, and what the search for near duplicates did not compare."""
    points = [
        "Gains of one column share their baseline, so they are not independent of each other.",
        "The correction controls the expected share of false discoveries over all pairs; no single pair is certain.",
        "Tasks of one family share texts or people: a gain within a family may be recognition of texts.",
        "A group is the smallest unit that is resampled; with few groups an interval is only a rough guide.",
    ]
    if unrated := [name for name, task in study.manifest["tasks"].items() if not task.get("has_ratings", True)]:
        names = few([study.title(name) for name in unrated])
        points.append(f"Without ratings, and so left out of whatever explains gains by ratings: {names}.")
    if left_out := not_compared(study.store, study.manifest):
        points.append(f"Contamination by near duplicates may be more than is marked: {left_out}.")
    single = study.gains[study.gains.n_seeds == 1]
    if (single.n_baseline_seeds == 1).any():
        points.insert(0, "With one training run, what another seed would give is not part of any interval or p.")
    if (single.n_baseline_seeds > 1).any():
        points.insert(0, "With one seed of a transfer, it is taken to vary between seeds as its baseline does.")
    if set(study.gains.n_seeds) & {2, 3}:
        points.insert(0, "Two or three seeds say little about the spread between seeds, so intervals are wide.")
    return Section("Caveats", [Bullets(points)])


def provenance(study: StudyResults) -> Section:
    """Versions, machines and keys behind the page."""
    records, specs = study.records, [record.spec for record in study.records]
    facts = {
        "manifest written": study.manifest["created"],
        "training version": tally(spec["training_version"] for spec in specs if "training_version" in spec),
        "backbone weights, sha256": tally(spec["backbone"]["weights_sha256"] for spec in specs if "backbone" in spec),
        "code": tally(record.provenance["code"] for record in records),
        "devices": tally(record.provenance["device"] for record in records),
        "packages": tally(inline(record.provenance["versions"]) for record in records),
        "training time": f"{sum(record.provenance['wall_seconds'] for record in records) / 3600:.2f} hours in all",
        "keys": "of every cell in tables/cells.csv",
    }
    return Section("Provenance", [Bullets.of(facts)], {"cells": study.planned})


def about(study: StudyResults) -> dict[str, Any]:
    """What made the files of a results folder, all of it unchanged while the store and the code are."""
    finished = sorted(study.planned.key[study.planned.status == "done"])
    return {
        "study": study.manifest["name"],
        "synthetic": bool(study.manifest["synthetic"]),
        "cells": {"planned": len(study.planned), "finished": len(finished)},
        "keys_sha256": key_of({"finished": finished}),
        "draws": study.draws,
        "seed": study.seed,
        "analysis": versions(),
    }


def about_scores(question: Question) -> dict[str, Any]:
    """The same of printed scores."""
    results = question.results
    facts = {"study": results.name, "synthetic": results.is_synthetic, "pairs": len(results.gains)}
    return {**facts, "analysis": versions()}


def _cell_name(study: StudyResults, row: Any) -> str:  # noqa: ANN401 - a row of cells or of gains
    target = study.title(row.target)
    name = target if row.intermediate is None else f"{study.title(row.intermediate)} -> {target}"
    role = getattr(row, "role", TRANSFER)
    return name if role in (BASELINE, TRANSFER) else f"{name} ({role})"


PARTS = ("tasks", "missing")  # of a manifest, by task


@dataclass(frozen=True)
class _WithoutPrivate(Snapshot):
    """A store in which contacts, which are measured of all ``tasks`` of a study together, are known of any of them."""

    tasks: Mapping[str, Any] = field(default_factory=dict)

    def measure(self, kind: str, inputs: Mapping[str, Any]) -> Measure:
        """The measure of this kind; contacts are those among the tasks of ``inputs``."""
        if kind != CONTAMINATION:
            return super().measure(kind, inputs)
        whole = super().measure(kind, contamination_inputs(self.tasks))
        contacts = [Contact(*contact) for contact in whole.result["contacts"]]
        pairs = [list(pair) for pair in contacts if {pair.target, pair.intermediate} <= set(inputs["tasks"])]
        return replace(whole, inputs=inputs, result={**whole.result, "contacts": pairs})


def without_private(store: Store, manifest: Manifest) -> tuple[Snapshot, dict[str, Any], str]:
    """The store and manifest of a study without its private tasks, and how many were left out, in a sentence."""
    shipped = Registry.load().tasks
    declared = {name for name, task in manifest["tasks"].items() if task.get("private")}
    private = declared | {name for name in manifest["missing"] if name not in shipped or shipped[name].dataset.private}
    study, left_out = manifest["study"], manifest.get("left_out", {})
    public = {
        **manifest,
        "study": {
            **study,
            "tasks": [name for name in study["tasks"] if name not in private],
            "task": {name: entry for name, entry in (study.get("task") or {}).items() if name not in private},
        },
        "cells": [cell for cell in manifest["cells"] if not private & _tasks_of(cell, study)],
        "left_out": {row: why for row, why in left_out.items() if not any(name in row + why for name in private)},
        **{part: {name: entry for name, entry in manifest[part].items() if name not in private} for part in PARTS},
    }
    snapshot = Snapshot.of(store)
    public_store = _WithoutPrivate(snapshot.root, keeps=snapshot.keeps, exact=snapshot.exact, tasks=manifest["tasks"])
    verb = "is" if len(private) == 1 else "are"
    left = f"{counted(len(private), 'private task')} {verb} left out."
    return public_store, public, left if private else "No task is private: all are here."


def _tasks_of(cell: Mapping[str, Any], study: Mapping[str, Any]) -> set[str]:
    """The tasks that take part in a cell: target, intermediate, parents of a merged one, siblings of a system."""
    merge, system = cell.get("merge") or {}, (study.get("system") or {}).get(cell.get("system"), {})
    others = *merge.get("parents", ()), *merge.get("transfers", ()), *system.get("siblings", ())
    return {cell["target"], cell["intermediate"], *others}


BOARD_TEXT = (
    "Every way to solve a target that was run, on the same test rows: systems, the adapter alone, and the transfer that"
    " has the highest validation score. A tie: no more than chance apart from the highest score, by paired tests of all"
    " against all on resampled groups, or over repeated splits with the variance of Nadeau and Bengio, corrected by the"
    " step-down maximum within the target. What leaks was predicted from the test rows' own answers, as published code"
    " does: it has no rank. Macro averages are over"
    " the classes that occur in the test labels, weighted ones count each as often as it does. Parameters: numbers"
    " that a record keeps of what was learned."
    " leaderboard_pairs.csv has every test, leaderboard_classes.csv every class, leaderboard_rationales.csv how well"
    " rationales are marked, where a system marks any."
)
BOARD_COLUMNS = (
    Column("system", lambda row: f"{row['system']} (leaks)" if row["is_leaking"] else row["system"]),
    Column("score", "score", "score"),
    Column("95 % interval", ("low", "high"), "score"),
    Column("tied with the best", lambda row: yes_no(row["is_tied"])),
    Column("accuracy", lambda row: _share(row["accuracy"])),
    Column("macro P", lambda row: _share(row["macro_precision"])),
    Column("macro R", lambda row: _share(row["macro_recall"])),
    Column("macro F1", lambda row: _share(row["macro_f1"])),
    Column("weighted F1", lambda row: _share(row["weighted_f1"])),
    Column("parameters", "parameters", "count"),
    Column("seconds", lambda row: number(row["seconds"], 1)),
    Column("seeds", lambda row: str(row["n_seeds"])),
)
ASKED = (
    *(Column(name, name) for name in ("target", "setting", "system")),
    Column("score", "score", "score"),
    Column("dollars", lambda row: number(row["dollars"], 4)),
    *(Column(name, name, "score") for name in ("agreement", "unanswered")),
)
ASKED_TEXT = (
    "Dollars: the price of the answers to the test rows of one seed. Agreement: the share of pairs of answers to the"
    " same row that name the same class. Unanswered: the share of test rows whose answer names no class, or two, which"
    " count as wrong."
)
SCORES_OF_MARKS = {"token F1": "token_f1", "IOU F1": "iou_f1"}
RATIONALE_TEXT = (
    "How well systems mark the words that are the reason of a label: F1 of the backbone's tokens, and IOU F1 of spans,"
    " half of whose union is shared, in the forms of two papers and corrected (docs/systems-beside-adapters.md). A form"
    " gives texts without a rationale its own way, so that scores of two forms cannot be compared, and none means"
    " anything without the two constants below: every word marked, and none."
)
FORM_SCORES = {f"{form} {name}": (form, score) for form in FORMS for name, score in SCORES_OF_MARKS.items()}
RATIONALES = (Column("system", "system"), *(Column(head, head, "score") for head in FORM_SCORES))


PEOPLE_TEXT = (
    "How well people do, where several annotators have marked the test rows: each annotator against the others, by the"
    " target's own metric, and every system against the same others. The difference is in points, that of a system less"
    " one annotator; a system that is not below 0 agrees with people as well as they do with each other. These scores"
    " are not those above, which are held against the label that all annotators make together."
)
PEOPLE = (
    Column("answers by", "system"),
    Column("score", "score", "score"),
    Column("95 % interval", ("low", "high"), "score"),
    Column("difference", lambda row: _apart(row, signed(row["difference"], 1))),
    Column("its interval", lambda row: _apart(row, interval(row["difference_low"], row["difference_high"], 1))),
    Column("p", lambda row: _apart(row, p_text(row["p"]))),
    Column("rows", "n_rows", "count"),
    Column("annotators", lambda row: str(row["n_annotators"])),
)
CALIBRATION_TEXT = (
    "What probabilities are worth. Calibration error: how far the share of right answers lies from the mean probability"
    " of what was decided, mean over ten bins of equal mass. It is above 0 for every finite test set: if calibrated is"
    " its mean where the same probabilities are exactly right, and p how often it is then as large. Overconfidence:"
    " mean probability less the share that is right. Brier score: squared distance of probabilities and truth, summed"
    " over classes. leaderboard_reliability.csv has the bins, and the figure draws them."
)
CALIBRATION = (
    Column("system", "system"),
    Column("calibration error", "error", "score"),
    Column("95 % interval", ("low", "high"), "score"),
    Column("if calibrated", "if_calibrated", "score"),
    Column("p", lambda row: p_text(row["p"])),
    Column("overconfidence", lambda row: signed(row["overconfidence"], 3)),
    Column("Brier score", "brier", "score"),
    Column("its interval", ("brier_low", "brier_high"), "score"),
)


def _share(value: float) -> str:
    return "" if pd.isna(value) else number(value)


def _apart(row: Mapping[str, Any], words: str) -> str:
    """The words, of a contestant that is held against an annotator."""
    return "" if pd.isna(row["difference"]) else words


def leaderboard(study: StudyResults) -> Section | None:
    """Its figures, a table for every target and setting, how people do, and what probabilities and rationales are.

    None of a study without systems.
    """
    if not has_systems(study.manifest):
        return None
    board, figures = study.leaderboard, figures_of(study, BOARD, RELIABILITY)
    blocks: list[Block] = [Text(BOARD_TEXT), *pictures(figures)]
    for (target, setting), rows in board.board.groupby(["target", "setting"], sort=False):
        first = rows.iloc[0]
        facts = f"{METRIC_NAMES[first.metric]}, {count(first.n_test)} rows in {count(first.n_groups)} groups"
        blocks.append(Text(f"{setting} data, {facts}:", lead=study.title(target)))
        blocks.append(Table.of(rows, BOARD_COLUMNS))
    if len(models := were_asked(board.board)):
        blocks += [Text(ASKED_TEXT, lead="Models that were asked."), Table.of(models, ASKED)]
    for frame, text, lead, columns in (
        (board.people, PEOPLE_TEXT, "People.", PEOPLE),
        (board.calibration, CALIBRATION_TEXT, "Calibration.", CALIBRATION),
    ):
        blocks += [Text(text, lead=lead)] if len(frame) else []
        for (target, setting), rows in frame.groupby(["target", "setting"], sort=False):
            blocks.append(Text(f"{setting} data:", lead=study.title(target)))
            blocks.append(Table.of(rows, columns))
    marked = rationales_by_system(board.rationales)
    blocks += [Text(RATIONALE_TEXT, lead="Rationales.")] if len(marked) else []
    for (target, setting), rows in marked.groupby(["target", "setting"], sort=False):
        first = rows.iloc[0]
        facts = f"{count(first.n_marked)} of {count(first.n_test)} test rows have a rationale"
        blocks.append(Text(f"{setting} data, {facts}:", lead=study.title(target)))
        blocks.append(Table.of(rows, RATIONALES))
    return Section("Leaderboard", blocks, board.frames, figures=figures)


def were_asked(board: pd.DataFrame) -> pd.DataFrame:
    """Contestants whose answers had a price, were asked for several times, or did not always come."""
    return board[board.dollars.notna() | board.agreement.notna() | (board.unanswered > 0)]


def rationales_by_system(rationales: pd.DataFrame) -> pd.DataFrame:
    """A row per setting, target and system with its scores in every form, in the columns that RATIONALES shows."""
    where = ["setting", "target", "system"]
    wide = rationales.drop_duplicates(where)
    for head, (form, score) in FORM_SCORES.items():
        part = rationales.loc[rationales.form == form, [*where, score]].set_axis([*where, head], axis=1)
        wide = wide.merge(part, how="left", on=where)
    return wide


CONTEXT_TEXT = (
    "Every test row gets the context of a row of another group, its own text and label unchanged. Changed: the share of"
    " decisions that differ then (of numbers those that move by a tenth of the labels' standard deviation). By the"
    " context alone: the share that would change if the same decisions followed from the context and nothing else."
    " Lost: points of the target's metric, on the same rows. A loss says that what is read there tells of the label; a"
    " change without a loss, that the context moves answers in no useful direction. No p is corrected for the number of"
    " rows here. probes.csv has all operations (docs/systems-beside-adapters.md); rows without a context take no part."
)


def context(study: StudyResults) -> Section | None:
    """What swapped contexts change, of every target and whoever was asked, below the figure of tasks."""
    if study.probes.empty:
        return None
    swapped, columns = (
        study.probes[study.probes.operation == SWAPPED],
        (
            Column("target", lambda row: study.title(row["target"])),
            Column("answers by", "system"),
            Column("changed", "changed", "score"),
            Column("its interval", ("changed_low", "changed_high"), "score"),
            Column("by the context alone", "context_alone", "score"),
            Column("lost", lambda row: signed(100 * row["drop"], 1)),
            Column("its interval", lambda row: interval(100 * row["drop_low"], 100 * row["drop_high"], 1)),
            Column("p", lambda row: p_text(row["p"])),
            Column("rows", "n", "count"),
        ),
    )
    figures = figures_of(study, CONTEXT)
    blocks: list[Block] = [*pictures(figures), Text(CONTEXT_TEXT), Table.of(swapped, columns)]
    return Section("Do they read the context?", blocks, {"probes": study.probes}, figures=figures)
