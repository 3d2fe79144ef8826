"""Records with keys of schema 1 under their keys of today, by aliases: nothing is moved, copied, rewritten or trained.

Schema 1 named a backbone by its kind and weights. What today's keys add is taken from the backbone as it is now, if its
weights are those of the record. A cell's key holds that of its intermediate, so intermediates come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from adapters_store import Record, Store, StoreError, key_of
from adapters_store.record import ASSUMED, KNOWN, Alias, is_imported
from harness.study.backbones.backbone import Backbone, resolve
from harness.study.cell import SCHEMA
from harness.study.methods import library_config
from tasks.errors import BadInput

BUILT_IN = ("random-tiny", "minilm")


@dataclass
class MigrationReport:
    """What a migration came to: aliases by what their identity rests on, those there before, and what has none, why.

    ``measures`` counts aliases of stored measures, ``newer`` the records that had their keys of today's schema.
    """

    new: Counter[str] = field(default_factory=Counter)
    before: int = 0
    newer: int = 0
    measures: int = 0
    left: dict[str, str] = field(default_factory=dict)


class NoKey(Exception):
    """A record's key of today cannot be worked out; the message says why."""


@dataclass(frozen=True)
class Migration:
    """A store, and the names of ``backbones`` (folders, ids of a hub) that its user still has."""

    store: Store
    backbones: tuple[str, ...] = ()

    def run(self) -> MigrationReport:
        """Write the aliases that are missing, of records and of measures that hang on their keys."""
        report = MigrationReport()
        for key in self._in_order(report):
            record = self.records[key]
            try:
                alias = self._alias(record)
            except NoKey as reason:
                report.left[key] = str(reason)
                continue
            self.keys[key] = alias.key
            if alias.key not in self.store and self.store.put_alias(alias):
                report.new[alias.identity] += 1
            else:
                report.before += 1
        for alias in self._of_measures():
            is_alive = (self.store.root / "measures" / alias.key).exists()
            report.measures += not is_alive and self.store.put_alias(alias, is_measure=True)
        return report

    @cached_property
    def records(self) -> dict[str, Record]:
        """Every record that can be read, by the key that it is stored under."""
        readable = {}
        for key in sorted(self.store.records()):
            try:
                readable[key] = self.store.get(key)
            except StoreError:
                continue  # `store verify` names it
        return readable

    @cached_property
    def keys(self) -> dict[str, str]:
        """Keys of today by the old ones, filled as the migration goes on."""
        return {key: key for key, record in self.records.items() if record.spec.get("schema") == SCHEMA}

    @cached_property
    def known(self) -> dict[tuple[str, str], list[Backbone]]:
        """The backbones that can be had, by kind and weights, each once."""
        backbones: dict[tuple[str, str], list[Backbone]] = {}
        for name in dict.fromkeys((*BUILT_IN, *self.backbones, *self._backbone_names())):
            try:
                backbone = resolve(name)
            except BadInput:
                continue
            alike = backbones.setdefault((backbone.model_type, backbone.weights_sha256), [])
            if backbone.identity() not in [other.identity() for other in alike]:
                alike.append(backbone)
        return backbones

    def _backbone_names(self) -> Iterator[str]:
        """The backbones of the studies in the store, and those that records name: of folders these have no path."""
        for study in self.store.manifests():
            try:
                yield str(self.store.manifest(study)["study"]["backbone"])
            except (StoreError, KeyError, TypeError):
                continue
        yield from sorted({str(record.provenance.get("backbone", "")) for record in self.records.values()} - {""})

    def _in_order(self, report: MigrationReport) -> Iterator[str]:
        """Keys of older records, each after that of its intermediate."""
        visited: set[str] = set()

        def visit(key: str) -> Iterator[str]:
            if key in visited or key not in self.records:
                return
            visited.add(key)
            intermediate = self.records[key].spec.get("intermediate_key")
            yield from visit(str(intermediate))
            yield key

        for key, record in self.records.items():
            if record.spec.get("schema") == SCHEMA:
                report.newer += 1
            else:
                yield from (old for old in visit(key) if old not in self.keys)

    def _alias(self, record: Record) -> Alias:
        spec = dict(record.spec)
        if spec.get("schema") != 1 or "backbone" not in spec:
            raise NoKey(f"its key is of schema {spec.get('schema')!r}, which this version does not know")
        backbone = self._backbone(record)
        intermediate = spec.get("intermediate_key")
        if intermediate is not None and intermediate not in self.keys:
            why = "has no key of today" if intermediate in self.records else "is not in the store"
            raise NoKey(f"its intermediate {intermediate[:12]} {why}")
        spec |= {"schema": SCHEMA, "backbone": backbone.identity()}
        if intermediate is not None:
            spec["intermediate_key"] = self.keys[intermediate]
        if not is_imported(spec):
            spec["library"] = _library(record) if spec["trainer"] == "library" else None
        identity, reason = _rests_on(backbone, record)
        return Alias(key_of(spec), record.key, spec, identity, reason, _now())

    def _backbone(self, record: Record) -> Backbone:
        spec, name = record.spec["backbone"], record.provenance.get("backbone")
        alike = self.known.get((spec["model_type"], spec["weights_sha256"]), [])
        if len(alike) > 1:
            alike = [backbone for backbone in alike if backbone.name == name] or alike
        if len(alike) == 1:
            return alike[0]
        what = f"backbone {name!r} with weights {spec['weights_sha256'][:12]}"
        if not alike:
            raise NoKey(f"{what} is not here; name its folder with --backbone")
        raise NoKey(
            f"{what}: {len(alike)} have these weights and differ in config or tokenizer; leave one of them here"
        )

    def _of_measures(self) -> Iterable[Alias]:
        """Aliases of measures whose inputs name records that have new keys."""
        moved = {old: new for old, new in self.keys.items() if old != new}
        for measure in self.store.measures():
            old = {"kind": measure.kind, "inputs": measure.inputs}
            new = {"kind": measure.kind, "inputs": _renamed(measure.inputs, moved)}
            if new != old:
                yield Alias(key_of(new), key_of(old), new, KNOWN, "the keys of its records", _now())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _renamed(value: Any, moved: Mapping[str, str]) -> Any:  # noqa: ANN401 - anything that JSON holds
    """A measure's inputs with new keys for old ones; lists of keys are kept in order of the keys."""
    if isinstance(value, Mapping):
        return {name: _renamed(inner, moved) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        renamed = [_renamed(inner, moved) for inner in value]
        is_of_keys = renamed != list(value) and all(isinstance(inner, str) for inner in renamed)
        return sorted(renamed) if is_of_keys else renamed
    return moved.get(value, value) if isinstance(value, str) else value


def _library(record: Record) -> dict[str, Any]:
    """What a key of today has of a training through the library, from what the record says of itself."""
    adapter: Mapping[str, Any] | None = record.spec["adapter"]
    device = "cuda" if str(record.provenance["device"]).startswith("cuda") else "cpu"
    return {"adapter": library_config(adapter) if adapter else None, "device": device}


def _rests_on(backbone: Backbone, record: Record) -> tuple[str, str]:
    """Whether the config and the tokenizer of a record's backbone are known to be those of ``backbone``, and why."""
    if backbone.name in BUILT_IN and record.provenance.get("backbone") == backbone.name:
        return KNOWN, f"{backbone.name} comes with one config and one tokenizer, whose hashes are pinned"
    commit = record.provenance.get("commit")
    if commit is not None and commit == backbone.commit:
        return KNOWN, f"{backbone.name} of commit {commit}"
    where = f"commit {backbone.commit} of the hub" if backbone.commit else "its folder"
    return ASSUMED, f"config and tokenizer of {backbone.name} as {where} has them now; the weights are the same"
