"""The parts of the page as plain JSON: intermediates, maps, targets, evidence on a cell, and a study in a notebook.

What is undefined is null, never NaN. Maps are the squares of the drawn ones, below them the controls, each with what
hovering says. A target has all its intermediates, sorted by their gain; of a study they come with interval, p and
verdict, of printed scores, which have neither, with whole points alone. Evidence is what a reader checks before
believing a cell: doubts about its training curve, and the answers that it changed.
"""

import base64
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adapters_store.record import Record
from adapters_store.roles import BASELINE, MERGED, TRANSFER
from analysis.figures import heatmaps as figures
from analysis.figures.forest import forest_frame, forest_plan
from analysis.figures.heatmaps import METRIC_NAMES, Square
from analysis.figures.plan import POINTS_PER_CM, plain_plan, svg_of_plan
from analysis.figures.uncertainty_map import MAP, ORDERS, map_frame, map_plan, map_title
from analysis.gains.cells import Manifest, Predictions, predictions
from analysis.gains.flips import WORDS, changes_by_class, sign_p
from analysis.gains.significance import p_text
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import Block, Bullets, Fold, Heading, Picture, Section, Table, Text
from analysis.sections.gains import control_name, verdict
from analysis.tables import as_written, bare, count, fixed, interval, number, signed
from tasks.plain_text import counted, harmless

WRITTEN_DIGITS = 10  # as in the CSV files


def plain(value: Any) -> Any:  # noqa: ANN401 - a value of any frame
    """A value of a frame as JSON has it: undefined or infinite is None, fractions have 10 significant digits."""
    if value is None or value is pd.NA:
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.{WRITTEN_DIGITS}g}") if np.isfinite(value) else None
    return str(value)


def plain_frame(frame: pd.DataFrame, columns: Sequence[str]) -> dict[str, Any]:
    """Columns of a frame as ``{"columns": [names], "rows": [[values]]}``."""
    rows = zip(*(frame[name] for name in columns), strict=True)
    return {"columns": list(columns), "rows": [[plain(value) for value in row] for row in rows]}


def page_id(role: str, intermediate: str | None, target: str, setting: str) -> str:
    """The address of a cell's page behind ``#/cell/``; seeds share a page."""
    return "/".join(quote(part, safe="") for part in (role, intermediate or "-", target, setting))


# Sections as JSON, so that a page can show them without reading Markdown.


def plain_sections(sections: Iterable[Section]) -> list[dict[str, Any]]:
    """Sections by their titles, with a mapping for every block: its kind and what it holds."""
    return [
        {"title": section.title, "blocks": [plain_block(block) for block in section.blocks]} for section in sections
    ]


def plain_block(block: Block) -> dict[str, Any]:
    """A block of the kind heading, text, quote, list, table, figure or fold; runs are ``[[text, is_strong], ...]``."""
    match block:
        case Heading():
            return {"kind": "heading", "level": 1, "text": block.text}
        case Text():
            return {"kind": "quote" if block.is_quote else "text", "runs": [list(run) for run in block.runs]}
        case Bullets():
            return {"kind": "list", "items": [[[point, False]] for point in block.points]}
        case Table():
            head, *rows = [[cell.strip() for cell in row] for row in block.texts()]
            return {"kind": "table", "head": head, "rows": rows}
        case Picture():
            return {"kind": "figure", "title": block.title, "file": block.file}
        case Fold():
            return {"kind": "fold", "title": block.title, "blocks": list(map(plain_block, block.blocks))}


DRAWS = 2000  # resamples: the ends of an interval move by less than a rank from seed to seed
FEWEST = 5  # targets or families, below which resampling them says nothing about others
SHARE = 0.95  # of the resamples, whose ranks an interval covers
DIGITS = 9  # of points: gains that differ by less are equal, their difference is that of sums in another order
Grid = NDArray[np.float64]


def leaderboards(study: StudyResults) -> list[dict[str, Any]]:
    """Per setting the intermediates from the first rank down, with their numbers as written, and what was resampled."""
    families = {name: str(task.get("family") or name) for name, task in study.manifest["tasks"].items()}
    titles = {name: study.title(name) for name in families}
    by_setting = study.gains.groupby("setting", sort=False)
    boards = [board_of(str(setting), gains, families, titles, is_tested=True) for setting, gains in by_setting]
    return [board for board in boards if board["rows"]]


def board_of(
    setting: str, gains: pd.DataFrame, families: Mapping[str, str], titles: Mapping[str, str], *, is_tested: bool
) -> dict[str, Any]:
    """The leaderboard of the gains of one setting; of those that are not tested nothing is counted as significant."""
    grid = gains.pivot(index="intermediate", columns="target", values="points")
    is_clustered = len({families[target] for target in grid.columns}) >= FEWEST
    units = [families[target] if is_clustered else target for target in grid.columns]
    board = leaders(grid.to_numpy(dtype=np.float64), units).set_axis(grid.index)
    significant = gains[gains.significant]
    board["gains"] = significant[significant.points > 0].groupby("intermediate").size()
    board["harms"] = significant[significant.points < 0].groupby("intermediate").size()
    ranked = board[board["rank"].notna()].sort_values("rank", kind="stable")
    return {
        "setting": setting,
        "resampled": "" if len(set(units)) < FEWEST else "families of targets" if is_clustered else "targets",
        "tested": is_tested,
        "rows": [_intermediate_row(str(name), titles[str(name)], row, is_tested) for name, row in ranked.iterrows()],
    }


def leaders(points: Grid, units: list[str], *, draws: int = DRAWS, seed: int = 1) -> pd.DataFrame:
    """One row per intermediate: mean (gain in points), advantage, n (targets), rank, and the rank's low and high.

    ``points`` ``[intermediates, targets]`` are gains, NaN where there is none. The advantage is the mean over the
    targets of the gain less what intermediates gain on that target on average, so that nobody is ahead for having easy
    targets. Rank 1 has the largest; equal ones share the mean of their ranks. The interval holds SHARE of the ranks
    when ``units`` of targets (``[targets]``, the name of each one's unit) are drawn anew with replacement, NaN if they
    are fewer than FEWEST: a percentile bootstrap (Efron and Tibshirani 1993, chapter 13).
    """
    is_known = np.isfinite(points)
    n: NDArray[np.int64] = is_known.sum(axis=1)
    sums = is_known.sum(axis=0)
    means = np.divide(np.nansum(points, axis=0), sums, out=np.zeros(len(sums)), where=sums > 0)
    ahead = np.where(is_known, points - means, 0.0)
    board = pd.DataFrame({"mean": _ratio(np.nansum(points, axis=1), n), "advantage": _ratio(ahead.sum(axis=1), n)})
    board["n"] = n
    board["rank"] = board.advantage.round(DIGITS).rank(ascending=False)
    names, members = np.unique(units, return_inverse=True)
    if len(names) < FEWEST:
        return board.assign(low=np.nan, high=np.nan)
    rng = np.random.default_rng(seed)
    times = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=draws)[:, members].astype(np.float64)
    drawn = pd.DataFrame(_ratio(times @ ahead.T, times @ is_known.T)).round(DIGITS).rank(axis=1, ascending=False)
    tail = (1 - SHARE) / 2
    low, high = (drawn.quantile(share, interpolation=side) for share, side in ((tail, "lower"), (1 - tail, "higher")))
    return board.assign(low=low, high=high)


def _ratio(sums: Grid, counts: NDArray[Any]) -> Grid:
    """Means of sums; NaN where nothing was counted."""
    means: Grid = np.divide(sums, counts, out=np.full(np.shape(sums), np.nan), where=counts > 0)
    return means


def _intermediate_row(name: str, title: str, row: pd.Series, is_tested: bool) -> dict[str, Any]:
    numbers = {part: plain(row[part]) for part in ("rank", "low", "high")}
    interval = "" if numbers["low"] is None else f"{_rank(row.low)} to {_rank(row.high)}"
    tested = [count(0 if pd.isna(row[part]) else row[part]) for part in ("gains", "harms") if is_tested]
    texts = [_rank(row["rank"]), interval, signed(row.advantage, 1), signed(row["mean"], 1), count(row.n), *tested]
    return {"intermediate": name, "title": title, **numbers, "texts": texts}


def _rank(value: float) -> str:
    return fixed(value, 0 if float(value).is_integer() else 1)


ARROW = "\u2192"
Row = Mapping[str, Any]


def glances(study: StudyResults) -> list[dict[str, Any]]:
    """The uncertainty map of every setting by family and, where that is another map, by median, with its ids.

    The first marks of the layer ``ground`` are the places, row by row.
    """
    frames = {
        (setting, order): map_frame(study.gains, study.manifest, setting=setting, order=order)
        for setting in dict.fromkeys(study.gains.setting)
        for order in ORDERS
    }
    return [
        {
            "setting": setting,
            "order": order,
            "rows": list(dict.fromkeys(frame.intermediate)),
            "columns": list(dict.fromkeys(frame.target)),
            "plan": plain_plan(map_plan(frame, map_title(study.gains, study.manifest, setting))),
        }
        for (setting, order), frame in frames.items()
        if order == ORDERS[0] or not frame.equals(frames[setting, ORDERS[0]])
    ]


def heatmaps(study: StudyResults) -> list[dict[str, Any]]:
    """One map per metric and setting: rows and columns by id, and a square for each of their meetings.

    A square's ``hover`` are lines of text, ``page`` the address of its cell's page or None.
    """
    alone = figures.of_targets(study.baselines, study.gains)
    return [
        _map(study, metric, setting)
        for metric in METRIC_NAMES
        for setting in dict.fromkeys(alone.setting[alone.metric == metric])
    ]


def _map(study: StudyResults, metric: str, setting: str) -> dict[str, Any]:
    squares = figures.squares(study.gains, study.baselines, study.manifest, metric=metric, setting=setting)
    title = figures.figure_title(study.gains, study.manifest, metric=metric, setting=setting)
    alone, gained = _by_pair(study.baselines, metric, setting), _by_pair(study.gains, metric, setting)

    def shown(square: Square) -> dict[str, Any]:
        if square.intermediate == "":
            return _alone(square, alone["", square.target])
        return _pair(square, gained.get((square.intermediate, square.target)), setting)

    extra = []
    controls = study.controls[(study.controls.metric == metric) & (study.controls.setting == setting)]
    for control in controls.to_dict("records"):
        name = control_name(study, control["control"], control["intermediate"])
        extra.append(((f"{control['control']}:{name}", name, "control"), control))
    for merged in study.merged[(study.merged.metric == metric) & (study.merged.setting == setting)].to_dict("records"):
        name = f"merged: {merged['row']}"
        extra.append(((name, name, "merged"), {**merged, "control": MERGED, "intermediate": merged["row"]}))
    whole = map_of(squares, metric, setting, title, shown, [row for row, _ in extra])
    whole["squares"] += [_control(study, gain, *row[:2]) for row, gain in extra]
    return whole


def map_of(
    squares: pd.DataFrame,
    metric: str,
    setting: str,
    title: str,
    shown: Callable[[Square], dict[str, Any]],
    below: Iterable[tuple[str, str, str]] = (),
) -> dict[str, Any]:
    """The map of these squares, each as it is ``shown``, with the rows (id, title, kind) that stand ``below``."""
    rows = [(row.intermediate, row.row, "transfer" if row.intermediate else "alone") for row in squares.itertuples()]
    columns = zip(squares.target, squares.column, strict=True)
    return {
        "metric": metric,
        "metric_name": METRIC_NAMES[metric],
        "setting": setting,
        "title": title,
        "limit": plain(figures.colour_limit(squares.points)),
        "rows": [dict(zip(("id", "title", "kind"), row, strict=True)) for row in dict.fromkeys([*rows, *below])],
        "columns": [{"id": task, "title": column} for task, column in dict.fromkeys(columns)],
        "squares": [shown(Square(*row)) for row in squares.itertuples(index=False)],
    }


def _by_pair(frame: pd.DataFrame, metric: str, setting: str) -> dict[tuple[str, str], Row]:
    """The rows of gains by (intermediate, target); of adapter baselines by ("", target)."""
    part = frame[(frame.metric == metric) & (frame.setting == setting)]
    part = part[part.role == BASELINE] if "role" in part else part
    return {(row.get("intermediate", ""), row["target"]): row for row in part.to_dict("records")}


def square_of(row: str, target: str, status: str, hover: list[str], page: str | None) -> dict[str, Any]:
    """A square of a map without a number; the row's id is that of its intermediate."""
    shown = {"row": row, "column": target, "status": status, "score": None, "points": None}
    return {**shown, "score_text": "", "points_text": "", "marks": "", "hover": hover, "page": page}


def _alone(square: Square, row: Row) -> dict[str, Any]:
    name = f"{square.column} alone"
    page = page_id(BASELINE, None, square.target, row["setting"])
    if square.status != "baseline":
        return square_of("", square.target, square.status, [name, figures.MEANINGS[square.status]], page)
    hover = [name, f"score {number(row['score'])}, 95 % interval {interval(row['low'], row['high'], 2)}"]
    hover += [f"floor {number(row['floor'])}", *_flags(row)]
    return {**square_of("", square.target, "baseline", hover, page), **numbers_of(row["score"], None)}


def _pair(square: Square, row: Row | None, setting: str) -> dict[str, Any]:
    name, where = f"{square.row} {ARROW} {square.column}", (square.intermediate, square.target, square.status)
    page = None if row is None else page_id(TRANSFER, square.intermediate, square.target, setting)
    if row is None or square.status == "missing":
        return square_of(*where, [name, figures.MEANINGS[square.status]], page)
    tested = f"p {p_text(row['p'], 4)}, p (BH) {p_text(row['p_bh'], 4)}"
    hover = [name, verdict(row), *_gain_lines(row), tested, *_flags(row)]
    if square.status != "done":
        hover.insert(1, figures.MEANINGS[square.status])
    marks = "*" * square.is_significant + figures.DAGGER * square.is_collapsed
    marks += figures.DOUBLE_DAGGER * square.is_contaminated
    return {**square_of(*where, hover, page), **numbers_of(square.score, square.points), "marks": marks}


def _control(study: StudyResults, row: Row, row_id: str, title: str) -> dict[str, Any]:
    name = f"{title} {ARROW} {study.title(row['target'])}"
    page = page_id(row["control"], row["intermediate"], row["target"], row["setting"])
    if row["n_seeds"] == 0:
        return square_of(row_id, row["target"], "missing", [name, figures.MEANINGS["missing"]], page)
    status = "control" if plain(row["score"]) is not None else "undefined"
    hover = [name, *_gain_lines(row), f"p {p_text(row['p'], 4)}, not corrected", *_flags(row)]
    return {**square_of(row_id, row["target"], status, hover, page), **numbers_of(row["score"], row["points"])}


def _gain_lines(row: Row) -> list[str]:
    return [
        f"score {number(row['score'])}, target alone {number(row['baseline'])}",
        f"gain {number(row['points'], 1)} points, 95 % interval {interval(row['low'], row['high'], 1)}",
    ]


def _flags(row: Row) -> list[str]:
    return [f"flags: {row['flags'].replace(';', ', ')}"] if row["flags"] else []


def numbers_of(score: float, points: float | None) -> dict[str, Any]:
    """The score and, of a transfer, the gain: as numbers for the colour, and as written into a square."""
    texts = {"score_text": "" if plain(score) is None else bare(score)}
    texts["points_text"] = "" if points is None or plain(points) is None else signed(points, 1)
    return {"score": plain(score), "points": plain(points), **texts}


FULL = "full"  # the setting of all training data


def study_html(name: str, counts: Mapping[str, int], gains: pd.DataFrame, manifest: Manifest) -> str:
    """The cells by state (state -> number) and, once a gain of all training data is finished, the map; HTML.

    The map is a picture inside the text, so that two of them in a notebook share no names.
    """
    states = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    head = f"<p><b>{escape(harmless(name))}</b>: {counted(sum(counts.values()), 'cell')} ({escape(states)})</p>"
    if not ((gains.setting == FULL) & (gains.n_seeds > 0)).any():
        return f"<div>{head}<p>No gain yet: a pair of tasks and its target alone must be stored.</p></div>"
    plan = map_plan(as_written(map_frame(gains, manifest, setting=FULL)), map_title(gains, manifest, FULL))
    picture = base64.b64encode(svg_of_plan(plan, f"{MAP}-{FULL}")).decode()
    style = "max-width:100%;background:white"
    return f'<div>{head}<img style="{style}" alt="{escape(plan.alt)}" src="data:image/svg+xml;base64,{picture}"></div>'


NARROW = 300 / POINTS_PER_CM  # cm of a figure whose letters a phone shows without scrolling sideways
HEAD = ("intermediate", "points", "95 % interval", "p (BH)", "verdict", "flags")
SCORES_HEAD = ("intermediate", "score", "points", "flags")
SORTED = "Sorted by their gain. Choose a name for the page of the pair."
NO_INTERVALS = (
    "There are no intervals and no verdicts: of these pairs only scores are known, not the predictions that an interval"
    " is resampled from. The scores were printed with two decimals. So gains are given in whole points, and a"
    " difference of a point may be one of rounding."
)


def targets_of_study(study: StudyResults) -> list[dict[str, Any]]:
    """The page of every target and setting: the forest of all its intermediates as a plan, and the same as a table."""
    drawn = []
    for setting in dict.fromkeys(study.gains.setting):
        frame = forest_frame(study, setting)
        gains = study.gains[study.gains.setting == setting]
        for target, part in frame.groupby("target", sort=False):
            rows = [
                _target_row(page_id(TRANSFER, row["intermediate"], str(target), setting), row, _texts(row))
                for row in _falling(gains, str(target))
            ]
            plan = plain_plan(forest_plan(part, "", width=NARROW, most=None))
            drawn.append(_page(setting, str(target), SORTED, HEAD, rows, plan))
    return drawn


def targets_of_scores(setting: str, gains: pd.DataFrame) -> list[dict[str, Any]]:
    """The page of every target of which only scores are known, with the reason why nothing more is said."""
    drawn = []
    for target in dict.fromkeys(gains.target):
        part = _falling(gains, target)
        alone = f"{bare(part[0]['baseline'])} {METRIC_NAMES[part[0]['metric']]}"
        words = f"Sorted by their gain over the target alone, which scores {alone}. {NO_INTERVALS}"
        rows = [
            _target_row(None, row, [bare(row["score"]), signed(row["points"], 0), _doubt_on_score(row)]) for row in part
        ]
        drawn.append(_page(setting, target, words, SCORES_HEAD, rows, None))
    return drawn


def _page(
    setting: str, target: str, words: str, head: Sequence[str], rows: list[dict[str, Any]], plan: Row | None
) -> dict[str, Any]:
    return {"setting": setting, "target": target, "words": words, "head": list(head), "rows": rows, "plan": plan}


def _falling(gains: pd.DataFrame, target: str) -> list[Row]:
    part = gains[gains.target == target]
    falling = part.points.round(DIGITS).sort_values(ascending=False, kind="stable", na_position="last").index
    rows: list[Row] = part.loc[falling].to_dict("records")
    return rows


def _target_row(page: str | None, row: Row, texts: list[str]) -> dict[str, Any]:
    return {"intermediate": row["intermediate"], "page": page, "texts": texts}


def _texts(row: Row) -> list[str]:
    """A gain's numbers as its own page has them; empty where it is missing."""
    flags = row["flags"].replace(";", ", ")
    if row["n_seeds"] == 0:
        return ["", "", "", "", flags]
    tested = [number(row["points"], 1), interval(row["low"], row["high"], 1), p_text(row["p_bh"], 4)]
    return [*tested, verdict(row), flags]


def _doubt_on_score(row: Row) -> str:
    return ", ".join(name for name in ("collapsed", "contaminated") if not pd.isna(row[name]) and row[name])


# Training curves.

RISE = 0.1  # share by which a training loss may end above its lowest before it is called rising
DOUBTS = {
    "last": "the last epoch is the best: it may not have been trained to its end",
    "rising": f"the training loss ends more than {100 * RISE:.0f} % above its lowest",
    "floor": "validation never rises above the majority-class score (r: 0)",
    "undefined": "a loss or a validation score is not a number",
}
History = Sequence[Sequence[Any]]  # rows of epoch, training loss, validation score; None where undefined


def doubts_of(histories: Sequence[History], best_epoch: int | None, floor: float) -> list[str]:
    """The keys of DOUBTS that hold of a training, in one fold at least; of a single epoch nothing is said of its end.

    ``floor`` is that of the test rows, which stands in for that of the validation rows.
    """
    raised = [_doubts(history, best_epoch if len(histories) == 1 else None, floor) for history in histories]
    return [name for name in DOUBTS if any(name in names for names in raised)]


def _doubts(history: History, best_epoch: int | None, floor: float) -> set[str]:
    epochs = [row[0] for row in history]
    losses, scores = ([row[field] for row in history if row[field] is not None] for field in (1, 2))
    highest = max(history, key=lambda row: -np.inf if row[2] is None else row[2])[0]
    best = highest if best_epoch is None else best_epoch
    holds = {
        "last": len(epochs) > 1 and best == epochs[-1],
        "rising": bool(losses) and losses[-1] > (1 + RISE) * min(losses),
        "floor": bool(scores) and max(scores) <= floor,
        "undefined": len(losses) < len(history) or len(scores) < len(history),
    }
    return {name for name, is_so in holds.items() if is_so}


# Changed answers.


class Changes:
    """The answers of transfers beside those of their targets alone, each file read once."""

    def __init__(self, study: StudyResults, records: Mapping[str, Record]) -> None:
        """``records`` are those of the study's finished cells, by key."""
        self.store, self.manifest, self.records = study.store, study.manifest, records
        self.read: dict[str, Predictions] = {}
        alone = study.cells[(study.cells.role == BASELINE) & (study.cells.status == "done")]
        self.alone = {(cell.target, cell.setting, int(cell.seed)): cell.key for cell in alone.itertuples()}

    def of(self, cells: Sequence[Mapping[str, Any]], answered: Mapping[str, Predictions]) -> dict[str, Any] | None:
        """The changed answers of a pair's finished seeds added up; None where no seed of both is finished.

        ``answered`` are the predictions of its finished cells, by key; of private data there are none.

        ``rows`` are a class, its test rows, and how many became better and worse (of a number all rows together), ``p``
        is that of the exact sign test over all of them, which takes rows as independent; ``moved`` says by how much
        each place of the table of labels and answers grew, as ``counted`` has it; ``command`` shows texts.
        """
        first = cells[0]
        seeds = {int(cell["seed"]): cell["key"] for cell in cells if cell["key"] in answered}
        at = {seed: self.alone.get((first["target"], first["setting"], seed)) for seed in seeds}
        both = [(at[seed], key) for seed, key in seeds.items() if at[seed]]
        if not both or first["role"] != TRANSFER:
            return None
        task = self.manifest["tasks"][first["target"]]
        pairs = [(self._answers(base), answered[top]) for base, top in both if base]
        counts = changes_by_class(pairs, task["metric"], task["classes"])
        rows = list(zip(*(counts[name].tolist() for name in ("class", "n", "better", "worse")), strict=True))
        better, worse = (sum(row[column] for row in rows) for column in (2, 3))
        setting = [] if first["setting"] == "full" else ["--setting", first["setting"]]
        words = ["systems", "flips", self.manifest["name"], first["intermediate"], first["target"], *setting]
        return {
            "words": list(WORDS[task["metric"]]),
            "rows": [[str(name), *map(int, numbers)] for name, *numbers in rows],
            "p": sign_p(better, worse),
            "moved": moves(pairs, len(task["classes"])) if task["metric"] == "macro_f1" else None,
            "seeds": [seed for seed in seeds if at[seed]],
            "command": shlex.join(["empathy-transfer", *words, "--show", "5"]),
        }

    def _answers(self, key: str) -> Predictions:
        if key not in self.read:
            self.read[key] = predictions(self.store, self.records[key])
        return self.read[key]


def moves(pairs: Sequence[tuple[Predictions, Predictions]], n_classes: int) -> list[list[int]]:
    """How many more rows of each label (down) get each answer (across) with the intermediate than without."""
    size = 1 + max(n_classes - 1, *(int(np.max([cell.labels, cell.decisions])) for pair in pairs for cell in pair))
    table = np.zeros((size, size), dtype=np.int64)
    for before, after in pairs:
        np.add.at(table, (after.labels.astype(int), after.decisions.astype(int)), 1)
        np.subtract.at(table, (before.labels.astype(int), before.decisions.astype(int)), 1)
    rows: list[list[int]] = table.tolist()
    return rows
