"""``pretrain``: a backbone reads on in texts of a domain, and becomes a backbone of its own."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import device_option, leaf_options, out_option, registry_option
from harness.cli.terminal import Bars, print_json
from harness.scoring.texts import FORMS, Texts
from tasks.errors import BadInput

if TYPE_CHECKING:
    from harness.training.pretraining import Pretrained
    from harness.training.tokens.corpus import Corpus
    from tasks.splits.loading import Splits


def add_pretrain(pretrain: argparse.ArgumentParser) -> None:
    """Add the options of ``pretrain``."""
    leaf_options(pretrain, "pretrain roberta-base --task empdial_ei --out backbones/empdial", pretrain_backbone)
    pretrain.add_argument("backbone", metavar="BACKBONE", help="minilm, a local folder, or a hub id")
    pretrain.add_argument("--texts", metavar="FILE", help="csv, tsv, jsonl, parquet, or a text a line")
    pretrain.add_argument("--text", metavar="COLUMN", default="", help="of FILE (default: text, or the only one)")
    pretrain.add_argument("--format", choices=FORMS, default="", help="of FILE (default: by its ending)")
    pretrain.add_argument(
        "--task", metavar="ID", action="append", default=[], help="all turns of its training rows (repeatable)"
    )
    pretrain.add_argument(
        "--apart-from",
        metavar="ID",
        action="append",
        default=[],
        help="leave out texts of this task's validation and test rows (repeatable; of --task they always are)",
    )
    pretrain.add_argument("--epochs", metavar="N", type=int, default=3, help="(default: 3)")
    pretrain.add_argument("--batch", metavar="N", type=int, default=8, help="(default: 8)")
    pretrain.add_argument("--rate", metavar="X", type=float, default=5e-5, help="learning rate (default: 5e-5)")
    pretrain.add_argument("--max-tokens", metavar="N", type=int, default=128, help="of a window (default: 128)")
    pretrain.add_argument("--whole-words", action="store_true", help="mask all pieces of a word together")
    pretrain.add_argument("--seed", metavar="N", type=int, default=1, help="(default: 1)")
    out_option(pretrain, "the new backbone's folder (needed)")
    registry_option(pretrain)
    device_option(pretrain)


def pretrain_backbone(options: argparse.Namespace) -> int:
    """Train, write the folder, and say how well held-out words are guessed before and after."""
    if not options.out:
        raise BadInput("--out: name the folder of the new backbone")
    if not (options.texts or options.task):
        raise BadInput("pretrain: no texts; name a file with --texts, or a task with --task")
    from harness.study.backbones.backbone import resolve
    from harness.study.device import Device
    from harness.training.pretraining import Setting, pretrain

    backbone = resolve(options.backbone)
    setting = Setting(
        epochs=options.epochs,
        batch_size=options.batch,
        learning_rate=options.rate,
        max_tokens=min(options.max_tokens, backbone.max_tokens),
        whole_words=options.whole_words,
        seed=options.seed,
    )
    corpus = _corpus(options)
    with Bars(quiet=options.quiet) as bars:
        result = pretrain(
            backbone,
            corpus,
            Path(options.out),
            setting,
            device=Device(options.device).ready(),
            watch=lambda done, of: bars.show("steps", done, of, f"step {done} of {of}"),
        )
    _print(options, corpus, result)
    return 0


def _corpus(options: argparse.Namespace) -> Corpus:
    """The texts of the file and of the tasks' training rows, less those of validation and test rows."""
    from harness.training.tokens.corpus import corpus_of, later_texts, training_texts

    own, others = (dict(_splits(options, names)) for names in (options.task, options.apart_from))
    texts = [text for splits in own.values() for text in training_texts(splits)]
    if options.texts:
        lines = Texts(options.texts, options.format, text=options.text).lines()
        texts += [line.text for line in lines if not line.problem]
    apart = [text for splits in (*own.values(), *others.values()) for text in later_texts(splits)]
    return corpus_of(texts, apart=apart, seed=options.seed)


def _splits(options: argparse.Namespace, names: list[str]) -> Iterator[tuple[str, Splits]]:
    from tasks.registry import Registry
    from tasks.splits.loading import load

    registry = Registry.load([Path(folder) for folder in options.registry])
    for name in dict.fromkeys(names):
        yield name, load(registry.task(name), Path(options.data))


def _print(options: argparse.Namespace, corpus: Corpus, result: Pretrained) -> None:
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
        f"left out    {corpus.apart} of validation and test rows, {corpus.repeated} that repeat another,"
        f" {corpus.empty} empty"
    )
    new = "; its head was new, so the first says little" if result.head_is_new else ""
    print(f"perplexity  {result.before:.2f} before, {result.after:.2f} after {result.steps} steps{new}")
    if options.texts and not (options.task or options.apart_from):
        print("no task's test texts were looked for; name tasks with --apart-from")
    print(f"\nnext: empathy-transfer plan STUDY --set 'backbone=\"{result.folder}\"'")
