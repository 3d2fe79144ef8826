"""Adapters of others in a store: how their records and the studies that stand on them are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

IMPORTED = "imported"  # the role of their records, and of the cells that stand on them


def is_imported(spec: Mapping[str, Any]) -> bool:
    """Whether a record holds an adapter from elsewhere; no run could make it again."""
    return spec.get("role") == IMPORTED


def imports_of(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """The keys of the adapters that a study imports, by name."""
    found: Mapping[str, str] = manifest.get("study", {}).get("imported", {})
    return found
