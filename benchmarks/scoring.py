"""New texts through all adapters of a finished study: one pass of lanes against the adapters library, one at a time.

The library's way is what its documentation shows: load an adapter with its head, activate it, and run batches of 32 in
file order, padded to their longest row; then the next adapter. Both read the same made-up texts, tokenisation included,
one thread. Ratio of CPU seconds first; then how far the logits are apart.

    python -m benchmarks.scoring STORE --study real-12 --texts 2000
    python -m benchmarks.scoring STORE --study real-12 --texts 2000 --precision bf16
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adapters_store import Store
from benchmarks import machine
from harness.scoring.chosen import Chosen
from harness.scoring.scorer import Scorer
from harness.training import model
from harness.training.inputs import InputFormat
from tasks.readers.rows import kept_turns
from tasks.task import Example, Turn

BATCH = 32
WORDS = (
    "I you feel so hard that was with them never really today because hope sorry happy work home family think".split()
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Score the texts both ways and print the ratio."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    store = Store(Path(options.store))
    rows = made_up(options.texts)
    scorer = Scorer(store, store.manifest(options.study), precision=options.precision, device="cpu")
    lanes, ours = _timed(lambda: {one.task: logits for one, logits, _ in scorer.logits(rows)})
    alone, theirs = _timed(lambda: {one.task: by_the_library(scorer, one, rows) for one in scorer.tasks})
    gaps = {task: np.abs(ours[task] - theirs[task]) for task in theirs}
    apart = max(float(gap.max()) for gap in gaps.values())
    classes = [one.task for one in scorer.tasks if one.outputs > 1]
    shares = max(float(np.abs(_shares(ours[task]) - _shares(theirs[task])).max()) for task in classes)
    numbers = max(float(gap.max()) for task, gap in gaps.items() if task not in classes)
    other = sum(int((ours[task].argmax(1) != theirs[task].argmax(1)).sum()) for task in classes)
    lengths = [len(windows[0].ids) for windows in (scorer.groups[0].form.encode(row) for row in rows)]
    print(f"{alone / lanes:.2f} times as fast: {lanes:.1f} CPU seconds for {alone:.1f} one adapter at a time")
    shape = f"{len(rows)} texts of {np.mean(lengths):.0f} tokens (longest {max(lengths)}), {options.precision}"
    print(f"  {len(scorer.tasks)} tasks in {len(scorer.groups)} passes, {shape}")
    print(f"  logits differ by at most {apart:.1e}, probabilities by {shares:.1e}, numbers by {numbers:.1e}")
    print(f"  classes that differ: {other}")
    print(f"  {machine.described()}")


def made_up(count: int) -> list[Example]:
    """Texts of lognormal length, a third of them with an earlier turn."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(count):
        text, before = (" ".join(rng.choice(WORDS, size=size)) for size in _sizes(rng))
        rows.append(Example(str(i), str(i), str(i), (Turn("speaker", before),) if i % 3 == 0 else (), text, 0))
    return rows


def _sizes(rng: np.random.Generator) -> list[int]:
    return [int(size) for size in np.clip(rng.lognormal(3.1, 0.7, size=2), 2, 400)]


def by_the_library(scorer: Scorer, one: Chosen, rows: Sequence[Example]) -> Any:  # noqa: ANN401
    """Logits of one task, as the library computes them."""
    network = model.load_backbone(scorer.backbone)
    name = network.load_adapter(str(model.stored_adapter(scorer.store, one.record.key)), use_safetensors=True)
    network.set_active_adapters(name)
    tokenizer, spec = model.load_tokenizer(scorer.backbone), one.record.spec
    form = InputFormat(tokenizer, spec["input_format"], spec["tags"] or "none", spec["max_tokens"], spec["truncation"])
    turns = kept_turns(spec["history"])
    encoded = [form.encode(row._replace(context=row.context[turns]))[0] for row in rows]
    found = []
    for start in range(0, len(rows), BATCH):
        some = encoded[start : start + BATCH]
        columns = {"input_ids": [list(row.ids) for row in some]}
        if scorer.backbone.model_type == "bert":
            columns["token_type_ids"] = [list(row.segments) for row in some]
        with torch.inference_mode():
            found.append(network(**tokenizer.pad(columns, return_tensors="pt"), head=name).logits)
    return torch.cat(found).numpy()


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
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    return parser


if __name__ == "__main__":
    main()
