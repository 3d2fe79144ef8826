"""Seven ways of training the cells of one column, from what a user writes first to the lanes of this project.

Every function prepares one way on a fresh model and returns how to train a part once: a call that takes rows and
returns the CPU seconds of its training steps, start-up left out. `cells` says how many cells such a step trains.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.steps.shapes import CLIP, LONGEST, PAD, RATE, TARGET, Shape, add_adapter, add_head
from harness.training.batches import collate, cuts, training_batches
from harness.training.inputs import Encoded
from harness.training.lanes.fit import LaneTrainer
from harness.training.lanes.frozen import PRECISIONS, freeze
from harness.training.lanes.state import parameter_names, stacked
from harness.training.recipe import Part, Recipe
from harness.training.tensors import CPU

Run = Callable[[Part], float]
INTERMEDIATE = "intermediate"


def trainer_dynamic(model: Any, shape: Shape) -> Run:  # noqa: ANN401
    """AdapterTrainer as a user writes it, every batch padded to its longest row."""
    return _trainer(model, shape, padding={"padding": True})


def trainer_512(model: Any, shape: Shape) -> Run:  # noqa: ANN401
    """AdapterTrainer with every row padded to 512 tokens."""
    return _trainer(model, shape, padding={"padding": "max_length", "max_length": LONGEST})


def bare(model: Any, shape: Shape) -> Run:  # noqa: ANN401
    """The fewest lines that train the library's model: no Trainer, every batch padded to its longest row."""
    return _loop(model, shape, lambda numbers, lengths: iter([numbers]))


def bare_sorted(model: Any, shape: Shape) -> Run:  # noqa: ANN401
    """The bare loop with this project's micro-batches of like length."""
    return _loop(model, shape, cuts)


def packing(model: Any, shape: Shape) -> Run:  # noqa: ANN401
    """The library's own exact packing, ``Stack(Parallel(..), Parallel(..))``, with the same micro-batches."""
    from adapters.composition import Parallel, Stack

    intermediates = [f"i{lane}" for lane in range(shape.lanes)]
    targets = [f"t{lane}" for lane in range(shape.lanes)]
    for name in (*intermediates, *targets):
        add_adapter(model, name)
    for name in targets:
        add_head(model, name)
    model.train_adapter(Parallel(*targets))
    model.set_active_adapters(Stack(Parallel(*intermediates), Parallel(*targets)))
    model.active_head = targets
    named = list(model.named_parameters())
    lanes = [
        [
            p
            for name, p in named
            if p.requires_grad and (f".adapters.{one}." in name or name.startswith(f"heads.{one}."))
        ]
        for one in targets
    ]
    return _steps(model, shape, cuts, lanes)


def lanes_fp32(model: Any, shape: Shape) -> Run:  # noqa: ANN401
    """All cells of the column as lanes, in single precision."""
    return _lanes(model, shape, "fp32")


def lanes_bf16(model: Any, shape: Shape) -> Run:  # noqa: ANN401
    """All cells of the column as lanes, activations and frozen weights in bf16."""
    return _lanes(model, shape, "bf16")


def _trainer(model: Any, shape: Shape, padding: dict[str, Any]) -> Run:  # noqa: ANN401
    from adapters import AdapterTrainer
    from transformers import DataCollatorWithPadding, PrinterCallback, TrainerCallback

    from harness.study.backbone import resolve
    from harness.training.tokenizer import library_tokenizer

    class Clock(TrainerCallback):
        started = spent = 0.0

        def on_train_begin(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
            self.started = time.process_time()

        def on_train_end(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
            self.spent = time.process_time() - self.started

    compose(model)
    collator = DataCollatorWithPadding(library_tokenizer(resolve("random-tiny")), **padding)

    def run(part: Part) -> float:
        with tempfile.TemporaryDirectory() as folder:
            clock = Clock()
            arguments = arguments_of(shape, folder, use_cpu=True)
            data = [
                {"input_ids": list(text.ids), "attention_mask": [1] * len(text.ids), "labels": int(label)}
                for (text,), label in zip(part.rows, part.labels, strict=True)
            ]
            trainer = AdapterTrainer(
                model=model, args=arguments, train_dataset=data, data_collator=collator, callbacks=[clock]
            )
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        return clock.spent

    return run


def arguments_of(shape: Shape, folder: str, **more: Any) -> Any:  # noqa: ANN401 - the library's own
    """What AdapterTrainer trains one epoch of this shape by, silently; ``more`` are further fields."""
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=shape.batch,
        num_train_epochs=1,
        learning_rate=RATE,
        save_strategy="no",
        eval_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **more,
    )


def compose(model: Any) -> list[Tensor]:  # noqa: ANN401
    """One transfer cell: a frozen intermediate under a fresh target; its trainable parameters."""
    from adapters.composition import Stack

    add_adapter(model, INTERMEDIATE)
    add_adapter(model, TARGET)
    add_head(model, TARGET)
    model.train_adapter(TARGET)
    model.set_active_adapters(Stack(INTERMEDIATE, TARGET))
    model.active_head = TARGET
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _loop(model: Any, shape: Shape, cut: Callable[..., Iterator[list[int]]]) -> Run:  # noqa: ANN401
    return _steps(model, shape, cut, [compose(model)])


def _steps(model: Any, shape: Shape, cut: Callable[..., Iterator[list[int]]], lanes: list[list[Tensor]]) -> Run:  # noqa: ANN401
    """Steps through the library's forward pass; every lane's gradients are clipped by themselves."""
    optimizer = torch.optim.AdamW([p for lane in lanes for p in lane], lr=RATE)

    def run(part: Part) -> float:
        model.train()
        started = time.process_time()
        rows, lengths = _rows(part)
        for numbers in training_batches(lengths, shape.batch, seed=1, target=TARGET, epoch=1):
            optimizer.zero_grad()
            for micro in cut(numbers, lengths):
                batch = collate([rows[i] for i in micro], PAD, has_segments=False)
                loss = model(**batch, labels=torch.from_numpy(part.labels[micro])).loss
                (loss * (len(micro) / len(numbers))).backward()
            for lane in lanes:
                torch.nn.utils.clip_grad_norm_(lane, CLIP)
            optimizer.step()
        return time.process_time() - started

    return run


def _rows(part: Part) -> tuple[list[Encoded], list[int]]:
    rows = [windows[0] for windows in part.rows]
    return rows, [len(row.ids) for row in rows]


def lane_trainer(model: Any, shape: Shape, precision: str, device: torch.device = CPU) -> LaneTrainer:  # noqa: ANN401
    """Lanes over this model, every one with a frozen intermediate, on ``device``."""
    add_adapter(model, TARGET, shape.left_out)
    add_head(model, TARGET)
    own = dict(model.named_parameters())
    starts = {ours: own[theirs].detach() for ours, theirs in parameter_names(model, TARGET).items()}
    intermediates = [
        {ours: torch.randn_like(value) * 0.02 for ours, value in starts.items() if not ours.startswith("head.")}
        for _ in range(shape.lanes)
    ]
    recipe = Recipe(
        target=TARGET,
        seed=1,
        metric="macro_f1",
        epochs=1,
        batch_size=shape.batch,
        warmup=0.0,
        clip=CLIP,
        class_weights="none",
        learning_rates=[RATE] * shape.lanes,
        weight_decays=[0.0] * shape.lanes,
    )
    state, frozen = stacked(model, TARGET, intermediates).to(device), freeze(model, PRECISIONS[precision], device)
    return LaneTrainer(frozen, state, recipe, PAD, has_segments=False)


def _lanes(model: Any, shape: Shape, precision: str) -> Run:  # noqa: ANN401
    trainer = lane_trainer(model, shape, precision)

    def run(part: Part) -> float:
        started = time.process_time()
        trainer.train_epoch(part, 1, 0, math.ceil(len(part.rows) / shape.batch))
        return time.process_time() - started

    return run


WAYS: dict[str, Callable[[Any, Shape], Run]] = {
    "trainer-dynamic": trainer_dynamic,
    "trainer-512": trainer_512,
    "bare": bare,
    "bare-sorted": bare_sorted,
    "packing": packing,
    "lanes": lanes_fp32,
    "lanes-bf16": lanes_bf16,
}


def cells(way: str, shape: Shape) -> int:
    """How many cells one step of this way trains."""
    return shape.lanes if way == "packing" or way.startswith("lanes") else 1
