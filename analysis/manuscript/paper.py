"""Everything of a study that a manuscript needs, in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from adapters_store.output import write_text
from analysis.explained import silent
from analysis.importance_sections import Progress
from analysis.manuscript import told
from analysis.manuscript.checklist import checklist
from analysis.manuscript.document import document
from analysis.manuscript.figures import write_figures
from analysis.manuscript.frames import read_data, write_data
from analysis.manuscript.latex import escaped
from analysis.manuscript.layout import Table, Venue, as_latex, as_markdown
from analysis.manuscript.licences import as_markdown as licences_page
from analysis.manuscript.licences import licences
from analysis.manuscript.methods import methods
from analysis.manuscript.numbers import Number, numbers, write_numbers
from analysis.manuscript.references import bibliography, used
from analysis.manuscript.subject import Subject
from analysis.manuscript.tables import tables


def write_paper(subject: Subject, out: Path, venue: Venue, progress: Progress = silent) -> Path:
    """Write data, tables, numbers, figures, methods, checklist, references and main.tex into ``out``; main.tex's path.

    Tables, numbers and figures are made from the CSV files in ``out/data`` alone. Equal stores give equal bytes.
    """
    write_data(subject, out / "data", progress)
    frames, banner = read_data(out / "data"), subject.results.banner
    found = numbers(frames)
    write_numbers(found, out)
    made = tables(frames, banner)
    _write_tables(made, venue, out / "tables")
    drawn = write_figures(frames, venue, out / "figures", banner)
    _write_text(subject, found, out)
    page = out / "main.tex"
    write_text(page, document(f"{banner}{subject.title}", venue, [one.name for one in made], drawn))
    return page


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
        write_text(out / f"{table.name}.tex", as_latex(table, venue))
        write_text(out / f"{table.name}.md", as_markdown(table))


def _write_text(subject: Subject, found: Sequence[Number], out: Path) -> None:
    """Methods and checklist in both forms, and what they cite."""
    uses = used(subject)
    printed = {one.macro: one.printed for one in found if one.printed}
    parts, answers = methods(subject, uses), checklist(subject)
    sections = [f"## {head}\n\n{told.as_markdown(text, printed)}" for head, text in parts]
    write_text(out / "methods.md", "\n\n".join(["# Methods", *sections]) + "\n")
    paragraphs = [rf"\paragraph{{{escaped(head)}.}} {told.as_latex(text, printed)}" for head, text in parts]
    write_text(out / "methods.tex", "\n\n".join(paragraphs) + "\n")
    asked = [f"- **{question}** {told.as_markdown(answer, printed)}" for question, answer in answers]
    write_text(out / "checklist.md", "\n".join(["# Reproducibility checklist", "", *asked]) + "\n")
    items = [rf"\item \textbf{{{escaped(question)}}} {told.as_latex(answer, printed)}" for question, answer in answers]
    lines = [r"\begin{itemize}\raggedright", *items, r"\end{itemize}"]
    write_text(out / "checklist.tex", "\n".join(lines) + "\n")
    write_citations(subject, out)
