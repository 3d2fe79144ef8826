"""What the figures have in common: size and title, texts that stay legible whatever they hold, and their files.

Titles come from entries and may hold anything. Matplotlib would read two dollars as a formula, and a layout has no room
for a name of hundreds of letters: texts are drawn without mathematics, names are cut, and ink stands out from squares.

Matplotlib takes a second to load and is loaded where something is drawn: figures that are kept need none of it.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adapters_store.disk import write_bytes
from analysis.kept import NOWHERE, Kept
from analysis.tables import FIGURES, as_written, write_csv
from tasks.plain_text import harmless

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

COLOUR, PALE = "0.25", "0.65"  # blue and red are for what is positive and negative
LONGEST = 40  # letters of a name beside an axis or in a legend
END = 9  # of them from its end, where names of one family differ
MIDDLE = 0.1791  # relative luminance at which black and white stand out alike, 4.58 to 1
LETTERS_PER_INCH = 11  # of a title, so that none is cut
UNTIMED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # metadata of such files
CANVASES = {"png": "agg", "svg": "svg", "pdf": "pdf"}  # matplotlib's name of what writes such a file
DROPPED = "_drop_tables_default"  # of fontTools: matplotlib lets nobody say which tables are left out
PLACING = ("GDEF", "GPOS", "GSUB", "MATH")  # tables of a font that say how letters stand beside each other
FONT: dict[Any, Any] = {"text.parse_math": False, "font.family": "DejaVu Sans"}


class FigureFiles(NamedTuple):
    """A figure on disk: its title, its two files, and the frame that it was drawn from."""

    title: str
    png: Path
    svg: Path
    frame: pd.DataFrame


@dataclass(frozen=True)
class Drawing:
    """A figure that is not drawn yet: its files' name and folder, its title, its frame, and how it is drawn.

    A manuscript sets the ``caption`` below it, ``height`` cm high and over a page's width if it ``is_wide``; without a
    height it is a grid of squares, as high as its rows. A part of a plan is drawn at the width that it has in print,
    and ``alt`` says what it shows.
    """

    name: str
    title: str
    frame: pd.DataFrame
    draw: Callable[[pd.DataFrame, str], Figure]
    caption: str = ""
    is_wide: bool = True
    height: float = 0.0
    alt: str = ""
    dpi: int = 200
    folder: str = FIGURES

    @property
    def names(self) -> list[str]:
        """What its files are called."""
        return [self.name]

    def write(self, out: Path, kept: Kept = NOWHERE, *, prints: bool = False) -> list[FigureFiles]:
        """Draw it, unless it is kept, into its folder below ``out``, with its frame; it is never printed as PDF."""
        stem = out / self.folder / self.name
        return [write_figure_files(self.frame, stem, self.title, self.draw, dpi=self.dpi, kept=kept)]


def plain_text_settings(salt: str, **further: Any) -> AbstractContextManager[None]:  # noqa: ANN401 - of matplotlib
    """Settings to draw and write a figure with: texts as they are, in an SVG as text, and equal bytes of equal ones."""
    import matplotlib as mpl

    settings: dict[Any, Any] = {**FONT, "svg.hashsalt": salt, "svg.fonttype": "none", **further}
    return mpl.rc_context(settings)


def on_a_line(name: object) -> str:
    """A name on one line, without control characters."""
    return harmless(" ".join(str(name).split()))


def shortened(name: object, longest: int = LONGEST) -> str:
    """A name on one line, its middle left out where it is long."""
    text = on_a_line(name)
    return text if len(text) <= longest else f"{text[: longest - END - 3]}...{text[-END:]}"


def luminance(colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """Relative luminance ``[n]`` (WCAG 2) of colours ``[n, 4]``: red, green, blue and opacity from 0 to 1, on white."""
    shown = colours[:, :3] * colours[:, 3:] + (1 - colours[:, 3:])
    linear = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    luminances: NDArray[np.float64] = linear @ np.array([0.2126, 0.7152, 0.0722])
    return luminances


def colour_squares(
    axes: Axes, values: NDArray[np.float64], *, colours: str, least: float, most: float, bar: Mapping[str, Any]
) -> None:
    """Colour a square per value ``[rows, columns]``, the first row on top, and draw the scale; NaN stays white.

    Where every value is NaN there is no scale to draw.

    The figure is not drawn for it, as by libraries that look whether labels overlap: ``name_squares`` places them.
    """
    axes.spines[:].set_visible(False)
    shown = np.ma.masked_invalid(values)
    mesh = axes.pcolormesh(shown, cmap=colours, vmin=least, vmax=most, linewidths=0.5, edgecolors="white")
    axes.set(xlim=(0, values.shape[1]), ylim=(values.shape[0], 0))
    if shown.count():
        scale = axes.figure.colorbar(mesh, ax=axes, **bar)
        scale.outline.set_linewidth(0)


def make_legible(axes: Axes) -> None:
    """Give every text in a square of a heatmap black or white ink, whichever stands out more on the square.

    A patch that covers a square is light, and the ink on it black.
    """
    from matplotlib.collections import QuadMesh
    from matplotlib.patches import Rectangle

    mesh = next(collection for collection in axes.collections if isinstance(collection, QuadMesh))
    mesh.update_scalarmappable()
    across = np.asarray(mesh.get_coordinates()).shape[1] - 1
    is_light = luminance(np.asarray(mesh.get_facecolor(), dtype=np.float64)) > MIDDLE
    covered = {(int(patch.get_x()), int(patch.get_y())) for patch in axes.patches if isinstance(patch, Rectangle)}
    for text in axes.texts:
        x, y = (int(part) for part in text.get_position())
        text.set_color("black" if (x, y) in covered or is_light[y * across + x] else "white")


def write_in_square(axes: Axes, x: int, y: int, words: str, **style: Any) -> None:  # noqa: ANN401 - of a text
    """Write into the square of a heatmap whose upper left corner is here; the layout need not look for its place."""
    axes.text(x + 0.5, y + 0.5, words, ha="center", va="center", fontsize=8, in_layout=False, **style)


def cover(axes: Axes, x: int, y: int, **style: Any) -> None:  # noqa: ANN401 - of a patch
    """Fill the square of a heatmap whose upper left corner is here."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y), 1, 1, linewidth=0, **style))


def legend_patch(label: str, **style: Any) -> Patch:  # noqa: ANN401 - of a patch
    """An entry of a legend: what a fill means."""
    from matplotlib.patches import Patch

    return Patch(label=label, **style)


def legend_mark(label: str, **style: Any) -> Line2D:  # noqa: ANN401 - of a line
    """An entry of a legend: what a mark means, which stands in the label where no ``style`` draws it."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"linestyle": "none", "label": label, **style})


def whole_numbers(most: int) -> MaxNLocator:
    """Ticks at whole numbers, at most as many spaces between them."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(most, integer=True)


def empty_figure(width: float, height: float, *, layout: str | None = "constrained") -> Figure:
    """An empty figure of this size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)  # type: ignore[arg-type]
    FigureCanvasAgg(figure)
    return figure


def figure_of(width: float, height: float, title: str) -> Figure:
    """An empty figure of this size in inches with its title, wrapped."""
    figure = empty_figure(width, height)
    lines = [
        line
        for paragraph in title.splitlines()
        for line in textwrap.wrap(harmless(paragraph), int(LETTERS_PER_INCH * width))
    ]
    figure.suptitle("\n".join(lines), fontsize=10)
    return figure


def make_plain(axes: Axes) -> None:
    """Small tick labels, and no line above or at the right."""
    axes.tick_params(labelsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)


def write_figure_files(
    frame: pd.DataFrame,
    stem: Path,
    title: str,
    draw: Callable[[pd.DataFrame, str], Figure],
    *,
    dpi: int = 200,
    kept: Kept = NOWHERE,
    settings: Mapping[str, Any] | None = None,
    prints: bool = False,
) -> FigureFiles:
    """Write the frame as CSV and its figure as SVG and PNG, and as PDF where it ``prints``, drawn of what the CSV says.

    Equal frames give equal bytes. A figure that is ``kept`` is not drawn again: ``draw`` is a function with a name, or
    a partial of such, and what it draws hangs on nothing but the frame and the title. ``settings`` are of matplotlib.
    """
    write_csv(frame, stem)
    frame = as_written(frame)
    files = FigureFiles(title, stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg"), frame)
    inputs = {"draw": named(draw), "frame": frame, "title": title, "salt": stem.name, "dpi": dpi}

    def drawn(write: Callable[[Figure], dict[str, bytes]]) -> dict[str, bytes]:
        with plain_text_settings(stem.name, **(settings or {})):
            return write(draw(frame, title))

    contents = kept.parts("figure", inputs, lambda: drawn(lambda figure: pictures(figure, dpi)))
    if prints:
        contents |= kept.parts("print", inputs, lambda: drawn(lambda figure: {"pdf": file_of(figure, "pdf")}))
    for ending, content in contents.items():
        write_bytes(stem.with_name(f"{stem.name}.{ending}"), content)
    return files


def pictures(figure: Figure, dpi: int) -> dict[str, bytes]:
    """The figure as PNG of this resolution and as SVG; places are sought once, with room for the texts of an SVG."""
    png = file_of(figure, "png", dpi)
    figure.set_layout_engine("none")
    return {"svg": file_of(figure, "svg"), "png": png}


def file_of(figure: Figure, ending: str, dpi: float | None = None) -> bytes:
    """The bytes of the file in which a figure is written, those of ``savefig`` without the time at which it was made.

    That draws each file twice, the first time into nothing, to have the places of its layout; here these are sought.
    """
    content, own_dpi = io.BytesIO(), figure.dpi
    # What writes files of this ending.
    canvas = import_module(f"matplotlib.backends.backend_{CANVASES[ending]}").FigureCanvas(figure)
    figure.dpi = canvas.fixed_dpi or dpi or own_dpi
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")
    figure.dpi = dpi or own_dpi
    with _fonts_without_placing() if ending == "pdf" else nullcontext():
        getattr(canvas, f"print_{ending}")(content, metadata=UNTIMED.get(ending))
    figure.dpi = own_dpi
    if layout is not None:
        figure.set_layout_engine(layout)
    return content.getvalue()


@contextmanager
def _fonts_without_placing() -> Iterator[None]:
    """Cut fonts to a figure's letters without the tables that place letters, which no PDF reads.

    Matplotlib has placed every letter by then; half the time of cutting DejaVu Sans went to these tables.
    """
    from fontTools.subset import Options

    dropped = getattr(Options, DROPPED, [])
    setattr(Options, DROPPED, [*dropped, *PLACING])
    try:
        yield
    finally:
        setattr(Options, DROPPED, dropped)


def named(draw: Callable[..., Any]) -> list[Any]:
    """What a function is called, and what a partial of it has been given, functions by their names too."""
    if isinstance(draw, partial):
        given = {name: named(value) if callable(value) else value for name, value in draw.keywords.items()}
        return [*named(draw.func), list(draw.args), given]
    return [draw.__module__, draw.__qualname__]
