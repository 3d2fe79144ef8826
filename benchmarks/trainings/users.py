"""What a column of a study costs a user of the adapters library who writes it well, and what it costs as lanes.

End to end, each way: loading, encoding, training with scores of the validation rows after every epoch, and those of the
test rows. All ways get the column's transfers, the same rows, epochs, batch size and rate:

    trainer        AdapterTrainer, a transfer at a time: batches padded to their longest row, rows grouped by length
                   (``group_by_length``), the linear schedule, the best epoch kept; of one transfer, times their number
    trainer-bf16   the same with ``bf16=True``, its mixed precision
    parallel       all transfers at once in one model, ``Stack(Parallel(..), Parallel(..))``, grouped and padded alike
    lanes, lanes-bf16   a run of this project, with the record

CPU seconds of the column, in turn; ratios are taken within a round. Intermediates are trained before and not counted,
nor is importing the libraries. That all ways train equal things is counted where peers read their batches: rows, tokens
and steps of a transfer, which lanes take from the same rows, and padding; beside it stand the test scores of the first
transfer and of all.

    python -m benchmarks.trainings.users --synthetic --set max_train=100 --set max_val=50 --set max_test=125
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adapters_store import Store
from benchmarks import machine
from benchmarks.trainings.cells import column_parser
from harness.raw.holdings import data_folder
from harness.run.pack import run_cells
from harness.study.cell import Cell
from harness.study.file import load_study
from harness.study.plan import Plan, make_plan
from harness.training import model
from harness.training.recipe import Part, encoded
from harness.training.tokenizer import library_tokenizer
from tasks import metrics
from tasks.registry import Registry

TARGET, EVALUATED = "target", 64


@dataclass
class Reading:
    """What a network was trained on: batches, their rows, tokens, and tokens with padding."""

    batches: int = 0
    rows: int = 0
    tokens: int = 0
    places: int = 0

    def add(self, network: Any, _: object, batch: dict[str, Any]) -> None:  # noqa: ANN401
        """Count a batch that is about to be read, unless it is only scored."""
        if network.training:
            self.batches += 1
            self.rows += batch["attention_mask"].shape[0]
            self.tokens += int(batch["attention_mask"].sum())
            self.places += batch["attention_mask"].numel()


@dataclass(frozen=True)
class Outcome:
    """Test scores of the transfers that were trained, the column's first one first, and what they were trained on."""

    scores: list[float]
    reading: Reading | None = None  # None: lanes, whose batches no network of the library reads


Way = Callable[[], Outcome]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the column every way in every round, and print seconds, ratios, scores and what was trained on."""
    options = _parser().parse_args(arguments)
    machine.require_accelerate()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        plans = {name: _plan(options, name, Path(folder) / name) for name in ("fp32", "bf16")}
        words = _trained(plans["fp32"][0], options.target)
        cells = len(_column(plans["fp32"][0], options.target))
        spent, outcomes = _in_turn(_ways(plans, options.target), options, cells)
    print(f"{options.study}, column {options.target}, {cells} transfers, {options.rounds} round(s); {words}")
    print("\n".join(_lines(spent, outcomes)))
    print(f"  {machine.described()}")


def _in_turn(
    ways: dict[str, Way], options: argparse.Namespace, cells: int
) -> tuple[dict[str, list[float]], dict[str, Outcome]]:
    """CPU seconds of the whole column by way and round, and the last round's outcomes."""
    spent: dict[str, list[float]] = {name: [] for name in ways if name in options.ways}
    outcomes: dict[str, Outcome] = {}
    for _ in range(options.rounds):
        for name in spent:
            started = time.process_time()
            outcomes[name] = ways[name]()
            spent[name].append((time.process_time() - started) * cells / len(outcomes[name].scores))
            print(f"  {name}: {spent[name][-1]:.1f} CPU s a column", file=sys.stderr, flush=True)
    return spent, outcomes


def _lines(spent: dict[str, list[float]], outcomes: dict[str, Outcome]) -> Iterator[str]:
    """A line for each way: seconds, what lanes take of them, scores, and what a transfer was trained on."""
    for name, seconds in spent.items():
        shares = [f"{own} take {_share(spent[own], seconds)}" for own in ("lanes", "lanes-bf16") if own in spent]
        scores, reading = outcomes[name].scores, outcomes[name].reading
        yield (
            f"  {name:13} {statistics.median(seconds):7.1f} CPU s a column; {', '.join(shares)}; "
            f"test score of the first transfer {scores[0]:.3f}, of {len(scores)} in the mean {np.mean(scores):.3f}"
        )
        if reading:
            yield (
                f"  {'':13} a transfer: {reading.rows:,} rows and {reading.tokens:,} tokens in {reading.batches} "
                f"steps, {1 - reading.tokens / reading.places:.0%} padding"
            )


def _share(own: Sequence[float], seconds: Sequence[float]) -> str:
    shares = [ours / theirs for ours, theirs in zip(own, seconds, strict=True)]
    return f"{statistics.median(shares):.0%} ({min(shares):.0%} .. {max(shares):.0%})"


def _trained(plan: Plan, target: str) -> str:
    """What every transfer of the column is to be trained on, in words."""
    cell = _column(plan, target)[0]
    _, parts, _ = encoded(cell, plan.backbone, plan.splits[target])
    training = plan.study.training_for(plan.splits[target].task)[0]
    train, epochs = parts["train"].rows, training.epochs
    tokens = epochs * sum(len(row.ids) for row, *_ in train)
    steps = epochs * -(-len(train) // training.batch_size)
    return (
        f"a transfer: {epochs} epochs of {len(train)} rows are {epochs * len(train):,} rows and {tokens:,} tokens in "
        f"{steps} steps of at most {training.batch_size} rows; {len(parts['validation'].rows)} validation rows an "
        f"epoch, {len(parts['test'].rows)} test rows"
    )


def _ways(plans: dict[str, tuple[Plan, Store]], target: str) -> dict[str, Way]:
    plan, store = plans["fp32"]
    cells = _column(plan, target)
    return {
        "lanes": partial(_lanes, *plans["fp32"], target),
        "trainer": partial(by_trainer, plan, store, cells[0], has_bf16=False),
        "parallel": partial(in_parallel, plan, store, cells),
        "lanes-bf16": partial(_lanes, *plans["bf16"], target),
        "trainer-bf16": partial(by_trainer, plan, store, cells[0], has_bf16=True),
    }


def _column(plan: Plan, target: str) -> Sequence[Cell]:
    (column,) = [pack for pack in plan.transfers if pack.target == target]
    return column.cells


def _lanes(plan: Plan, store: Store, target: str) -> Outcome:
    """A run of the column's transfers; a record that is there already is trained and written again."""
    cells = _column(plan, target)
    run_cells(cells, plan.backbone, plan.splits[target], store, lambda *_: None)
    return Outcome([float(store.get(cell.key).results["test"]) for cell in cells])


def by_trainer(plan: Plan, store: Store, cell: Cell, *, has_bf16: bool) -> Outcome:
    """One transfer through AdapterTrainer; its test score."""
    from adapters import AdapterTrainer
    from transformers import DataCollatorWithPadding, PrinterCallback, TrainingArguments

    network, parts, reading = _composed(plan, store, [cell])
    training = plan.study.training_for(plan.splits[cell.target].task)[0]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=training.batch_size,
            per_device_eval_batch_size=EVALUATED,
            num_train_epochs=training.epochs,
            learning_rate=training.learning_rate,
            group_by_length=True,
            bf16=has_bf16,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="score",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = AdapterTrainer(
            model=network,
            args=arguments,
            train_dataset=_rows(parts["train"]),
            eval_dataset=_rows(parts["validation"]),
            data_collator=DataCollatorWithPadding(library_tokenizer(plan.backbone)),
            compute_metrics=lambda said: {"score": _score(cell, said.label_ids, said.predictions)},
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        logits = trainer.predict(_rows(parts["test"])).predictions
    return Outcome([_score(cell, parts["test"].labels, logits)], reading)


def in_parallel(plan: Plan, store: Store, cells: Sequence[Cell]) -> Outcome:
    """All transfers side by side through the library's own composition; their test scores, of the last epoch."""
    network, parts, reading = _composed(plan, store, cells)
    training = plan.study.training_for(plan.splits[cells[0].target].task)[0]
    tokenizer, train = library_tokenizer(plan.backbone), parts["train"]
    trained = [value for value in network.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=training.learning_rate)
    rng, step = np.random.default_rng(1), 0
    steps = training.epochs * -(-len(train.rows) // training.batch_size)
    network.train()  # as loaded it is in evaluation, without dropout
    for _ in range(training.epochs):
        for numbers in _grouped(train, training.batch_size, rng):
            optimizer.param_groups[0]["lr"] = training.learning_rate * (1 - step / steps)
            optimizer.zero_grad()
            labels = torch.as_tensor(train.labels[numbers])
            logits = _said(network, tokenizer, train, numbers)
            sum(torch.nn.functional.cross_entropy(own, labels) for own in logits).backward()  # type: ignore[union-attr]
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            step += 1
        _predicted(network, tokenizer, parts["validation"])
    said = _predicted(network, tokenizer, parts["test"])
    return Outcome([_score(cells[0], parts["test"].labels, own) for own in said], reading)


def _composed(plan: Plan, store: Store, cells: Sequence[Cell]) -> tuple[Any, dict[str, Part], Reading]:
    """A fresh model with a target's adapter and head on each cell's stored intermediate, rows, and what it reads."""
    from adapters import SeqBnConfig
    from adapters.composition import Parallel, Stack

    network = model.load_backbone(plan.backbone)
    below, targets = [], [f"{TARGET}{lane}" for lane in range(len(cells))]
    for name, cell in zip(targets, cells, strict=True):
        folder = str(model.stored_adapter(store, cell.spec["intermediate_key"]))
        below.append(network.load_adapter(folder, with_head=False, use_safetensors=True))
        network.add_adapter(name, config=SeqBnConfig(reduction_factor=16))
        classes = len(cell.spec["label"]["classes"])
        network.add_classification_head(name, num_labels=classes, layers=2, activation_function="tanh")
    if len(cells) == 1:
        network.train_adapter(targets[0])
        network.set_active_adapters(Stack(below[0], targets[0]))
        network.active_head = targets[0]
    else:
        network.train_adapter(Parallel(*targets))
        network.set_active_adapters(Stack(Parallel(*below), Parallel(*targets)))
        network.active_head = targets
    reading = Reading()
    network.register_forward_pre_hook(reading.add, with_kwargs=True)
    _, parts, _ = encoded(cells[0], plan.backbone, plan.splits[cells[0].target])
    return network, parts, reading


def _rows(part: Part) -> list[dict[str, Any]]:
    return [
        {"input_ids": list(row.ids), "token_type_ids": list(row.segments), "labels": int(label)}
        for (row, *_), label in zip(part.rows, part.labels, strict=True)
    ]


def _grouped(part: Part, size: int, rng: np.random.Generator) -> list[list[int]]:
    """Batches of like length, as ``group_by_length`` makes them: of 50 random batches at a time, in random order."""
    order = rng.permutation(len(part.rows))
    parts = [order[start : start + 50 * size] for start in range(0, len(order), 50 * size)]
    batches = [
        some[start : start + size].tolist()
        for own in parts
        for some in [np.array(sorted(own, key=lambda row: -len(part.rows[row][0].ids)))]
        for start in range(0, len(some), size)
    ]
    return [batches[place] for place in rng.permutation(len(batches))]


def _said(network: Any, tokenizer: Any, part: Part, numbers: Sequence[int]) -> list[Any]:  # noqa: ANN401
    """Logits of every head for these rows, padded to the longest."""
    rows = [part.rows[number][0] for number in numbers]
    columns = {"input_ids": [list(row.ids) for row in rows]}
    if network.config.model_type == "bert":
        columns["token_type_ids"] = [list(row.segments) for row in rows]
    said = network(**tokenizer.pad(columns, return_tensors="pt"))
    return [output.logits for output in (said if isinstance(network.active_head, list) else [said])]


def _predicted(network: Any, tokenizer: Any, part: Part) -> list[Any]:  # noqa: ANN401
    """Logits of every head for all rows, sorted by length, dropout off."""
    network.eval()
    order = sorted(range(len(part.rows)), key=lambda row: -len(part.rows[row][0].ids))
    batches = [order[start : start + EVALUATED] for start in range(0, len(order), EVALUATED)]
    with torch.inference_mode():
        said = [_said(network, tokenizer, part, numbers) for numbers in batches]
    network.train()
    return [torch.cat(own).numpy()[np.argsort(order)] for own in zip(*said, strict=True)]


def _score(cell: Cell, labels: Any, logits: Any) -> float:  # noqa: ANN401
    return metrics.score(cell.spec["metric"], np.asarray(labels), np.asarray(logits))


def _plan(options: argparse.Namespace, precision: str, root: Path) -> tuple[Plan, Store]:
    """The study in this precision, and a store with the intermediates."""
    store, registry = Store(root), Registry.load()
    study = load_study(options.study, ["trainer='lanes'", f"precision='{precision}'", *options.set])
    data = None if options.synthetic else os.environ.get("EMPATHY_DATA")
    if data is None and not options.synthetic:
        raise SystemExit("set EMPATHY_DATA to the folder of the raw files, or give --synthetic")
    if data is None:
        study = dataclasses.replace(study, data="synthetic")
    plan = make_plan(study, registry, data_folder(study, registry, Path(data or "."), store.root))
    for pack in plan.baselines:
        run_cells(pack.cells, plan.backbone, plan.splits[pack.target], store, lambda *_: None)
    return plan, store


def _parser() -> argparse.ArgumentParser:
    parser = column_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    names = ("lanes", "trainer", "parallel", "lanes-bf16", "trainer-bf16")
    parser.add_argument("--ways", nargs="+", choices=names, default=list(names))
    return parser


if __name__ == "__main__":
    main()
