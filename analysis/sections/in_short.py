"""What a study found, in a few sentences: the top of report.md, of the page, and what a terminal prints.

Every sentence is made from frames that the report also writes, so that nothing is counted in two ways.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from adapters_store.roles import BASELINE
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.gains.baselines import Claims, claims
from analysis.gains.cells import contaminated_pairs, studied
from analysis.gains.pairs import FEW_GROUPS
from analysis.gains.significance import LEVEL
from analysis.importance.mixed import NOT_TESTED
from analysis.importance.mixed_test import SIGNED
from analysis.importance.question import Question
from analysis.results.leaderboard import has_systems
from analysis.results.study_results import StudyResults
from analysis.sections.importance import ImportanceReport
from analysis.tables import MOST_NAMED, few, fixed, interval, number, percent, signed
from tasks.plain_text import counted

IN_SHORT = "In short"
MANY_LEARNING = 0.1  # share of cells that are best at their last epoch, from which on it is a reason for caution
EQUAL = 1e-6  # points by which differences of printed scores may be off in floating point


def sentences(study: StudyResults, explained: Iterable[str] = ()) -> list[str]:
    """What was studied, which gains may be claimed, the extremes, what explains them, reasons for caution, what next.

    Counted are gains onto targets that have learned (``analysis.gains.baselines.claims``), others named beside them.
    ``explained`` says what explains gains (``explanation``). Of a study without transfers the leaderboard is told of.
    """
    if study.gains.empty and has_systems(study.manifest):
        return _sentences_of_systems(study)
    tested = study.gains[study.gains.p.notna()]
    claimed = claims(study.gains, study.learned)
    # What to do about gains: the first step that is due.
    learned = study.learned[study.learned.has_learned.eq(False).fillna(False)]
    longer, below = learned[2 * learned.still_learning > learned.n_seeds], learned[learned.is_below_words.eq(True)]
    if len(longer):
        step = f"train {_titles(study, longer)} for more epochs (training.epochs): the last is the best so far"
    elif len(learned):
        step = f"give {_titles(study, learned)} more training rows (max_train) or another recipe (`study search`)"
        step += ", since words do better" if len(below) == len(learned) else ""
    elif len(tested) and (tested.n_seeds == 1).all():
        step = "more seeds (`run` with --seeds 1,2,3), which tell a gain from the luck of one training run"
    elif apart := _shared_by_families(study, tested):
        step = f"give one `family` to tasks that share texts: {few(apart)}"
    else:
        name = study.manifest["study"]["name"]
        step = f"`empathy-transfer study power {name}` says what more seeds or test items would show"
    return [
        _scope(study, study.cells),
        *_significant(study, claimed),
        *_extremes(study, claimed.counted),
        *(findable(study.visible) if claimed.is_known else ()),
        *explained,
        _cautions(_reasons(study, study.cells, tested)),
        _next(study.cells, step),
    ]


def _sentences_of_systems(study: StudyResults) -> list[str]:
    """The same of a study without transfers: on every target the best contestant, who is tied with it, the adapter."""
    board = study.leaderboard
    ranked = board.board[board.board["rank"].notna()]
    places = list(ranked.groupby(["target", "setting"], sort=False))
    lines = [_best_system(study, pair, rows, board.pairs) for pair, rows in places[:MOST_NAMED]]
    more = [f"{len(places) - MOST_NAMED} more targets stand on the leaderboard."] if len(places) > MOST_NAMED else []
    # What to do about a leaderboard: the first step that is due.
    small = board.board[board.board.n_groups < FEW_GROUPS]
    if (board.board.n_seeds <= 1).all():
        step = "more seeds (`run` with --seeds 1,2,3), which tell a difference from the luck of one training run"
    elif len(small):
        step = f"more groups of test rows for {_titles(study, small)} (max_test, or the file itself)"
    else:
        step = "the page's leaderboard, or transfers between these tasks (`transfers = true`)"
    reasons = (*_reasons(study, study.planned, study.gains), *_reasons_of_board(study, board.board))
    return [_scope(study, study.planned), *lines, *more, _cautions(reasons), _next(study.planned, step)]


def _best_system(study: StudyResults, where: tuple[str, str], rows: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """The contestant with the highest score on a target, whoever is tied with it, and how far the adapter is."""
    (target, setting), best = where, rows.sort_values("rank").iloc[0]
    is_tied = rows.is_tied.eq(True).fillna(False) & (rows.role != BASELINE)
    tied = list(rows.system[(rows.system != best.system) & is_tied])
    text = (
        f"Best on {study.title(target)}{_with(setting)}: {best.system}, {number(best.score, 2)} (95 % interval"
        f" {interval(best.low, best.high, 2)}){f', tied with {few(tied)}' if tied else ''}"
    )
    alone = rows[rows.role == BASELINE]
    if alone.empty or best.role == BASELINE:
        return f"{text}."
    adapter, of_place = alone.iloc[0], (pairs.target == target) & (pairs.setting == setting)
    both = pairs[of_place & pairs.a.isin([best.system, adapter.system]) & pairs.b.isin([best.system, adapter.system])]
    verdict = "significantly less" if both.significant.any() else "not significantly less"
    apart = f"{number(100 * (best.score - adapter.score), 1)} points and {verdict}"
    return f"{text}; the {adapter.system} has {number(adapter.score, 2)}, {apart}."


def sentences_of_scores(question: Question, answer: ImportanceReport) -> list[str]:
    """The same of a grid of which only printed scores are known: directions and sizes, and nothing of what is sure."""
    results = question.results
    gains, titles = results.gains.assign(points=100 * results.gains.gain), results.tasks.set_index("task").title
    higher, lower = (int((sign * gains.points > EQUAL).sum()) for sign in (1, -1))
    families = results.tasks.family.nunique()
    metrics = " and ".join(METRIC_NAMES[name] for name in METRIC_NAMES if (gains.metric == name).any())
    reasons = ["no interval is known, and every score is from one training run"]
    for flag, text in (
        ("collapsed", "of a collapsed training"),
        ("contaminated", "on test items that are training material too"),
    ):
        if count := int(gains[flag].fillna(False).astype(bool).sum()):
            reasons.append(f"{count} of {len(gains)} gains {_be(count)} {text}")
    return [
        f"Known: printed scores of {counted(len(titles), 'task')} of {counted(families, 'family', 'families')}, alone"
        f" and as {counted(len(gains), 'transfer')}; {metrics}, with two decimals.",
        f"Directions: {higher} transfers score higher than the target alone, {lower} lower and"
        f" {len(gains) - higher - lower} alike. None can be tested, and a difference of a point may be rounding.",
        *_ends(gains, titles),
        *explanation(answer, question),
        f"Reasons for caution: {'; '.join(reasons)}.",
    ]


def _ends(gains: pd.DataFrame, titles: pd.Series) -> Iterator[str]:
    """The largest difference in each direction."""
    for noun, extreme in (("gain", "idxmax"), ("harm", "idxmin")):
        row = gains.loc[getattr(gains.points, extreme)()]
        if (row.points > EQUAL) if noun == "gain" else (row.points < -EQUAL):
            pair = f"{titles[row.intermediate]} -> {titles[row.target]}"
            yield f"Largest {noun}: {pair}, {signed(row.points, 0)} points, not tested."


def _scope(study: StudyResults, cells: pd.DataFrame) -> str:
    settings = study.manifest["study"]
    tasks = studied(study.manifest)
    families = len({task["family"] for task in tasks.values()})
    done, planned = int((cells.status == "done").sum()), len(settings["seeds"])
    finished = seeds_of(study.gains)  # said where finished transfers do not have all seeds
    seeds = counted(planned, "seed") if finished in ("", str(planned)) else f"{finished} of {planned} seeds"
    return (
        f"Studied: {counted(len(tasks), 'task')} of {counted(families, 'family', 'families')}, adapters on"
        f" {settings['backbone']}, {seeds}; {done} of {len(cells)} cells are finished."
    )


def seeds_of(gains: pd.DataFrame) -> str:
    """How many seeds each finished transfer has: a number, or the least and the most; empty where none is finished."""
    counts = gains.n_seeds[gains.n_seeds > 0]
    return " to ".join(dict.fromkeys(str(int(count)) for count in (counts.min(), counts.max()))) if len(counts) else ""


def _significant(study: StudyResults, claims: Claims) -> Iterator[str]:
    """How many gains and harms may be claimed, and which significant ones may not and why; without words, none."""
    n_tested = len(claims.counted) + len(claims.others)
    if not n_tested:
        yield "Gains: none has a p value, so none is significant or not."
        return
    rate = f"(p <= {LEVEL:g} with the false discovery rate controlled over all"
    if not claims.is_known:
        floors = "" if study.manifest["study"].get("floors", True) else " with --set floors=true"
        yield (
            "Gains: none is claimed, since no target was held against words, so that whether any has learned is not"
            f" known: run the study again{floors}, words are trained in seconds."
        )
        counts, rest = _significant_counts(claims.others)
        others = "all" if rest == n_tested else f"the other {rest}"
        yield (
            f"Not held against that: of {counted(n_tested, 'transfer')} with a p value, {counts} are significant"
            f" {rate} of them); {others} are inconclusive."
        )
        return
    counts, rest = _significant_counts(claims.counted)
    n_learned = study.learned.target[study.learned.has_learned.eq(True).fillna(False)].nunique()
    which = "onto the" if n_learned == claims.targets else f"that may be counted, onto {claims.targets} of the"
    onto = f"{counted(len(claims.counted), 'transfer')} {which} {counted(n_learned, 'target')} that have learned"
    text = f"of {onto}, {counts} are significant {rate} {n_tested}), the other {rest} inconclusive"
    yield f"Gains: {text if len(claims.counted) else 'no transfer may be counted'}{_not_counted(study, claims)}."


def _significant_counts(gains: pd.DataFrame) -> tuple[str, int]:
    """How many significant gains and harms there are in words, and how many are neither."""
    points = gains.points[gains.significant]
    n_gains, n_harms = int((points > 0).sum()), int((points < 0).sum())
    return f"{_count(n_gains, 'gains')} and {_count(n_harms, 'harms')}", len(gains) - n_gains - n_harms


def _not_counted(study: StudyResults, claims: Claims) -> str:
    """The pairs that may not be claimed by target and why: the significant ones, or all where none is significant."""
    others = claims.others
    if others.empty:
        return ""
    significant = others[others.significant]
    n_gains, n_harms = (int((sign * significant.points > 0).sum()) for sign in (1, -1))
    shown = significant if len(significant) else others
    places = list(dict.fromkeys(zip(shown.target, shown.setting, shown.why, strict=True)))
    named = [
        f"{study.title(target)}{_with(setting)} ({why}{' pairs' if why in ('collapsed', 'contaminated') else ''})"
        for target, setting, why in places[:MOST_NAMED]
    ]
    named += [f"{len(places) - MOST_NAMED} more"] if len(places) > MOST_NAMED else []
    counts = [
        f"{n} more significant {noun if n != 1 else noun[:-1]}"
        for n, noun in ((n_gains, "gains"), (n_harms, "harms"))
        if n
    ]
    subject = " and ".join(counts) or f"{counted(len(others), 'transfer')}, none of them significant"
    last = f" and {named[-1]}" if len(named) > 1 else named[0]
    return f"; not counted {_be(len(significant) or len(others))} {subject}, onto {', '.join(named[:-1])}{last}"


def _with(setting: str) -> str:
    """A setting with less data, in words."""
    return "" if setting == "full" else f" with {setting} of the data"


def _count(number_of: int, noun: str) -> str:
    return f"{number_of or 'no'} {noun if number_of != 1 else noun[:-1]}"


def _extremes(study: StudyResults, tested: pd.DataFrame) -> Iterator[str]:
    """The largest gain and the largest harm, each with its interval."""
    for noun, extreme in (("gain", "idxmax"), ("harm", "idxmin")):
        row = tested.loc[getattr(tested.points, extreme)()] if len(tested) else None
        if row is not None and (row.points > 0) == (noun == "gain") and row.points != 0:
            verdict = "significant" if row.significant else "not significant"
            yield (
                f"Largest {noun}: {study.title(row.intermediate)} -> {study.title(row.target)}{_with(row.setting)},"
                f" {signed(row.points, 1)} points (95 % interval {interval(row.low, row.high, 1)}), {verdict}."
            )


def findable(visible: pd.DataFrame) -> Iterator[str]:
    """The smallest gain that single tests would mostly find: the median target's, and the range.

    Of targets that have learned, where that is known of any.
    """
    if len(visible) and visible.target_has_learned.notna().any():
        visible = visible[visible.target_has_learned.fillna(False).astype(bool)]
    sizes = visible.visible.dropna() if len(visible) else pd.Series(dtype="float64")
    if len(sizes):
        span = f" ({interval(sizes.min(), sizes.max(), 1)} over targets)" if len(sizes) > 1 else ""
        yield (
            f"A single test finds a true gain of {number(sizes.median(), 1)} points{span} in four of five repeats;"
            " smaller ones are mostly missed."
        )


def explanation(answer: ImportanceReport, question: Question) -> Iterator[str]:
    """Whether ratings explain gains, and the slope that would have been seen."""
    headline = str(answer.facts["headline"])
    yield f"{headline[0].upper()}{headline[1:]}."
    slopes: list[dict[str, Any]] = answer.facts.get("slopes", [])
    tested = [row for row in slopes if row["question"] == SIGNED and row["verdict"] != NOT_TESTED]
    sizes = [row["detectable"] for row in tested if row["detectable"] is not None]
    if sizes:
        least, most = (fixed(size, 1) for size in (min(sizes), max(sizes)))
        which = "a rating" if len(sizes) == len(tested) else f"{len(sizes)} of {len(tested)} ratings"
        is_measured = question.results.errors == "measured"
        errors = "" if is_measured else ", by standard errors that are approximated from the scores"
        yield (
            f"A slope of {least if least == most else f'{least} to {most}'} points per step of {which} would have been"
            f" found in four of five such studies{errors}."
        )


def _cautions(reasons: Iterable[str]) -> str:
    return f"Reasons for caution: {'; '.join(reasons) or 'none of those that are checked here'}."


def _reasons(study: StudyResults, cells: pd.DataFrame, tested: pd.DataFrame) -> Iterator[str]:
    """Whatever limits what the gains above may be taken for, the gravest first."""
    if study.manifest["synthetic"]:
        yield "the texts are made up"
    if missing := int((cells.status != "done").sum()):
        yield f"{counted(missing, 'cell')} {_be(missing)} not finished"
    yield from _of_one_run((tested.seed_error == 0) & (tested.n_seeds == 1), "gain")
    alone = cells[(cells.role == BASELINE) & cells.collapsed.notna()]
    if len(study.gains):  # of which some tasks may be intermediates alone
        alone = alone[alone.target.isin(study.gains.target)]
    runs = alone.groupby("target", sort=False).collapsed.agg(["sum", "size"])
    if titles := [study.title(name) for name in runs.index[runs["sum"] == runs["size"]]]:
        named, which = (titles[0], "") if len(titles) == 1 else (counted(len(titles), "target"), f": {few(titles)}")
        yield f"{named} alone learned nothing (collapsed{which})"
    if some := [f"{study.title(name)} ({n} of {every})" for name, n, every in runs.itertuples() if 0 < n < every]:
        yield f"runs of the target alone collapsed: {few(some)}"
    # Trainings that may not have come to their end.
    flags = cells.is_still_learning.dropna()
    if len(flags) and flags.mean() > MANY_LEARNING:
        yield f"{percent(flags.mean())} of the cells are best at their last epoch, and more epochs may change them"
    # How many gains are of collapsed cells, contaminated or on dead intermediates, and families that share texts.
    if len(tested) and tested.contaminated.isna().all():
        yield "contamination was not measured"
    for flag, text in (
        ("collapsed", "with a collapsed run, of their own or of the target alone"),
        ("contaminated", "on test items that are training material too"),
        ("dead_intermediate", "with an intermediate that hardly changes anything"),
    ):
        if count := int(tested[flag].fillna(False).astype(bool).sum()):
            yield f"{count} of {len(tested)} gains {_be(count)} {text}"
    if apart := _shared_by_families(study, tested):
        yield f"tests over families take for unrelated what shares texts ({few(apart)}): give both one `family`"


def _shared_by_families(study: StudyResults, tested: pd.DataFrame) -> list[str]:
    """Tasks of two families that share test items: what takes families for unrelated does not know of it."""
    family = {name: task["family"] for name, task in study.manifest["tasks"].items()}
    shared = contaminated_pairs(study.store, study.manifest) or set()
    pairs = {tuple(sorted((pair.intermediate, pair.target))) for pair in tested.itertuples()}
    apart = sorted({(a, b) for a, b in pairs if family[a] != family[b] and shared & {(a, b), (b, a)}})
    return [" and ".join(map(study.title, pair)) for pair in apart]


def _reasons_of_board(study: StudyResults, board: pd.DataFrame) -> Iterator[str]:
    """What limits a comparison of systems: one training run, few groups, answers that leak."""
    yield from _of_one_run(board.n_seeds <= 1, "score")
    small = board[board.n_groups < FEW_GROUPS].drop_duplicates("target")
    if len(small):
        named = [f"{study.title(row.target)} ({row.n_groups})" for row in small.itertuples()]
        yield f"few groups of test rows: {few(named)}"
    if leaking := list(dict.fromkeys(board.system[board.is_leaking])):
        yield f"{few(leaking)} predicted test rows from their own answers and {_be(len(leaking))} not ranked"


def _of_one_run(marks: pd.Series, noun: str) -> Iterator[str]:
    if single := int(marks.sum()):
        which = f"every {noun} is" if single == len(marks) else f"{single} of {len(marks)} {noun}s {_be(single)}"
        yield f"{which} from one training run, and another seed may give another"


def _next(cells: pd.DataFrame, step: str) -> str:
    """The step that would add most to what can be said: before any other, what is missing."""
    is_whole = (cells.status == "done").all()
    return f"Next: {step if is_whole else 'finish the cells that are missing, by the command that began them'}."


def _titles(study: StudyResults, rows: pd.DataFrame) -> str:
    return few([study.title(target) for target in dict.fromkeys(rows.target)])


def _be(number_of: int) -> str:
    return "is" if number_of == 1 else "are"
