"""Everything of a study that a manuscript needs, in one folder, and a macro for every number that a text would quote.

Each macro is traced to the cell of a CSV file that its number is printed from.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from adapters_store.disk import write_text
from analysis.figures.drawing import Drawing
from analysis.gains.comparisons import AGAINST
from analysis.manuscript.figures import write_figures
from analysis.manuscript.frames import NamedFrames, Subject, write_data
from analysis.manuscript.layout import (
    NUMBER,
    Venue,
    as_latex,
    as_markdown,
    escaped,
    letters,
    printed,
    table_as_latex,
    table_as_markdown,
)
from analysis.manuscript.methods import checklist, methods
from analysis.manuscript.references import as_markdown as licences_page
from analysis.manuscript.references import bibliography, cited_uses, licences, uses_of
from analysis.manuscript.tables import tables
from analysis.ratings.themes import ALL
from analysis.sections.answers import silent
from analysis.sections.importance import Progress
from analysis.tables import write_csv
from tasks.errors import BadInput
from tasks.plain_text import nearest
from tasks.readers.streams import read_text

FACTS = ("task", "title", "theme", "n_raters")  # of the frame of ratings; its other columns are ratings
PLAIN = "full"  # the setting that a name does not say
HEAD = r"""% One macro for every number that a text would quote, written by empathy-transfer.
% Each line ends with the file, the row and the column that its number is printed from.
\providecommand{\PaperMinus}{\ifmmode-\else\textminus\fi}
\providecommand{\PaperLess}{\ifmmode<\else\textless\fi}
"""


class Number(NamedTuple):
    """A macro, the cell that its number comes from (file, row as ``key=value; ...``, column), and how it is printed."""

    macro: str
    file: str
    row: str
    column: str
    kind: str
    printed: str


class Quoted(NamedTuple):
    """Columns of a frame that a text may quote: what names their rows, and what kind of number each one is."""

    frame: str
    prefix: str
    keys: tuple[str, ...]
    columns: Mapping[str, str]
    only: Mapping[str, Any]


def quoted_of(frame: str, prefix: str, keys: str, *only: tuple[str, Any], **columns: str) -> Quoted:
    """The columns by their kinds; ``keys`` are the names of those that name a row, ``only`` what rows have to say."""
    return Quoted(frame, prefix, tuple(keys.split()), columns, dict(only))


ENDS = {"low": "points", "high": "points"}
POINTS = {"points": "points", **ENDS}
BUDGETS = {"cells": "count", "n_targets": "count"} | dict.fromkeys(("regret", "low", "high", "chance"), "points")
LESS = {f"{end}less_{other}": "points" for other in AGAINST for end in ("", "low_", "high_")}
LESS_CONTROL = dict.fromkeys(("transfers_less_control", "low_less_control", "high_less_control"), "points")
CHANGED = dict.fromkeys(("changed", "changed_low", "changed_high", "context_alone"), "score")
SENSITIVITY = dict.fromkeys(("sensitivity", "sensitivity_low", "sensitivity_high", "mean"), "points")
COUNTS = ("n_pairs", "n_tested", "gains", "harms", "gains_bh", "harms_bh", "larger_gains", "larger_harms")
ALPHAS = tuple(f"{part}_{level}" for level in ("interval", "ordinal") for part in ("alpha", "low", "high"))
SCORES = dict.fromkeys(("score", "low", "high"), "score")
PAIR, TARGET = "intermediate target setting", "target setting"
BELOW = {"words": "score", "whole_encoder": "score", "difference": "points", **ENDS, "p_below": "p"}
ERRORS = dict.fromkeys(("standard_error", "run_error", "seed_error"), "points")
POWERS = dict.fromkeys(("standard_error", "visible", "visible_in_grid"), "points")
SLOPES = dict.fromkeys(("slope", "low", "high", "detectable"), "rating")
REGRETS = {"regret_1": "points", "regret_1_chance": "points", "tau": "alpha", "p_corrected": "p"}
CONTRASTS = {"difference": "points", "by_chance": "points", "p": "p", "p_max": "p"}
ANSWERS = {**dict.fromkeys(("estimate", "low", "high", "smallest"), "rating"), "p_corrected": "p"}
IMPORTANCES = dict.fromkeys(("importance", "sd"), "importance")
SIZES = dict.fromkeys(("n_train", "n_validation", "n_test", "n_labels"), "count")
QUOTED = (
    quoted_of("declared_questions", "Declared", "question part", **ANSWERS, units="count"),
    quoted_of("declared_without", "Without", "question part without", **ANSWERS),
    quoted_of("learned", "Learned", TARGET, **BELOW),
    quoted_of("corrections", "Left", "way", gains="count", harms="count"),
    quoted_of("alone", "Alone", TARGET, **SCORES, floor="score", n_test="count", n_groups="count"),
    quoted_of("pairs", "Pair", PAIR, score="score", points="points", percent="percent", p_bh="p"),
    quoted_of("gains", "Gain", PAIR, **ENDS, p_max_grid="p"),
    quoted_of("error_parts", "Error", "metric setting", **ERRORS, n_pairs="count"),
    quoted_of("control_means", "Control", "control intermediate metric setting", **POINTS, **LESS_CONTROL),
    quoted_of("controls", "ControlOn", f"control {PAIR}", **POINTS, p="p"),
    quoted_of("merged_means", "MergedMean", "row metric setting", **POINTS, **LESS),
    quoted_of("merged", "Merged", "row target setting", **POINTS, **LESS, p_max_chosen="p"),
    quoted_of("budget", "Budget", "order transfers", **BUDGETS),
    quoted_of("leaderboard", "Board", "system target setting", **SCORES),
    quoted_of("leaderboard_pairs", "BoardPair", "a b target setting", **POINTS, p_max="p"),
    quoted_of("probes", "Probe", "system operation target", **CHANGED, p="p"),
    quoted_of("context_sensitivity", "Context", "part task", **SENSITIVITY, rho="alpha"),
    quoted_of("choosing", "Choosing", "ranking", **REGRETS),
    quoted_of("task_effects", "Effect", "cells role task", points="points", n_pairs="count"),
    quoted_of("visible_gains", "Power", TARGET, **POWERS),
    quoted_of("agreement", "Agreement", "construct raters", **dict.fromkeys(ALPHAS, "alpha")),
    quoted_of("rater_pairs", "Raters", "construct rater_a rater_b", spearman="alpha", p="p", mean_difference="rating"),
    quoted_of("theme_counts", "Theme", "panel role theme", **dict.fromkeys(COUNTS, "count")),
    quoted_of("theme_contrasts", "Contrast", "role theme_a theme_b", ("cells", ALL), **CONTRASTS),
    quoted_of("mixed_slopes", "Slope", "question construct", **SLOPES, p="p"),
    # What random numbers stood in for was not measured.
    quoted_of("figure-2-importances", "Importance", "series feature", ("is_stand_in", False), **IMPORTANCES),
    quoted_of("data_sets", "Data", "task", **SIZES),
)
OF_RUN = dict.fromkeys(("median_points", "largest_gain", "largest_harm"), "points")
OF_RUN |= dict.fromkeys(("hours", "processor_hours"), "hours")


def numbers(frames: NamedFrames) -> list[Number]:
    """Every number of the frames that a text would quote, with a name of its own."""
    unnamed = []
    for row in frames["run"].itertuples():
        kind, name = OF_RUN.get(row.fact, "count"), f"Study{letters(row.fact.replace('_', ' '))}"
        unnamed.append(Number(name, "data/run.csv", f"fact={row.fact}", "value", kind, printed(kind, row.value)))
    # Mean ratings: a column for each construct that somebody rated.
    frame = frames.get("rating_means", pd.DataFrame())
    rated = [name for name in frame if name not in FACTS]
    for quoted in (*QUOTED, Quoted("rating_means", "Rating", ("task",), dict.fromkeys(rated, "rating"), {})):
        unnamed += _of_frame(frames, quoted)
    seen: dict[str, int] = {}
    named = []
    for number in unnamed:
        count = seen[number.macro] = seen.get(number.macro, 0) + 1
        more = "" if count == 1 else letters(f"again {count}")
        named.append(number._replace(macro=number.macro + more))
    return named


def write_numbers(named: list[Number], out: Path) -> None:
    """Write numbers.tex, what a LaTeX text reads, and numbers.csv, where each comes from."""
    minus, less = r"\PaperMinus{}", r"\PaperLess{}"  # in text and in formulas
    lines = [
        rf"\newcommand{{\{number.macro}}}{{{number.printed.replace('-', minus).replace('<', less)}}}"
        f"% {number.file} | {' '.join(number.row.split())} | {number.column}"
        for number in named
        if number.printed
    ]
    absent = Counter((number.file, number.column) for number in named if not number.printed)
    missing = [f"% without a macro, as not defined: {n} of {name} in {file}" for (file, name), n in absent.items()]
    text = HEAD + "\n".join([*lines, *missing]) + "\n"
    write_text(out / "numbers.tex", text)
    write_csv(
        pd.DataFrame([number for number in named if number.printed], columns=list(Number._fields)), out / "numbers"
    )


class UnknownNumber(BadInput):
    """A text quotes a number that the study has not."""


def fill(text: str, named: Sequence[Number], where: str) -> str:
    """A text in which the printed number stands for each ``[[Macro]]``; UnknownNumber names the line of another."""
    values = {number.macro: number.printed for number in named if number.printed}
    for position, line in enumerate(text.splitlines(), start=1):
        for macro in NUMBER.findall(line):
            if macro not in values:
                raise UnknownNumber(
                    f"{where}:{position}: [[{macro}]] is no number of this study{nearest(macro, values)}; "
                    "numbers.csv beside main.tex lists all"
                )
    return NUMBER.sub(lambda match: values[match[1]], text)


def _of_frame(frames: NamedFrames, quoted: Quoted) -> Iterator[Number]:
    """The numbers of one frame, row by row."""
    frame = frames.get(quoted.frame, pd.DataFrame())
    for column, value in quoted.only.items():
        frame = frame[frame[column] == value] if len(frame) else frame
    for row in frame.to_dict("records"):
        keys = [*quoted.keys, *quoted.only]
        labels = {name: _key(row[name]) for name in keys}
        where = "; ".join(f"{name}={value}" for name, value in labels.items())
        row_words = "".join(letters(labels[name]) for name in quoted.keys if (name, labels[name]) != ("setting", PLAIN))
        for column, kind in quoted.columns.items():
            macro = f"{quoted.prefix}{letters(column)}{row_words}"
            yield Number(macro, f"data/{quoted.frame}.csv", where, column, kind, printed(kind, row[column]))


def _key(value: Any) -> Any:  # noqa: ANN401 - a cell of any frame
    """What names a row; a whole number stays one in a column that is not known of every row."""
    if pd.isna(value):
        return ""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# A document that holds all parts, to be looked at: ``pdflatex main``, ``bibtex main``, twice ``pdflatex main``.

PREAMBLE = r"""\documentclass[11pt,a4paper%(columns)s]{article}
%% A look at all parts at once; take from here what a venue's own class needs.
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
%(style)s
\usepackage{booktabs,tabularx,array,graphicx}
\makeatletter\@ifundefined{KV@Gin@alt}{\define@key{Gin}{alt}{}}{}\makeatother %% graphicx before 2021
\setlength{\columnsep}{0.6cm}
\setlength{\emergencystretch}{3em}
\renewcommand{\topfraction}{0.9}
\renewcommand{\dbltopfraction}{0.9}
\renewcommand{\floatpagefraction}{0.7}
\renewcommand{\dblfloatpagefraction}{0.7}
\input{numbers}
\title{%(title)s}
\author{}
\date{}
\begin{document}
\maketitle
"""
OWN_STYLE = r"""\usepackage{times}
\usepackage[%(geometry)s]{geometry}
\usepackage{natbib,url}"""
ACL_STYLE = r"""%% ACL's pages, if acl.sty and acl_natbib.bst (github.com/acl-org/acl-style-files) lie beside this file.
\newif\ifacl
\IfFileExists{acl.sty}{\acltrue}{\aclfalse}
\ifacl
\usepackage{times}
\usepackage[preprint]{acl} %% or review, or final
\else
%(own)s
\fi"""
END = r"""
\begin{raggedright}
%(bibliography_style)s
\bibliography{references}
\end{raggedright}
\end{document}
"""


def document(title: str, venue: Venue, tables: Sequence[str], figures: Sequence[Drawing]) -> str:
    """The text of main.tex: methods, tables, figures, checklist, references."""
    page = max(21.0, venue.page + 5.0)
    geometry = f"paperwidth={page:g}cm,paperheight=29.7cm,textwidth={venue.page:g}cm,textheight=24.7cm"
    columns = ",twocolumn" if venue.is_two_column else ""
    style, bibliography_style = OWN_STYLE % {"geometry": geometry}, r"\bibliographystyle{plainnat}"
    if venue.name == "acl":
        style, bibliography_style = ACL_STYLE % {"own": style}, rf"\ifacl\else{bibliography_style}\fi"
    head = PREAMBLE % {"columns": columns, "style": style, "title": escaped(title)}
    body = [r"\section*{Methods}", r"\input{methods}", *(rf"\input{{tables/{name}}}" for name in tables)]
    body += [figure(sheet, venue) for sheet in figures]
    body += [r"\clearpage", r"\section*{Reproducibility checklist}", r"\input{checklist}"]
    return head + "\n".join(body) + END % {"bibliography_style": bibliography_style}


def figure(sheet: Drawing, venue: Venue) -> str:
    """A figure at its own width, which is that of its place."""
    name = "figure*" if sheet.is_wide and venue.is_two_column else "figure"
    alt = f"[alt={{{escaped(sheet.alt)}}}]" if sheet.alt else ""
    lines = [
        rf"\begin{{{name}}}[tbp]",
        r"\centering",
        rf"\includegraphics{alt}{{figures/{sheet.name}.pdf}}",
        rf"\caption{{{escaped(sheet.caption)}}}",
        rf"\label{{fig:{sheet.name}}}",
        rf"\end{{{name}}}",
    ]
    return "\n".join(lines)


def write_paper(
    subject: Subject, out: Path, venue: Venue, progress: Progress = silent, texts: Sequence[Path] = ()
) -> list[Path]:
    """Write data, tables, numbers, figures, methods, checklist, references and main.tex into ``out``.

    ``texts`` are files in which macros stand for numbers (``fill``); each goes, filled, into ``out/texts``. Returned
    are the paths of main.tex and of those. Tables, numbers and figures are made from the CSV files that go into
    ``out/data`` alone. Equal stores give equal bytes.
    """
    read = {path: read_text(path, "utf-8", "", methodcaller("read")) for path in texts}
    figures, frames = write_data(subject, out / "data", progress)
    quoted, banner = numbers(frames), subject.results.banner
    write_numbers(quoted, out)
    copies = {out / "texts" / path.name: fill(text, quoted, str(path)) for path, text in read.items()}
    made = tables(frames, banner)
    for table in made:
        write_text(out / "tables" / f"{table.name}.tex", table_as_latex(table, venue))
        write_text(out / "tables" / f"{table.name}.md", table_as_markdown(table))
    figures = [replace(figure, frame=frames[figure.name]) for figure in figures if figure.name in frames]
    drawn = write_figures(figures, venue, out / "figures", banner, subject.question.kept)
    # Methods and checklist in both forms, and what they cite.
    uses = uses_of(subject)
    printed = {number.macro: number.printed for number in quoted if number.printed}
    parts, answers = methods(subject, uses), checklist(subject)
    sections = [f"## {head}\n\n{as_markdown(text, printed)}" for head, text in parts]
    write_text(out / "methods.md", "\n\n".join(["# Methods", *sections]) + "\n")
    paragraphs = [rf"\paragraph{{{escaped(head)}.}} {as_latex(text, printed)}" for head, text in parts]
    write_text(out / "methods.tex", "\n\n".join(paragraphs) + "\n")
    lines = [f"- **{question}** {as_markdown(answer, printed)}" for question, answer in answers]
    write_text(out / "checklist.md", "\n".join(["# Reproducibility checklist", "", *lines]) + "\n")
    items = [rf"\item \textbf{{{escaped(question)}}} {as_latex(answer, printed)}" for question, answer in answers]
    lines = [r"\begin{itemize}\raggedright", *items, r"\end{itemize}"]
    write_text(out / "checklist.tex", "\n".join(lines) + "\n")
    cited = cited_uses(uses, [text for _, text in (*parts, *answers)])
    write_text(out / "references.bib", bibliography(cited))
    write_text(out / "licences.md", licences_page(licences(subject)))
    page = out / "main.tex"
    write_text(page, document(f"{banner}{subject.title}", venue, [drawing.name for drawing in made], drawn))
    for path, text in copies.items():
        write_text(path, text)
    return [page, *copies]


def write_citations(subject: Subject, out: Path) -> tuple[Path, Path]:
    """Write references.bib and licences.md into ``out``; their paths."""
    paths = out / "references.bib", out / "licences.md"
    for path, text in zip(paths, citations(subject), strict=True):
        write_text(path, text)
    return paths


def citations(subject: Subject) -> tuple[str, str]:
    """The bibliography of a study, and its page of licences."""
    return bibliography(uses_of(subject)), licences_page(licences(subject))
