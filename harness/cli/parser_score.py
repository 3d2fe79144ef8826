"""What can be typed to use adapters: ``score``, and ``adapter export``, ``publish`` and ``import``."""

from __future__ import annotations

import argparse

from harness.cli.options import device_option, leaf_of, told_out
from harness.scoring.texts import FORMS

COLUMNS = {
    "text": "the texts (default: text, or the only one)",
    "context": "what was said before",
    "id": "ids (default: numbers from 0)",
    "group": "groups or dates, for --plots",
}


def add_uses(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that use trained adapters on new texts."""
    score = leaf_of(
        nouns,
        "score",
        "Predict every task of a study for every text of a file, in one pass.",
        "score replies.csv --study demo --text reply --out replies.scores.csv",
        "score:score_texts",
    )
    score.add_argument("file", metavar="FILE", help="csv, tsv, jsonl, parquet, or a text a line; - for standard input")
    score.add_argument("--study", metavar="STUDY", required=True, help="a study that the store has trained")
    score.add_argument(
        "--task",
        metavar="ID",
        action="append",
        default=[],
        help="only this task or imported adapter (repeatable; default: all)",
    )
    told_out(score, "the scores, as .csv, .jsonl or .parquet (default: FILE.scores.csv, without its folder)", "FILE")
    for name, what in COLUMNS.items():
        score.add_argument(f"--{name}", metavar="COLUMN", default="", help=f"the column of {what}")
    score.add_argument("--plots", metavar="DIR", help="draw distributions, correlations, and groups if there are any")
    score.add_argument(
        "--spreadsheet",
        action="store_true",
        help="in a .csv put an apostrophe before texts that a spreadsheet would compute (they begin with =, +, - or @)",
    )
    score.add_argument("--format", choices=FORMS, default="", help="of FILE (default: by its ending)")
    score.add_argument("--encoding", metavar="NAME", default="utf-8", help="of FILE (default: utf-8)")
    score.add_argument("--seed", metavar="N", type=int, help="of the adapters (default: the study's lowest)")
    score.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="(default: fp32)")
    device_option(score)
    adapter = nouns.add_parser("adapter", help="trained adapters for others, and theirs").add_subparsers(
        required=True, metavar="COMMAND"
    )
    export = leaf_of(
        adapter,
        "export",
        "Write a task's adapter, head and card into a folder that the adapters library loads.",
        "adapter export epitome_er --study demo --out epitome_er",
        "adapter:export_adapter",
    )
    told_out(export, "the folder to write (default: ID)")
    export.add_argument("--bin", action="store_true", help="also as the pickles that older libraries read")
    publish = leaf_of(
        adapter,
        "publish",
        "Show what of a task's adapter would leave this machine for a hub, and with --yes upload it.",
        "adapter publish epitome_er --study demo --repository ME/NAME",
        "adapter:publish_adapter",
    )
    publish.add_argument("--repository", metavar="OWNER/NAME", required=True, help="where to, on the hub")
    publish.add_argument("--yes", action="store_true", help="upload; needs a token in HF_TOKEN")
    publish.add_argument("--public", action="store_true", help="to a public repository (default: a private one)")
    _add_import(adapter)
    for leaf in (export, publish):
        leaf.add_argument("task", metavar="ID", help="a task that the store has trained")
        leaf.add_argument("--study", metavar="STUDY", required=True, help="the study that it was trained in")
        leaf.add_argument("--seed", metavar="N", type=int, help="of the adapter (default: the study's lowest)")


def _add_import(adapter: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    bring = leaf_of(
        adapter,
        "import",
        "Keep an adapter that others have trained, to stand on and to score with.",
        "adapter import OWNER/NAME --as their_task --backbone roberta-base",
        "adapter:bring_adapter",
    )
    bring.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder of the adapters library, or OWNER/NAME or OWNER/NAME/FOLDER of the hub",
    )
    bring.add_argument("--as", dest="name", metavar="NAME", required=True, help="what studies call it")
    bring.add_argument(
        "--backbone", metavar="NAME", help="what it stands on (default: what its own configuration names as its model)"
    )
    bring.add_argument("--revision", metavar="REV", default="", help="branch, tag or commit on the hub")
