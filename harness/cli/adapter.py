"""``adapter export``: a trained adapter for others."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from adapters_store import Store
from harness.api import stored_manifest
from harness.cli.study import name_of
from harness.cli.table import print_json
from harness.scoring.chosen import chosen


def export_adapter(options: argparse.Namespace) -> int:
    """Write a task's adapter, head and card into a folder."""
    from analysis.baselines import baselines
    from harness.sharing.card import Facts
    from harness.sharing.export import export

    store = Store(Path(options.store))
    manifest = stored_manifest(store, name_of(options.study))
    (one,) = chosen(store, manifest, [options.task], options.seed)
    frame = baselines(store, manifest)
    rows = frame[(frame["target"] == one.task) & (frame["setting"] == "full") & (frame["n_seeds"] == 1)]
    low, high = (float(rows.iloc[0][name]) if len(rows) else math.nan for name in ("low", "high"))
    known = math.isfinite(low) and math.isfinite(high)
    facts = Facts(
        one.record,
        manifest["tasks"][one.task],
        manifest["name"],
        bool(manifest["synthetic"]),
        low if known else None,
        high if known else None,
    )
    out = export(store, facts, Path(options.out or one.task), with_bin=options.bin)
    if options.json:
        print_json({"out": str(out), "key": one.record.key, "score": facts.score})
        return 0
    print(f"{out}: {facts.score}")
    print(f"load it with: model.load_adapter({str(out)!r}, use_safetensors=True)")
    return 0
