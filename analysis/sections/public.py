"""A stored study without its private tasks, for a report that others may read (``report --public``).

Private are tasks whose entry says ``private = true``, and of those whose data are missing all that this project does
not ship, since nobody can know what their entries say. They leave the manifest, with every cell that one of them
takes part in, before anything is computed, so that no table, figure or page can know of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from adapters_store.measures import CONTAMINATION, contamination_inputs
from adapters_store.store import Measure, Store
from analysis.gains.cells import Manifest
from analysis.sections.study_results import Snapshot
from tasks.plain_text import counted
from tasks.registry import Registry
from tasks.splits.contamination import Contact

PARTS = ("tasks", "missing")  # of a manifest, by task


@dataclass(frozen=True)
class _WithoutPrivate(Snapshot):
    """A store in which contacts, which are measured of all ``tasks`` of a study together, are known of any of them."""

    tasks: Mapping[str, Any] = field(default_factory=dict)

    def measure(self, kind: str, inputs: Mapping[str, Any]) -> Measure:
        """The measure of this kind; contacts are those among the tasks of ``inputs``."""
        if kind != CONTAMINATION:
            return super().measure(kind, inputs)
        whole = super().measure(kind, contamination_inputs(self.tasks))
        contacts = [Contact(*contact) for contact in whole.result["contacts"]]
        known = [list(pair) for pair in contacts if {pair.target, pair.intermediate} <= set(inputs["tasks"])]
        return replace(whole, inputs=inputs, result={**whole.result, "contacts": known})


def without_private(store: Store, manifest: Manifest) -> tuple[Snapshot, dict[str, Any], str]:
    """The store and manifest of a study without its private tasks, and how many were left out, in a sentence."""
    private = _private(manifest)
    study, left_out = manifest["study"], manifest.get("left_out", {})
    public = {
        **manifest,
        "study": {
            **study,
            "tasks": [name for name in study["tasks"] if name not in private],
            "task": {name: own for name, own in (study.get("task") or {}).items() if name not in private},
        },
        "cells": [cell for cell in manifest["cells"] if not private & _tasks_of(cell, study)],
        "left_out": {row: why for row, why in left_out.items() if not any(name in row + why for name in private)},
        **{part: {name: own for name, own in manifest[part].items() if name not in private} for part in PARTS},
    }
    snapshot = Snapshot.of(store)
    known = _WithoutPrivate(snapshot.root, keeps=snapshot.keeps, exact=snapshot.exact, tasks=manifest["tasks"])
    verb = "is" if len(private) == 1 else "are"
    left = f"{counted(len(private), 'private task')} {verb} left out."
    return known, public, left if private else "No task is private: all are here."


def _private(manifest: Manifest) -> set[str]:
    shipped = Registry.load().tasks
    own = {name for name, task in manifest["tasks"].items() if task.get("private")}
    return own | {name for name in manifest["missing"] if name not in shipped or shipped[name].dataset.private}


def _tasks_of(cell: Mapping[str, Any], study: Mapping[str, Any]) -> set[str]:
    """The tasks that take part in a cell: target, intermediate, parents of a merged one, siblings of a system."""
    merge, system = cell.get("merge") or {}, (study.get("system") or {}).get(cell.get("system"), {})
    beside = *merge.get("parents", ()), *merge.get("transfers", ()), *system.get("siblings", ())
    return {cell["target"], cell["intermediate"], *beside}
