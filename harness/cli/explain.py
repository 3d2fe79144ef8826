"""``explain``: test rows as a system sees them, their tokens coloured by what they add, or all rows in a plane."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from html import escape
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adapters_store import Store, disk
from harness.cli.options import Leaves, device_option, leaf_of, out_option, registry_option, splits_option
from harness.cli.study import name_of, splits_of
from harness.cli.terminal import Bars, console, plain, print_json, width_of
from harness.sharing.stored import stored_manifest
from tasks.errors import BadInput
from tasks.plain_text import nearest

if TYPE_CHECKING:
    from harness.scoring.explained import ExplainedRow
    from tasks.splits.loading import Splits

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


def add(leaves: Leaves) -> None:
    """Add ``explain``."""
    text = "Show which tokens of stored test rows speak for a system's answer, or with --plane where all rows lie."
    example = "systems explain my-study --system joint --task iempathize --rows 3"
    explain = leaf_of(leaves, "explain STUDY", text, example, explain_rows, "data store json quiet")
    out_option(explain, "of --plane (default: results/STUDY); texts go to the terminal, or to the page of --html")
    explain.add_argument("study", metavar="STUDY", help="a study that the store has")
    explain.add_argument("--system", metavar="NAME", required=True, help="of the kind clsn, encoder or bi-encoder")
    explain.add_argument("--task", metavar="ID", required=True, help="whose test rows")
    explain.add_argument("--seed", metavar="N", type=int, help="of the training (default: the study's lowest)")
    explain.add_argument("--row", metavar="ID", action="append", default=[], help="only this row (repeatable)")
    explain.add_argument("--rows", metavar="N", type=int, default=5, help="so many of the first (default: 5)")
    explain.add_argument("--html", metavar="FILE", help="write a page of your own in place of the terminal")
    plane = "draw all rows by t-SNE of the vectors that are classified, without their texts"
    explain.add_argument("--plane", action="store_true", help=plane)
    device_option(explain)
    registry_option(explain)
    splits_option(explain)


def _task_splits(store: Store, manifest: Mapping[str, Any], options: argparse.Namespace) -> Splits:
    """The splits of the task that the options name; BadInput where the study has none, or its files are not here."""
    if options.task not in (known := list(manifest["tasks"])):
        name = manifest["name"]
        raise BadInput(f"--task {options.task}: not a task of study {name!r}{nearest(options.task, known)}")
    return splits_of(options, store, manifest, options.task)


def explain_rows(options: argparse.Namespace) -> int:
    """Print the rows one after the other, write them as a page, or draw them in a plane."""
    from harness.scoring.explained import explained_rows

    store, name = Store(Path(options.store)), name_of(options.study)
    page = _page_of(options, store)
    manifest = stored_manifest(store, name)
    splits = _task_splits(store, manifest, options)
    if options.plane:
        return _draw(store, manifest, splits, options)
    chosen = {"ids": options.row, "count": options.rows, "seed": options.seed, "device": options.device}
    rows = explained_rows(store, manifest, splits, options.system, **chosen)
    if page is None:
        for row in rows:
            # a row on the terminal: its text in colour, where there are colours, and its strongest tokens in words
            from rich.text import Text

            screen = console()
            shown = Text()
            for piece in pieces_of(row):
                shown.append(plain(piece.text), style=_style(piece.share))
            is_whole = width_of(sys.stdout) is None  # a pipe gets whole lines
            for line in (heading(row), shown, strongest(row), ""):
                screen.print(line if isinstance(line, Text) else plain(line), soft_wrap=is_whole)
        return 0
    disk.write_text(page, html_of(f"{options.system} on {options.task}, study {name}", list(rows)))
    print(f"{page}\n{HOLDS_TEXTS}")
    return 0


def _draw(store: Store, manifest: Mapping[str, Any], splits: Splits, options: argparse.Namespace) -> int:
    """Write the figure of all rows with its CSV, which holds places and classes, no id and no text."""
    from analysis.figures.explanations import rows_figure
    from analysis.tables import FIGURES
    from harness.scoring.explained import rows_map

    with Bars(quiet=options.quiet) as bars:
        chosen = {"seed": options.seed, "device": options.device}
        mapped = rows_map(store, manifest, splits, options.system, **chosen, watch=lambda *at: bars.show("rows", *at))
    stem = Path(options.out or f"results/{manifest['name']}") / FIGURES / f"tsne-{options.task}-{options.system}"
    what = f"{manifest['tasks'][options.task]['title']}, system {options.system}"
    files = rows_figure(mapped.frame, mapped.silhouette, what, stem)
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
    own = row.attribution
    said = (
        f"row {row.id}: {row.gold}, predicted {row.predicted}; its logit is {own.whole:+.2f} above the mean of the"
        f" others, {own.empty:+.2f} without words; tokens add up to {own.contributions.sum():+.2f}"
    )
    if not own.is_complete:
        said += f", {100 * own.gap:.0f} % off the difference: do not rely on them"
    return said + ("; the text was read in part" if row.is_cut else "")


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
        f"{side}: {', '.join(f'{text} {value:+.2f}' for value, text in own)}" for side, own in sides.items() if own
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


def _style(share: float) -> str:
    if not _level(share):
        return ""
    return f"{_ink(share)} on rgb({','.join(map(str, _colour(share)))})"


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
        parts += [
            f"<h2>Row {escape(row.id)}</h2>\n<p>{escape(heading(row))}</p>",
            f'<p class="text">{_coloured(row)}</p>',
        ]
        parts.append(f"<p>{escape(strongest(row))}</p>")
    return "\n".join(parts) + "\n</body></html>\n"


def _coloured(row: ExplainedRow) -> str:
    largest = max((abs(contribution) for *_, contribution in contributions_of(row)), default=0.0)
    return "".join(
        f'<span style="background:rgb{_colour(piece.share)};color:{_ink(piece.share)}"'
        f' title="{largest * piece.share:+.3f}">{escape(piece.text)}</span>'
        if _level(piece.share)
        else escape(piece.text)
        for piece in pieces_of(row)
    )
