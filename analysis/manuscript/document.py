"""A document that holds all parts, to be looked at: ``pdflatex main``, ``bibtex main``, twice ``pdflatex main``."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.manuscript.figures import Sheet
from analysis.manuscript.latex import escaped
from analysis.manuscript.layout import Venue

PREAMBLE = r"""\documentclass[11pt,a4paper%(columns)s]{article}
%% A look at all parts at once; take from here what a venue's own class needs.
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{times}
\usepackage[%(geometry)s]{geometry}
\usepackage{booktabs,tabularx,array,graphicx,natbib,url}
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
END = r"""
\nocite{*}
\begin{raggedright}
\bibliographystyle{plainnat}
\bibliography{references}
\end{raggedright}
\end{document}
"""


def document(title: str, venue: Venue, tables: Sequence[str], figures: Sequence[Sheet]) -> str:
    """The text of main.tex: methods, tables, figures, checklist, references."""
    page = max(21.0, venue.page + 5.0)
    geometry = f"paperwidth={page:g}cm,paperheight=29.7cm,textwidth={venue.page:g}cm,textheight=24.7cm"
    columns = ",twocolumn" if venue.is_two_column else ""
    head = PREAMBLE % {"columns": columns, "geometry": geometry, "title": escaped(title)}
    body = [r"\section*{Methods}", r"\input{methods}", *(rf"\input{{tables/{name}}}" for name in tables)]
    body += [figure(sheet, venue) for sheet in figures]
    body += [r"\clearpage", r"\section*{Reproducibility checklist}", r"\input{checklist}"]
    return head + "\n".join(body) + END


def figure(sheet: Sheet, venue: Venue) -> str:
    """A figure at its own width, which is that of its place."""
    name = "figure*" if sheet.is_wide and venue.is_two_column else "figure"
    lines = [
        rf"\begin{{{name}}}[tbp]",
        r"\centering",
        rf"\includegraphics{{figures/{sheet.name}.pdf}}",
        rf"\caption{{{escaped(sheet.caption)}}}",
        rf"\label{{fig:{sheet.name}}}",
        rf"\end{{{name}}}",
    ]
    return "\n".join(lines)
