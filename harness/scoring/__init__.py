"""New texts through the adapters of a finished study, or through its systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adapters_store.store import Store

if TYPE_CHECKING:
    from harness.scoring.answers import TextScorer


def scorer_of(store: Store, manifest: Mapping[str, Any], system: str = "", **chosen: Any) -> TextScorer:  # noqa: ANN401
    """What scores texts: the system that a study calls so, or its adapters; ``chosen`` is what either is made with.

    Torch is loaded for what needs it alone. Errors are those of ``Scorer`` and ``SystemScorer``.
    """
    if system:
        from harness.scoring.system_scorer import SystemScorer

        return SystemScorer(store, manifest, system, **chosen)
    from harness.scoring.scorer import Scorer

    return Scorer(store, manifest, **chosen)
