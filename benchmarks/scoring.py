"""New texts through all adapters of a finished study: one pass of lanes against two ways of the adapters library.

``one by one`` is what its documentation shows first: load an adapter with its head, activate it, and run batches of 32
in file order, padded to their longest row; then the next adapter. ``Parallel`` is the best that it has: all adapters
that make the same tokens of these texts at once, side by side in one pass, over texts sorted by length. All read the
same made-up texts, tokenisation included, one thread, in turn; only one by one has to load while the clock runs. The
median ratio of CPU seconds over ``--rounds`` and its range first; then how far the logits are apart. A first pass of
every way makes kernels and is not counted.

    python -m benchmarks.scoring STORE --study real-12 --texts 2000 --rounds 1
    python -m benchmarks.scoring STORE --study demo --texts 300 --alone --ways lanes Parallel bf16
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from adapters.composition import Parallel

from adapters_store import Store
from benchmarks import machine
from harness.scoring.answers import ScoringTask
from harness.scoring.scorer import Scorer
from harness.training import model
from harness.training.inputs import Encoded, InputFormat
from harness.training.tokenizer import library_tokenizer, load_tokenizer
from tasks.readers.rows import kept_turns
from tasks.task import Example, Turn

BATCH = 32
WAYS = ("lanes", "one by one", "Parallel", "bf16")
WORDS = (
    "I you feel so hard that was with them never really today because hope sorry happy work home family think".split()
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Score the texts both ways and print the ratio."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    store = Store(Path(options.store))
    manifest, rows = store.manifest(options.study), made_up(options.texts, alone=options.alone)
    scorer = Scorer(store, manifest, device="cpu")
    ways = {name: way for name, way in _ways(scorer, store, manifest, rows).items() if name in options.ways}
    spent, answers = _in_turn(ways, options.rounds)
    for name, seconds in spent.items():
        ratios = np.array(seconds) / spent["lanes"]
        spread = f"{np.median(ratios):.2f} ({ratios.min():.2f} .. {ratios.max():.2f})"
        print(f"{name}: {np.median(seconds):.1f} CPU seconds, {spread} times those of lanes")
    lengths = [len(windows[0].ids) for windows in next(iter(scorer.readings.values())).encode(rows)]
    shape = f"{len(rows)} texts of {np.mean(lengths):.0f} tokens (longest {max(lengths)})"
    print(f"  {len(scorer.tasks)} tasks that read in {len(scorer.readings)} ways, {shape}, {options.rounds} rounds")
    classes = {one.name for one in scorer.tasks if one.outputs > 1}
    for name in ways:
        if name != "lanes":
            print(f"  {name}: {_apart(answers['lanes'], answers[name], classes)}")
    print(f"  {machine.described()}")


def _ways(
    scorer: Scorer, store: Store, manifest: Mapping[str, Any], rows: Sequence[Example]
) -> dict[str, Callable[[], dict[str, Any]]]:
    """What is timed, by name."""
    half, networks = Scorer(store, manifest, precision="bf16", device="cpu"), side_by_side(scorer, rows)
    return {
        "lanes": lambda: {said.task.name: said.logits for said in scorer.answers(rows)},
        "one by one": lambda: {one.name: by_the_library(scorer, one, rows) for one in scorer.tasks},
        "Parallel": lambda: in_parallel(scorer, networks, rows),
        "bf16": lambda: {said.task.name: said.logits for said in half.answers(rows)},
    }


def _apart(ours: Mapping[str, Any], theirs: Mapping[str, Any], classes: Collection[str]) -> str:
    """How far two ways' answers are apart."""
    logits = max(float(np.abs(ours[task] - theirs[task]).max()) for task in theirs)
    shares = max((float(np.abs(_shares(ours[task]) - _shares(theirs[task])).max()) for task in classes), default=0.0)
    numbers = max((float(np.abs(ours[task] - theirs[task]).max()) for task in theirs if task not in classes), default=0)
    other = sum(int((ours[task].argmax(1) != theirs[task].argmax(1)).sum()) for task in classes)
    return (
        f"logits are at most {logits:.1e} from those of lanes, probabilities {shares:.1e}, numbers {numbers:.1e}; "
        f"{other} of {sum(len(ours[task]) for task in classes)} classes are others"
    )


def made_up(count: int, *, alone: bool = False) -> list[Example]:
    """Texts of lognormal length, a third of them with an earlier turn; none if they stand ``alone``."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(count):
        text, before = (" ".join(rng.choice(WORDS, size=size)) for size in _sizes(rng))
        turns = (Turn("speaker", before),) if i % 3 == 0 and not alone else ()
        rows.append(Example(str(i), str(i), str(i), turns, text, 0))
    return rows


def _sizes(rng: np.random.Generator) -> list[int]:
    return [int(size) for size in np.clip(rng.lognormal(3.1, 0.7, size=2), 2, 400)]


def by_the_library(scorer: Scorer, one: ScoringTask, rows: Sequence[Example]) -> Any:  # noqa: ANN401
    """Logits of one task, as the library computes them."""
    network = model.load_backbone(scorer.backbone)
    name = network.load_adapter(str(model.stored_adapter(scorer.store, one.record.key)), use_safetensors=True)
    network.set_active_adapters(name)
    encoded, tokenizer, found = _encoded(scorer, one, rows), library_tokenizer(scorer.backbone), []
    for start in range(0, len(rows), BATCH):
        batch = _padded(scorer, tokenizer, encoded[start : start + BATCH])
        with torch.inference_mode():
            found.append(network(**batch, head=name).logits)
    return torch.cat(found).numpy()


def side_by_side(scorer: Scorer, rows: Sequence[Example]) -> list[tuple[list[ScoringTask], Any]]:
    """Tasks that make the same tokens of these texts, and a network with all that they have in ``Parallel``."""
    alike: dict[tuple[Any, ...], list[ScoringTask]] = {}
    for one in scorer.tasks:
        alike.setdefault(tuple(row.ids for row in _encoded(scorer, one, rows)), []).append(one)
    made = []
    for tasks in alike.values():
        network = model.load_backbone(scorer.backbone)
        folders = [str(model.stored_adapter(scorer.store, one.record.key)) for one in tasks]
        names = [network.load_adapter(folder, use_safetensors=True) for folder in folders]
        network.set_active_adapters(Parallel(*names))
        network.active_head = names
        made.append((tasks, network))
    return made


def in_parallel(
    scorer: Scorer, networks: Sequence[tuple[list[ScoringTask], Any]], rows: Sequence[Example]
) -> dict[str, Any]:
    """Logits of all tasks through the library's ``Parallel``: tasks that read alike at once, texts sorted by length."""
    made: dict[str, Any] = {}
    for tasks, network in networks:
        encoded, tokenizer = _encoded(scorer, tasks[0], rows), library_tokenizer(scorer.backbone)
        order = sorted(range(len(rows)), key=lambda row: -len(encoded[row].ids))
        found: list[list[Any]] = [[] for _ in tasks]
        for start in range(0, len(order), BATCH):
            batch = _padded(scorer, tokenizer, [encoded[row] for row in order[start : start + BATCH]])
            with torch.inference_mode():
                outputs = network(**batch)
            for place, output in enumerate(outputs if len(tasks) > 1 else [outputs]):
                found[place].append(output.logits)
        for one, parts in zip(tasks, found, strict=True):
            made[one.name] = torch.cat(parts).numpy()[np.argsort(order)]
    return made


def _encoded(scorer: Scorer, one: ScoringTask, rows: Sequence[Example]) -> list[Encoded]:
    spec, tokenizer = one.record.spec, load_tokenizer(scorer.backbone)
    form = InputFormat.of(spec, tokenizer)
    turns = kept_turns(spec["history"])
    return [form.encode(row._replace(context=row.context[turns]))[0] for row in rows]


def _padded(scorer: Scorer, tokenizer: Any, rows: Sequence[Encoded]) -> Any:  # noqa: ANN401
    columns = {"input_ids": [list(row.ids) for row in rows]}
    if scorer.backbone.model_type == "bert":
        columns["token_type_ids"] = [list(row.segments) for row in rows]
    return tokenizer.pad(columns, return_tensors="pt")


def _in_turn(
    ways: Mapping[str, Callable[[], dict[str, Any]]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, dict[str, Any]]]:
    """The CPU seconds of every way in every round, each round in another order, and what each has answered."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    answers = {name: way() for name, way in ways.items()}
    for number in range(rounds):
        names = list(ways)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            seconds, answers[name] = _timed(ways[name])
            spent[name].append(seconds)
    return spent, answers


def _shares(logits: Any) -> Any:  # noqa: ANN401
    return torch.from_numpy(logits).double().softmax(dim=1).numpy()


def _timed(run: Callable[[], dict[str, Any]]) -> tuple[float, dict[str, Any]]:
    started = time.process_time()
    found = run()
    return time.process_time() - started, found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--study", required=True)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--alone", action="store_true", help="no text has an earlier turn")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=3)
    return parser


if __name__ == "__main__":
    main()
