"""Training of the bi-encoder, epoch by epoch, and its predictions. An interrupted training goes on with equal weights.

Everything random is drawn anew from the seed, the epoch and the step, so that no generator's state has to be kept.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save, save_file
from torch import Tensor

from adapters_store import disk
from harness.study.cell import seed_of
from harness.study.systems import Fit, Fitted, Place, Predicted, Span
from harness.systems.bi_encoder.network import IGNORED, BiEncoder, loss_of
from harness.training.batches import evaluation_batches, training_batches
from harness.training.model import load_backbone
from harness.training.tensors import to_device
from harness.training.tokens.tokenizer import load_tokenizer
from harness.training.trained import finite
from tasks import metrics
from tasks.errors import BadInput
from tasks.readers.rationales import placed
from tasks.task import Example

if TYPE_CHECKING:
    from harness.systems.kinds.bi_encoder import Config

log = logging.getLogger(__name__)

CLIP = 1.0  # longest gradient
EPSILON = 1e-8  # of AdamW; weights do not decay
CHECKPOINT = "epochs.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq")  # what AdamW keeps of a weight


class Text(NamedTuple):
    """Ids of a text, special tokens included, and the characters ``[tokens, 2]`` of each; special ones have none.

    ``is_cut`` where the text has more tokens than are read.
    """

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    is_cut: bool = False


class Trained(Fitted):
    """A bi-encoder with its weights."""

    def __init__(self, config: Config, place: Place, outputs: int, seed: int) -> None:
        """An untrained bi-encoder whose heads are drawn from ``seed``, on the encoder of the place's backbone."""
        assert place.backbone is not None
        self.config, self.backbone, self.outputs, self.seed = config, place.backbone, outputs, seed
        self.device, self.tokenizer = place.device.ready(), load_tokenizer(place.backbone)
        has_seeker = config.joins != "response"
        encoders = load_backbone(place.backbone).base_model, None
        if has_seeker:
            encoders = encoders[0], load_backbone(place.backbone).base_model
        torch.manual_seed(seed_of(seed, "heads"))
        self.network = BiEncoder(
            encoders,
            place.backbone.width,
            outputs,
            joins=config.joins,
            dropout=config.dropout,
            has_marks=config.rationale_weight > 0,
        ).to(self.device)
        for name, parameter in self.network.named_parameters():
            is_frozen = name.startswith("seeker.") and not config.is_seeker_trained
            parameter.requires_grad_(".pooler." not in name and not is_frozen)
        self.weights = {name: value for name, value in self.network.named_parameters() if value.requires_grad}
        self.history: list[dict[str, float | int | None]] = []

    # Training.

    def fit(self, fit: Fit) -> None:
        """Train for all epochs, from the last one that ``fit.checkpoint`` has; the last epoch's weights are kept."""
        config, rows = self.config, [self._read(row) for row in fit.train]
        labels = torch.tensor([row.label for row in fit.train])
        marked = [self._marked(row, text) for row, (text, _) in zip(fit.train, rows, strict=True)]
        optimizer = torch.optim.AdamW(self.weights.values(), lr=config.learning_rate, eps=EPSILON, weight_decay=0.0)
        of_epoch = math.ceil(len(rows) / config.batch_size)
        checkpoint = _Checkpoint(fit)
        checkpoint.read(self, optimizer)
        for epoch in range(len(self.history) + 1, config.epochs + 1):
            self.network.train()
            total, step = 0.0, (epoch - 1) * of_epoch
            lengths = [len(text.ids) for text, _ in rows]
            for numbers in training_batches(lengths, config.batch_size, seed=fit.seed, target="pairs", epoch=epoch):
                torch.manual_seed(seed_of(fit.seed, "dropout", step))
                optimizer.param_groups[0]["lr"] = config.learning_rate * (1 - step / (of_epoch * config.epochs))
                loss = self._step(rows, labels, marked, numbers)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(self.weights.values(), CLIP)
                optimizer.step()
                total, step = total + float(loss.detach()) * len(numbers), step + 1
            score = metrics.score(
                fit.metric, [row.label for row in fit.validation], self.predict(fit.validation).logits
            )
            self.history.append({"epoch": epoch, "train_loss": finite(total / len(rows)), "validation": finite(score)})
            checkpoint.write(self, optimizer)
            fit.watch(epoch, config.epochs)
        self.best_epoch = config.epochs

    def _step(
        self,
        rows: Sequence[tuple[Text, Text]],
        labels: Tensor,
        marked: Sequence[NDArray[np.int64]],
        numbers: Sequence[int],
    ) -> Tensor:
        """The loss of the rows with these numbers."""
        levels, marks = self._forward([rows[number] for number in numbers])
        longest = levels.shape[1] if marks is None else marks.shape[1]
        gold = np.full((len(numbers), longest), IGNORED)
        for place, number in enumerate(numbers):
            gold[place, : min(len(marked[number]), longest)] = marked[number][:longest]
        answers = to_device(labels[numbers], self.device), to_device(torch.from_numpy(gold), self.device)
        return loss_of(levels, marks, *answers, (self.config.level_weight, self.config.rationale_weight))

    def _marked(self, row: Example, text: Text) -> NDArray[np.int64]:
        """1 for every token of a row's rationale. A text without one is marked after its first token, or nowhere."""
        if not row.rationale:
            marks = np.full(len(text.ids), int(self.config.marks_all_without))
            marks[0] = 0
            return marks
        spans = placed(row.text, row.rationale).spans
        covered = [any(start < other.end and other.start < end for other in spans) for start, end in text.offsets]
        return np.array(covered, dtype=np.int64)

    # Predicting.

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """Logits of levels, and the runs of tokens that are likelier marked than not, scored by their mean share."""
        self.network.eval()
        texts = [self._read(row) for row in rows]
        logits = np.zeros((len(rows), self.outputs), dtype=np.float32)
        spans: list[Span] = []
        with torch.inference_mode():
            for numbers in evaluation_batches([len(text.ids) for text, _ in texts]):
                levels, marks = self._forward([texts[number] for number in numbers])
                logits[numbers] = levels.cpu().numpy()
                if marks is not None:
                    shares = marks.softmax(dim=-1)[..., 1].cpu().numpy()
                    for number, share in zip(numbers, shares, strict=True):
                        spans.extend(_spans(number, texts[number][0], share))
        read = 1 if self.config.joins == "response" else 2
        is_cut = np.array([any(text.is_cut for text in of_row[:read]) for of_row in texts], dtype=bool)
        has_marks = self.config.rationale_weight > 0
        return Predicted(logits, sorted(spans) if has_marks else None, is_cut=is_cut)

    def _forward(self, rows: Sequence[tuple[Text, Text]]) -> tuple[Tensor, Tensor | None]:
        """The network's logits of responses and posts, fp32. Without a mask, posts are padded to their full length."""
        response, post = ([text.ids for text in texts] for texts in zip(*rows, strict=True))
        fixed = None if self.config.is_masked else self.config.tokens
        posts = self._batch(post, fixed)
        mask = posts["attention_mask"] if self.config.is_masked else None
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
            levels, marks = self.network(self._batch(response), posts, mask)
        return levels.float(), None if marks is None else marks.float()

    def _batch(self, texts: Sequence[Sequence[int]], length: int | None = None) -> dict[str, Tensor]:
        length = length or max(map(len, texts))
        ids = torch.tensor([[*text, *[self.tokenizer.padding] * (length - len(text))] for text in texts])
        mask = torch.tensor([[1] * len(text) + [0] * (length - len(text)) for text in texts])
        return {"input_ids": to_device(ids, self.device), "attention_mask": to_device(mask, self.device)}

    def _read(self, row: Example) -> tuple[Text, Text]:
        """A row's response and its post: all earlier turns, of which the end is what is left out if they are long."""
        return self._text(row.text), self._text("\n".join(turn.text for turn in row.context))

    def _text(self, text: str) -> Text:
        every = self.tokenizer.pieces(text)
        pieces = every[: self.config.tokens - 2]
        ids = self.tokenizer.template.build_inputs_with_special_tokens([id for id, _ in pieces])
        return Text(tuple(ids), ((0, 0), *(place for _, place in pieces), (0, 0)), len(pieces) < len(every))

    # Keeping.

    def save(self, folder: Path) -> None:
        """Write what was trained, and the settings; the weights of a frozen encoder are the backbone's own."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: value.detach().cpu().contiguous() for name, value in self.weights.items()}
        save_file(weights, folder / "model.safetensors")
        facts = {"config": asdict(self.config), "outputs": self.outputs, "backbone": self.backbone.identity()}
        (folder / "config.json").write_text(json.dumps(facts), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, place: Place, config: type[Config]) -> Trained:
        """What ``save`` has written; BadInput if the place has another backbone, or none."""
        facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if place.backbone is None or (odd := place.backbone.unlike(facts["backbone"])):
            other = odd if place.backbone else "none is given"
            raise BadInput(f"{folder}: a bi-encoder of another backbone ({other}); load it with its own")
        fitted = cls(config(**facts["config"]), place, facts["outputs"], seed=0)
        fitted.put(load_file(folder / "model.safetensors"))
        return fitted

    def put(self, weights: Mapping[str, Tensor]) -> None:
        """Replace every trained weight by that of its name."""
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(weights[name])


def _spans(number: int, text: Text, shares: NDArray[np.float32]) -> Iterator[Span]:
    """Runs of tokens of a text whose ``shares [tokens]`` of being marked are above a half, as spans of characters."""
    tokens = [(place, float(share)) for place, share in zip(text.offsets, shares, strict=False) if place[0] < place[1]]
    for is_marked, run in groupby(tokens, key=lambda token: token[1] > 0.5):
        places = list(run)
        if is_marked:
            yield Span(number, places[0][0][0], places[-1][0][1], float(np.mean([share for _, share in places])))


class _Checkpoint:
    """What a training needs to go on after an epoch: weights, AdamW's moments of them, and the history, in a file."""

    def __init__(self, fit: Fit) -> None:
        """The checkpoint of a fit, which only one of equal settings on equal rows, by the same torch, goes on from."""
        rows = hashlib.sha256(repr([(row.id, row.label, row.rationale) for row in fit.train]).encode()).hexdigest()
        self.path = fit.checkpoint / CHECKPOINT
        self.identity = {"torch": torch.__version__, "seed": fit.seed, "rows": rows, **asdict(fit.config)}

    def write(self, fitted: Trained, optimizer: torch.optim.Optimizer) -> None:
        """Replace the checkpoint; where that cannot be written, training goes on, and a warning says so."""
        tensors = {f"weight/{name}": value for name, value in fitted.weights.items()}
        for name, value in fitted.weights.items():
            tensors |= {f"{moment}/{name}": optimizer.state[value][moment] for moment in MOMENTS}
        step = float(next(iter(optimizer.state.values()))["step"])
        facts = json.dumps({"identity": self.identity, "history": fitted.history, "step": step})
        content = save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, {"facts": facts})
        half = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        try:
            half.parent.mkdir(parents=True, exist_ok=True)
            disk.write(half, content)
            half.replace(self.path)
        except OSError as error:
            half.unlink(missing_ok=True)
            log.warning("%s: not written (%s); an interrupted run would go on from further back", self.path, error)

    def read(self, fitted: Trained, optimizer: torch.optim.Optimizer) -> None:
        """Put a checkpoint back, if there is one; one that is damaged or another's is passed over, and named."""
        if not self.path.exists():
            return
        try:
            disk.must_be_plain(self.path)
            with safe_open(self.path, "pt") as file:
                facts = json.loads(file.metadata()["facts"])
                tensors: dict[str, Any] = {name: file.get_tensor(name) for name in file.keys()}
            if facts["identity"] != json.loads(json.dumps(self.identity)):
                raise ValueError("another training")
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            log.warning("%s: not a checkpoint of this training (%s); it is ignored", self.path, type(error).__name__)
            return
        fitted.put({name: tensors[f"weight/{name}"] for name in fitted.weights})
        fitted.history = facts["history"]
        for name, value in fitted.weights.items():
            moments = {moment: tensors[f"{moment}/{name}"].to(value.device) for moment in MOMENTS}
            optimizer.state[value] = {"step": torch.tensor(facts["step"]), **moments}
