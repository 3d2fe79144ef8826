"""A page's findings from a made-up study, without the slow answers and figures of a report; and what is in a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from adapters_store import Store
from analysis.gains.baselines import baselines
from analysis.gains.cells import Manifest, cells
from analysis.gains.controls import control_means, controls
from analysis.gains.gains import gains
from analysis.page.document import Told
from analysis.results.results import Results
from analysis.sections import study
from analysis.sections.importance import Answer
from analysis.sections.question import of_study
from analysis.sections.study import Findings

HISTORY = [{"epoch": one, "train_loss": 1.0 / one, "validation": 0.1 * one} for one in (1, 2, 3, 4)]
SILENT = Answer((), (), {"headline": "nothing was asked", "features": [], "curve": []})


def told(store: Store, manifest: Manifest, out: Path, *, draws: int = 100) -> Told:
    """What a report of the study would tell a page, but for the answers about ratings and features."""
    gained, controlled = (frame(store, manifest, draws=draws) for frame in (gains, controls))
    found = Findings(
        manifest=manifest,
        cells=cells(store, manifest),
        gains=gained,
        baselines=baselines(store, manifest, draws=draws),
        controls=controlled,
        control_means=control_means(controlled, gained),
        draws=draws,
    )
    question = of_study(Results.by_setting(store, manifest, gained), out)
    paragraphs = [*study.opening(found), *study.tasks(found), *study.caveats(found)]
    return Told(found, question, SILENT, (), paragraphs)


def document_in(html: str) -> dict[str, Any]:
    """The JSON document of a page; AssertionError if it has a NaN or an infinity."""
    (text,) = re.findall(r'<script type="application/json" id="document">(.*?)</script>', html, re.DOTALL)

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} in the document")

    found: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return found
