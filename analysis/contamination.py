"""Which pairs are contaminated: test items of a target that an intermediate was trained on, from stored measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from adapters_store.errors import MissingRecord
from adapters_store.store import Store
from tasks.contamination import KIND, Contact, inputs_of

Manifest = Mapping[str, Any]
FLAG = "contaminated"
COLUMNS = (*Contact._fields, "share_group", "share_pair", "share_text", "share_near", FLAG)


def contamination(store: Store, manifest: Manifest) -> pd.DataFrame:
    """One row per (target, intermediate), a task with itself too; no row where nothing was measured.

    The columns are those of ``frame_of``.
    """
    try:
        kept = store.measure(KIND, inputs_of(manifest["tasks"])).result["contacts"]
    except (KeyError, MissingRecord):  # a manifest from before splits were named in it, or a study never run
        kept = []
    return frame_of(Contact(*one) for one in kept)


def frame_of(contacts: Iterable[Contact]) -> pd.DataFrame:
    """Counts of contacts, their shares of the test items (near texts: of the long ones), and whether they count."""
    rows = [
        (
            *one,
            *(count / max(one.n_test, 1) for count in (one.same_group, one.same_pair, one.same_text)),
            one.near_text / max(one.n_long, 1),
            one.is_contaminated,
        )
        for one in contacts
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def contaminated_pairs(store: Store, manifest: Manifest) -> set[tuple[str, str]] | None:
    """(target, intermediate) pairs to be marked, a target with itself for its own training; None if unmeasured."""
    frame = contamination(store, manifest)
    if frame.empty:
        return None
    marked = frame[FLAG].astype(bool)
    if manifest["synthetic"]:  # made-up texts are cut from templates, so being nearly alike says nothing
        marked = frame[["same_row", "same_group", "same_pair"]].sum(axis=1) > 0
    return set(zip(frame.target[marked], frame.intermediate[marked], strict=True))
