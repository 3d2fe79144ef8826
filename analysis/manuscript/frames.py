"""What a manuscript is about, and the CSV files that its tables, numbers and figures are made from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adapters_store import disk
from adapters_store.listing import SEARCHES
from adapters_store.record import imports_of, read_signed
from adapters_store.roles import FLOOR, MERGED_ROLES, planned_role
from adapters_store.store import Store
from analysis.figures.drawing import Drawing
from analysis.figures.heatmaps import of_targets
from analysis.figures.paper_figures import paper_figures
from analysis.figures.plan import PlannedFigure
from analysis.figures.register import figures_of
from analysis.gains.baselines import claims
from analysis.gains.significance import LEVEL
from analysis.importance.grid import grid_of
from analysis.importance.mixed_test import why_not as why_no_slopes
from analysis.importance.question import Question, of_published, of_study
from analysis.results.comparisons import context_by_task
from analysis.results.leaderboard import has_systems
from analysis.results.results import ROWS, Results
from analysis.results.study_results import StudyResults
from analysis.sections.answers import all_answers, silent
from analysis.sections.gains import WAYS
from analysis.sections.importance import Progress, declared, paper_tables
from analysis.tables import write_csv
from tasks.errors import BadInput
from tasks.registry import Registry
from tasks.task import Dataset

PUBLISHED_STUDY = {
    "title": "The printed tables of Lahnala et al. (2025)",
    "backbone": "roberta-base",
    "adapter": {"method": "seq_bn"},
    "splits": "as-published",
}
NO_TASKS: Mapping[str, Mapping[str, Any]] = {}
NO_TRANSFER = "no transfer is planned"


@dataclass(frozen=True)
class Subject:
    """A question to results, the data sets behind their tasks as entries know them, and the study, if one is stored.

    ``unknown`` names the entries that could not be read, each with the reason. ``searches`` are the finished ones, and
    ``imports`` the specs of the adapters of others that targets stand on, by name.
    """

    question: Question
    datasets: Mapping[str, Dataset]
    stored: StudyResults | None = None
    unknown: tuple[str, ...] = ()
    searches: tuple[Mapping[str, Any], ...] = ()
    imports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def results(self) -> Results:
        """The results with all training data."""
        return self.question.results

    @property
    def study(self) -> Mapping[str, Any]:
        """The resolved study; of the paper's tables what is known of theirs."""
        return self.stored.manifest["study"] if self.stored else PUBLISHED_STUDY

    @property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """The manifest's facts of every task; none for the paper's tables."""
        return self.stored.manifest["tasks"] if self.stored else NO_TASKS

    @property
    def recipes(self) -> Mapping[str, Mapping[str, Any]]:
        """The recipes of the study's merged rows, by name: those of the first cell that each has."""
        recipes: dict[str, Mapping[str, Any]] = {}
        for cell in self.stored.manifest["cells"] if self.stored else ():
            if planned_role(cell) in MERGED_ROLES:
                recipes.setdefault(cell["intermediate"], cell["merge"])
        return recipes

    def why_no_slopes(self) -> str | None:
        """Why the mixed model can say nothing of ratings; None if it can."""
        if self.results.gains.empty:
            return NO_TRANSFER
        specification = self.question.primary.specification
        return why_no_slopes(grid_of(self.results, specification, self.question.similarities))

    @property
    def title(self) -> str:
        """The study's title, or its name."""
        return str(self.study.get("title") or self.results.name)


def published() -> Subject:
    """The paper's printed tables."""
    question = of_published(Path())
    datasets, unknown = _datasets(list(question.results.tasks.task), ())
    return Subject(question, datasets, unknown=unknown)


def stored_study(store: Store, manifest: Mapping[str, Any]) -> Subject:
    """A stored study; CorruptRecord or MixedRecords if what is stored cannot be trusted."""
    study = StudyResults.of(store, manifest)
    datasets, unknown = _datasets(list(study.tasks), study.manifest["study"].get("registry", ()))
    imports = {name: study.store.get(key).spec for name, key in imports_of(study.manifest).items()}
    # The finished searches of a study's training settings: their task, inputs and trials.
    journals = []
    for path in sorted((study.store.root / SEARCHES / study.manifest["name"]).rglob("result.json")):
        content = read_signed(disk.content(path))
        if content is None:
            raise BadInput(f"{path}: not as it was written; move it away, or run the search again")
        journals.append(content)
    return Subject(of_study(study, Path()), datasets, study, unknown, tuple(journals), imports)


def _datasets(tasks: list[str], folders: tuple[str, ...] | list[str]) -> tuple[dict[str, Dataset], tuple[str, ...]]:
    """The data set of every task that an entry describes, and why others are not known."""
    try:
        entries, reason = Registry.load([Path(folder) for folder in folders]).tasks, "no entry has this id"
    except BadInput as problem:
        entries, reason = Registry.load().tasks, f"the study's own entries cannot be read ({problem})"
    datasets = {name: entries[name].dataset for name in tasks if name in entries}
    return datasets, tuple(f"{name}: {reason}" for name in tasks if name not in entries)


NamedFrames = dict[str, pd.DataFrame]
Figures = list[Drawing | PlannedFigure]


BESIDE = ("controls", "control_means", "merged", "merged_means", "learned")  # frames of a stored study beside its gains
INTERVAL = ["points", "low", "high", "standard_error", "df", "p", "p_bh", "p_max_grid"]
EXTREMES, TOP = "best_and_worst", 3
BEST, WORST = "best", "worst"
SPLITS = ("train", "validation", "test")
DRAWN = ("draws", "draws_most", "gains_drawn_more")


def write_data(subject: Subject, out: Path, progress: Progress = silent) -> tuple[Figures, NamedFrames]:
    """Write every frame into ``out`` as CSV: those of the report, and those that only a manuscript needs.

    Returned are the figures that there is something to draw of, none of them drawn, and the frames as they are read
    from their files; what else lies in ``out`` is not read.
    """
    _, sections = all_answers(subject.question, "guarded", progress)
    frames = paper_tables(subject.question) | {name: frame for part in sections for name, frame in part.frames.items()}
    if subject.stored and (asked := declared(subject.stored, subject.question, frames["mixed_slopes"])):
        frames |= asked.frames
    figures = [*(figures_of(subject.stored) if subject.stored else ()), *paper_figures(subject.question)]
    figures = [figure for figure in figures if figure.caption]
    further = {**{figure.name: figure.frame for figure in figures}, **_further(subject)}
    frames |= {name: frame for name, frame in further.items() if len(frame)}
    for name, frame in frames.items():
        write_csv(frame, out / name)
    figures += [figure for part in sections for figure in part.figures]
    return figures, read_data(out / f"{name}.csv" for name in frames)


def read_data(paths: Iterable[Path]) -> NamedFrames:
    """The frames of these files by name; empty text stays empty."""
    frames = {}
    for path in paths:
        frame = pd.read_csv(path, dtype={"intermediate": object})  # empty throughout where no transfer is there
        texts = [name for name in frame if frame[name].dtype == object or str(frame[name].dtype).startswith("str")]
        frames[path.stem] = frame.fillna(dict.fromkeys(texts, ""))
    return frames


def _further(subject: Subject) -> NamedFrames:
    frames = {
        "pairs": pairs(subject),
        EXTREMES: best_and_worst(subject),
        "alone": alone(subject),
        "data_sets": data_sets(subject),
        "run": pd.DataFrame(_facts(subject).items(), columns=["fact", "value"]),
    }
    if subject.stored:
        tested = subject.stored.gains[subject.stored.gains.p.notna()]
        frames["visible_gains"] = subject.stored.visible
        frames["gains"] = tested[["intermediate", "target", "setting", *INTERVAL]]
        frames["error_parts"] = error_parts(tested)
        frames |= {name: getattr(subject.stored, name) for name in BESIDE}
        frames["cells"] = subject.stored.planned
        frames["corrections"] = corrections(tested)
        if len(probed := subject.stored.probes):
            frames |= {"probes": probed, "context_sensitivity": context_by_task(probed, subject.stored.gains)}
        frames |= subject.stored.leaderboard.frames if has_systems(subject.stored.manifest) else {}
    return frames


def pairs(subject: Subject) -> pd.DataFrame:
    """One row per (intermediate, target, setting): scores, points gained, p values and doubts."""
    parts = [results.gains.assign(setting=results.setting) for results in (subject.results, *subject.question.limited)]
    frame = pd.concat(parts, ignore_index=True)
    frame = frame.assign(points=100 * frame.gain, significant=frame.p_bh <= LEVEL)
    columns = ["intermediate", "target", "setting", "metric", "n_seeds", "score", "baseline", "points", "percent"]
    return frame[[*columns, "p", "p_bh", "significant", "collapsed", "contaminated"]]


def best_and_worst(subject: Subject) -> pd.DataFrame:
    """Up to TOP best and TOP worst finished gains of every target and setting, no gain at both ends, best first.

    Columns: target, setting, end (best or worst), place (1: the very best or worst), intermediate, points, low and high
    (of the 95 % interval, in points) and p_max_grid, where they are known.
    """
    columns = ["target", "setting", "end", "place", "intermediate", "points", "low", "high", "p_max_grid"]
    gains = subject.stored.gains if subject.stored else pairs(subject)
    parts = [_ends(part) for _, part in gains[gains.points.notna()].groupby(["setting", "target"], sort=False)]
    return pd.concat(parts, ignore_index=True).reindex(columns=columns) if parts else pd.DataFrame(columns=columns)


def _ends(gains: pd.DataFrame) -> pd.DataFrame:
    """The best of a target's gains, then the worst, each counted from its end; the best half is larger if odd."""
    ranked = gains.sort_values(["points", "intermediate"], ascending=[False, True])
    n_best = min(TOP, (len(ranked) + 1) // 2)
    n_worst = min(TOP, len(ranked) - n_best)
    best, worst = ranked.head(n_best), ranked.tail(n_worst)
    return pd.concat(
        [best.assign(end=BEST, place=range(1, n_best + 1)), worst.assign(end=WORST, place=range(n_worst, 0, -1))]
    )


def alone(subject: Subject) -> pd.DataFrame:
    """One row per target and setting: its score alone, with interval and floor where predictions are stored."""
    columns = ["target", "setting", "metric", "n_seeds", "score", "low", "high", "floor", "n_test", "n_groups"]
    if subject.stored:
        return of_targets(subject.stored.baselines, subject.stored.gains).reindex(columns=columns)
    first = pairs(subject).drop_duplicates(["target", "setting"]).rename(columns={"baseline": "alone"})
    tests = subject.results.tasks.set_index("task").n_test
    rows = first.assign(score=first.alone, n_test=first.target.map(tests))
    order = {task: position for position, task in enumerate(subject.results.tasks.task)}
    rows = rows.sort_values("target", key=lambda column: column.map(order), kind="stable")
    return rows.reindex(columns=columns)


def data_sets(subject: Subject) -> pd.DataFrame:
    """One row per task: its data set, kind, splits, licence (of made-up texts none), and whether it is private."""
    rows, synthetic = [], subject.results.is_synthetic
    for task in subject.results.tasks.itertuples():
        dataset, fact = subject.datasets.get(task.task), subject.tasks.get(task.task, {})
        rows.append(
            {
                "task": task.task,
                "title": task.title,
                "dataset": dataset.title if dataset else task.dataset,
                "family": task.family,
                "theme": task.theme,
                "kind": fact.get("kind", task.task_type),
                "metric": task.metric,
                "n_labels": task.n_labels,
                **_sizes(subject, task.task, fact),
                "language": fact.get("language", dataset.language if dataset else ""),
                "licence": "" if synthetic else fact.get("licence", dataset.licence if dataset else "") or "unstated",
                "private": bool(fact.get("private", dataset.private if dataset else False)),
                "url": dataset.url if dataset and not synthetic else "",
            }
        )
    return pd.DataFrame(rows)


def error_parts(tested: pd.DataFrame) -> pd.DataFrame:
    """One row per metric and setting: the median standard error of gains, in points, and its part from items and seeds.

    Columns: metric, setting, n_pairs, standard_error, run_error (test items, runs as they are), seed_error.
    """
    medians = tested.groupby(["metric", "setting"], sort=False)[["standard_error", "run_error", "seed_error"]].median()
    sizes = tested.groupby(["metric", "setting"], sort=False).size().rename("n_pairs")
    return pd.concat([sizes, medians], axis=1).reset_index()


def corrections(tested: pd.DataFrame) -> pd.DataFrame:
    """One row per way to correct for many tests: how many gains and harms it leaves."""
    rows = [
        (way, noun, int((kept > 0).sum()), int((kept < 0).sum()))
        for way, noun in WAYS.items()
        for kept in [tested.points[tested[way] <= LEVEL]]
    ]
    return pd.DataFrame(rows if len(tested) else [], columns=["way", "meaning", "gains", "harms"])


def _sizes(subject: Subject, task: str, fact: Mapping[str, Any]) -> dict[str, Any]:
    """Rows of each split: counted, or of the paper's tables rounded from its printed shares."""
    if fact:
        return {f"n_{part}": fact[f"n_{part}"] for part in SPLITS}
    labels, samples = subject.results.labels, subject.results.tasks.set_index("task").samples
    shares = labels[(labels.task == task) & (labels.kind == ROWS)].set_index("split").value
    return {f"n_{part}": round(float(samples[task]) * float(shares[part]) / 100) for part in SPLITS}


def _facts(subject: Subject) -> dict[str, float]:
    """Numbers about the whole study, by name; what is not known is not a number."""
    frame, tasks = pairs(subject), subject.results.tasks
    tested = frame[frame.p_bh.notna()]
    has_p = len(tested) > 0
    facts = {
        "tasks": len(tasks),
        "data_sets": tasks.dataset.nunique(),
        "families": tasks.family.nunique(),
        "targets": frame.target.nunique(),
        "intermediates": frame.intermediate.nunique(),
        "pairs_planned": len(frame),
        "pairs_finished": int((frame.n_seeds > 0).sum()),
        "pairs_tested": len(tested),
        "pairs_above": int((frame.points > 0).sum()),
        "pairs_below": int((frame.points < 0).sum()),
        "significant_gains": int((tested.points[tested.significant] > 0).sum()) if has_p else np.nan,
        "significant_harms": int((tested.points[tested.significant] < 0).sum()) if has_p else np.nan,
        "median_points": frame.points.median(),
        "largest_gain": frame.points.max(),
        "largest_harm": frame.points.min(),
        "collapsed_pairs": _mark_count(frame.collapsed),
        "contaminated_pairs": _mark_count(frame.contaminated),
        "raters": subject.results.ratings.rater.nunique(),
    }
    return facts | _claims(subject.stored) | _costs(subject)


def _claims(stored: StudyResults | None) -> dict[str, float]:
    """How many targets have learned, what is counted of the gains onto these, and how many cells are still learning."""
    names = ("targets_learned", "counted_pairs", "counted_gains", "counted_harms", "cells_still_learning")
    if stored is None:
        return dict.fromkeys(names, np.nan)
    has_learned, counted = stored.learned.has_learned, claims(stored.gains, stored.learned).counted
    points, last = counted.points[counted.significant], stored.cells.is_still_learning
    gains, harms = ((sign * points > 0).sum() for sign in (1, -1))
    values = (_mark_count(has_learned), len(counted), gains, harms, _mark_count(last))
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _mark_count(marks: pd.Series) -> float:
    """How many pairs have a mark; not a number where nobody looked for it."""
    return float(marks.fillna(False).astype(bool).sum()) if marks.empty or marks.notna().any() else np.nan


def _costs(subject: Subject) -> dict[str, float]:
    """Cells, hours and sizes, from the records."""
    if subject.stored is None:
        names = ("cells_planned", "cells_finished", "seeds", "hours", "processor_hours", *DRAWN)
        return dict.fromkeys((*names, "trained_parameters_least", "trained_parameters_most"), np.nan)
    records, study = subject.stored.records, subject.study
    adapters = [record.results for record in subject.stored.adapters]
    sizes = [result["trainable_parameters"] for result in adapters if "trainable_parameters" in result]
    draws = subject.stored.gains.draws[subject.stored.gains.p.notna()]
    drawn = (draws.min(), draws.max(), (draws > draws.min()).sum()) if len(draws) else [np.nan] * 3
    spent = [provenance.provenance for provenance in records]
    return {
        "cells_planned": int((subject.stored.planned.role != FLOOR).sum()),
        "cells_finished": len(records),
        "seeds": len(study.get("seeds", ())),
        "hours": sum(provenance["wall_seconds"] for provenance in spent) / 3600,
        "processor_hours": sum(provenance.get("cpu_seconds", np.nan) for provenance in spent) / 3600,
        **dict(zip(DRAWN, drawn, strict=True)),
        "trained_parameters_least": min(sizes, default=np.nan),
        "trained_parameters_most": max(sizes, default=np.nan),
    }
