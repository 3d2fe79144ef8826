"""What merged intermediates have kept of their parents, from stored measures (``similarities --measure retention``).

Scores are those of a parent's validation rows under its own head, with other adapters in the place of its own. A merge
averages what goes in and what comes out of a unit, so it shrinks what a parent adds: whether the other parents help or
disturb is told by ``merged`` against ``own_part``, and not against ``alone``.
"""

from __future__ import annotations

import pandas as pd

from adapters_store.key import MissingRecord
from adapters_store.measures import RETENTION, merged_cells, retention_inputs
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.tables import Declared, framed

RETAINED = {
    "row": Declared("str", "name of the merged row in the study"),
    "target": Declared("str", "the target that stands on the merge"),
    "parent": Declared("str", "a task that the merge has for a parent"),
    "metric": Declared("str", "metric of the parent, as tasks.metrics names it"),
    "n_rows": Declared("int64", "validation rows of the parent"),
    "weight": Declared("float64", "how much the parent counts in the merge; all of them sum to 1"),
    "alone": Declared("float64", "validation score of the parent as it was trained"),
    "none": Declared("float64", "without any adapter"),
    "halved": Declared("float64", "with all weights of its adapter halved"),
    "own_part": Declared("float64", "with its own part of the merge and nothing else"),
    "merged": Declared("float64", "with the merge in the place of its adapter"),
}
SCORES = ("alone", "halved", "own_part", "merged", "none")


def retained(store: Store, manifest: Manifest) -> pd.DataFrame:
    """One row per measured merge and parent, with the columns ``RETAINED``; empty where nothing was measured."""
    rows = []
    for cell in merged_cells(manifest):
        try:
            parents = store.measure(RETENTION, retention_inputs(cell["key"])).result["parents"]
        except MissingRecord:
            continue
        for parent, scores in sorted(parents.items()):
            of_parent = {"parent": parent, "metric": manifest["tasks"][parent]["metric"], **scores}
            rows.append({"row": cell["intermediate"], "target": cell["target"], **of_parent})
    return framed(pd.DataFrame(rows), RETAINED)
