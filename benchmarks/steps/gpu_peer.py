"""AdapterTrainer on a device, as a good user writes it: padding by batch, grouped lengths, mixed precision."""

from __future__ import annotations

import tempfile
import time
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.steps.peers import arguments_of, compose
from benchmarks.steps.shapes import PAD, Shape, network, rows

WARM = 3  # steps that are not timed


def step_seconds(shape: Shape, steps: int, *, is_bf16: bool, device: torch.device) -> float | None:
    """Wall seconds of one of its optimizer steps, which trains one cell; None where ``accelerate`` is not installed."""
    if find_spec("accelerate") is None:
        return None
    from adapters import AdapterTrainer
    from transformers import PrinterCallback, TrainerCallback

    class Clock(TrainerCallback):
        started = ended = 0.0

        def on_step_begin(self, arguments: Any, state: Any, *_: Any, **__: Any) -> None:  # noqa: ANN401
            if state.global_step == WARM:
                self.started = _now(device)

        def on_train_end(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
            self.ended = _now(device)

    model, clock = network(shape), Clock()
    compose(model)
    part = rows(shape, WARM + steps, seed=0)
    data = [
        {"input_ids": list(text.ids), "labels": int(label)}
        for (text,), label in zip(part.rows, part.labels, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        arguments = arguments_of(shape, folder, use_cpu=device.type == "cpu", bf16=is_bf16, group_by_length=True)
        trainer = AdapterTrainer(
            model=model, args=arguments, train_dataset=data, data_collator=_padded, callbacks=[clock]
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return (clock.ended - clock.started) / steps


def _padded(texts: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """A batch padded to its longest row."""
    longest = max(len(text["input_ids"]) for text in texts)
    missing = [longest - len(text["input_ids"]) for text in texts]
    pairs = list(zip(texts, missing, strict=True))
    return {
        "input_ids": torch.tensor([text["input_ids"] + [PAD] * count for text, count in pairs]),
        "attention_mask": torch.tensor([[1] * (longest - count) + [0] * count for _, count in pairs]),
        "labels": torch.tensor([text["labels"] for text in texts]),
    }


def _now(device: torch.device) -> float:
    """Wall seconds when the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
