"""A study as a notebook shows it: how many of its cells are stored, and the uncertainty map of its gains."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape

import pandas as pd

from analysis.figures.planned.plan import svg_of_plan
from analysis.figures.planned.uncertainty import map_frame, map_title
from analysis.figures.planned.uncertainty_map import MAP, map_plan
from analysis.gains.cells import Manifest
from analysis.tables import as_written
from tasks.plain_text import counted, harmless

FULL = "full"  # the setting of all training data


def study_html(name: str, counts: Mapping[str, int], gains: pd.DataFrame, manifest: Manifest) -> str:
    """The cells by state (state -> number) and, once a gain of all training data is finished, the map; HTML.

    The map is a picture inside the text, so that two of them in a notebook share no names.
    """
    states = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    head = f"<p><b>{escape(harmless(name))}</b>: {counted(sum(counts.values()), 'cell')} ({escape(states)})</p>"
    if not ((gains.setting == FULL) & (gains.n_seeds > 0)).any():
        return f"<div>{head}<p>No gain yet: a pair of tasks and its target alone must be stored.</p></div>"
    plan = map_plan(as_written(map_frame(gains, manifest, setting=FULL)), map_title(gains, manifest, FULL))
    picture = base64.b64encode(svg_of_plan(plan, f"{MAP}-{FULL}")).decode()
    style = "max-width:100%;background:white"
    return f'<div>{head}<img style="{style}" alt="{escape(plan.alt)}" src="data:image/svg+xml;base64,{picture}"></div>'
