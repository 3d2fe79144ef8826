"""The licences of a study's data sets, as its manifest has them, and what they say about sharing, as a page."""

from __future__ import annotations

from adapters_store.imports import imports_of
from analysis.cells import Manifest
from analysis.manuscript.licences import sharing
from analysis.markdown import table

HEAD = (
    "# Licences of the data\n\nNo text of any data set is in this archive. Ids, labels and predictions of test and"
    " validation items are, and go with their data."
)
MADE_UP = "The texts of this study were made up; the licences are those of the data sets whose form they have."
BROUGHT = (
    "Cells stand on adapters of others: {names}. Their weights are not in this archive. Where they came from their"
    " records say (`origin` in `record.json`); under which licence, and what they were trained on, is not known here."
)
COLUMNS = ("data set", "tasks", "licence as stated", "may texts and labels be shared")


def licences_page(manifest: Manifest) -> str:
    """One row per data set and licence of a study."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name, task in manifest["tasks"].items():
        rows.setdefault((str(task["dataset"]), str(task.get("licence") or "unstated")), []).append(name)
    body = [(data, ", ".join(tasks), licence, sharing(licence)) for (data, licence), tasks in rows.items()]
    parts = [HEAD, *([MADE_UP] if manifest["synthetic"] else []), table(COLUMNS, body)]
    if brought := sorted(imports_of(manifest)):
        parts.append(BROUGHT.format(names=", ".join(brought)))
    return "\n\n".join(parts) + "\n"
