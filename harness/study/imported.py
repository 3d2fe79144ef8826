"""Adapters that were imported into the store, as a study's intermediates and for scoring; no model is loaded here."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from adapters_store import Record, Store, StoreError
from adapters_store.record import is_imported
from adapters_store.roles import IMPORTED
from harness.study.backbone import Backbone
from harness.study.cell import SCHEMA, Cell, make_cell
from harness.study.config import StudyConfig
from tasks.errors import BadInput, BadStudy
from tasks.registry import ID_PATTERN, Registry
from tasks.splits.loading import Splits
from tasks.task import why_taken


def check_name(name: str, registry: Registry) -> None:
    """BadInput unless the name could be a task's, and is none that the registry has."""
    if not ID_PATTERN.fullmatch(name):
        raise BadInput(f"name {name!r} of an imported adapter: only small letters, digits and _ are allowed")
    if reason := why_taken(name) or ("is a task of the registry" if name in registry.tasks else None):
        raise BadInput(f"name {name!r} of an imported adapter {reason}; give another one")


def with_imported(study: StudyConfig, store: Store) -> StudyConfig:
    """The study with the keys of its imported adapters written out; BadStudy for one that the store has not."""
    if not study.imported:
        return study
    keys = store.keys()
    whole = {name: _whole(name, prefix, keys, store) for name, prefix in study.imported.items()}
    return dataclasses.replace(study, imported=whole)


def _whole(name: str, prefix: str, keys: Collection[str], store: Store) -> str:
    """The only key that begins so."""
    fitting = [key for key in keys if key.startswith(prefix)]
    if len(fitting) != 1:
        what = f"{len(fitting)} records begin so: give more of the key" if fitting else "no record begins so"
        raise BadStudy(
            f"imported.{name} {prefix!r}: {what} in store {store.root}; bring it there with: empathy-transfer adapter "
            f"import SOURCE --as {name}"
        )
    return fitting[0]


def imported_cells(study: StudyConfig, registry: Registry, backbone: Backbone, store: Store | None) -> list[Cell]:
    """What a study's cells on imported adapters stand on; BadStudy for a record that is missing or does not fit."""
    if not study.imported:
        return []
    if store is None:
        raise BadStudy(f"study {study.name!r} has imported adapters, which are in a store; plan it with one")
    study = with_imported(study, store)
    for name in study.imported:
        check_name(name, registry)
    return [_cell(study, name, backbone, store) for name in study.imported]


def _cell(study: StudyConfig, name: str, backbone: Backbone, store: Store) -> Cell:
    record = store.get(study.imported[name])
    spec, where = record.spec, f"imported.{name}: record {record.key[:12]}"
    if "system" in spec:
        raise BadStudy(
            f"{where} is of system {spec['system']!r}, which is no adapter and makes no stack; correct the key, or "
            "name the system in systems"
        )
    if not is_imported(spec):
        raise BadStudy(f"{where} is a trained cell of {spec.get('target')}, not an imported adapter; correct the key")
    if spec["target"] != name:
        raise BadStudy(f"{where} was imported as {spec['target']!r}; call it so in the study")
    if spec["schema"] != SCHEMA:
        raise BadStudy(
            f"{where} has a key of schema {spec['schema']}, which does not name its backbone's config and tokenizer; "
            f"import it again with --backbone {study.backbone}"
        )
    if unlike := backbone.unlike(spec["backbone"]):
        raise BadStudy(
            f"{where} was imported for another backbone than {backbone.name!r} is here ({unlike}); import it again "
            f"with --backbone {study.backbone}"
        )
    return Cell(name, None, 0, "full", IMPORTED, spec, record.key)


def imported_lanes(
    study: StudyConfig, backbone: Backbone, rows: Splits, seed: int, setting: str, intermediates: Sequence[Cell]
) -> list[Cell]:
    """A target's cells on imported adapters; BadStudy for one that needs the library where precision is for lanes."""
    lanes = []
    for intermediate in intermediates:
        cell = make_cell(study, backbone, rows, seed=seed, setting=setting, intermediate=intermediate)
        if study.precision == "bf16" and cell.spec["trainer"] == "library":
            raise BadStudy(
                f"imported.{intermediate.target}: another adapter than the study's own, so {rows.task.id} on it trains "
                "through the adapters library, and precision 'bf16' is for lanes; say precision = 'fp32'"
            )
        lanes.append(dataclasses.replace(cell, role=IMPORTED))
    return lanes


def imported_as(store: Store, name: str) -> list[Record]:
    """Every record that was imported under a name; a damaged one is passed over."""
    records = []
    for key in sorted(store.keys()):
        try:
            record = store.get(key)
        except StoreError:
            continue
        if is_imported(record.spec) and record.spec["target"] == name:
            records.append(record)
    return records
