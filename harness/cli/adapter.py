"""``adapter export`` and ``adapter publish``, a trained adapter for others; ``adapter import``, one of theirs."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from harness.api import stored_manifest
from harness.cli.study import name_of
from harness.cli.terminal import print_json, print_rows
from harness.scoring.chosen import chosen
from tasks.errors import BadInput

if TYPE_CHECKING:
    from harness.sharing.importing import Imported
    from harness.sharing.outgoing import Facts


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
        told = {"repository": options.repository, "private": not options.public, "caution": caution(facts.task)}
        address = upload(folder, options.repository, private=not options.public) if options.yes else None
        card = (folder / "README.md").read_text(encoding="utf-8")
    if options.json:
        print_json({**told, "files": [one._asdict() for one in files], "card": card, "address": address})
        return 0
    print_rows([one._asdict() for one in files], as_json=False)
    print(f"\nREADME.md:\n\n{card}")
    if told["caution"]:
        print(f"think of this first: {told['caution']}")
    kind = "public" if options.public else "private"
    print(
        f"uploaded to {address}"
        if address
        else f"nothing has left this machine; --yes uploads it to the {kind} repository {options.repository}"
    )
    return 0


def bring_adapter(options: argparse.Namespace) -> int:
    """Keep an adapter of others as a record that a study can stand on and score with."""
    from harness.sharing.importing import import_adapter, named_backbone
    from harness.sharing.incoming import source_of
    from harness.study.backbone import resolve

    source = source_of(options.source, options.revision)
    backbone = resolve(options.backbone) if options.backbone else named_backbone(source)
    found = import_adapter(Store(Path(options.store)), source, options.name, backbone)
    record = found.record
    if options.json:
        told = {name: record.spec[name] for name in ("adapter", "label", "origin")}
        print_json({"name": options.name, "key": record.key, "is_new": found.is_new, **told})
        return 0
    for line in _brought(options.name, found, backbone.name):
        print(line)
    return 0


def _brought(name: str, found: Imported, backbone: str) -> Iterator[str]:
    """What was imported, from where, and how to use it."""
    record, origin, label = found.record, found.record.spec["origin"], found.record.spec["label"]
    yield f"{name}: {'imported' if found.is_new else 'is in the store already, from the same files'}, key {record.key}"
    place = f"{origin['hub']} at {origin['commit']}" if origin["hub"] else "a folder"
    yield f"from {place}: {origin['name']!r}, adapters {origin['library']}, trained on {origin['model_name']!r}"
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
    from harness.sharing.outgoing import Facts

    store = Store(Path(options.store))
    manifest = stored_manifest(store, name_of(options.study))
    (one,) = chosen(store, manifest, [options.task], options.seed)
    if one.is_imported:
        raise BadInput(f"{one.task} was imported, so it is not ours to pass on; pass on where it came from")
    frame = baselines(store, manifest)
    rows = frame[(frame["target"] == one.task) & (frame["setting"] == "full") & (frame["n_seeds"] == 1)]
    low, high = (float(rows.iloc[0][name]) if len(rows) else math.nan for name in ("low", "high"))
    interval = (low, high) if math.isfinite(low) and math.isfinite(high) else (None, None)
    task = manifest["tasks"][one.task]
    return store, Facts(one.record, task, manifest["name"], bool(manifest["synthetic"]), *interval)
