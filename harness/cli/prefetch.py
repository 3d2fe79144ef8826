"""``prefetch``: bring what a study needs before jobs run where there is no internet."""

from __future__ import annotations

import argparse

from harness.before.prefetch import FAILED, environment, prefetch
from harness.cli.data import progress
from harness.cli.study import study_of
from harness.cli.table import print_json


def fetch_study(options: argparse.Namespace) -> int:
    """Print what came of each thing and the environment of the jobs; exit code 1 when a download failed."""
    study = study_of(options)
    line, found = environment(study.data, study.store.root), []
    with progress(options.quiet) as watch:
        for got in prefetch(study.config, study.registry, study.data, watch):
            found.append(got)
            if not options.json:
                print(f"{got.state:8} {got.what:24} {' '.join(got.detail.split())}")
    if options.json:
        print_json({"found": [one._asdict() for one in found], "environment": line})
    else:
        print(f"\nfor the jobs:\n  {line}")
    return 1 if any(one.state == FAILED for one in found) else 0
