"""Everything of a study that a manuscript needs, in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from pathlib import Path

from adapters_store.disk import write_text
from analysis.manuscript.figures import Sheet, write_figures
from analysis.manuscript.frames import Subject, read_data, write_data
from analysis.manuscript.layout import Table, Venue, as_latex, as_markdown, escaped, table_as_latex, table_as_markdown
from analysis.manuscript.methods import checklist, methods
from analysis.manuscript.numbers import filled, numbers, write_numbers
from analysis.manuscript.references import as_markdown as licences_page
from analysis.manuscript.references import bibliography, cited_uses, licences, used
from analysis.manuscript.tables import tables
from analysis.sections.answers import silent
from analysis.sections.importance import Progress
from tasks.readers.streams import read_text

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


def document(title: str, venue: Venue, tables: Sequence[str], figures: Sequence[Sheet]) -> str:
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


def figure(sheet: Sheet, venue: Venue) -> str:
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

    ``texts`` are files in which macros stand for numbers (``filled``); each goes, filled, into ``out/texts``. Returned
    are the paths of main.tex and of those. Tables, numbers and figures are made from the CSV files in ``out/data``
    alone. Equal stores give equal bytes.
    """
    read = {path: read_text(path, "utf-8", "", methodcaller("read")) for path in texts}
    write_data(subject, out / "data", progress)
    frames, banner = read_data(out / "data"), subject.results.banner
    quoted = numbers(frames)
    write_numbers(quoted, out)
    own = {out / "texts" / path.name: filled(text, quoted, str(path)) for path, text in read.items()}
    made = tables(frames, banner)
    _write_tables(made, venue, out / "tables")
    drawn = write_figures(frames, venue, out / "figures", banner, subject.question.kept)
    # Methods and checklist in both forms, and what they cite.
    uses = used(subject)
    printed = {number.macro: number.printed for number in quoted if number.printed}
    parts, answers = methods(subject, uses), checklist(subject)
    sections = [f"## {head}\n\n{as_markdown(text, printed)}" for head, text in parts]
    write_text(out / "methods.md", "\n\n".join(["# Methods", *sections]) + "\n")
    paragraphs = [rf"\paragraph{{{escaped(head)}.}} {as_latex(text, printed)}" for head, text in parts]
    write_text(out / "methods.tex", "\n\n".join(paragraphs) + "\n")
    asked = [f"- **{question}** {as_markdown(answer, printed)}" for question, answer in answers]
    write_text(out / "checklist.md", "\n".join(["# Reproducibility checklist", "", *asked]) + "\n")
    items = [rf"\item \textbf{{{escaped(question)}}} {as_latex(answer, printed)}" for question, answer in answers]
    lines = [r"\begin{itemize}\raggedright", *items, r"\end{itemize}"]
    write_text(out / "checklist.tex", "\n".join(lines) + "\n")
    cited = cited_uses(uses, [text for _, text in (*parts, *answers)])
    write_text(out / "references.bib", bibliography(cited))
    write_text(out / "licences.md", licences_page(licences(subject)))
    page = out / "main.tex"
    write_text(page, document(f"{banner}{subject.title}", venue, [drawing.name for drawing in made], drawn))
    for path, text in own.items():
        write_text(path, text)
    return [page, *own]


def write_citations(subject: Subject, out: Path) -> tuple[Path, Path]:
    """Write references.bib and licences.md into ``out``; their paths."""
    paths = out / "references.bib", out / "licences.md"
    for path, text in zip(paths, citations(subject), strict=True):
        write_text(path, text)
    return paths


def citations(subject: Subject) -> tuple[str, str]:
    """The bibliography of a study, and its page of licences."""
    return bibliography(used(subject)), licences_page(licences(subject))


def _write_tables(made: Sequence[Table], venue: Venue, out: Path) -> None:
    for table in made:
        write_text(out / f"{table.name}.tex", table_as_latex(table, venue))
        write_text(out / f"{table.name}.md", table_as_markdown(table))
