"""Pictures and coloured squares, held against those of the libraries' own, slower ways."""

import io
import re
import zlib

import matplotlib as mpl
import numpy as np
import seaborn as sns
from fontTools.subset import Options
from fontTools.ttLib import TTFont
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from analysis.figures.drawing import colour_squares, figure_of, file_of, pictures, plain_text_settings

DPI = 70
STREAM = rb"stream\r?\n(.*?)\r?\nendstream"


def _figure():
    figure = figure_of(3.0, 2.4, "A title\nof two lines")
    axes = figure.subplots()
    axes.bar(["one", "two", "a long name"], [1, 3, 2], label="bars")
    axes.set(xlabel="what", ylabel="how much")
    figure.legend(loc="outside lower center")
    return figure


def _saved(figure):
    """PNG and SVG as ``savefig`` writes them, places sought for the first."""
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI)
    figure.set_layout_engine("none")
    figure.savefig(svg, format="svg", metadata={"Date": None})
    return {"png": png.getvalue(), "svg": svg.getvalue()}


def test_pictures_are_the_bytes_that_savefig_writes():
    with plain_text_settings("salt"):
        assert pictures(_figure(), DPI) == _saved(_figure())


def test_squares_have_the_colours_of_a_heatmap_of_seaborn():
    values = np.array([[0.5, -3.0, np.nan], [9.0, 0.0, 1.25]])
    ours, theirs = (Figure().subplots() for _ in range(2))
    colour_squares(ours, values, colours="RdBu", least=-2.0, most=2.0, bar={"extend": "both"})
    sns.heatmap(values, ax=theirs, cmap="RdBu", vmin=-2.0, vmax=2.0, cbar_kws={"extend": "both"})
    faces = []
    for axes in (ours, theirs):
        (mesh,) = (collection for collection in axes.collections if isinstance(collection, QuadMesh))
        mesh.update_scalarmappable()
        faces.append(mesh.get_facecolor())
    np.testing.assert_array_equal(*faces)
    assert (ours.get_xlim(), ours.get_ylim()) == (theirs.get_xlim(), theirs.get_ylim())
    assert faces[0][2][3] == 0  # what is not defined has no colour


def test_a_pdf_has_every_letter_in_its_font_and_no_table_that_places_letters():
    before = list(Options().drop_tables)
    with plain_text_settings("salt"), mpl.rc_context({"pdf.fonttype": 42}):
        content = file_of(_figure(), "pdf")
    assert Options().drop_tables == before
    streams = (zlib.decompressobj().decompress(part[1]) for part in re.finditer(STREAM, content, re.DOTALL))
    fonts = [TTFont(io.BytesIO(stream)) for stream in streams if stream.startswith(b"\0\1\0\0")]
    drawn = {name for font in fonts for name in font.getGlyphOrder() if font["glyf"][name].numberOfContours}
    assert {"A", "t", "w", "h", "m", "three"} <= drawn
    assert fonts and not any({"GDEF", "GPOS", "GSUB"} & set(font.keys()) for font in fonts)
