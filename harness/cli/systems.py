"""``systems leaderboard`` and ``flips``: ways to solve tasks on one footing, and item by item."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from harness.cli.options import STORED, Leaves, add_options, leaf_of, out_option, repeatable
from harness.cli.study import name_of, splits_of
from harness.cli.terminal import print_json, print_rows, records
from harness.sharing.stored import open_study
from tasks.errors import BadInput
from tasks.plain_text import harmless, nearest
from tasks.task import Example

if TYPE_CHECKING:
    import pandas as pd

    from analysis.gains.flips import Flips


def add(leaves: Leaves) -> None:
    """Add ``leaderboard`` and ``flips``."""
    text = "Rank all systems of a study beside its adapters, task by task, with paired tests, from the store alone."
    board = leaf_of(leaves, "leaderboard STUDY", text, "systems leaderboard demo", show_leaderboard, "store json")
    board.add_argument("study", metavar="STUDY", help=STORED)
    repeatable(board, "--target", "TASK", "only this task")
    out_option(board)
    text = "Show which predictions an intermediate corrected or broke: by seed, class, length, dialogue, one by one."
    words, example = "flips STUDY INTERMEDIATE TARGET", "systems flips demo epitome_er news_empathy --show 5"
    flips = leaf_of(leaves, words, text, example, show_flips, "data store json")
    flips.add_argument("study", metavar="STUDY", help=STORED)
    flips.add_argument("intermediate", metavar="INTERMEDIATE", help="task or imported adapter below, or a system")
    flips.add_argument("target", metavar="TARGET", help="task that was trained on top of it, and tested")
    flips.add_argument("--setting", metavar="NAME", default="full", help="share of the training data (default: full)")
    flips.add_argument("--seed", metavar="N", type=int, action="append", default=[], help="(repeatable; default: all)")
    show = "print the texts of so many items of each kind, from the raw files"
    flips.add_argument("--show", metavar="N", type=int, help=show)
    out_option(flips, "also write the tables there as flips-*.csv, whole, with ids and without texts")
    add_options(flips, "registry splits")


# ``systems leaderboard``: from stored predictions alone.

RATIONALE_TITLE = "Rationales, F1 of tokens and of spans in three forms:"
PEOPLE_TITLE = "One annotator against the others, and systems against the same; difference to one annotator in points:"
CALIBRATION_TITLE = (
    "Probabilities: calibration error over ten bins, its mean if they were exactly right, and Brier score:"
)
ASKED_TITLE = (
    "Models that were asked: price of the test rows in dollars, agreement of repeats, share without an answer:"
)
SPARE_OF_PEOPLE = ("annotators", "rows", "its interval")
SPARE_OF_CALIBRATION = ("its interval", "overconfidence", "if calibrated")
SPARE = ("macro P", "macro R", "seconds", "parameters", "seeds", "weighted F1", "accuracy")


def show_leaderboard(options: argparse.Namespace) -> int:
    """Write frames and figures of the leaderboard, and print a table for every target and setting."""
    from analysis.figures.boards import BOARD, RELIABILITY
    from analysis.figures.register import figures_of
    from analysis.results.study_results import StudyResults
    from analysis.sections.blocks import Table
    from analysis.sections.study import ASKED, BOARD_COLUMNS, were_asked
    from analysis.tables import TABLES, write_frames

    name = name_of(options.study)
    study = StudyResults.of(*open_study(Store(Path(options.store)), name))
    board, out = study.leaderboard, Path(options.out or f"results/{name}")
    for target in options.target:
        if target not in (known := list(study.manifest["tasks"])):
            raise BadInput(f"--target {target}: not a task of study {name!r}{nearest(target, known)}")
    for file, frame in board.frames.items():
        write_frames(frame, out / TABLES / file)
    drawn = [figure.write(out, study.kept, prints=True) for figure in figures_of(study, BOARD, RELIABILITY)]
    files = [f"{out / TABLES / file}.csv" for file in board.frames]
    files += [str(part.png) for parts in drawn for part in parts]
    targets = options.target or list(study.manifest["tasks"])
    names = ("board", "rationales", "people", "calibration")
    shown, *beside = ((frame := getattr(board, name))[frame.target.isin(targets)] for name in names)
    if options.json:
        parts = dict(zip(("leaderboard", *names[1:]), (shown, *beside), strict=True))
        rows = {part: records(frame) for part, frame in parts.items()}
        print_json({**rows, "files": files})
        return 0
    for (target, setting), rows in shown.groupby(["target", "setting"], sort=False):
        print(f"{study.manifest['tasks'][target]['title']}, {setting} data, {rows.iloc[0].metric}:")
        print_rows(Table.of(rows, BOARD_COLUMNS).records, as_json=False, spare=SPARE)
        _print_beside([of[(of.target == target) & (of.setting == setting)] for of in beside])
        print()
    if len(asked := were_asked(shown)):
        print(ASKED_TITLE)
        print_rows(Table.of(asked, ASKED).records, as_json=False)
        print()
    print(*files, sep="\n")
    return 0


def _print_beside(frames: Sequence[pd.DataFrame]) -> None:
    """Print how rationales are marked, how people do, and what probabilities are worth, of a target that has any."""
    from analysis.sections.blocks import Table
    from analysis.sections.study import CALIBRATION, PEOPLE, RATIONALE_HEAD, rationale_rows

    rationales, people, calibration = frames
    parts = (
        (RATIONALE_TITLE, Table(RATIONALE_HEAD, rationale_rows(rationales)), ()),
        (PEOPLE_TITLE, Table.of(people, PEOPLE), SPARE_OF_PEOPLE),
        (CALIBRATION_TITLE, Table.of(calibration, CALIBRATION), SPARE_OF_CALIBRATION),
    )
    for title, table, spare in parts:
        if table.rows:
            print(f"\n{title}")
            print_rows(table.records, as_json=False, spare=spare)


# ``systems flips``: which test items an intermediate turned right or wrong, with their texts where those are at hand.

MOST = 10  # items, groups or changes of answers that are listed unless more are asked for
CONTEXT = (
    "p: McNemar's exact test; of several classes or a number the sign test. Both take items as independent:"
    " whether a gain is significant stands in gains.csv, where whole groups are resampled"
)


def show_flips(options: argparse.Namespace) -> int:
    """Print counts and items; their texts only where --show asks for them, and never anywhere else."""
    from analysis.gains.flips import WORDS, answers, by_class, by_group, by_seed, by_size, flips, over_seeds
    from analysis.sections.importance import rows as records_of
    from analysis.tables import write_csv

    if options.show is not None and options.show < 1:
        raise BadInput(f"--show {options.show} is not a number of items from 1")
    store, manifest = open_study(Store(Path(options.store)), name_of(options.study))
    chosen = {"setting": options.setting, "seeds": options.seed}
    changes = flips(store, manifest, options.intermediate, options.target, **chosen)
    rows, why = dict[str, Example](), ""  # the target's test rows by id; none where the files are not the study's
    try:
        rows = {row.id: row for row in splits_of(options, store, manifest, options.target).test}
    except BadInput as reason:
        why = str(reason)
    changed = over_seeds(changes.items)
    words = changes.items.id.map(lambda name: len(rows[name].text.split())) if rows else None
    tables: dict[str, Any] = {
        "by-seed": by_seed(changes.items),
        "by-class": by_class(changes),
        "answers": answers(changes),
        "by-length": None if words is None else by_size(changes.items, words, "words"),  # of the text alone
        "by-group": by_group(changes.items),
    }
    if options.out:  # every table that is printed, whole; texts of items never
        out = Path(options.out)
        out.mkdir(parents=True, exist_ok=True)
        several = {name: changed[name].map(lambda each: "; ".join(map(_short, each))) for name in ("before", "after")}
        for name, frame in {**tables, "items": changed.assign(**several)}.items():
            if frame is not None and len(frame.columns):
                write_csv(frame, out / f"flips-{name}")
    if not options.json:
        _print(changes, tables, changed, rows, options.show)
        if why:
            print(f"\nids and numbers only, no lengths and no texts: {harmless(why)}")
        return 0
    items = records_of(changed if options.show is None else _ends(changed, options.show))
    if options.show is not None:
        items = [record | {"texts": _lines(rows[record["id"]]) if record["id"] in rows else None} for record in items]
    print_json(
        {
            **{name: getattr(changes, name) for name in ("intermediate", "target", "setting", "metric")},
            **dict(zip(("better", "worse"), WORDS[changes.metric], strict=True)),
            "unfinished_seeds": list(changes.unfinished),
            "note": CONTEXT,
            **{name.replace("-", "_"): of if of is None else records_of(of) for name, of in tables.items()},
            "items": items,
            "texts": why or "here",
        }
    )
    return 0


def _print(
    changes: Flips,
    tables: Mapping[str, Any],
    changed: pd.DataFrame,
    rows: Mapping[str, Example],
    show: int | None,
) -> None:
    """The tables, and the items that changed most in either direction, with their texts if those are asked for."""
    from analysis.gains.flips import WORDS

    by_seed, by_class, answers, by_length, by_group = tables.values()
    way = "by system" if changes.is_system else "on top of"
    print(f"{changes.target} {way} {changes.intermediate}, against {changes.target} alone; {changes.setting}")
    if changes.unfinished:
        print(f"not finished, and left out: seed {', '.join(map(str, changes.unfinished))}")
    _table(changes, "by seed", by_seed)
    print(CONTEXT)
    _table(changes, "by label" if changes.metric == "pearson_r" else "by class", by_class)
    if len(answers):
        _table(changes, f"changed predictions ({len(answers)} kinds)", answers.head(MOST))
    if by_length is not None:
        _table(changes, "by length in words", by_length)
    moved = by_group[by_group.better + by_group.worse > 0]
    title = f"by dialogue or other group ({len(moved)} of {len(by_group)} have changed items)"
    _table(changes, title, moved.head(MOST))
    most = show or MOST // 2
    print(f"\n{len(changed)} items changed{f'; at most {most} of each kind' if len(changed) else ''}")
    for item in _ends(changed, most).itertuples():
        what = WORDS[changes.metric][0 if item.error_change < 0 else 1] if item.error_change else "both, by seed"
        said = "; ".join(f"{_short(a)} -> {_short(b)}" for a, b in zip(item.before, item.after, strict=True))
        print(f"{harmless(item.id)}  group {harmless(item.group)}  {what}: is {_short(item.label)}, said {said}")
        if show is not None and item.id in rows:
            print("\n".join(f"    {line}" for line in _lines(rows[item.id])))


def _ends(changed: pd.DataFrame, most: int) -> pd.DataFrame:
    """The first and the last rows of what is sorted from better to worse, each row once."""
    return changed if len(changed) <= 2 * most else changed.iloc[[*range(most), *range(-most, 0)]]


def _lines(row: Example) -> list[str]:
    """What was said before and the item's own text, without what would command a terminal."""
    return [*(f"{turn.speaker}: {harmless(turn.text)}" for turn in row.context), f"> {harmless(row.text)}"]


def _table(changes: Flips, title: str, frame: pd.DataFrame) -> None:
    """A table with the words of the target's metric for better and worse."""
    from analysis.gains.flips import WORDS

    names = dict(zip(("better", "worse"), WORDS[changes.metric], strict=True))
    print(f"\n{title}:")
    rows = [
        {names.get(name, name.replace("_", " ")): _short(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
    print_rows(rows, as_json=False)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else harmless(str(value))
