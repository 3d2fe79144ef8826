"""Two studies against each other: scores of the cells that both have, gains, and the conclusions that differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import rankdata

from adapters_store.disk import write_text
from adapters_store.roles import BASELINE, TRANSFER
from analysis.figures.drawing import Drawing, figure_of, make_plain, shortened
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.figures.plan import of_setting
from analysis.gains.significance import LEVEL, p_text
from analysis.results.comparisons import (
    NOT_GIVEN,
    SHARED,
    StoredStudy,
    each,
    flat,
    listed,
    p_of_differences,
    shared_errors,
    spread,
)
from analysis.results.published import results as printed
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import Block, Bullets, Heading, Section, Table, Text, markdown, pictures
from analysis.tables import Declared, few, fixed, framed, interval, number
from tasks.errors import BadInput
from tasks.plain_text import counted

DRAWS, SEED = 10_000, 20_240_909
CELL = ["role", "intermediate", "target", "setting"]
PAIR = ["intermediate", "target", "setting"]
BOTH, ONLY_A, ONLY_B, OTHER_METRIC = "both", "only a", "only b", "other metric"
GAIN, HARM, NONE, UNTESTED = "gain", "harm", "none", "not tested"
CONCLUSIONS = (GAIN, HARM, NONE, UNTESTED)
UNNAMED = ("name", "title")  # of a study: what says nothing about its cells
BY_TARGET = ("tasks", "training", "task")  # of a study: what is held against each other target by target
ONLY_HERE = "tasks that the other has not"

SCORES = {
    "role": Declared("str", "what the cell is for: baseline, transfer, a control, ..."),
    "intermediate": Declared("str", "task whose adapter is below, or name of the system; empty: neither"),
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "metric": Declared("str", "as tasks.metrics names it"),
    "found": Declared("str", f"{BOTH}, {ONLY_A}, {ONLY_B}, or {OTHER_METRIC}: in both, but scored differently"),
    "score_a": Declared("float64", "mean test score over the finished seeds of a"),
    "score_b": Declared("float64", "the same of b"),
    "difference": Declared("float64", "score_b - score_a"),
    "n_seeds_a": Declared("Int64", "finished seeds of a"),
    "n_seeds_b": Declared("Int64", "of b"),
    "same_splits": Declared("boolean", "whether both have the very same splits; undefined: not known"),
}
COMPARED = {
    "intermediate": Declared("str", "task whose adapter is below"),
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "metric": Declared("str", "as tasks.metrics names it"),
    "points_a": Declared("float64", "gain in a, in points"),
    "points_b": Declared("float64", "gain in b"),
    "difference": Declared("float64", "points_b - points_a"),
    "p_difference": Declared("float64", "two-sided, that both true gains are equal; not corrected"),
    "is_same_items": Declared("bool", "whether both are of the same test items, so that errors are taken together"),
    "conditional": Declared("bool", "whether either gain holds for one training run, so that p_difference does too"),
    "conclusion_a": Declared("str", f"{GAIN} or {HARM} if p after Benjamini and Hochberg is at most .05, else {NONE}"),
    "conclusion_b": Declared("str", f"the same of b; {UNTESTED} where there is no p"),
    "is_same_sign": Declared("bool", "whether both gains lie on the same side of 0, or both are 0"),
    "is_flipped": Declared("bool", "whether both are tested and their conclusions differ"),
}
SUMMARY = {
    "what": Declared("str", "gains, or scores of cells in one role"),
    "setting": Declared("str", "share of the target's training data"),
    "n": Declared("int64", "pairs or cells that both have"),
    "n_targets": Declared("int64", "targets that they belong to"),
    "difference": Declared("float64", "mean of b - a, x 100"),
    "pearson": Declared("float64", "correlation of a with b"),
    "spearman": Declared("float64", "that of their ranks"),
    "same_sign": Declared("float64", "share on the same side of 0; of gains only"),
}
INTERVALS = ("difference", "pearson", "spearman", "same_sign")
for _name in INTERVALS:
    SUMMARY |= {f"{_name}_{end}": Declared("float64", f"{end} end of its 95 % interval") for end in ("low", "high")}


@dataclass(frozen=True)
class Side:
    """One of two studies: mean scores of its finished cells, its gains, and the facts of its specification.

    ``trained`` has, by target, what its adapters were trained by, wherever the settings came from.
    """

    name: str
    scores: pd.DataFrame
    gains: pd.DataFrame
    facts: Mapping[str, str]
    titles: Mapping[str, str]
    is_synthetic: bool = False
    note: str = ""
    stored: StoredStudy | None = None
    trained: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def side_of_study(study: StudyResults) -> Side:
    """One side from a stored study."""
    manifest, done = study.manifest, study.planned[study.planned.status == "done"]
    records = [study.store.get(key) for key in done.key]
    splits = {key: str(record.spec["splits_hash"]) for key, record in zip(done.key, records, strict=True)}
    done = done.assign(intermediate=done.intermediate.fillna(done.system), splits=done.key.map(splits))
    groups = done.groupby(CELL, sort=False)
    scores = groups.agg(metric=("metric", "first"), score=("score", "mean"), splits=("splits", "first"))
    scores["n_seeds"] = groups.size()
    facts = flat({name: value for name, value in manifest["study"].items() if name not in (*UNNAMED, *BY_TARGET)})
    facts |= {
        "backbone weights, sha256": each(record.spec["backbone"]["weights_sha256"] for record in study.adapters),
        "training version": each(record.spec["training_version"] for record in study.adapters),
        "code": each(record.provenance["code"] for record in records),
    }
    titles = {name: str(task["title"]) for name, task in manifest["tasks"].items()}
    trained = {record.spec["target"]: flat({"training": record.spec["training"]}) for record in study.adapters}
    scores = scores.reset_index()
    stored = StoredStudy(study.store, manifest)
    return Side(
        manifest["name"], scores, study.gains, facts, titles, manifest["synthetic"], stored=stored, trained=trained
    )


def side_of_published() -> Side:
    """One side from the paper's printed scores: without predictions, and so without tests."""
    results = printed()
    frame = results.gains.assign(setting="full", points=100 * results.gains.gain, splits=pd.NA)
    frame = frame.assign(standard_error=100 * frame.standard_error, df=np.inf, seed_error=np.nan)
    alone = frame.drop_duplicates("target").assign(role=BASELINE, intermediate="", score=lambda rows: rows.baseline)
    scores = pd.concat([alone, frame.assign(role=TRANSFER)])[[*CELL, "metric", "score", "splits", "n_seeds"]]
    titles = dict(zip(results.tasks.task, results.tasks.title, strict=True))
    note = (
        "published are the scores that the paper prints, with two decimals: no predictions and so no tests, and"
        " standard errors that are approximated."
    )
    return Side(results.name, scores.reset_index(drop=True), frame, {}, titles, note=note)


def compared_scores(a: Side, b: Side) -> pd.DataFrame:
    """One row per cell that either has, seeds together: the columns SCORES. BadInput if they share none."""
    both = a.scores.merge(b.scores, on=CELL, how="outer", suffixes=("_a", "_b"), indicator=True, sort=False)
    sides = both["_merge"].astype(str).map({"both": BOTH, "left_only": ONLY_A, "right_only": ONLY_B})
    if not (sides == BOTH).any():
        raise BadInput(
            f"{a.name} and {b.name} share no finished cell ({len(a.scores)} and {len(b.scores)} of their own);"
            " name two studies that share targets and settings"
        )
    is_other = (sides == BOTH) & (both.metric_a != both.metric_b)
    both["found"] = sides.mask(is_other, OTHER_METRIC)
    both["difference"] = (both.score_b - both.score_a).where(both["found"] == BOTH)
    both["metric"] = both.metric_a.fillna(both.metric_b)
    has_both = both.splits_a.notna() & both.splits_b.notna()
    both["same_splits"] = (both.splits_a == both.splits_b).astype("boolean").where(has_both)
    return framed(both, SCORES)


def compared_gains(a: Side, b: Side) -> pd.DataFrame:
    """One row per gain that both have, in the same metric: the columns COMPARED."""
    columns = [*PAIR, "metric", "points", "standard_error", "df", "seed_error", "p_bh"]
    both = a.gains[columns].merge(b.gains[columns], on=[*PAIR, "metric"], suffixes=("_a", "_b"), sort=False)
    both = both.dropna(subset=["points_a", "points_b"]).reset_index(drop=True)
    for side in "ab":
        both[f"conclusion_{side}"] = _conclusions(both[f"points_{side}"], both[f"p_bh_{side}"])
    both["difference"] = both.points_b - both.points_a
    shared = pd.DataFrame(columns=list(SHARED))
    if a.stored and b.stored:
        shared = shared_errors(a.stored, b.stored)
    both = both.merge(shared, on=PAIR, how="left", sort=False)
    both["is_same_items"] = both.covariance.notna()
    both["p_difference"] = p_of_differences(both)
    both["conditional"] = ~((both.seed_error_a > 0) & (both.seed_error_b > 0))  # of printed scores it is not known
    both["is_same_sign"] = np.sign(both.points_a) == np.sign(both.points_b)
    tested = (both.conclusion_a != UNTESTED) & (both.conclusion_b != UNTESTED)
    both["is_flipped"] = tested & (both.conclusion_a != both.conclusion_b)
    return framed(both, COMPARED)


def cross_table(frame: pd.DataFrame) -> pd.DataFrame:
    """How many gains have each conclusion in a (rows) and in b (columns), from ``compared_gains``."""
    table = pd.crosstab(frame.conclusion_a, frame.conclusion_b)
    return table.reindex(index=list(CONCLUSIONS), columns=list(CONCLUSIONS), fill_value=0)


def summary(scores: pd.DataFrame, compared: pd.DataFrame, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per setting for gains, and per role and setting for scores: the columns SUMMARY.

    Intervals resample targets, whose cells share test rows; NaN for fewer than three. Ranks are those of all cells.
    """
    rows = []
    for setting, part in compared.groupby("setting", sort=False):
        values = (part.points_a.to_numpy(), part.points_b.to_numpy())
        rows.append({"what": "gains", "setting": setting, **_agreement(*values, part.target, draws, seed)})
    shared = scores[(scores["found"] == BOTH) & scores.difference.notna()]
    for (role, setting), part in shared.groupby(["role", "setting"], sort=False):
        values = (100 * part.score_a.to_numpy(), 100 * part.score_b.to_numpy())
        numbers = _agreement(*values, part.target, draws, seed)
        numbers = {name: number for name, number in numbers.items() if not name.startswith("same_sign")}
        rows.append({"what": f"scores: {role}", "setting": setting, **numbers})
    return framed(pd.DataFrame(rows, columns=list(SUMMARY)), SUMMARY)


def differing(a: Side, b: Side) -> dict[str, tuple[str, str]]:
    """The facts of both specifications that are not the same, by name; empty where a side has none.

    Tasks are those that only one has; how adapters are trained is that of the targets that both have.
    """
    if not (a.facts and b.facts):
        return {}
    shared = [target for target in a.trained if target in b.trained]
    facts_a, facts_b = (
        {ONLY_HERE: listed(name for name in side.titles if name not in other.titles)}
        | dict(side.facts)
        | spread([side.trained[target] for target in shared])
        for side, other in ((a, b), (b, a))
    )
    names = dict.fromkeys([*facts_a, *facts_b])
    values = {name: (facts_a.get(name, NOT_GIVEN), facts_b.get(name, NOT_GIVEN)) for name in names}
    return {name: both for name, both in values.items() if both[0] != both[1]}


def _agreement(
    first: NDArray[np.float64], second: NDArray[np.float64], targets: pd.Series, draws: int, seed: int
) -> dict[str, Any]:
    """Difference, correlations and shared signs of values [n], with intervals from resampled targets."""
    names, index = np.unique(targets.to_numpy(), return_inverse=True)
    numeric = [first, second, rankdata(first), rankdata(second)]
    is_same_sign = np.sign(first) == np.sign(second)
    # Sums of these columns and of their products, by target: from them every statistic of a draw follows, because a
    # draw takes each target so many times. Columns are centred, so that little is lost where sums of squares cancel.
    values = np.stack([column - column.mean() for column in numeric] + [is_same_sign * 1.0], axis=1)
    moments = np.stack([values[:, 0] * values[:, 1], values[:, 2] * values[:, 3], *(values[:, :4] ** 2).T], axis=1)
    by_target = np.zeros((names.size, 12))
    np.add.at(by_target, index, np.column_stack([np.ones(first.size), values, moments]))
    times = np.random.default_rng(seed).multinomial(names.size, np.full(names.size, 1 / names.size), size=draws)
    gap = float(second.mean() - first.mean())
    observed, resampled = (_statistics(weights @ by_target, gap) for weights in (np.ones((1, names.size)), times))
    numbers: dict[str, Any] = {"n": first.size, "n_targets": names.size}
    for column, name in enumerate(INTERVALS):
        defined = resampled[np.isfinite(resampled[:, column]), column]
        is_known = names.size > 2 and defined.size > 0 and np.isfinite(observed[0, column])
        low, high = np.quantile(defined, [LEVEL / 2, 1 - LEVEL / 2]) if is_known else (np.nan, np.nan)
        numbers |= {name: observed[0, column], f"{name}_low": low, f"{name}_high": high}
    return numbers


def _statistics(sums: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """The statistics INTERVALS ``[draws, 4]`` from sums over cells ``[draws, 12]`` of centred values and products."""
    means = sums[:, 1:] / sums[:, [0]]
    difference = gap + means[:, 1] - means[:, 0]
    correlations = []
    for which in (0, 1):  # of the values, then of their ranks: covariance over the product of both spreads
        a, b = 2 * which, 2 * which + 1
        covariance = means[:, 5 + which] - means[:, a] * means[:, b]
        variances = [means[:, 7 + side] - means[:, side] ** 2 for side in (a, b)]
        size = np.sqrt(np.maximum(variances[0], 0) * np.maximum(variances[1], 0))
        correlations.append(np.divide(covariance, size, out=np.full(len(size), np.nan), where=size > 1e-12))
    return np.stack([difference, *correlations, means[:, 4]], axis=1)


def _conclusions(points: pd.Series, p: pd.Series) -> pd.Series:
    sure = pd.Series(np.where(points > 0, GAIN, HARM), index=points.index).where(p <= LEVEL, NONE)
    return sure.where(p.notna(), UNTESTED)


# The page, frames and figure that hold two studies against each other.

MOST_SHOWN = 30
MARGIN = 2.0  # points beside the outermost gain
FLIPPED, KEPT, UNKNOWN = "conclusions differ", "same conclusion", "not tested in both"
LOOKS = {KEPT: "#1b7837", FLIPPED: "#762a83", UNKNOWN: "#888888"}  # told apart by all common kinds of colour vision


def write_comparison(a: Side, b: Side, out: Path) -> tuple[Path, str]:
    """Write the frames, a figure per setting and compare.md into ``out``; the page's path, and its result in words."""
    scores, pairs = compared_scores(a, b), compared_gains(a, b)
    agreement = summary(scores, pairs)
    frames = {"compared_scores": scores, "compared_gains": pairs, "agreement": agreement}
    banner = "SYNTHETIC DATA: " * (a.is_synthetic or b.is_synthetic)
    figures = [_scatter_of(a, b, part, banner) for _, part in pairs.groupby("setting", sort=False)]
    notes = dict.fromkeys(side.note for side in (a, b) if side.note)
    # What differs between the two studies.
    rows = [(name, *both) for name, both in differing(a, b).items()]
    block: Block = Table(["field", "a", "b"], rows)
    if not (a.facts and b.facts):
        block = Text("One side has no study file, so that settings cannot be held against each other.")
    elif not rows:
        block = Text("Nothing in the two specifications but their names.")
    # What this page cannot tell, and what was left out.
    points = [
        "Noise in either study lowers the correlation of gains; test rows that both share raise it.",
        f"A pair's difference is tested on the test items that both studies share, resampled alike, in"
        f" {int(pairs.is_same_items.sum())} of {len(pairs)} pairs; in the others errors are taken as independent.",
        "Intervals resample targets. With few of them they are too narrow; with fewer than three there is none.",
    ]
    if n_runs := int(pairs.conditional.sum()):
        points.append(
            f"{n_runs} of {len(pairs)} differences rest on a gain of one training run: how training runs vary is not in"
            " their p, which says whether these runs differ, not whether what was studied does."
        )
    points += [_left_out(scores, side) for side in (ONLY_A, ONLY_B, OTHER_METRIC) if (scores["found"] == side).any()]
    shared = scores[scores["found"] == BOTH]
    if undefined := int(shared.difference.isna().sum()):
        points.append(f"Cells in both without a defined score in one of them: {undefined}; they are in no average.")
    if lost := int((shared.role == TRANSFER).sum()) - len(pairs):
        points.append(f"Transfers in both without a defined gain in one of them: {lost}.")
    sections = [
        Section("", [Heading(f"{banner}{a.name} (a) against {b.name} (b)"), *map(Text, notes)]),
        Section("What differs", [block]),
        _cells(scores, pairs, agreement),
        Section("Gains", [*_gains(a, b, pairs, agreement), *pictures(figures)], frames, figures=figures),
        Section("Caveats", [Bullets(points)]),
    ]
    for section in sections:
        section.write(out)
    page = out / "compare.md"
    write_text(page, markdown(sections))
    return page, _in_short(pairs)


def _in_short(pairs: pd.DataFrame) -> str:
    """How many gains both studies have, by how much they differ, and how many conclusions do."""
    if pairs.empty:
        return "The two share no finished gain."
    tested = pairs[(pairs.conclusion_a != UNTESTED) & (pairs.conclusion_b != UNTESTED)]
    size = fixed(pairs.difference.abs().median(), 1)
    text = f"{counted(len(pairs), 'gain')} in both studies; half of them differ by more than {size} points."
    if tested.empty:
        return f"{text} None is tested in both."
    return f"{text} {len(tested)} tested in both, {int(tested.is_flipped.sum())} with another conclusion."


def scatter(pairs: pd.DataFrame, title: str, a: str, b: str) -> Figure:
    """Gains in a across, gains in b upwards; on the dashed line they are equal."""
    figure = figure_of(6.4, 6.0, title)
    axes = figure.subplots()
    points = pairs[["points_a", "points_b"]].to_numpy()
    ends = (min(points.min(), 0.0) - MARGIN, max(points.max(), 0.0) + MARGIN)
    axes.plot(ends, ends, color="0.5", linewidth=0.9, linestyle="--", zorder=1, label="equal gains")
    axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    axes.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    shown = pairs.assign(conclusions=_looks(pairs), metric=pairs.metric.map(METRIC_NAMES))
    present = [name for name in LOOKS if name in set(shown.conclusions)]
    sns.scatterplot(
        shown,
        x="points_a",
        y="points_b",
        hue="conclusions",
        hue_order=present,
        palette=LOOKS,
        style="metric",
        s=26,
        alpha=0.85,
        ax=axes,
    )
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    axes.set(xlabel=f"gain in {shortened(a)}, points", ylabel=f"gain in {shortened(b)}, points")
    make_plain(axes)
    entries = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    handles = [handle for label, handle in entries.items() if label not in ("conclusions", "metric")]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize=8, frameon=False)
    return figure


def _scatter_of(a: Side, b: Side, pairs: pd.DataFrame, banner: str) -> Drawing:
    setting = str(pairs.setting.iloc[0])
    title = f"{banner}Gains in {a.name} and in {b.name}, setting {setting} ({counted(len(pairs), 'pair')})"
    return Drawing(of_setting("compare-gains", setting), title, pairs, partial(scatter, a=a.name, b=b.name))


def _looks(pairs: pd.DataFrame) -> pd.Series:
    untested = (pairs.conclusion_a == UNTESTED) | (pairs.conclusion_b == UNTESTED)
    looks = np.where(untested, UNKNOWN, np.where(pairs.is_flipped, FLIPPED, KEPT))
    return pd.Series(looks, index=pairs.index)


def _cells(scores: pd.DataFrame, pairs: pd.DataFrame, agreement: pd.DataFrame) -> Section:
    """How many cells both have, and how their scores agree."""
    sizes = scores["found"].value_counts()
    counts = ", ".join(f"{side} {sizes[side]}" for side in (BOTH, ONLY_A, ONLY_B, OTHER_METRIC) if side in sizes)
    text = f"Cells by where they are finished: {counts}. Scores are means over each study's own seeds."
    text += _other_splits(scores[scores["found"] == BOTH], pairs)
    rows = [
        (
            *(row.what.removeprefix("scores: "), row.setting, row.n, row.n_targets),
            *(*_with_interval(row, "difference", 1), *_with_interval(row, "pearson", 2)),
        )
        for row in agreement[agreement.what != "gains"].itertuples()
    ]
    head = ["cells", "setting", "in both", "targets", "b less a, points", "95 % interval"]
    head += ["correlation", "95 % interval"]
    return Section("Scores", [Text(text), Table(head, rows)])


def _other_splits(shared: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Which shared cells have other splits, and of which of their targets the test rows are the same all the same."""
    differ = shared[shared.same_splits == False]  # noqa: E712 - undefined is not different
    if differ.empty:
        return ""
    text = f" Of those in both, {len(differ)} have other splits in b than in a"
    targets = list(dict.fromkeys(differ.target))
    same = [target for target in targets if target in set(pairs.target[pairs.is_same_items])]
    if not same:
        return f"{text}: their scores are of other rows."
    text += f" (what was trained on counts, too): of {len(same)} of their {counted(len(targets), 'target')} the test"
    if rest := [target for target in targets if target not in same]:
        return f"{text} rows are the same; scores of {listed(rest)} are of other rows."
    return f"{text} rows are the same."


def _gains(a: Side, b: Side, pairs: pd.DataFrame, agreement: pd.DataFrame) -> list[Block]:
    """How gains agree, and which conclusions flip."""
    if pairs.empty:
        return [Text("The two share no finished gain.")]
    rows = [
        (row.setting, row.n, *(part for name in INTERVALS for part in _with_interval(row, name, 2)))
        for row in agreement[agreement.what == "gains"].itertuples()
    ]
    head = ["setting", "pairs", "b less a, points", "95 % interval", "correlation", "95 % interval"]
    head += ["rank correlation", "95 % interval", "same sign", "95 % interval"]
    cross = cross_table(pairs)
    present = [name for name in CONCLUSIONS if cross.loc[name].any() or cross[name].any()]
    across = [(f"a: {name}", *cross.loc[name, present]) for name in present]
    return [
        *(Text("Gains that both have, pair by pair:"), Table(head, rows)),
        Text(f"Conclusions, significant at {LEVEL} after Benjamini and Hochberg within each study:"),
        Table(["", *(f"b: {name}" for name in present)], across),
        *_flips(a, b, pairs),
    ]


def _flips(a: Side, b: Side, pairs: pd.DataFrame) -> list[Block]:
    flips = pairs[pairs.is_flipped].sort_values("difference", key=lambda points: -points.abs(), kind="stable")
    n_tested = int((_looks(pairs) != UNKNOWN).sum())
    if not n_tested:
        return [Text("No pair is tested in both, so no conclusion can flip.")]
    sure = int((flips.p_difference <= LEVEL).sum())
    text = (
        f"{len(flips)} of {n_tested} conclusions differ. That one gain is significant and the other is not does not"
        f" make the two different: in {sure} of these pairs the difference itself has p <= {LEVEL} (uncorrected)."
    )
    titles = dict(a.titles) | dict(b.titles)
    rows = [
        (
            *(titles.get(row.intermediate, row.intermediate), titles.get(row.target, row.target), row.setting),
            *(number(row.points_a, 1), row.conclusion_a, number(row.points_b, 1), row.conclusion_b),
            p_text(row.p_difference, 4),
        )
        for row in flips.head(MOST_SHOWN).itertuples()
    ]
    head = ["intermediate", "target", "setting", "points a", "a says", "points b", "b says", "p of the difference"]
    blocks: list[Block] = [Text(text), *([Table(head, rows)] if rows else [])]
    if len(flips) > MOST_SHOWN:
        blocks.append(Text(f"The {MOST_SHOWN} largest are shown; all are in tables/compared_gains.csv."))
    return blocks


def _left_out(scores: pd.DataFrame, side: str) -> str:
    """The cells that are not in both; those of tasks, rows and roles that the other has nothing of by their names."""
    names = ["target", "intermediate", "role"]
    part, elsewhere = scores[scores["found"] == side], scores.loc[scores["found"] != side, names]
    foreign = part[names].where(~part[names].isin({"", *elsewhere.to_numpy().ravel()})).bfill(axis=1).target
    first = foreign.dropna()
    apart = [f"{len(first)} with {listed(first.unique())}, of which the other has no cell"] if len(first) else []
    rest = part[foreign.isna()]
    cells = [f"{row.intermediate or 'none'} > {row.target}, {row.setting}" for row in rest.itertuples()]
    others = [f"{len(cells)} {'more' if apart else 'cells'}: {few(cells)}"] if cells else []
    return f"Left out ({side}): {'; '.join([*apart, *others])}."


def _with_interval(row: object, name: str, digits: int) -> tuple[str, str]:
    value, low, high = (getattr(row, f"{name}{end}") for end in ("", "_low", "_high"))
    return number(value, digits), interval(low, high, digits)
