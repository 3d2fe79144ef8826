"""``adapter``: export and publish trained adapters, import those of others, and let a backbone read on."""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from adapters_store.roles import BASELINE
from harness.cli.options import Leaves, add_options, leaf_of, out_option, repeatable
from harness.cli.study import name_of
from harness.cli.terminal import Bars, print_json, print_rows, verbatim
from harness.scoring.texts import FORMS, TextFile
from harness.sharing.stored import stored_manifest
from tasks.errors import BadInput

if TYPE_CHECKING:
    from harness.sharing.outgoing import Facts
    from harness.training.pretraining import Corpus, Pretrained


def add(leaves: Leaves) -> None:
    """Add ``export``, ``publish``, ``import`` and ``pretrain``."""
    study, example = "the study that it was trained in", "adapter export demo epitome_er --out epitome_er"
    export = leaf_of(leaves, "export STUDY TASK", export_adapter, example, "store json", study)
    example = "adapter publish demo epitome_er --repository ME/NAME"
    publish = leaf_of(leaves, "publish STUDY TASK", publish_adapter, example, "store json", study)
    for leaf in (export, publish):
        leaf.add_argument("task", metavar="TASK", help="a task that the store has trained")
        leaf.add_argument("--seed", metavar="N", type=int, help="of the adapter (default: the study's lowest)")
    out_option(export, "the folder to write (default: TASK)")
    export.add_argument("--bin", action="store_true", help="also as the pickles that older libraries read")
    publish.add_argument("--repository", metavar="OWNER/NAME", required=True, help="where to, on the hub")
    publish.add_argument("--yes", action="store_true", help="upload; needs a token in HF_TOKEN")
    publish.add_argument("--public", action="store_true", help="to a public repository (default: a private one)")
    example = "adapter import OWNER/NAME --as their_task --backbone roberta-base"
    bring = leaf_of(leaves, "import SOURCE", bring_adapter, example, "store json")
    source = "a folder of the adapters library, or OWNER/NAME or OWNER/NAME/FOLDER of the hub"
    bring.add_argument("source", metavar="SOURCE", help=source)
    bring.add_argument("--as", dest="name", metavar="NAME", required=True, help="what studies call it")
    stands_on = "what it stands on (default: what its own configuration names as its model)"
    bring.add_argument("--backbone", metavar="NAME", help=stands_on)
    bring.add_argument("--revision", metavar="REV", default="", help="branch, tag or commit on the hub")
    example = "adapter pretrain roberta-base --task empdial_ei --out backbones/empdial"
    pretrain = leaf_of(leaves, "pretrain BACKBONE", pretrain_backbone, example, "data json quiet")
    pretrain.add_argument("backbone", metavar="BACKBONE", help="minilm, a local folder, or a hub id")
    pretrain.add_argument("--texts", metavar="FILE", help="csv, tsv, jsonl, parquet, or a text a line")
    pretrain.add_argument("--text", metavar="COLUMN", default="", help="of FILE (default: text, or the only one)")
    pretrain.add_argument("--format", choices=FORMS, default="", help="of FILE (default: by its ending)")
    repeatable(pretrain, "--task", "ID", "all turns of its training rows")
    apart = "leave out texts of this task's clean validation and test rows, as those of --task always are"
    repeatable(pretrain, "--apart-from", "ID", apart)
    pretrain.add_argument("--epochs", metavar="N", type=int, default=3, help="(default: 3)")
    pretrain.add_argument("--batch", metavar="N", type=int, default=8, help="(default: 8)")
    pretrain.add_argument("--rate", metavar="X", type=float, default=5e-5, help="learning rate (default: 5e-5)")
    pretrain.add_argument("--max-tokens", metavar="N", type=int, default=128, help="of a window (default: 128)")
    pretrain.add_argument("--whole-words", action="store_true", help="mask all pieces of a word together")
    pretrain.add_argument("--seed", metavar="N", type=int, default=1, help="(default: 1)")
    out_option(pretrain, "the new backbone's folder (needed)")
    add_options(pretrain, "registry device")


def export_adapter(options: argparse.Namespace) -> int:
    """Write a task's adapter, head and card into a folder that the adapters library loads."""
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
    """Show what of a task's adapter would leave this machine for a hub, and with --yes upload it."""
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
    print_rows([file._asdict() for file in files])
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
    """Keep an adapter that others have trained, to stand on and to score with."""
    from harness.sharing.importing import backbone_of, import_adapter
    from harness.sharing.incoming import source_of
    from harness.study.backbone import resolve

    source = source_of(options.source, options.revision)
    backbone = resolve(options.backbone) if options.backbone else backbone_of(source)
    imported = import_adapter(Store(Path(options.store)), source, options.name, backbone)
    record = imported.record
    if options.json:
        parts = {name: record.spec[name] for name in ("adapter", "label", "origin")}
        print_json({"name": options.name, "key": record.key, "is_new": imported.is_new, **parts})
        return 0
    # what was imported, from where, and how to use it
    name, origin, label = options.name, record.spec["origin"], record.spec["label"]
    news = "imported" if imported.is_new else "is in the store already, from the same files"
    print(f"{name}: {news}, key {record.key}")
    where = f"{origin['hub']} at {origin['commit']}" if origin["hub"] else "a folder"
    print(f"from {where}: {origin['name']!r}, adapters {origin['library']}, trained on {origin['model_name']!r}")
    print(f"adapter: {', '.join(f'{field} {value}' for field, value in record.spec['adapter'].items())}")
    if label is None:
        print("head: none, so it can be an intermediate and answers nothing")
    else:
        print(f"head: {label['kind']}{': ' if label['classes'] else ''}{', '.join(label['classes'])}")
    if origin["model_name"] != backbone.name:
        stands = f"it stands on {backbone.name!r} now"
        print(f"warning: {stands}; if those are other weights than it names, it means nothing")
    print(f'for a study: [imported] {name} = "{record.key[:12]}"')
    return 0


def _facts(options: argparse.Namespace) -> tuple[Store, Facts]:
    """The store, and what a card needs of the task that is meant."""
    from analysis.gains.baselines import baselines
    from harness.scoring.answers import scoring_tasks
    from harness.sharing.outgoing import Facts

    store = Store(Path(options.store))
    manifest = stored_manifest(store, name_of(options.study))
    (adapter,) = scoring_tasks(store, manifest, [options.task], options.seed)
    if adapter.is_imported:
        raise BadInput(f"{adapter.name} was imported, so it is not ours to pass on; pass on where it came from")
    frame = baselines(store, manifest)
    rows = frame[(frame.target == adapter.name) & (frame.role == BASELINE) & (frame.setting == "full")]
    rows = rows[rows.n_seeds == 1]
    low, high = (float(rows.iloc[0][name]) if len(rows) else math.nan for name in ("low", "high"))
    interval = (low, high) if math.isfinite(low) and math.isfinite(high) else (None, None)
    task = manifest["tasks"][adapter.name]
    return store, Facts(adapter.record, task, manifest["name"], bool(manifest["synthetic"]), *interval)


# ``adapter pretrain``: a backbone reads on in texts of a domain, and becomes a backbone of its own.


def pretrain_backbone(options: argparse.Namespace) -> int:
    """Let a backbone read on in texts of a domain, as a backbone of its own."""
    if not options.out:
        raise BadInput("--out: name the folder of the new backbone")
    if not (options.texts or options.task):
        raise BadInput("adapter pretrain: no texts; name a file with --texts, or a task with --task")
    from harness.study.backbone import resolve
    from harness.study.device import Device
    from harness.training.pretraining import Setting, corpus_of, pretrain, turns_of
    from tasks.registry import Registry
    from tasks.splits.loading import load

    backbone = resolve(options.backbone)
    setting = Setting(
        epochs=options.epochs,
        batch_size=options.batch,
        learning_rate=options.rate,
        max_tokens=min(options.max_tokens, backbone.max_tokens),
        whole_words=options.whole_words,
        seed=options.seed,
    )
    # the texts of the file and of the tasks' training rows, less those of validation and test rows of clean splits
    registry = Registry.load([Path(folder) for folder in options.registry])
    sources, others = (
        {name: load(registry.task(name), Path(options.data)) for name in dict.fromkeys(names)}
        for names in (options.task, options.apart_from)
    )
    texts = [text for splits in sources.values() for text in turns_of(splits.train)]
    if options.texts:
        lines = TextFile(options.texts, options.format, text=options.text).lines()
        texts += [line.text for line in lines if not line.problem]
    later = ((*splits.validation, *splits.test) for splits in (*sources.values(), *others.values()))
    apart = [text for rows in later for text in turns_of(rows)]
    corpus = corpus_of(texts, apart=apart, seed=options.seed)
    with Bars(quiet=options.quiet) as bars:
        result = pretrain(
            backbone,
            corpus,
            Path(options.out),
            setting,
            device=Device(options.device).ready(),
            watch=lambda done, of: bars.show("steps", done, of, f"step {done} of {of}"),
        )
    _print_pretrained(options, corpus, result)
    return 0


def _print_pretrained(options: argparse.Namespace, corpus: Corpus, result: Pretrained) -> None:
    facts = {
        "out": str(result.folder),
        "texts": len(corpus.train),
        "held out": len(corpus.held_out),
        "left out": {"empty": corpus.empty, "repeated": corpus.repeated, "of later rows": corpus.apart},
        "steps": result.steps,
        "perplexity before": round(result.before, 2),
        "perplexity after": round(result.after, 2),
        "head is new": result.head_is_new,
    }
    if options.json:
        print_json(facts)
        return
    print(f"texts       {len(corpus.train)} to train on, {len(corpus.held_out)} held out")
    print(
        f"left out    {corpus.apart} of clean splits' validation and test rows, {corpus.repeated} repeated,"
        f" {corpus.empty} empty"
    )
    new = "; its head was new, so the first says little" if result.head_is_new else ""
    print(f"perplexity  {result.before:.2f} before, {result.after:.2f} after {result.steps} steps{new}")
    if options.task or options.apart_from:
        print("a study with [protocol] or published splits has other test rows: give its training texts with --texts")
    else:
        print("no task's test texts were looked for; name tasks with --apart-from")
    print(f"\nnext: empathy-transfer plan STUDY --set 'backbone=\"{result.folder}\"'")
