"""``cite``: what a study has to cite, and what its data's licences let one share."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.paper import subject_of
from harness.cli.table import print_json

PRINTED = "-"


def write_citations(options: argparse.Namespace) -> int:
    """Write or print the bibliography and the licences of a study."""
    from analysis.manuscript import paper
    from analysis.manuscript.licences import licences
    from analysis.manuscript.references import used

    subject = subject_of(options)
    if options.json:
        uses = [{"kind": one.kind, "name": one.name, "keys": list(one.keys)} for one in used(subject)]
        print_json({"used": uses, "licences": [one._asdict() for one in licences(subject)]})
    elif options.out == PRINTED:
        print(*paper.citations(subject), sep="\n")
    else:
        print(*paper.write_citations(subject, Path(options.out or f"results/{subject.results.name}")), sep="\n")
    return 0
