"""Tiny networks, rows and lanes for tests of the lane engine, and the library training one of their cells alone."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from adapters import BertAdapterModel, RobertaAdapterModel, SeqBnConfig, XLMRobertaAdapterModel
from adapters.composition import Stack
from transformers import BertConfig, RobertaConfig, XLMRobertaConfig

from harness.training.batches import collate, training_batches
from harness.training.inputs import Encoded
from harness.training.lanes.fit import LaneTrainer
from harness.training.lanes.frozen import freeze
from harness.training.lanes.state import parameter_names, stacked
from harness.training.recipe import Part, Recipe

SHAPE = dict(vocab_size=99, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64)
CONFIGS = {BertAdapterModel: BertConfig, RobertaAdapterModel: RobertaConfig, XLMRobertaAdapterModel: XLMRobertaConfig}
METRICS = {"multilabel": "multilabel_f1", "continuous": "pearson_r"}
OUTPUTS = {"binary": 2, "continuous": 1}  # else 3
RATE, DECAY, BATCH = 5e-4, 0.01, 8


def network(
    kind=RobertaAdapterModel, dropout=0.0, *, label="multiclass", outputs=None, positions=64, leave_out=(), **shape
):
    """A network with a fresh adapter and head ``t``, in evaluation mode; ``shape`` overrides SHAPE."""
    torch.manual_seed(0)
    drop = dict(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    options = SHAPE | drop | dict(max_position_embeddings=positions, initializer_range=0.2, pad_token_id=1) | shape
    made = kind(CONFIGS[kind](**options))
    made.add_adapter("t", config=SeqBnConfig(reduction_factor=16, leave_out=list(leave_out)))
    head = dict(layers=2, activation_function="tanh", multilabel=label == "multilabel")
    made.add_classification_head("t", num_labels=outputs or OUTPUTS.get(label, 3), **head)
    return made.eval()


def undropped(made):
    """The network, of which nothing is dropped out in training either."""
    for module in made.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = 0.0
    return made


def part(count=40, seed=0, longest=24, label="multiclass"):
    """Random rows of 3 to ``longest`` - 1 tokens with labels of this kind."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, longest, count)
    rows = [(Encoded(tuple(rng.integers(5, 99, n).tolist()), (0,) * n, False, False),) for n in lengths.tolist()]
    if label == "continuous":
        return Part(rows, rng.normal(3, 1, count))
    if label == "multilabel":
        return Part(rows, rng.integers(0, 2, (count, 3)))
    return Part(rows, rng.integers(0, OUTPUTS.get(label, 3), count))


def intermediates(made, count):
    """The baseline first, then random bottlenecks."""
    generator = torch.Generator().manual_seed(5)
    shapes = {ours: dict(made.named_parameters())[theirs].shape for ours, theirs in parameter_names(made, "t").items()}
    names = {ours: shape for ours, shape in shapes.items() if not ours.startswith("head.")}
    return [None, *({o: torch.randn(s, generator=generator) * 0.1 for o, s in names.items()} for _ in range(count - 1))]


def trainer(made, lanes, *, rate=RATE, epochs=1, dtype=torch.float32, label="multiclass", **changes):
    """Lanes ready to be trained; ``changes`` are other fields of their recipe."""
    state = stacked(made, "t", lanes)
    for group in (state.trained, state.frozen):
        for name, value in group.items():
            group[name] = value.to(dtype)
    count = len(lanes)
    metric = METRICS.get(label, "macro_f1")
    recipe = Recipe("t", 1, metric, epochs, BATCH, 0.0, 1.0, "none", [rate] * count, [DECAY] * count)
    return LaneTrainer(freeze(made, dtype), state, replace(recipe, **changes), 1, has_segments=False)


def fitted(made, lanes, data, **options):
    """The weights of all lanes after training on ``data``."""
    one = trainer(made, lanes, **options)
    one.fit(data, part(16, seed=9, label=options.get("label", "multiclass")), lambda *_: None)
    return {name: value.detach() for name, value in one.state.trained.items()}


@dataclass
class Alone:
    """One cell that the library trains alone: its weights under our names, and the model."""

    weights: dict[str, torch.Tensor]
    model: Any

    def logits(self, data):
        """Logits of every row, the mean over its windows, dropout off."""
        self.model.eval()
        windows = [window for row in data.rows for window in row]
        sizes = [len(row) for row in data.rows]
        with torch.no_grad():
            logits = self.model(**collate(windows, 1, has_segments=False), head="t").logits
        return np.stack([one.mean(dim=0).numpy() for one in torch.split(logits, sizes)])


def composed(made, one, dtype=torch.float32):
    """A copy of the network in which the library trains ``t``, on the intermediate ``one`` if there is one."""
    own = copy.deepcopy(made).to(dtype)
    if one is not None:
        own.add_adapter("i", config=made.adapters_config.get("t"))
        parameters = dict(own.named_parameters())
        with torch.no_grad():
            for ours, theirs in parameter_names(own, "i").items():
                if ours in one:
                    parameters[theirs].copy_(one[ours])
        own.to(dtype)
    own.train_adapter("t")
    own.set_active_adapters(Stack("i", "t") if one is not None else "t")
    own.active_head = "t"
    parameters = dict(own.named_parameters())
    return Alone({ours: parameters[theirs].detach() for ours, theirs in parameter_names(own, "t").items()}, own)


def alone(made, one, data, dtype=torch.float32):
    """One epoch of the library itself on one cell: the same batches, the same linear schedule, the same clip."""
    cell = composed(made, one, dtype)
    own, trained = cell.model, [p for p in cell.model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=DECAY)
    rows = data.draw_windows(0)
    real = data.labels.dtype.kind == "f" or data.labels.ndim == 2
    labels = torch.from_numpy(data.labels).to(dtype if real else torch.int64)
    batches = list(training_batches([len(r.ids) for r in rows], BATCH, seed=1, target="t", epoch=1))
    for step, numbers in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (len(batches) - step) / len(batches)
        batch = collate([rows[i] for i in numbers], 1, has_segments=False)
        loss = own(**batch, labels=labels[numbers], head="t").loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
    return cell
