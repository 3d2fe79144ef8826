"""``doctor`` and ``prefetch``: make a machine ready before anything is trained on it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.api import Study
from harness.cli.data import progress
from harness.cli.options import (
    best_option,
    change_options,
    changes,
    leaf_options,
    places,
    print_next,
    splits_option,
)
from harness.cli.study import study_of
from harness.cli.terminal import print_json

if TYPE_CHECKING:
    from harness.preflight.doctor import Line


def add_doctor(doctor: argparse.ArgumentParser) -> None:
    """Add the options of ``doctor``."""
    leaf_options(doctor, "doctor demo", show_doctor)
    doctor.add_argument("study", metavar="STUDY", nargs="?", help="also look at what this study needs")
    _preflight_options(doctor)


def add_prefetch(prefetch: argparse.ArgumentParser) -> None:
    """Add the options of ``prefetch``."""
    leaf_options(prefetch, "prefetch muddy-waters --data data", fetch_study)
    prefetch.add_argument("study", metavar="STUDY", help="a built-in study or a .toml file")
    _preflight_options(prefetch)
    prefetch.add_argument(
        "--folder",
        metavar="DIR",
        help="fetch nothing; pack what a node without network and libraries needs to train what the store lacks",
    )
    prefetch.add_argument(
        "--megabytes", metavar="N", type=int, default=60, help="the most that a part of --folder may have (default: 60)"
    )


def _preflight_options(leaf: argparse.ArgumentParser) -> None:
    change_options(leaf)
    best_option(leaf)
    splits_option(leaf)


def show_doctor(options: argparse.Namespace) -> int:
    """Print what was looked at; exit code 1 when something is a problem."""
    from harness.preflight.doctor import PROBLEM

    study = study_of(options) if options.study else None
    lines = []
    for line in _lines(study, Path(options.store)):
        lines.append(line)
        if not options.json:
            cure = f"; cure: {line.cure}" if line.cure else ""
            print(f"{line.state:8} {line.what:24} {' '.join(line.detail.split())}{cure}")
    if options.json:
        print_json([line._asdict() for line in lines])
    return 1 if any(line.state == PROBLEM for line in lines) else 0


def _lines(study: Study | None, store: Path) -> Iterator[Line]:
    from harness.preflight.doctor import machine_lines, store_lines, study_lines

    yield from machine_lines(study.config if study else None)
    if study is not None:
        yield from study_lines(study.config, study.registry, study.data)
    yield from store_lines(store)


# ``prefetch``: bring what a study needs before jobs run where there is no internet.


def fetch_study(options: argparse.Namespace) -> int:
    """Print whether each thing is here and the environment for the jobs; exit code 1 when a download failed."""
    if options.folder:
        return pack_study(options)
    from harness.preflight.doctor import FAILED, environment, prefetch

    study = study_of(options)
    line, results = environment(study.data, study.store.root), []
    with progress(options.quiet) as watch:
        for got in prefetch(study.config, study.registry, study.data, watch):
            results.append(got)
            if not options.json:
                print(f"{got.state:8} {got.what:24} {' '.join(got.detail.split())}")
    if options.json:
        print_json({"found": [result._asdict() for result in results], "environment": line})
    else:
        print(f"\nfor the jobs:\n  {line}")
    return 1 if any(result.state == FAILED for result in results) else 0


def pack_study(options: argparse.Namespace) -> int:
    """Pack what is to be trained on a closed node, and print what goes, what stays and the next commands."""
    from harness.closed.home import pack

    study, folder = study_of(options), Path(options.folder)
    packed = pack(study.plan, study.store, folder, options.megabytes)
    if options.json:
        print_json({"cells": [cell.key for cell in packed.cells], "left": packed.left, "bytes": packed.parts})
        return 0
    sizes = ", ".join(f"{size / 1e6:.1f} MB" for size in packed.parts)
    print(f"packed   {len(packed.cells)} cells into {folder}: {len(packed.parts)} parts ({sizes})")
    print(f"stay     {len(packed.left)} cells, which are trained here")
    reasons = Counter(packed.left.values())
    for reason, count in reasons.most_common():
        print(f"  {count}: {reason}")
    print(f"\nthere, with torch, numpy and safetensors:\n  python {folder.name}/part-1/train.py --minutes 10")
    words = ["--trained", f"{options.folder}/out", *changes(options), *places(options)]
    print_next("run", options.study, *words)
    return 0
