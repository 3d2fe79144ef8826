"""A store with keys of schema 1, in the format of that time, made of one of today."""

from __future__ import annotations

from typing import Any

from adapters_store import Store, key_of

OF_BACKBONE = ("model_type", "weights_sha256")


def as_schema_1(today: Store, old: Store) -> dict[str, str]:
    """Put every record and manifest of a store into another as they were under schema 1; old keys by today's."""
    keys: dict[str, str] = {}
    records = {key: today.get(key) for key in sorted(today.records())}

    def put(key: str) -> str:
        if key in keys:
            return keys[key]
        record = records[key]
        spec = old_spec(dict(record.spec), put)
        made = {name: value for name, value in record.provenance.items() if not name.endswith("_sha256")}
        with old.staging() as folder:
            for name in record.files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(today.open(key, name).read_bytes())
            keys[key] = old.put(key_of(spec), spec, record.results, made, folder).key
        return keys[key]

    for key in records:
        put(key)
    for name in today.manifests():
        old.write_manifest(name, _manifest(today.manifest(name), keys))
    return keys


def old_spec(spec: dict[str, Any], put: Any) -> dict[str, Any]:
    """A spec without what schema 2 added to it."""
    spec.pop("library", None)
    below = spec.get("intermediate_key")
    backbone = {name: spec["backbone"][name] for name in OF_BACKBONE}
    return {**spec, "schema": 1, "backbone": backbone, "intermediate_key": put(below) if below else None}


def _manifest(manifest: dict[str, Any], keys: dict[str, str]) -> dict[str, Any]:
    cells = [
        {**cell, "key": keys[cell["key"]], "intermediate_key": keys.get(cell["intermediate_key"])}
        for cell in manifest["cells"]
    ]
    return {name: value for name, value in manifest.items() if name != "cell_schema"} | {"cells": cells}
