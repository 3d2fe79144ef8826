"""A page's content from a made-up study, without the slow answers and figures of a report; and what is in a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from adapters_store import Store
from analysis.gains.cells import Manifest
from analysis.page.document import ReportContent
from analysis.sections import study as study_sections
from analysis.sections.blocks import Section
from analysis.sections.importance import Answer
from analysis.sections.study_results import StudyResults

HISTORY = [{"epoch": epoch, "train_loss": 1.0 / epoch, "validation": 0.1 * epoch} for epoch in (1, 2, 3, 4)]
NO_SECTION = Section("What explains a gain", ())
SILENT = Answer((), NO_SECTION, {"headline": "nothing was asked", "features": [], "curve": []})


def page_content(store: Store, manifest: Manifest, out: Path, *, draws: int = 100) -> ReportContent:
    """What a report of the study would have on its page, but for the answers about ratings and features."""
    study = StudyResults.of(store, manifest, out, draws=draws).with_controls(store)
    sections = [part(study) for part in (study_sections.opening, study_sections.tasks, study_sections.caveats)]
    return ReportContent(study, SILENT, (), sections)


def document_in(html: str) -> dict[str, Any]:
    """The JSON document of a page; AssertionError if it has a NaN or an infinity."""
    (text,) = re.findall(r'<script type="application/json" id="document">(.*?)</script>', html, re.DOTALL)

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} in the document")

    document: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return document
