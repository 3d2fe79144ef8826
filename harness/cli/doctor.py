"""``doctor``: what is here for a run, a line each with the cure."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from harness.api import Study
from harness.before.doctor import PROBLEM, Line, machine_lines
from harness.before.doctor_study import store_lines, study_lines
from harness.cli.study import study_of
from harness.cli.table import print_json


def show_doctor(options: argparse.Namespace) -> int:
    """Print what was looked at; exit code 1 when something is a problem."""
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
    yield from machine_lines(study.config if study else None)
    if study is not None:
        yield from study_lines(study.config, study.registry, study.data)
    yield from store_lines(store)
