"""``systems``: ways to solve tasks on one footing, item by item, asked whether they read the context, and explained."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adapters_store import Store, disk
from adapters_store.measures import OPTIONS_ROWS
from harness.api import probe_stored
from harness.cli.options import STORED, Leaves, add_options, leaf_of, out_option, repeatable
from harness.cli.study import name_of, splits_of
from harness.cli.terminal import Bars, console, plain, print_json, print_rows, records, width_of
from harness.sharing.stored import open_study, stored_manifest
from tasks.errors import BadInput
from tasks.plain_text import harmless, nearest
from tasks.task import Example

if TYPE_CHECKING:
    import pandas as pd

    from analysis.gains.flips import Flips
    from harness.scoring.explained import ExplainedRow
    from tasks.splits.loading import Splits


def add(leaves: Leaves) -> None:
    """Add ``leaderboard`` and ``flips``."""
    example = "systems leaderboard demo"
    board = leaf_of(leaves, "leaderboard STUDY", show_leaderboard, example, "store json", STORED)
    repeatable(board, "--target", "TASK", "only this task")
    out_option(board)
    example = "systems flips demo epitome_er news_empathy --show 5"
    flips = leaf_of(leaves, "flips STUDY INTERMEDIATE TARGET", show_flips, example, "data store json", STORED)
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
    """Rank all systems of a study beside its adapters, task by task, with paired tests, from the store alone."""
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
        if target not in (tasks := list(study.manifest["tasks"])):
            raise BadInput(f"--target {target}: not a task of study {name!r}{nearest(target, tasks)}")
    for file, frame in board.frames.items():
        write_frames(frame, out / TABLES / file)
    drawn = [figure.write(out, study.kept, prints=True) for figure in figures_of(study, BOARD, RELIABILITY)]
    files = [f"{out / TABLES / file}.csv" for file in board.frames]
    files += [str(part.png) for parts in drawn for part in parts]
    targets = options.target or list(study.manifest["tasks"])
    names = ("board", "rationales", "people", "calibration")
    shown, *others = ((frame := getattr(board, name))[frame.target.isin(targets)] for name in names)
    if options.json:
        parts = dict(zip(("leaderboard", *names[1:]), (shown, *others), strict=True))
        rows = {part: records(frame) for part, frame in parts.items()}
        print_json({**rows, "files": files})
        return 0
    for (target, setting), rows in shown.groupby(["target", "setting"], sort=False):
        print(f"{study.manifest['tasks'][target]['title']}, {setting} data, {rows.iloc[0].metric}:")
        print_rows(Table.of(rows, BOARD_COLUMNS).records, spare=SPARE)
        _print_beside([of[(of.target == target) & (of.setting == setting)] for of in others])
        print()
    if len(models := were_asked(shown)):
        print(ASKED_TITLE)
        print_rows(Table.of(models, ASKED).records)
        print()
    print(*files, sep="\n")
    return 0


def _print_beside(frames: Sequence[pd.DataFrame]) -> None:
    """Print how rationales are marked, how people do, and what probabilities are worth, of a target that has any."""
    from analysis.sections.blocks import Table
    from analysis.sections.study import CALIBRATION, PEOPLE, RATIONALES, rationales_by_system

    rationales, people, calibration = frames
    parts = (
        (RATIONALE_TITLE, Table.of(rationales_by_system(rationales), RATIONALES), ()),
        (PEOPLE_TITLE, Table.of(people, PEOPLE), SPARE_OF_PEOPLE),
        (CALIBRATION_TITLE, Table.of(calibration, CALIBRATION), SPARE_OF_CALIBRATION),
    )
    for title, table, spare in parts:
        if table.rows:
            print(f"\n{title}")
            print_rows(table.records, spare=spare)


# ``systems flips``: which test items an intermediate turned right or wrong, with their texts where those are at hand.

MOST = 10  # items, groups or changes of answers that are listed unless more are asked for
CONTEXT = (
    "p: McNemar's exact test; of several classes or a number the sign test. Both take items as independent:"
    " whether a gain is significant stands in gains.csv, where whole groups are resampled"
)


def show_flips(options: argparse.Namespace) -> int:
    """Show which predictions an intermediate corrected or broke: by seed, class, length, dialogue, one by one.

    Texts are printed only where --show asks for them, and never written anywhere.
    """
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
        word = WORDS[changes.metric][0 if item.error_change < 0 else 1] if item.error_change else "both, by seed"
        pairs = "; ".join(f"{_short(a)} -> {_short(b)}" for a, b in zip(item.before, item.after, strict=True))
        print(f"{harmless(item.id)}  group {harmless(item.group)}  {word}: is {_short(item.label)}, said {pairs}")
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
    print_rows(rows)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else harmless(str(value))


OWN_FILE = ".py"
Row = Callable[[Any], dict[str, object]]
Head = Callable[["pd.DataFrame"], str]
OF_OPTIONS = ("rows", "most_cost", "allow")


def add_probe(leaves: Leaves) -> None:
    """Add ``probe`` and ``explain``."""
    example = "systems probe demo --task epitome_er"
    probe = leaf_of(leaves, "probe STUDY", probe_study, example, "data store json quiet", STORED)
    out_option(probe)
    system = (
        "only this system, as the leaderboard names it (repeatable; default: all, and the adapters);"
        " a FILE.py is run, as for run: a system of your own"
    )
    probe.add_argument("--system", metavar="NAME", action="append", default=[], help=system)
    probe.add_argument("--task", metavar="ID", action="append", default=[], help="(repeatable; default: all)")
    talk = "also put sentences into replies of PersonaChat and Ubuntu, from your files below DIR"
    probe.add_argument("--conversations", metavar="DIR", help=talk)
    reversed_options = "ask systems that answer by options again, with these reversed and renamed, instead of contexts"
    probe.add_argument("--options", dest="by_options", action="store_true", help=reversed_options)
    rows = f"with --options: at most so many test rows of a task, drawn by a fixed seed (default: {OPTIONS_ROWS})"
    probe.add_argument("--rows", metavar="N", type=int, help=rows)
    cap = "with --options: the most that a model may cost in this store, all calls counted (default: as in the study)"
    probe.add_argument("--most-cost", metavar="DOLLARS", type=float, help=cap)
    allow = "with --options: send texts of this task to a server though its licence or privacy forbids it (repeatable)"
    probe.add_argument("--allow", metavar="ID", action="append", default=[], help=allow)
    add_options(probe, "device registry splits")
    example = "systems explain my-study --system joint --task iempathize --rows 3"
    explain = leaf_of(leaves, "explain STUDY", explain_rows, example, "data store json quiet", STORED)
    out_option(explain, "of --plane (default: results/STUDY); texts go to the terminal, or to the page of --html")
    explain.add_argument("--system", metavar="NAME", required=True, help="of the kind clsn, encoder or bi-encoder")
    explain.add_argument("--task", metavar="ID", required=True, help="whose test rows")
    explain.add_argument("--seed", metavar="N", type=int, help="of the training (default: the study's lowest)")
    explain.add_argument("--row", metavar="ID", action="append", default=[], help="only this row (repeatable)")
    explain.add_argument("--rows", metavar="N", type=int, default=5, help="so many of the first (default: 5)")
    explain.add_argument("--html", metavar="FILE", help="write a page of your own in place of the terminal")
    plane = "draw all rows by t-SNE of the vectors that are classified, without their texts"
    explain.add_argument("--plane", action="store_true", help=plane)
    add_options(explain, "device registry splits")


def probe_study(options: argparse.Namespace) -> int:
    """Ask whether systems read the context, or with --options what options say, and what changes in their answers."""
    from harness.study.systems import add_files

    if options.by_options and options.conversations:
        raise BadInput("--conversations: sentences are put into contexts; leave it out with --options")
    given = [name for name in OF_OPTIONS if getattr(options, name) not in (None, [])]
    if given and not options.by_options:
        raise BadInput(f"--{given[0].replace('_', '-')}: goes with --options alone; leave it out")
    if options.rows is not None and options.rows < 1:
        raise BadInput(f"--rows {options.rows}: at least one row has to be asked about")
    if options.most_cost is not None and options.most_cost <= 0:
        raise BadInput(f"--most-cost {options.most_cost:g}: name a cap above 0 dollars, or none")
    add_files([name for name in options.system if name.endswith(OWN_FILE)])
    options.system = [name for name in options.system if not name.endswith(OWN_FILE)]
    store, name = Store(Path(options.store)), name_of(options.study)
    manifest, out = stored_manifest(store, name), Path(options.out or f"results/{name}")
    show = _show_options if options.by_options else _show_contexts
    show(options, store, manifest, out)
    return 0


def _print_tables(frame: pd.DataFrame, row_of: Row, head: Head, spare: Sequence[str]) -> None:
    """A table for every target, below its line."""
    for target, rows in frame.groupby("target", sort=False):
        print(f"{target}{head(rows)}:")
        print_rows([row_of(row) for row in rows.itertuples()], spare=spare)
        print()


def _print_missing(missing: Mapping[str, str]) -> None:
    for name, reason in missing.items():
        print(f"left out: {harmless(name)}: {harmless(reason)}", file=sys.stderr)


# Contexts.


def _show_contexts(options: argparse.Namespace, store: Store, manifest: Mapping[str, Any], out: Path) -> None:
    from analysis.figures.boards import contexts
    from analysis.results.probes import context_sensitivity
    from analysis.results.study_results import StudyResults
    from analysis.tables import TABLES, bare, fixed, write_csv

    places = {"ids": Path(options.splits) if options.splits else None, "registry": options.registry}
    places["conversations"] = Path(options.conversations) if options.conversations else None
    chosen = {"systems": options.system, "tasks": options.task, "device": options.device}
    with Bars(quiet=options.quiet) as bars:
        probed = probe_stored(store, manifest, Path(options.data), watch=bars.show, **chosen, **places)
    write_csv(probed.frame, out / TABLES / "probes")
    if options.conversations:
        write_csv(probed.inserted, out / TABLES / "probes_sentences")
    sensitivity = context_sensitivity(store, manifest)
    files = [f"{out / TABLES / 'probes'}.csv"]
    if sensitivity:  # against what tasks teach and learn, as a figure with its CSV, where gains are stored
        figures = contexts(StudyResults.of(store, manifest), probed.frame)
        drawn = [drawn for figure in figures for drawn in figure.write(out)]
        files += [str(path) for each in drawn for path in (each.png.with_suffix(".csv"), each.png, each.svg)]
    if options.json:
        tables = {"probes": records(probed.frame), "sentences": records(probed.inserted)}
        print_json({**tables, "context_sensitivity": sensitivity, "left_out": dict(probed.missing), "files": files})
        return
    _print_tables(
        probed.frame,
        _context_row,
        lambda rows: f", {rows.iloc[0].metric}; up to {rows.n.max()} rows of {rows.n_groups.max()} groups",
        ("p", "before"),
    )
    if len(probed.frame):
        print(
            "changed: share of decisions, with its 95 % interval; alone: of a reader of contexts alone; drop: in points"
        )
    if len(probed.inserted):
        print("\nreplies of everyday talk that are called empathetic, by the sentence put in, with Wilson's interval:")
        sentences = [
            {
                **{"task": row.target, "by": row.system, "seed": row.seed, "talk": row.corpus},
                "sentence": row.inserted,
                "empathetic": f"{row.empathetic} of {row.n} ({bare(row.low)}-{bare(row.high)})",
            }
            for row in probed.inserted.itertuples()
        ]
        print_rows(sentences, spare=("seed",))
    _print_missing(probed.missing)
    if sensitivity:
        drops = ", ".join(f"{task} {fixed(100 * drop, 1)}" for task, drop in sensitivity.items())
        print(f"context sensitivity of tasks, points that the adapter alone loses by a swap: {drops}")
    print(*files, sep="\n")


def _context_row(row: Any) -> dict[str, object]:  # noqa: ANN401 - a tuple of pandas
    from analysis.tables import bare, fixed, interval, number, signed

    return {
        "by": row.system,
        "context": row.operation,
        "changed": _change(row),
        "alone": bare(row.context_alone) if isfinite(row.context_alone) else "-",
        "shift": signed(row.shift, 3),
        "before": bare(row.score),
        "drop": f"{fixed(100 * row.drop, 1)} ({interval(100 * row.drop_low, 100 * row.drop_high, 1)})",
        "p": number(row.p),
    }


def _change(row: Any) -> str:  # noqa: ANN401 - a tuple of pandas
    """The share of answers that change, with its interval."""
    from analysis.tables import bare

    return f"{bare(row.changed)} ({bare(row.changed_low)}-{bare(row.changed_high)})"


# Options.


def _show_options(options: argparse.Namespace, store: Store, manifest: Mapping[str, Any], out: Path) -> None:
    from analysis.results.probes import asked_by_options, option_frames
    from analysis.tables import TABLES, write_csv
    from harness.scoring.probe.measured import OptionsProbe, ProbedCell

    # what the study's systems answer, asked where it is not stored
    by_task, rows = asked_by_options(store, manifest, options.system, options.task), options.rows or OPTIONS_ROWS
    limits = {"allow": options.allow, "most_cost": options.most_cost}
    splits_of_task = cache(lambda task: splits_of(options, store, manifest, task))
    probe = OptionsProbe(store, manifest, splits_of_task, rows, options.device, **limits)
    cells = [cell for contestants in by_task.values() for contestant in contestants for cell in contestant.cells]
    with Bars(quiet=options.quiet) as bars:
        probe.run([ProbedCell(cell.key, cell.target, cell.system) for cell in cells], bars.show)
    probed = option_frames(store, manifest, by_task, rows=rows, missing=probe.missing)
    write_csv(probed.frame, out / TABLES / "options")
    write_csv(probed.shares, out / TABLES / "options_shares")
    files = [f"{out / TABLES / name}.csv" for name in ("options", "options_shares")]
    if options.json:
        tables = {"options": records(probed.frame), "shares": records(probed.shares)}
        print_json({**tables, "left_out": dict(probed.missing), "files": files})
        return
    _print_tables(
        probed.frame,
        _option_row,
        lambda rows: f": {rows.iloc[0].n} rows of {rows.iloc[0].n_groups} groups, asked again",
        ("p", "score", "against"),
    )
    if len(probed.frame):
        print("changed: share of answers, with its 95 % interval; shift: of macro-F1 in points, paired; first - last:")
        print("share of answers in the first half of the list less that in the second, over both orders; 0: no bias")
    _print_missing(probed.missing)
    print(*files, sep="\n")


def _option_row(row: Any) -> dict[str, object]:  # noqa: ANN401 - a tuple of pandas
    from analysis.gains.significance import p_text
    from analysis.tables import bare, interval, signed

    is_known = isfinite(row.preference)
    preference = f"{signed(row.preference, 2)} ({interval(row.preference_low, row.preference_high, 2)})"
    return {
        "by": row.system,
        "options": row.arrangement,
        "against": row.against,
        "changed": _change(row),
        "score": bare(row.score),
        "shift": f"{signed(row.shift, 1)} ({interval(row.shift_low, row.shift_high, 1)})",
        "p": p_text(row.p),
        "first - last": preference if is_known else "-",
        "prefers": row.prefers if is_known else "-",
    }


SHADES = 4  # of each colour, the strongest for the row's largest contribution
FOR, AGAINST = (0, 90, 181), (220, 90, 20)  # blue and orange, which most colour-blind people tell apart
NAMED = 3  # tokens that are listed for and against
HOLDS_TEXTS = (
    "This page holds texts of the data set: keep it where those may be, and pass it on only where they may go."
)


class Piece(NamedTuple):
    """A part of a text, and how far it speaks for the answer: from -1 to 1, as a share of the largest token's."""

    text: str
    share: float


def explain_rows(options: argparse.Namespace) -> int:
    """Show which tokens of stored test rows speak for a system's answer, or with --plane where all rows lie."""
    from harness.scoring.explained import explained_rows

    store, name = Store(Path(options.store)), name_of(options.study)
    page = _page_of(options, store)
    manifest = stored_manifest(store, name)
    if options.task not in (tasks := list(manifest["tasks"])):
        raise BadInput(f"--task {options.task}: not a task of study {name!r}{nearest(options.task, tasks)}")
    splits = splits_of(options, store, manifest, options.task)
    if options.plane:
        return _draw(store, manifest, splits, options)
    chosen = {"ids": options.row, "count": options.rows, "seed": options.seed, "device": options.device}
    rows = explained_rows(store, manifest, splits, options.system, **chosen)
    if page is None:
        from rich.text import Text

        for row in rows:
            # a row on the terminal: its text in colour, where there are colours, and its strongest tokens in words
            screen = console()
            shown = Text()
            for piece in pieces_of(row):
                colour = f"{_ink(piece.share)} on rgb({','.join(map(str, _colour(piece.share)))})"
                shown.append(plain(piece.text), style=colour if _level(piece.share) else "")
            is_whole = width_of(sys.stdout) is None  # a pipe gets whole lines
            for line in (heading(row), shown, strongest(row), ""):
                screen.print(line if isinstance(line, Text) else plain(line), soft_wrap=is_whole)
        return 0
    disk.write_text(page, html_of(f"{options.system} on {options.task}, study {name}", list(rows)))
    print(f"{page}\n{HOLDS_TEXTS}")
    return 0


def _draw(store: Store, manifest: Mapping[str, Any], splits: Splits, options: argparse.Namespace) -> int:
    """Write the figure of all rows with its CSV, which holds places and classes, no id and no text."""
    from analysis.figures.paper_figures import rows_figure
    from analysis.tables import FIGURES
    from harness.scoring.explained import rows_map

    with Bars(quiet=options.quiet) as bars:
        chosen = {"seed": options.seed, "device": options.device}
        mapped = rows_map(store, manifest, splits, options.system, **chosen, watch=lambda *at: bars.show("rows", *at))
    stem = Path(options.out or f"results/{manifest['name']}") / FIGURES / f"tsne-{options.task}-{options.system}"
    title = f"{manifest['tasks'][options.task]['title']}, system {options.system}"
    files = rows_figure(mapped.frame, mapped.silhouette, title, stem)
    paths = [str(files.png.with_suffix(".csv")), str(files.png), str(files.svg)]
    if options.json:
        print_json({"silhouette": mapped.silhouette if isfinite(mapped.silhouette) else None, "files": paths})
    else:
        print(*paths, sep="\n")
    return 0


def _page_of(options: argparse.Namespace, store: Store) -> Path | None:
    """Where the page goes, if there is to be one; BadInput for other outputs, and for a place inside the store."""
    if options.plane and (options.html or options.row):
        raise BadInput("--plane draws all rows, without their texts; leave out --html and --row")
    if options.plane:
        return None
    if options.out or options.json:
        option = "--out" if options.out else "--json"
        raise BadInput(
            f"{option}: texts are shown on the terminal, or on a page of your own; give --html FILE or --plane"
        )
    if options.rows < 1:
        raise BadInput(f"--rows {options.rows}: give a number from 1, or name rows by --row")
    if not options.html:
        return None
    page = Path(options.html)
    if page.resolve().is_relative_to(store.root.resolve()):
        raise BadInput(f"--html {page}: inside the store, which holds no texts; give a file elsewhere")
    return page


def contributions_of(row: ExplainedRow) -> list[tuple[int, int, float]]:
    """Start, end and contribution of every token's part of the text; tokens that share a letter are one part."""
    parts: list[tuple[int, int, float]] = []
    for (start, end), contribution in zip(row.attribution.offsets, row.attribution.contributions, strict=True):
        if parts and start < parts[-1][1] and start < end:
            first, last, before = parts.pop()
            parts.append((first, max(last, end), before + float(contribution)))
        elif start < end:
            parts.append((start, end, float(contribution)))
    return parts


def pieces_of(row: ExplainedRow) -> Iterator[Piece]:
    """The row's text in parts, tokens and what lies between them, in order."""
    parts, end = contributions_of(row), 0
    largest = max((abs(contribution) for *_, contribution in parts), default=0.0) or 1.0
    for start, stop, contribution in parts:
        if end < start:
            yield Piece(row.text[end:start], 0.0)
        yield Piece(row.text[start:stop], contribution / largest)
        end = stop
    if end < len(row.text):
        yield Piece(row.text[end:], 0.0)


def heading(row: ExplainedRow) -> str:
    """The row's classes in words, what the contributions add up to, and what is to be known of them."""
    scores = row.attribution
    line = (
        f"row {row.id}: {row.gold}, predicted {row.predicted}; its logit is {scores.whole:+.2f} above the mean of the"
        f" others, {scores.empty:+.2f} without words; tokens add up to {scores.contributions.sum():+.2f}"
    )
    if not scores.is_complete:
        line += f", {100 * scores.gap:.0f} % off the difference: do not rely on them"
    return line + ("; the text was read in part" if row.is_cut else "")


def strongest(row: ExplainedRow) -> str:
    """The tokens that add most, and those that take away most, with their numbers."""
    parts = contributions_of(row)
    tokens = [(value, row.text[start:end].strip()) for start, end, value in parts if row.text[start:end].strip()]
    ordered = sorted(tokens, key=lambda token: -token[0])
    sides = {
        "for": [token for token in ordered[:NAMED] if token[0] > 0],
        "against": [token for token in ordered[::-1][:NAMED] if token[0] < 0],
    }
    lists = (
        f"{side}: {', '.join(f'{text} {value:+.2f}' for value, text in top)}" for side, top in sides.items() if top
    )
    return "; ".join(lists)


def _level(share: float) -> int:
    """The shade of a share of the largest contribution, 0 for hardly any."""
    return round(SHADES * abs(share))


def _colour(share: float) -> tuple[int, int, int]:
    """A shade of blue or of orange on white."""
    depth = _level(share) / SHADES
    red, green, blue = (round(255 - depth * (255 - part)) for part in (FOR if share > 0 else AGAINST))
    return red, green, blue


def _ink(share: float) -> str:
    return "white" if _level(share) > SHADES // 2 and share > 0 else "black"


STYLE = (
    "body{font:16px/1.6 sans-serif;max-width:50em;margin:2em auto;padding:0 1em;color:#111;background:#fff}"
    "p.text{font-size:1.1em;white-space:pre-wrap}span{padding:.1em 0}"
    "p.note{border-left:4px solid #dc5a14;padding:.3em 1em}"
)


def html_of(title: str, rows: list[ExplainedRow]) -> str:
    """A page without scripts and without anything from elsewhere."""
    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>{STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n<p class=note>{HOLDS_TEXTS}</p>",
        "<p>Blue speaks for the predicted class, orange against it; the strongest token of a row has the full colour."
        " Pointing at a token shows what it adds, in logits (integrated gradients).</p>",
    ]
    for row in rows:
        largest = max((abs(contribution) for *_, contribution in contributions_of(row)), default=0.0)
        coloured = "".join(
            f'<span style="background:rgb{_colour(piece.share)};color:{_ink(piece.share)}"'
            f' title="{largest * piece.share:+.3f}">{escape(piece.text)}</span>'
            if _level(piece.share)
            else escape(piece.text)
            for piece in pieces_of(row)
        )
        parts += [
            f"<h2>Row {escape(row.id)}</h2>\n<p>{escape(heading(row))}</p>",
            f'<p class="text">{coloured}</p>\n<p>{escape(strongest(row))}</p>',
        ]
    return "\n".join(parts) + "\n</body></html>\n"
