"""A page's content from a made-up study, without the slow answers and figures of a report; and what is in a page.

One study has something of every kind: texts that look like markup, every metric, cells that are missing.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from adapters_store import Store
from analysis.gains.cells import Manifest, Snapshot
from analysis.importance.question import of_study
from analysis.kept import NOWHERE
from analysis.page.document import Report
from analysis.report import report
from analysis.results.study_results import StudyResults
from analysis.sections import study as study_sections
from analysis.sections.blocks import Section
from analysis.sections.importance import ImportanceReport
from tests.support.studies.fake_study import FakeTask, fake_study

HISTORY = [{"epoch": epoch, "train_loss": 1.0 / epoch, "validation": 0.1 * epoch} for epoch in (1, 2, 3, 4)]
NO_SECTION = Section("What explains a gain", ())
SILENT = ImportanceReport((), NO_SECTION, {"headline": "nothing was asked"})
SCRIPT, BOLD = "Hope <script>broken = 1</script>", "Role <b>in bold</b> &amp; more"
TASKS = (
    FakeTask("empathy_hope"),
    FakeTask("empdial_role"),
    FakeTask("felt", "multilabel"),  # nobody has rated it
    FakeTask("news_distress", "continuous"),
    FakeTask("news_empathy", "continuous"),
    FakeTask("epitome_er", "ordinal"),
    FakeTask("mi_adherent"),
    FakeTask("conv_empathy", "continuous"),
)


def page_of_every_kind(folder: Path) -> Path:
    """The page of a report of the study of every kind, written below ``folder``."""
    store, manifest = fake_study(
        folder / "store",
        TASKS,
        controls=("self", "shuffled", "random", "control"),
        helpful=[("empathy_hope", "empdial_role"), ("epitome_er", "empathy_hope"), ("news_empathy", "news_distress")],
        constant=[("empathy_hope", "news_distress")],
        absent=[("empathy_hope", "epitome_er")],
        flags={("felt", "empathy_hope"): ["collapsed"]},
        missing_tasks={"condolence": "its file <i>is not there</i>"},
        history=HISTORY,
    )
    for place, task in enumerate(manifest["tasks"].values()):
        task["family"] = task["dataset"] = f"family {place}"
        task["theme"] = ("direct", "abstract", "adjacent")[place % 3]
    manifest["tasks"]["empathy_hope"]["title"] = SCRIPT
    manifest["tasks"]["empdial_role"]["title"] = BOLD
    asked = {"outcome": "points", "left_out": "target", "cells": "all", "weights": "inverse variance"}
    manifest["study"]["analysis"] = {**asked, "without_rater": "", "draws": 19, "margin": 2.0}
    manifest["declared"] = "2024-01-01T00:00:00+00:00"
    return report(store, manifest, folder / "out", draws=200).page.parent / "report.html"


def page_content(store: Store, manifest: Manifest, out: Path, *, draws: int = 100) -> tuple[StudyResults, Report]:
    """A study and what its report would have on its page, but for the answers about ratings and features."""
    study = StudyResults.of(store, manifest, draws=draws)
    sections = [part(study) for part in (study_sections.opening, study_sections.tasks, study_sections.caveats)]
    return study, Report(str(manifest["study"]["title"]), of_study(study, out), SILENT, sections)


def study_of(manifest: Manifest, **frames: pd.DataFrame) -> StudyResults:
    """A study without a store that has these frames and no others."""
    return with_frames(StudyResults(Snapshot(Path("nowhere")), manifest), kept=NOWHERE, **frames)


def with_frames(study: StudyResults, **frames: Any) -> StudyResults:
    """The study with other frames in the place of its own; what follows from these is computed anew."""
    other = replace(study)
    vars(other).update(frames)
    return other


def document_in(html: str) -> dict[str, Any]:
    """The JSON document of a page; AssertionError if it has a NaN or an infinity."""
    (text,) = re.findall(r'<script type="application/json" id="document">(.*?)</script>', html, re.DOTALL)

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} in the document")

    document: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return document
