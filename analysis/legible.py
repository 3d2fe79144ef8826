"""What makes a figure legible whatever names it holds: no mathematics in texts, names cut, ink that stands out.

Titles come from entries and may hold anything. Matplotlib would read two dollars as a formula, and a layout has no room
for a name of hundreds of letters.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from tasks.plain_text import harmless

LONGEST = 40  # letters of a name beside an axis or in a legend
END = 9  # of them from its end, where names of one family differ
MIDDLE = 0.1791  # relative luminance at which black and white stand out alike, 4.58 to 1
FONT: dict[Any, Any] = {"text.parse_math": False, "font.family": "DejaVu Sans"}


def written_plainly(salt: str) -> AbstractContextManager[None]:
    """Settings to draw and write a figure with: texts as they are, in an SVG as text, and equal bytes of equal ones."""
    return mpl.rc_context({**FONT, "svg.hashsalt": salt, "svg.fonttype": "none"})


def shortened(name: object, longest: int = LONGEST) -> str:
    """A name on one line, its middle left out where it is long."""
    text = harmless(" ".join(str(name).split()))
    return text if len(text) <= longest else f"{text[: longest - END - 3]}...{text[-END:]}"


def luminance(colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """Relative luminance ``[n]`` (WCAG 2) of colours ``[n, 4]``: red, green, blue and opacity from 0 to 1, on white."""
    shown = colours[:, :3] * colours[:, 3:] + (1 - colours[:, 3:])
    linear = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    found: NDArray[np.float64] = linear @ np.array([0.2126, 0.7152, 0.0722])
    return found


def make_legible(axes: Axes) -> None:
    """Give every text in a square of a heatmap black or white ink, whichever stands out more on the square.

    A patch that covers a square is light, and the ink on it black.
    """
    mesh = next(one for one in axes.collections if isinstance(one, QuadMesh))
    mesh.update_scalarmappable()
    across = np.asarray(mesh.get_coordinates()).shape[1] - 1
    is_light = luminance(np.asarray(mesh.get_facecolor(), dtype=np.float64)) > MIDDLE
    covered = {(int(one.get_x()), int(one.get_y())) for one in axes.patches if isinstance(one, Rectangle)}
    for text in axes.texts:
        x, y = (int(part) for part in text.get_position())
        text.set_color("black" if (x, y) in covered or is_light[y * across + x] else "white")
