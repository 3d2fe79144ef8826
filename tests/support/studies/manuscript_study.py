"""A small made-up study with ratings, two settings and names that LaTeX would stumble over."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.manuscript.frames import Subject, stored_study
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("epitome_er"), FakeTask("empdial_ei"), FakeTask("news_empathy", "continuous"), FakeTask("mine"))
NASTY = r"A & B_{50%} #1 ~ ^ \x $y$"
FOREIGN = "\u042d\u043c\u043f\u0430\u0442\u0438\u044f"  # letters that Times has not


def small_subject(folder: Path, tasks: Sequence[FakeTask] = TASKS, **options: Any) -> Subject:
    """The study, in a store below ``folder``; one of its tasks is nobody's but the user's."""
    flags = {("mine", "epitome_er"): ["collapsed"]}
    store, manifest = fake_study(
        folder / "store", tasks, settings=("full", "half"), flags=flags, helpful=[("mine", "empdial_ei")], **options
    )
    manifest["tasks"]["mine"] |= {"title": NASTY, "licence": "on request", "private": True}
    manifest["tasks"]["news_empathy"] |= {"title": FOREIGN}
    return stored_study(store, manifest)


def cell(folder: Path, file: str, row: str, column: str) -> str:
    """The one cell of a CSV file below ``folder`` that a row (``key=value; ...``) and a column name."""
    wanted = dict(part.split("=", 1) for part in row.split("; "))
    with (folder / file).open(encoding="utf-8", newline="") as lines:
        found = [one for one in csv.DictReader(lines) if all(one[key] == value for key, value in wanted.items())]
    assert len(found) == 1, (file, row, len(found))
    return found[0][column]
