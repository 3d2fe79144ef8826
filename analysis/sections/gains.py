"""The sections of a report about gains: all pairs with their correction, and the controls apart from them."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from adapters_store.roles import RANDOM, SELF, SHUFFLED, TRANSFER
from analysis.figures.forest import FOREST
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.figures.register import figures_of
from analysis.figures.uncertainty_map import FULL, LIMIT, MAP
from analysis.gains.comparisons import AGAINST, CHOSEN, SCORES, SINGLES
from analysis.gains.corrections import undecided_corrections
from analysis.gains.gains import MORE
from analysis.gains.pairs import luck_of_a_run
from analysis.gains.power import NOT_DETECTABLE, in_words
from analysis.gains.significance import LEVEL, p_text
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import Block, Column, Section, Table, Text, pictures
from analysis.tables import holds, interval, number, percent, yes_no
from tasks.plain_text import counted

MOST_SHOWN = 5
WAYS = {
    "p": "none: each gain by itself",
    "p_bh": "false discovery rate (FDR): Benjamini and Hochberg",
    "p_by": "FDR under any dependence: Benjamini and Yekutieli",
    "p_max_target": "family-wise error within a target (max-T)",
    "p_max_grid": "family-wise error, all pairs (max-T)",
    "p_holm": "family-wise error, all pairs (Holm)",
}
DOUBTED = ("collapsed", "contaminated")  # columns that make a gain doubtful, whatever its p
KEPT = (
    "What the merges have kept of their parents: validation scores of parents under their own heads, means over targets"
    " and parents, with the merge in the place of the parent's adapter. Beside it the parent alone, with its weights"
    " halved, with its own part of the merge and nothing else, and without any adapter (tables/retention.csv)."
)
WHAT = {
    TRANSFER: "transfers, by target",
    SELF: "self: the target itself, another seed",
    SHUFFLED: "shuffled: the target's texts, permuted labels",
    RANDOM: "random: an untrained adapter",
}
SHORT = {CHOSEN: "chosen single", SINGLES: "mean of singles", RANDOM: "random", SELF: "self"}


def verdict(gain: Mapping[str, Any]) -> str:
    """What a row of gains shows, in words: after the correction of ``significant``, then of family-wise error.

    A gain that takes no part in the maxima has 1 there, which is no p and is not printed as such.
    """
    if gain["n_seeds"] == 0:
        return "not run"
    if pd.isna(gain["points"]) or pd.isna(gain["p"]):
        return "not tested"
    if not gain["significant"]:
        return "inconclusive"
    effect = "gain" if gain["points"] > 0 else "harm"
    if gain["p_max_grid"] <= LEVEL:
        words = f"{effect}, survives family-wise correction"
    elif gain["p_max_grid"] < 1:
        words = f"suggestive {effect}: FDR {p_text(gain['p_bh'])}, but family-wise {p_text(gain['p_max_grid'])}"
    else:
        words = f"suggestive {effect}: FDR {p_text(gain['p_bh'])}, but it takes no part in the family-wise test"
    doubts = [name for name in DOUBTED if holds(gain[name])]
    has_learned = gain.get("target_has_learned")
    doubts += ["the target has not learned"] if not pd.isna(has_learned) and not has_learned else []
    return f"{words}; doubtful, since {' and '.join(doubts)}" if doubts else words


def learned(study: StudyResults) -> Section:
    """Every target held against its floor and against words, and how many cells are best at their last epoch."""
    text = (
        "A gain over a target that has learned nothing alone is an artefact of undertraining. A target has learned if"
        " it scores above its floor, is not significantly below words (tf-idf, on the same test rows), and no more than"
        " half of its seeds are best at the last epoch that they trained. Gains onto other targets are not counted"
        " above."
    )
    frame = study.learned
    has_whole = frame.whole_encoder.notna().any()
    head = ["target", "setting", "floor", "words", "alone", *(["whole encoder"] if has_whole else []), "learned"]
    rows = [
        (
            *(study.title(row["target"]), row["setting"]),
            *map(number, (row["floor"], row["words"], row["alone"])),
            *([number(row["whole_encoder"])] if has_whole else []),
            ("not known" if pd.isna(row["has_learned"]) else yes_no(row["has_learned"]))
            + (f" ({row['reason']})" if row["reason"] else ""),
        )
        for row in frame.to_dict("records")
    ]
    flags = study.cells.is_still_learning.dropna()
    last = f"Of {counted(len(flags), 'trained cell')}, {int(flags.sum())} ({percent(flags.mean())}) are best at their"
    ends = [Text(f"{last} last epoch.")] if len(flags) else []
    return Section("Learned or not", [Text(text), Table(head, rows), *ends], {"learned": frame})


def glance(study: StudyResults) -> Section | None:
    """The uncertainty map of every setting, with how it is read; nothing where a study plans no transfer."""
    figures = figures_of(study, MAP)
    text = (
        "The larger a square, the surer the gain or harm: its area is the gain over the half-width of its 95 %"
        f" interval, full from {FULL:.0f} times on; few seeds count less, for then the interval itself is uncertain."
        f" Blue is gain, red with a bar is harm, on one scale up to {LIMIT:.0f} points for every metric. A number:"
        " the interval excludes 0. A frame: significant after"
        " correction. A small square is no evidence of no effect."
    )
    return Section("At a glance", [*pictures(figures), Text(text)], figures=figures) if figures else None


def forests(study: StudyResults) -> Section | None:
    """Every target with all its intermediates; nothing where a study plans no transfer."""
    figures = figures_of(study, FOREST)
    text = (
        "For every target all intermediates by their gain, with 95 % intervals; small dots are single seeds. The grey"
        " band is the range of the controls: a gain inside it is no more than what a second adapter alone may do. Below"
        " each title stands what the target scores alone, and by how many points floor and whole model differ from it."
    )
    return Section("Targets one by one", [Text(text), *pictures(figures)], figures=figures) if figures else None


def gains(study: StudyResults) -> Section:
    """Counts of significant gains and harms, with and without collapsed cells, and the most extreme pairs."""
    frame, frames = study.gains, {"gains": study.gains, "visible_gains": study.visible}
    if frame.empty:
        return Section("Gains", [Text("The study plans no transfer.")], frames)
    tested = frame[frame.p.notna()]
    seeds = " or ".join(dict.fromkeys(tested.conditional)) or "no finished pair"
    draws = "paired draws"
    if not tested.empty:
        least, most = tested.draws.min(), tested.draws.max()
        draws = f"{least} {draws}"
        if more := int((tested.draws > least).sum()):
            draws += f" (of {counted(more, 'gain')} {most}, where what is significant was within Monte Carlo error)"
    text = (
        "A gain is a transfer's score minus its target's alone in the same setting, in points (x 100). Every p is"
        f' two-sided, from {draws} of groups, and conditional on {seeds}. "Significant" means'
        f" p <= {LEVEL} after Benjamini and Hochberg over the {counted(len(tested), 'gain')} that have a p."
    )
    if _is_limited(frame):
        text += (
            " In a setting with less data, points over full are against the target alone with all its data: at 0 the"
            " intermediate makes up for the rows that are missing."
        )
    head = ["targets scored by", "setting", "pairs", "planned", "finished", "significant gains", "significant harms"]
    head += ["median points", *(["median points over full"] if _is_limited(frame) else [])]
    blocks: list[Block] = [Text(text), Table(head, _counts(frame))]
    if luck := luck_of_a_run(frame):
        blocks.append(Text(luck))
    if not tested.empty:
        order = tested.sort_values("points", ascending=False, kind="stable")
        for name, part in (("gains", order[order.points > 0]), ("harms", order[order.points < 0][::-1])):
            if len(part):
                blocks += [Text(f"Largest {name}:"), _pairs(study, part.head(MOST_SHOWN))]
            else:
                blocks.append(Text(f"No {name}."))
    families = {name: task["family"] for name, task in study.manifest["tasks"].items()}
    significant = frame[frame.significant]
    related = int((significant.intermediate.map(families) == significant.target.map(families)).sum())
    text = f"Significant pairs within one family of datasets, sharing texts or people: {related} of {len(significant)}."
    return Section("Gains", [*blocks, Text(text)], frames)


def visible(study: StudyResults) -> Section | None:
    """How small a gain each target's test set could have shown; nothing where no gain has a p."""
    shown = study.visible[study.visible.n_pairs > 0]
    if shown.empty:
        return None
    text = (
        "The smallest true gain, in points, that a test of this size finds in four of five repeats: about 2.8 standard"
        " errors of a gain of that size for a single test at 5 %, more where groups or seeds are few, and more again"
        f" for a test that has to hold among all {counted(int(shown.n_pairs.sum()), 'gain')}. Such a gain needs answers"
        " that the pairs at hand may not have changed, so its error is larger than theirs, which stands beside it."
        " A true gain below it is mostly missed, so a non-significant result is no evidence of no effect."
        " Medians over a target's pairs, variances taken as known; not defined where the target collapsed, and"
        f" {NOT_DETECTABLE} where it is more than a perfect score"
        " would gain: that takes more seeds, or more test items."
    )
    target, setting, *sizes = visible_columns(study.title)
    metric = Column("metric", lambda row: METRIC_NAMES[row["metric"]])
    return Section("Smallest visible gains", [Text(text), Table.of(shown, [target, setting, metric, *sizes])])


def visible_columns(title: Callable[[str], str]) -> list[Column]:
    """The columns of the smallest visible gains of targets, which are called by their ``title``."""
    return [
        Column("target", lambda row: title(row["target"])),
        Column("setting", "setting"),
        Column("pairs", "n_pairs", "count"),
        Column("groups", "n_groups", "count"),
        Column("standard error", "standard_error", "points"),
        Column("visible", lambda row: in_words(row["visible"], row["is_detectable"])),
        Column("visible in the grid", lambda row: in_words(row["visible_in_grid"], row["is_detectable_in_grid"])),
    ]


def controls(study: StudyResults) -> Section | None:
    """What the controls gain, as means over targets and one by one; nothing where a study has none."""
    if study.controls.empty:
        return None
    text = (
        "A control is trained beside the transfers, stacked in the same way, on an intermediate that knows nothing of"
        " empathy or, as the target itself, nothing more. What the transfers gain beyond a control is due to their"
        " intermediates; what both lose is due to the second adapter. An imported adapter is no control: others have"
        " trained it, on texts that are not known here. All of these take no part in the counts and the"
        " correction above, and their p is not corrected. Means are over targets, each counting once, with intervals of"
        " Student's t. Liveness is how far switching the intermediate off moves a logit."
    )
    rows = [
        (
            *(control_name(study, row.control, row.intermediate), METRIC_NAMES[row.metric], row.setting, row.n_targets),
            *(number(row.liveness, 3), number(row.points, 1), interval(row.low, row.high, 1)),
            *(number(row.transfer_points, 1), *_less(row)),
        )
        for row in study.control_means.itertuples()
    ]
    head = ["control", "targets scored by", "setting", "targets", "liveness", "points", "95 % interval"]
    head += ["transfers' points", "transfers less control", "95 % interval"]
    single = [
        (
            *(control_name(study, row.control, row.intermediate), study.title(row.target), row.setting),
            *(number(row.baseline), number(row.score), number(row.points, 1), interval(row.low, row.high, 1)),
            *(p_text(row.p, 4), row.conditional, flags or "none"),
        )
        for row, flags in zip(study.controls.itertuples(), study.controls["flags"], strict=True)
    ]
    each = ["control", "target", "setting", "alone", "with", "points", "95 % interval", "p", "conditional on", "flags"]
    blocks: list[Block] = [Text(text), Table(head, rows), Text("Each control of each target:"), Table(each, single)]
    return Section("Controls", blocks, {"controls": study.controls, "control_means": study.control_means})


def merged(study: StudyResults) -> Section | None:
    """What merged intermediates gain, beside what a single would have given, and what they have kept of parents.

    None without any.
    """
    if study.merged.empty:
        return None
    text = (
        "A merged row stands on the adapters of several tasks made into one, as docs/merging.md says. Its gain is held"
        " against the single that validation chooses (of the same seed), the mean of all singles, an untrained adapter"
        " and the target itself. Differences are paired, on the same resampled groups; their p is corrected for all"
        " merged rows of a target by the largest difference (max-T). The best single by its test score is there to"
        " look at and was never tested against. None of these rows takes part in counts, medians or corrections of"
        " the transfers."
    )
    # How many rows of targets are better or worse than the chosen single and an untrained adapter.
    texts = []
    for name, noun in ((CHOSEN, "the single that validation chooses"), (RANDOM, "an untrained adapter")):
        tested = study.merged[study.merged[f"p_max_{name}"].notna()]
        if len(tested):
            sure = tested[f"less_{name}"][tested[f"p_max_{name}"] <= LEVEL]
            better, worse = int((sure > 0).sum()), int((sure < 0).sum())
            texts.append(f"{better} better and {worse} worse than {noun} (family-wise within each target)")
    compared = int(study.merged[[f"less_{name}" for name in AGAINST]].notna().any(axis=1).sum())
    won = f"Of {counted(compared, 'compared row')} of targets, {'; '.join(texts) or 'none could be tested'}."
    means = study.merged_means
    blocks: list[Block] = [Text(text), Text(won), Table.of(means, merged_columns(means))]
    blocks += [Text("Each merged row of each target:"), _merged_rows(study)]
    if len(study.retention):
        # Means of every merged row and metric, and in how many cases the merge is above the parent's own part alone.
        rows = [
            (
                *(row, METRIC_NAMES[str(metric)], *(number(part[score].mean()) for score in SCORES), len(part)),
                f"{int((part.merged > part.own_part).sum())} of {len(part)}",
            )
            for (row, metric), part in study.retention.groupby(["row", "metric"], sort=False)
        ]
        scores = [name.replace("_", " ") for name in SCORES]
        blocks += [Text(KEPT), Table(["merged row", "scored by", *scores, "parents", "above own part"], rows)]
    if left_out := study.manifest.get("left_out"):
        blocks.append(Text("; ".join(f"{name}: {reason}" for name, reason in left_out.items()), lead="Left out."))
    frames = {"merged": study.merged, "merged_means": means, "retention": study.retention}
    return Section("Merged intermediates", blocks, {name: frame for name, frame in frames.items() if len(frame)})


def merged_columns(means: pd.DataFrame) -> list[Column]:
    """The columns of means of merged rows, with what these are held against."""
    columns = [
        Column("merged row", "row"),
        Column("targets scored by", lambda row: METRIC_NAMES[row["metric"]]),
        Column("setting", "setting"),
        Column("targets", "n_targets", "count"),
        Column("points", "points", "points"),
        Column("95 % interval over targets", ("low", "high"), "points"),
    ]
    for name in (name for name in AGAINST if means[f"less_{name}"].notna().any()):
        columns.append(Column(f"less {SHORT[name]}", f"less_{name}", "points"))
        columns.append(Column("95 % interval", (f"low_less_{name}", f"high_less_{name}"), "points"))
    return columns


def _merged_rows(study: StudyResults) -> Table:
    head = ["target", "merged row", "rule", "parents", "setting", "alone", "with", "points", "95 % interval"]
    against = [name for name in AGAINST if study.merged[f"less_{name}"].notna().any()]
    head += [text for name in against for text in (f"less {SHORT[name]}", "95 % interval", "p (max-corrected)")]
    head += ["chosen single", "best single by test", "its points", "flags"]
    rows = [
        (
            *(study.title(row["target"]), row["row"], *_rule_and_parents(row), row["setting"]),
            *(number(row["baseline"]), number(row["score"]), number(row["points"], 1)),
            interval(row["low"], row["high"], 1),
            *(text for name in against for text in (*_difference(row, name), p_text(row[f"p_max_{name}"], 4))),
            *(_titles(study, row["chosen_single"]), _titles(study, row["best_single"])),
            *(number(row["best_single_points"], 1), row["flags"] or "none"),
        )
        for row in study.merged.sort_values(["target", "setting"], kind="stable").to_dict("records")
    ]
    return Table(head, rows)


def _difference(row: Mapping[str, Any], name: str) -> tuple[str, str]:
    return number(row[f"less_{name}"], 1), interval(row[f"low_less_{name}"], row[f"high_less_{name}"], 1)


def _rule_and_parents(row: Mapping[str, Any]) -> tuple[str, str]:
    weighed = "" if row["weighed_by"] == "equal" else f", weighed by {row['weighed_by']}"
    best = "" if pd.isna(row["best"]) else f", the best {row['best']} by {row['by']}"
    return f"{row['rule']}{weighed}", f"{row['parents']}{best}"


def _titles(study: StudyResults, names: object) -> str:
    return ", ".join(study.title(name) for name in names.split(", ")) if isinstance(names, str) and names else "none"


def corrections(study: StudyResults) -> Section | None:
    """How many gains and harms each correction leaves; nothing where no gain has a p."""
    tested = study.gains[study.gains.p.notna()]
    if tested.empty:
        return None
    kept = {name: tested.points[tested[name] <= LEVEL] for name in WAYS}
    doubtful = undecided_corrections(tested)
    rows = [
        (noun, int((kept[name] > 0).sum()), int((kept[name] < 0).sum()), _doubts(tested, name, doubtful))
        for name, noun in WAYS.items()
    ]
    text = (
        f"Significant results by correction (alpha = {LEVEL}), and the error rate that it controls. Undecided are gains"
        " that more draws may still move across alpha, because a p from so many draws is known to its 99 % interval"
        f" only; where significance itself was undecided, {MORE} times as many were drawn:"
    )
    return Section("Gains by correction", [Text(text), Table(["correction", "gains", "harms", "undecided"], rows)])


def _doubts(tested: pd.DataFrame, name: str, doubtful: pd.DataFrame) -> str:
    """How many gains a correction leaves undecided, and at how many draws; no p by itself is corrected."""
    if name not in doubtful:
        return ""
    which = tested[doubtful[name]]
    draws = (which.draws_of_maxima if name.startswith("p_max") else which.draws).dropna()
    if draws.empty:
        return "none"
    least, most = draws.min(), draws.max()
    return f"{len(which)} at {least} draws" if least == most else f"{len(which)} at {least} to {most} draws"


def _less(row: Any) -> tuple[str, str]:  # noqa: ANN401 - a row of a frame
    if row.control == TRANSFER:
        return "", ""
    return number(row.transfers_less_control, 1), interval(row.low_less_control, row.high_less_control, 1)


def control_name(study: StudyResults, control: str, intermediate: str) -> str:
    """What a control is called in tables, with what it means."""
    return WHAT[control] if control in WHAT else f"{control}: {study.title(intermediate)}"


def _is_limited(frame: pd.DataFrame) -> bool:
    return bool((frame.setting != "full").any())


def _counts(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    rows = []
    for (metric, setting), part in frame.groupby(["metric", "setting"], sort=False):
        for name, kept in (("all", part), ("without collapsed", part[~part.collapsed.fillna(False).astype(bool)])):
            counts = (len(kept), int((kept.n_seeds > 0).sum()))
            sure = kept.points[kept.significant]
            signs = (int((sure > 0).sum()), int((sure < 0).sum()))
            medians = [number(kept.points.median(), 1)]
            medians += [number(kept.points_over_full.median(), 1)] if _is_limited(frame) else []
            rows.append((METRIC_NAMES[metric], setting, name, *counts, *signs, *medians))
    return rows


def _pairs(study: StudyResults, frame: pd.DataFrame) -> Table:
    is_limited = _is_limited(study.gains)
    head = ["intermediate", "target", "data", "setting", "alone", "with", "points", "95 % interval", "p (BH)"]
    head += ["points over full", "95 % interval"] if is_limited else []
    rows = []
    for row, flags in zip(frame.itertuples(), frame["flags"], strict=True):
        over = (number(row.points_over_full, 1), interval(row.low_over_full, row.high_over_full, 1))
        rows.append(
            (
                *(study.title(row.intermediate), study.title(row.target)),
                *(f"version {row.intermediate_version} -> {row.version}", row.setting),
                *(number(row.baseline), number(row.score), number(row.points, 1), interval(row.low, row.high, 1)),
                *(p_text(row.p_bh, 4), *(over if is_limited else ()), row.conditional, flags or "none"),
            )
        )
    # The table without those of its columns that say the same of every pair: the text above it says it once.
    table = Table((*head, "conditional on", "flags"), rows)
    usual = {"data": "version 1 -> 1", "setting": "full", "conditional on": "one training run", "flags": "none"}
    kept = [
        index
        for index, name in enumerate(table.head)
        if name not in usual or any(row[index] != usual[name] for row in table.rows)
    ]
    return Table([table.head[index] for index in kept], [tuple(row[index] for index in kept) for row in table.rows])
