"""Where all randomness of a cell comes from: one documented recipe (docs/training.md)."""

from __future__ import annotations

import hashlib


def seed_of(*parts: object) -> int:
    """A 63-bit seed: the first 8 bytes of the sha256 of the parts joined with ``/``, shifted right by one bit."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
