"""``texts``: predictions for every text of a file, what replies lack, and what scores and ratings of texts say."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store
from adapters_store.record import imports_of
from harness.cli.options import Leaves, add_options, leaf_of, out_option, repeatable
from harness.cli.study import name_of
from harness.cli.terminal import Bars, print_json, print_rows, records, verbatim
from harness.scoring.texts import FORMS, TextFile
from harness.sharing.stored import NotRun, stored_manifest
from tasks.errors import BadInput, BadRow, BadStudy
from tasks.plain_text import counted, harmless, nearest
from tasks.readers.raw import KNOWN, LONGEST_NAME, read_raw

if TYPE_CHECKING:
    import pandas as pd

    from harness.scoring.answers import ScoringTask, TextScorer
    from harness.scoring.texts import TextLine
    from tasks.readers.raw import Raw

COLUMNS = {
    "text": "the texts (default: text, or the only one)",
    "context": "what was said before",
    "id": "ids (default: numbers from 0)",
}


def add(leaves: Leaves) -> None:
    """Add ``score`` and ``feedback``."""
    example = "texts score demo replies.csv --text reply --out replies.scores.csv"
    score = leaf_of(leaves, "score STUDY FILE", score_texts, example, "store json quiet")
    reading_options(score)
    score.add_argument("--group", metavar="COLUMN", default="", help="the column of groups or dates, for --plots")
    out_option(score, "the scores, as .csv, .jsonl or .parquet (default: FILE.scores.csv, without its folder)", "FILE")
    score.add_argument("--plots", metavar="DIR", help="draw distributions, correlations, and groups if there are any")
    spreadsheet = (
        "in a .csv put an apostrophe before texts that a spreadsheet would compute (beginning with =, +, - or @)"
    )
    score.add_argument("--spreadsheet", action="store_true", help=spreadsheet)
    example = "texts feedback epitome replies.csv --by bi-encoder --text reply --context post"
    reading_options(leaf_of(leaves, "feedback STUDY FILE", show_feedback, example, "store"))


def reading_options(leaf: argparse.ArgumentParser) -> None:
    """Which texts are read, and by what."""
    leaf.add_argument("study", metavar="STUDY", help="a study that the store has trained")
    leaf.add_argument("file", metavar="FILE", help="csv, tsv, jsonl, parquet, or a text a line; - for standard input")
    repeatable(leaf, "--task", "ID", "only this task or imported adapter")
    for name, content in COLUMNS.items():
        leaf.add_argument(f"--{name}", metavar="COLUMN", default="", help=f"the column of {content}")
    leaf.add_argument("--by", metavar="SYSTEM", default="", help="a system of the study, instead of its adapters")
    add_options(leaf, "system")
    leaf.add_argument("--format", choices=FORMS, default="", help="of FILE (default: by its ending)")
    leaf.add_argument("--encoding", metavar="NAME", default="utf-8", help="of FILE (default: utf-8)")
    leaf.add_argument("--seed", metavar="N", type=int, help="of the adapters (default: the study's lowest)")
    leaf.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="(default: fp32)")
    add_options(leaf, "device")


def texts_of(options: argparse.Namespace) -> TextFile:
    """The texts that the options name; BadInput for a file that cannot be read."""
    columns = {name: getattr(options, name, "") for name in (*COLUMNS, "group")}
    return TextFile(options.file, options.format, encoding=options.encoding, **columns)


UNTESTED = {"metric": None, "test": None, "floor": None, "n_test": None, "flags": ["imported: no test score here"]}


def score_texts(options: argparse.Namespace) -> int:
    """Predict every task of a study for every text of a file, in one pass."""
    import pandas as pd

    from analysis.figures.corpus import corpus_figures
    from harness.scoring.answers import of_imports
    from harness.scoring.parts import listed_path, score_all
    from harness.study.file import load_study

    texts, store = texts_of(options), Store(Path(options.store))
    study = name_of(options.study)
    try:
        manifest = stored_manifest(store, study)
    except NotRun:  # an imported adapter needs no run
        imported = None
        with suppress(BadStudy):
            imported = of_imports(load_study(options.study), store, options.task)
        if not imported:
            raise
        manifest = imported
    scorer = scorer_named(store, manifest, options, options.task)
    name = "stdin" if options.file == "-" else Path(options.file).name
    out = Path(options.out or f"{name}.scores.csv")
    job = {"cells": [task.record.key for task in scorer.tasks], "precision": options.precision}

    def score(lines: Sequence[TextLine]) -> pd.DataFrame:
        contexts = [line.context for line in lines]
        frame = scorer.score([line.text for line in lines], contexts, [line.id for line in lines])
        groups = [line.group for line in lines for _ in scorer.tasks]
        return frame.assign(group=pd.Series(groups, dtype="str")) if options.group else frame

    total = texts.about()
    of = "" if total is None else f" of {total}"
    with Bars(quiet=options.quiet) as bars:

        def show(done: int) -> None:
            bars.show("texts", done, total, f"{done}{of} texts")

        summary = score_all(texts, score, out, job, show, spreadsheet=options.spreadsheet)
    rows = [_task_row(adapter) for adapter in scorer.tasks]
    figures = [str(figure.png) for figure in corpus_figures(out, Path(options.plots))] if options.plots else []
    notes = [] if options.by else _notes(scorer.tasks, options.task, manifest)
    if options.json:
        print_json({"out": str(out), "figures": figures, "tasks": rows, "notes": notes, **vars(summary)})
        return 0
    shown = [
        {key: "-" if v is None else f"{v:.3f}" if isinstance(v, float) else v for key, v in row.items()} for row in rows
    ]
    print_rows(shown, spare=("kind", "metric"))
    for line in notes:
        print(line)
    listed = listed_path(out)
    print(f"\n{summary.scored} of {summary.texts} texts scored: {out}")
    for why, count in summary.listed.most_common():
        print(f"  {count} text{'s' * (count > 1)}: {why}")
    if summary.listed:
        print(f"  listed in {listed}")
    if summary.formulas:
        cells = counted(summary.formulas, "cell")
        print(f"  {cells} would be computed by a spreadsheet; to open the file in one, write it with --spreadsheet")
    if figures:
        print(f"figures, each with its CSV: {', '.join(figures)}")
    return 0


def scorer_named(
    store: Store, manifest: Mapping[str, Any], options: argparse.Namespace, tasks: Sequence[str]
) -> TextScorer:
    """The study's adapters of these tasks (all, if none is named), or the system that the options name."""
    chosen = {"tasks": tasks, "seed": options.seed, "device": options.device}
    from harness.scoring import scorer_of

    if options.by:
        from harness.study.systems import add_files

        if options.precision != "fp32":
            raise BadInput(f"--precision {options.precision}: systems score in fp32; leave it out with --by")
        add_files(options.system)
        return scorer_of(store, manifest, options.by, **chosen)
    if options.system:
        raise BadInput(f"--system {options.system[0]}: name the study's system that it is, with --by NAME")
    return scorer_of(store, manifest, precision=options.precision, **chosen)


def _task_row(adapter: ScoringTask) -> dict[str, object]:
    """How good a task's predictions are on its test set, so that nobody takes a weak task for a strong one."""
    results: Mapping[str, Any] = adapter.record.results or UNTESTED
    return {
        "task": adapter.name,
        "kind": adapter.kind,
        "metric": results["metric"],
        "test score": results["test"],
        "without learning": results["floor"],
        "test items": results["n_test"],
        "flags": ", ".join(results["flags"]) or "-",
    }


def _notes(tasks: Sequence[ScoringTask], wanted: Sequence[str], manifest: Mapping[str, Any]) -> list[str]:
    """How imported adapters read the texts, which was done in some other way once, and which of them cannot answer."""
    answering = [adapter.name for adapter in tasks]
    headless = [] if wanted else [name for name in imports_of(manifest) if name not in answering]
    return [f"{name} is imported without a head, so it is not scored" for name in headless] + [
        f"{adapter.name} is imported: how its texts were put together when it was trained is not known; here they are "
        f"read as those of the study, format {adapter.form['input_format']}, at "
        f"most {adapter.form['max_tokens']} tokens"
        for adapter in tasks
        if adapter.is_imported
    ]


def show_feedback(options: argparse.Namespace) -> int:
    """Say on the terminal what replies lack of EPITOME's mechanisms, in words from templates: a demonstration."""
    from harness.scoring.answers import scoring_tasks
    from harness.scoring.feedback import HEADING, feedback, folded, known_tasks
    from harness.scoring.parts import next_part

    texts, store = texts_of(options), Store(Path(options.store))
    manifest = stored_manifest(store, name_of(options.study))
    solved = scoring_tasks(store, manifest, options.task, options.seed, system=options.by)
    scorer = scorer_named(store, manifest, options, known_tasks([task.name for task in solved], options.task))
    print(folded(HEADING))
    shown, unread = 0, texts.lines()
    while lines := next_part(unread):
        sound = [line for line in lines if not line.problem]
        if sound:
            frame = scorer.score([line.text for line in sound], [line.context for line in sound])
            for text in feedback(frame, sound):
                verbatim(f"\n{text}")
        for line in lines:
            if line.problem:
                verbatim(f"\nreply {line.id} ({line.where}): {line.problem}")
        shown += len(lines)
    if not shown:
        raise BadInput(f"{texts.file}: has no text")
    return 0


PARTS = {
    "over-time": "Over time, among authors who stay",
    "by-group": "By group",
    "by-level": "What follows a text, by its level",
}
NO_CAUSE = "A change says what goes together in these texts, not what brings what about."


def add_insights(leaves: Leaves) -> None:
    """Add ``insights`` and ``perceived``."""
    example = "texts insights replies.scores.csv --of replies.csv --author user --time written"
    insights = leaf_of(leaves, "insights SCORES", show_insights, example, "json")
    insights.add_argument("file", metavar="SCORES", help="what `score` has written: csv, jsonl or parquet")
    insights.add_argument("--of", metavar="FILE", help="the file that was scored, with the columns (default: SCORES)")
    insights.add_argument("--id", metavar="COLUMN", help="its ids (default: id or numbers from 0, whichever fits)")
    insights.add_argument("--author", metavar="COLUMN", required=True, help="who wrote the text")
    insights.add_argument("--time", metavar="COLUMN", help="when, as 2015-03-01 or 2015-03-01T18:20")
    insights.add_argument("--group", metavar="COLUMN", help="what tells texts apart")
    insights.add_argument("--outcome", metavar="COLUMN", help="a number that follows the text, such as likes")
    insights.add_argument("--task", metavar="ID", action="append", default=[], help="(repeatable; default: all)")
    insights.add_argument("--levels", metavar="A,B,C", default="", help="classes from low to high, if not numbers")
    texts, days = "of an author, over time (default: 10)", "from first to last text (default: 365)"
    insights.add_argument("--fewest-texts", metavar="N", type=int, default=10, help=texts)
    insights.add_argument("--fewest-days", metavar="N", type=float, default=365, help=days)
    within = "the outcome is a time and counts if it is so soon"
    insights.add_argument("--within", metavar="HOURS", type=float, help=within)
    out_option(insights, "tables and figures (default: results/insights/SCORES, without its ending)")
    example = "texts perceived turns.csv --intents strategy --group dialogue --ratings helpful"
    perceived = leaf_of(leaves, "perceived FILE", show_perceived, example, "json")
    perceived.add_argument("file", metavar="FILE", help=f"a table with intents and ratings: {KNOWN}")
    perceived.add_argument("--ratings", metavar="A,B", required=True, help="columns of numbers")
    perceived.add_argument("--scale", metavar="LOW-HIGH", default="1-5", help="of every rating (default: 1-5)")
    intents = "a column of names, or columns of 0 and 1"
    perceived.add_argument("--intents", metavar="A,B", required=True, help=intents)
    perceived.add_argument("--group", metavar="COLUMN", default="group", help="the dialogue of a row (default: group)")
    out_option(perceived, "tables and figures (default: results/perceived/FILE, without its ending)")


def show_insights(options: argparse.Namespace) -> int:
    """Say how levels of scored texts move over time, differ between groups, and go with what follows them."""
    from analysis.figures.corpus import insight_figures
    from analysis.results import people as computed

    if not (options.time or options.group or options.outcome):
        raise BadInput("insights: nothing to compare; name a column with --time, --group or --outcome")
    if options.within is not None and not (options.time and options.outcome):
        raise BadInput("--within: name the time of a text with --time and that of its outcome with --outcome")
    scales, ids = _scales(options)
    columns, notes = _columns(options, ids)
    scales, columns = (frame.loc[columns.index].reset_index(drop=True) for frame in (scales, columns))
    authors = columns["author"].nunique()
    if authors < 2:
        raise BadInput(f"--author {options.author}: {counted(authors, 'author')}; intervals need two, and want thirty")
    parts = {}
    if options.time and options.within is None:  # else it only says when an outcome is late
        fewest = {"fewest_texts": options.fewest_texts, "fewest_days": options.fewest_days}
        parts["over-time"] = computed.over_time(scales, columns["author"], columns["time"], **fewest)
    if options.group:
        parts["by-group"] = computed.by_group(scales, columns["author"], columns["group"])
    if options.outcome:
        outcome = columns["outcome"]
        if options.within is not None:
            outcome = computed.followed(columns["time"], outcome, options.within)
        parts["by-level"] = computed.by_level(scales, columns["author"], outcome)
    subtitle = f"{Path(options.file).name}: {counted(len(columns), 'text')} by {counted(authors, 'author')}"
    out = Path(options.out or Path("results/insights") / Path(options.file).name.partition(".")[0])
    figures = insight_figures(parts, out, subtitle)
    files = [str(figure.png) for figure in figures]
    if options.json:
        rows = {part: json.loads(frame.to_json(orient="records")) for part, frame in parts.items()}
        facts = {"subtitle": subtitle, "texts": len(columns), "authors": authors, "notes": notes}
        print_json({**facts, **rows, "files": files})
        return 0
    print(subtitle, *notes, sep="\n")
    for part, frame in parts.items():
        print(f"\n{PARTS[part]}:")
        print_rows(list(_rows(part, frame)))
    print(f"\n{NO_CAUSE}")
    print(f"figures, each with its CSV: {', '.join(files)}")
    return 0


def _scales(options: argparse.Namespace) -> tuple[pd.DataFrame, list[str]]:
    """Levels of every text, a column for each task and their total, and the texts' ids."""
    from analysis.figures.corpus import read_scored
    from analysis.results.people import levels

    scored = read_scored(Path(options.file))
    tasks = list(dict.fromkeys(scored.task))
    for task in options.task:
        if task not in tasks:
            raise BadInput(f"--task {task}: not scored in {options.file}{nearest(task, tasks)}")
    scored = scored[scored.task.isin(options.task or tasks)].reset_index(drop=True)
    if scored.empty:
        raise BadInput(f"{options.file}: no text was scored")
    order = [name.strip() for name in options.levels.split(",") if name.strip()]
    return levels(scored, order), scored.id[scored.task == scored.task[0]].astype(str).tolist()


def _columns(options: argparse.Namespace, ids: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """The columns of every scored text that has an author and, where asked for, a time; and what was left out."""
    import pandas as pd

    raw = read_raw(Path(options.of or options.file))
    numbers = [str(row) for row in range(len(raw.rows))]
    ways = [*([raw.cells("id")] if "id" in raw.header else []), numbers]
    fits = [keys for keys in ways if {*ids} <= {*keys}]
    if options.id is None and options.of and fits[1:] and fits[0] != numbers:
        raise BadInput(
            f"{raw.path}: the ids of {options.file} may be its column 'id' or the numbers of its rows; say --id id, or"
            " --id '' where `texts score` was run without --id"
        )
    keys = (fits or ways)[0] if options.id is None else raw.cells(options.id) if options.id else numbers
    places: dict[str, int] = {}  # the row of each id; of a scored file, with a row for each task, the first
    for row, id in enumerate(keys):
        first = places.setdefault(id, row)
        if first != row and options.of:
            raise BadRow(f"{raw.where(row)}: id {harmless(id)!r} is at {raw.where(first)} too; keep one")
    if missing := [key for key in ids if key not in places]:
        raise BadInput(
            f"{raw.path}: id {harmless(missing[0])!r} of {options.file} is not there; name its ids with --id"
        )
    columns: dict[str, Any] = {"author": raw.cells(options.author)}
    if options.time:
        columns["time"] = _times(raw, options.time)
    if options.group:
        columns["group"] = raw.cells(options.group)
    if options.outcome and options.within is not None:  # a time, which may be empty
        columns["outcome"] = _times(raw, options.outcome)
    elif options.outcome:
        numbers = pd.Series(raw.numbers(options.outcome, 0, math.inf, "for a time add --within"))
        if numbers.isna().any():
            raise BadRow(f"{raw.where(int(numbers.isna().argmax()))}: {options.outcome} is empty; write 0 for nothing")
        columns["outcome"] = numbers
    frame = pd.DataFrame(columns).iloc[[places[key] for key in ids]].reset_index(drop=True)
    is_whole = frame.author != ""
    for name in {"time", "group"} & set(frame):
        is_whole &= frame[name].notna() & (frame[name].astype(str) != "")
    left_out = int((~is_whole).sum())
    why = f"{counted(left_out, 'text')} without an author, a time or a group left out"
    return frame[is_whole], [why] if left_out else []


def _times(raw: Raw, column: str) -> pd.Series:
    import pandas as pd

    cells = raw.cells(column)
    times = pd.to_datetime(pd.Series(cells), format="ISO8601", errors="coerce", utc=True)
    for row, (cell, time) in enumerate(zip(cells, times, strict=True)):
        if cell and pd.isna(time):
            raise BadRow(f"{raw.where(row)}: {column} {harmless(cell)!r} is no time; write it as 2015-03-01T18:20")
    return times


def _rows(part: str, frame: pd.DataFrame) -> Iterator[dict[str, object]]:
    """What the terminal shows of a part: over time all authors together, else every row."""
    for row in (frame[frame.joined == "all"] if part == "over-time" else frame).to_dict("records"):
        value = {"over-time": "period", "by-group": "group", "by-level": "level"}[part]
        mean = row["outcome"] if part == "by-level" else row["mean"]
        change = "" if math.isnan(row["change"]) else f"{row['change']:+.0f} %"
        interval = "" if math.isnan(row["low"]) else f"{row['low']:+.0f} to {row['high']:+.0f}"
        yield {
            "scale": row["scale"],
            value: harmless(str(row[value])),
            "authors": row["authors"],
            "texts": row["texts"],
            "mean": f"{mean:.2f}",
            "change": change,
            "95 % interval": interval,
        }


TRUTH = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0, "": math.nan}
MOST_INTENTS, MOST_WORDS = 60, 5  # of more a column holds texts, which are never shown
SPARE = ("95 % interval",)
NO_CAUSE_OF_RATING = "A difference says what goes together in these rows, not what brings what about."


def show_perceived(options: argparse.Namespace) -> int:
    """Compare ratings of what supporters wrote with and without each intent that it expresses, by dialogue."""
    import pandas as pd

    from analysis.figures.corpus import perceived_figures
    from analysis.results.people import DECIDES, Rated, correlations, expressed

    raw = read_raw(Path(options.file))
    low, _, high = options.scale.rpartition("-")
    try:
        low, high = float(low), float(high)
    except ValueError:
        low = high = 0.0
    if not low < high:
        raise BadInput(f"--scale {options.scale}: write the least and the largest rating, as in 1-5")
    ends = "name the ends of the scale with --scale LOW-HIGH, and leave what was not rated empty"
    ratings = pd.DataFrame({name: raw.numbers(name, low, high, ends) for name in _names(options.ratings)})
    intents = _intents(raw, _names(options.intents))
    group = pd.Series(raw.cells(options.group), dtype=object)
    is_whole = (group != "") & ratings.notna().any(axis=1) & intents.notna().any(axis=1)
    left_out = int((~is_whole).sum())
    notes = [f"{counted(left_out, 'row')} without a group, a rating or intents left out"] if left_out else []
    varies = intents[is_whole].nunique() > 1
    if varies.any() and list(intents) != _names(options.intents) and not varies.all():  # of a column of names
        notes.append(f"left out, as no rated row has them or all have: {harmless(', '.join(intents.columns[~varies]))}")
        intents = intents.loc[:, varies]
    rated = Rated(*(part[is_whole].reset_index(drop=True) for part in (group, intents, ratings)))
    table, together = expressed(rated), correlations(rated)
    name = Path(options.file).name.partition(".")[0]
    rows, groups = len(rated.group), rated.group.nunique()
    subtitle = f"{name}: {counted(rows, 'rated row')} of {counted(groups, 'group')}"
    out = Path(options.out or Path("results/perceived") / name)
    files = [str(figure.png) for figure in perceived_figures(table, together, out, subtitle)]
    if options.json:
        facts = {"subtitle": subtitle, "rows": rows, "groups": groups, "notes": notes, "decides": DECIDES}
        print_json({**facts, "expressed": records(table), "correlations": records(together), "files": files})
        return 0
    print(subtitle, *notes, sep="\n")
    for rating, part in table.groupby("rating", sort=False):
        has = rated.ratings[rating].notna()
        extent = f"{counted(int(has.sum()), 'row')} of {counted(rated.group[has].nunique(), 'group')}"
        print(f"\n{harmless(str(rating))}, {extent}:")
        print_rows(list(_expressed_rows(part)), spare=SPARE)
    print(
        f"\n(standard error, clustered by group); adjusted: p after the correction over all {len(table)} tests (max-T)"
    )
    if len(rated.ratings.columns) > 1:
        print("\nCorrelation of ratings (Spearman):")
        print_rows(list(_correlations(together)))
    print(f"\n{NO_CAUSE_OF_RATING}")
    print(f"figures, each with its CSV: {', '.join(files)}")
    return 0


def _intents(raw: Raw, names: Sequence[str]) -> pd.DataFrame:
    """1 or 0 per row and intent, NaN where a cell is empty: from columns of 0 and 1, or from a column of names."""
    import pandas as pd

    cells = {name: [cell.lower() for cell in raw.cells(name)] for name in names}
    if len(names) == 1 and not all(cell in TRUTH for cell in cells[names[0]]):
        return _of_names(raw, names[0])
    for name, column in cells.items():
        for row, cell in enumerate(column):
            if cell not in TRUTH:
                raise BadRow(f"{raw.where(row)}: column {name!r} is neither 0 nor 1; name a column of names alone")
    return pd.DataFrame({name: [TRUTH[cell] for cell in column] for name, column in cells.items()})


def _of_names(raw: Raw, name: str) -> pd.DataFrame:
    """Of a column of names, several in a cell joined by ``|``: the most frequent first; BadInput where it has texts."""
    import pandas as pd

    sets = [[part.strip() for part in cell.split("|") if part.strip()] for cell in raw.cells(name)]
    counts = pd.Series([part for parts in sets for part in parts], dtype=object).value_counts()
    is_short = all(len(intent) <= LONGEST_NAME and len(intent.split()) <= MOST_WORDS for intent in counts.index)
    if len(counts) > MOST_INTENTS or not is_short:
        raise BadInput(
            f"--intents {name}: {raw.path} has texts there; name a column of at most {MOST_INTENTS} names, none of more"
            f" than {MOST_WORDS} words or {LONGEST_NAME} letters"
        )
    unknown = float("nan")
    return pd.DataFrame(
        {str(intent): [float(intent in parts) if parts else unknown for parts in sets] for intent in counts.index}
    )


def _names(listed: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))


def _expressed_rows(part: pd.DataFrame) -> Iterator[Mapping[str, object]]:
    """What the terminal shows of a rating, a row for each intent."""
    from analysis.gains.significance import p_text
    from analysis.results.people import DECIDES
    from analysis.tables import fixed, interval

    def mean(row: Mapping[str, Any], side: str) -> str:
        if row[f"rows_{side}"] == 0:
            return ""
        error = row[f"error_{side}"]
        return f"{row[f'mean_{side}']:.2f}" + ("" if math.isnan(error) else f" ({error:.2f})")

    for row in part.to_dict("records"):
        is_tested = not math.isnan(row["p"])
        yield {
            "intent": harmless(row["intent"]),
            "rows": row["rows_with"],
            "with": mean(row, "with"),
            "without": mean(row, "without"),
            "difference": "" if math.isnan(row["difference"]) else fixed(row["difference"], 2, "+"),
            "95 % interval": interval(row["low"], row["high"], 2) if is_tested else "",
            "p": p_text(row["p"]) if is_tested else "",
            "adjusted": p_text(row[DECIDES]) if is_tested else "not tested",
        }


def _correlations(together: pd.DataFrame) -> Iterator[Mapping[str, object]]:
    """Every two ratings once: over groups with its interval, and over rows."""
    from analysis.tables import interval, number

    order = {name: position for position, name in enumerate(dict.fromkeys(together["rating"]))}
    for row in together.to_dict("records"):
        if order[row["rating"]] < order[row["other"]]:
            yield {
                "ratings": f"{harmless(row['rating'])}, {harmless(row['other'])}",
                "over groups": number(row["rho"], 2),
                "95 % interval": interval(row["low"], row["high"], 2),
                "groups": row["groups"],
                "over rows": number(row["rho_rows"], 2) if row["rows"] else "",
                "rows": row["rows"],
            }
