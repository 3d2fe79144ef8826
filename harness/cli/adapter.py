"""``adapter``: export and publish trained adapters, and import those of others."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from harness.cli.options import Leaves, leaf_of, out_option
from harness.cli.study import name_of
from harness.cli.terminal import print_json, print_rows, verbatim
from harness.sharing.stored import stored_manifest
from tasks.errors import BadInput

if TYPE_CHECKING:
    from harness.sharing.importing import Imported
    from harness.sharing.outgoing import Facts


def add_adapter(adapter: argparse.ArgumentParser) -> None:
    """Add ``export``, ``publish`` and ``import``."""
    leaves = adapter.add_subparsers(required=True, metavar="COMMAND")
    export = leaf_of(
        leaves,
        "export",
        "Write a task's adapter, head and card into a folder that the adapters library loads.",
        "adapter export epitome_er --study demo --out epitome_er",
        export_adapter,
    )
    out_option(export, "the folder to write (default: ID)")
    export.add_argument("--bin", action="store_true", help="also as the pickles that older libraries read")
    publish = leaf_of(
        leaves,
        "publish",
        "Show what of a task's adapter would leave this machine for a hub, and with --yes upload it.",
        "adapter publish epitome_er --study demo --repository ME/NAME",
        publish_adapter,
    )
    publish.add_argument("--repository", metavar="OWNER/NAME", required=True, help="where to, on the hub")
    publish.add_argument("--yes", action="store_true", help="upload; needs a token in HF_TOKEN")
    publish.add_argument("--public", action="store_true", help="to a public repository (default: a private one)")
    _add_import(leaves)
    for leaf in (export, publish):
        leaf.add_argument("task", metavar="ID", help="a task that the store has trained")
        leaf.add_argument("--study", metavar="STUDY", required=True, help="the study that it was trained in")
        leaf.add_argument("--seed", metavar="N", type=int, help="of the adapter (default: the study's lowest)")


def _add_import(leaves: Leaves) -> None:
    bring = leaf_of(
        leaves,
        "import",
        "Keep an adapter that others have trained, to stand on and to score with.",
        "adapter import OWNER/NAME --as their_task --backbone roberta-base",
        bring_adapter,
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


def export_adapter(options: argparse.Namespace) -> int:
    """Write a task's adapter, head and card into a folder."""
    from harness.sharing.outgoing import export

    store, facts = _facts(options)
    out = export(store, facts, Path(options.out or facts.target), with_bin=options.bin)
    if options.json:
        print_json({"out": str(out), "key": facts.record.key, "score": facts.score})
        return 0
    print(f"{out}: {facts.score}")
    print(f"load it with: model.load_adapter({str(out)!r}, use_safetensors=True)")
    return 0


def publish_adapter(options: argparse.Namespace) -> int:
    """Show what would leave this machine for a hub, and with ``--yes`` upload it."""
    from harness.sharing.outgoing import caution, check_licence, export, leaving, upload

    store, facts = _facts(options)
    check_licence(facts.target, facts.task)
    with tempfile.TemporaryDirectory() as temporary:
        folder = export(store, facts, Path(temporary) / facts.target)
        files = leaving(folder)
        summary = {"repository": options.repository, "private": not options.public, "caution": caution(facts.task)}
        address = upload(folder, options.repository, private=not options.public) if options.yes else None
        card = (folder / "README.md").read_text(encoding="utf-8")
    if options.json:
        print_json({**summary, "files": [file._asdict() for file in files], "card": card, "address": address})
        return 0
    print_rows([file._asdict() for file in files], as_json=False)
    verbatim(f"\nREADME.md:\n\n{card}")
    if summary["caution"]:
        print(f"think of this first: {summary['caution']}")
    kind = "public" if options.public else "private"
    print(
        f"uploaded to {address}"
        if address
        else f"nothing has left this machine; --yes uploads it to the {kind} repository {options.repository}"
    )
    return 0


def bring_adapter(options: argparse.Namespace) -> int:
    """Store an adapter trained by others as a record that a study can use as an intermediate and score with."""
    from harness.sharing.importing import backbone_of, import_adapter
    from harness.sharing.incoming import source_of
    from harness.study.backbones.backbone import resolve

    source = source_of(options.source, options.revision)
    backbone = resolve(options.backbone) if options.backbone else backbone_of(source)
    imported = import_adapter(Store(Path(options.store)), source, options.name, backbone)
    record = imported.record
    if options.json:
        parts = {name: record.spec[name] for name in ("adapter", "label", "origin")}
        print_json({"name": options.name, "key": record.key, "is_new": imported.is_new, **parts})
        return 0
    for line in _import_lines(options.name, imported, backbone.name):
        print(line)
    return 0


def _import_lines(name: str, imported: Imported, backbone: str) -> Iterator[str]:
    """What was imported, from where, and how to use it."""
    record, origin, label = imported.record, imported.record.spec["origin"], imported.record.spec["label"]
    news = "imported" if imported.is_new else "is in the store already, from the same files"
    yield f"{name}: {news}, key {record.key}"
    source = f"{origin['hub']} at {origin['commit']}" if origin["hub"] else "a folder"
    yield f"from {source}: {origin['name']!r}, adapters {origin['library']}, trained on {origin['model_name']!r}"
    yield f"adapter: {', '.join(f'{field} {value}' for field, value in record.spec['adapter'].items())}"
    if label is None:
        yield "head: none, so it can be an intermediate and answers nothing"
    else:
        yield f"head: {label['kind']}{': ' if label['classes'] else ''}{', '.join(label['classes'])}"
    if origin["model_name"] != backbone:
        yield f"warning: it stands on {backbone!r} now; if those are other weights than it names, it means nothing"
    yield f'for a study: [imported] {name} = "{record.key[:12]}"'


def _facts(options: argparse.Namespace) -> tuple[Store, Facts]:
    """The store, and what a card needs of the task that is meant."""
    from analysis.gains.baselines import baselines
    from harness.scoring.scoring_tasks import scoring_tasks
    from harness.sharing.outgoing import Facts

    store = Store(Path(options.store))
    manifest = stored_manifest(store, name_of(options.study))
    (adapter,) = scoring_tasks(store, manifest, [options.task], options.seed)
    if adapter.is_imported:
        raise BadInput(f"{adapter.name} was imported, so it is not ours to pass on; pass on where it came from")
    frame = baselines(store, manifest)
    rows = frame[(frame["target"] == adapter.name) & (frame["setting"] == "full") & (frame["n_seeds"] == 1)]
    low, high = (float(rows.iloc[0][name]) if len(rows) else math.nan for name in ("low", "high"))
    interval = (low, high) if math.isfinite(low) and math.isfinite(high) else (None, None)
    task = manifest["tasks"][adapter.name]
    return store, Facts(adapter.record, task, manifest["name"], bool(manifest["synthetic"]), *interval)
