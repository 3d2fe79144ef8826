"""Training of a system's network, epoch by epoch, on texts as ids. An interrupted training goes on with equal weights.

Everything random is drawn anew from the seed, the epoch and the step, so that no generator's state has to be kept. A
subclass of ``EpochTrained`` builds its network and says what a batch's loss is; this file trains it, keeps the last
epoch or the best on validation rows, and saves and loads the weights.
"""

import hashlib
import json
import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save, save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from adapters_store import disk
from harness.study.backbone import Backbone
from harness.study.cell import seed_of
from harness.study.systems import Fit, Fitted, Place, Predicted
from harness.training.batches import EVALUATION_BATCH, cuts, evaluation_batches, padded, training_batches
from harness.training.checkpoint import put
from harness.training.lanes.frozen import BF16, is_widened
from harness.training.recipe import finite
from harness.training.tensors import to_device
from harness.training.tokenizer import Tokenizer, load_tokenizer
from tasks import metrics
from tasks.errors import BadInput
from tasks.task import Example


class EncodedText(NamedTuple):
    """Ids of a text, special tokens included, and the characters ``[tokens, 2]`` of each; special ones have none.

    ``is_cut`` where the text has more tokens than are read.
    """

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    is_cut: bool = False


def read_text(tokenizer: Tokenizer, text: str, tokens: int) -> EncodedText:
    """The first ``tokens`` tokens of a text, special ones included."""
    every = tokenizer.pieces(text)
    pieces = every[: tokens - 2]
    ids = tokenizer.template.build_inputs_with_special_tokens([id for id, _ in pieces])
    return EncodedText(tuple(ids), ((0, 0), *(place for _, place in pieces), (0, 0)), len(pieces) < len(every))


def padded_batch(
    texts: Sequence[Sequence[int]], padding: int, device: torch.device, length: int | None = None
) -> dict[str, Tensor]:
    """``input_ids`` and ``attention_mask`` ``[n, length]`` of texts, by default as long as the longest."""
    length = length or max(map(len, texts))
    ids = torch.tensor([[*text, *[padding] * (length - len(text))] for text in texts])
    mask = torch.tensor([[1] * len(text) + [0] * (length - len(text)) for text in texts])
    return {"input_ids": to_device(ids, device), "attention_mask": to_device(mask, device)}


def unpadded(vectors: Tensor) -> dict[str, Tensor]:
    """``inputs_embeds`` and ``attention_mask`` of embeddings ``[n, tokens, width]``, none of which is padding."""
    ones = torch.ones(vectors.shape[:2], dtype=torch.int64, device=vectors.device)
    return {"inputs_embeds": vectors, "attention_mask": ones}


def in_batches(
    lengths: Sequence[int],
    outputs: int,
    logits_of: Callable[[list[int]], Tensor],
    most: Callable[[int], int],
) -> NDArray[np.float32]:
    """Logits ``[n, outputs]`` of texts of these ``lengths``, which ``logits_of`` gives of those with some numbers.

    Texts of like length go together, of which there are at most as many as ``most`` says of the longest.
    """
    logits = np.zeros((len(lengths), outputs), dtype=np.float32)
    with torch.inference_mode():
        for batch in evaluation_batches(lengths):
            size = min(len(batch), most(lengths[batch[0]]))
            for first in range(0, len(batch), size):
                numbers = batch[first : first + size]
                logits[numbers] = logits_of(numbers).cpu().numpy()
    return logits


log = logging.getLogger(__name__)

CUTS = {"cpu": 2048, "cuda": 32768}  # tokens that go through a network at a time, padding included
CLIP = 1.0  # longest gradient
EPSILON = 1e-8  # of AdamW; weights do not decay
CHECKPOINT = "epochs.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq")  # what AdamW keeps of a weight
WEIGHT, BEST = "weight", "best"  # what names of a checkpoint's tensors begin with, beside MOMENTS

PRODUCTS = {functional.linear, functional.scaled_dot_product_attention, torch.matmul, torch.bmm}
PRODUCTS |= {Tensor.matmul, Tensor.__matmul__, Tensor.bmm}

LossOf = Callable[[Sequence[int], int], Tensor]  # of the training rows with these numbers, in this epoch


class ReadRow(Protocol):
    """A row as a network reads it."""

    @property
    def ids(self) -> Sequence[int]:
        """Its tokens."""
        ...

    @property
    def is_cut(self) -> bool:
        """Whether it has more than are read."""
        ...


R = TypeVar("R", bound=ReadRow)


class Widened(TorchFunctionMode):
    """Autocast's products of bf16 on a processor that has none: in fp32, of the same values, rounded to bf16 once."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        """What is no product, or is kept out of autocast, is computed as ever."""
        named = kwargs or {}
        if function not in PRODUCTS or not torch.is_autocast_enabled("cpu"):
            return function(*args, **named)
        with torch.autocast("cpu", enabled=False):
            product = function(*map(_rounded, args), **{name: _rounded(value) for name, value in named.items()})
        return product.to(BF16)


def _rounded(value: Any) -> Any:  # noqa: ANN401 - whatever a function of torch is given
    return value.to(BF16).float() if isinstance(value, Tensor) and value.is_floating_point() else value


class EpochTrained(Fitted, Generic[R]):
    """A network with its weights, made of settings, a place, a seed, and what it has to know of its task as JSON.

    A subclass builds ``network`` on ``backbone``, draws from ``seed`` whatever is drawn, and calls ``will_train``.

    Settings have ``epochs``, ``batch_size``, ``learning_rate``, ``precision`` and perhaps ``patience``. The rate falls
    to 0 in a line over all steps where it ``decays``. With ``patience`` the epoch that is best on the validation rows
    is kept, the earliest of equals, and training stops once so many epochs in a row were no better; without, the last
    epoch is kept. Of a batch so many tokens as ``cut`` says go through the network at a time; with 0, all.
    """

    stands_on = "backbone"  # what the file of settings calls the weights that the network begins with
    decays = False
    cut = 0
    config: Any
    network: nn.Module
    weights: dict[str, Tensor]
    outputs: int  # logits of a row

    def __init__(self, config: Any, place: Place, seed: int, **facts: Any) -> None:  # noqa: ANN401 - a kind's
        """Nothing is built yet; ``facts`` are what ``facts_of`` says of the task."""
        backbone = self.backbone_of(config, place)
        assert backbone is not None  # a study is refused without (harness.study.systems)
        self.config, self.backbone, self.seed, self.facts = config, backbone, seed, facts
        self.device, self.tokenizer = place.device.ready(), load_tokenizer(backbone)
        self.history: list[dict[str, float | int | None]] = []

    @classmethod
    def backbone_of(cls, config: Any, place: Place) -> Backbone | None:  # noqa: ANN401 - a kind's
        """The weights that the network begins with: those of the place, where settings name no others."""
        return place.backbone

    def check_tokens(self, system: str, most: int) -> None:
        """BadInput, naming the ``system``, where settings ask for more tokens than so many, which the weights read."""
        if self.config.tokens > most:
            raise BadInput(
                f"system {system!r} is to read tokens = {self.config.tokens}, and {self.backbone.name!r} reads at most"
                f" {most}; set tokens to that or less"
            )

    @classmethod
    def facts_of(cls, fit: Fit) -> dict[str, Any]:
        """What the network has to know of its task: how many logits a row has."""
        return {"outputs": fit.label.n_outputs}

    @classmethod
    def of(cls, fit: Fit) -> Self:
        """A network of the settings, trained on the training rows; not at all where there is no epoch."""
        fitted = cls(fit.config, fit.place, fit.seed, **cls.facts_of(fit))
        if fit.config.epochs:
            rows = fitted.read(fit.train)
            fitted.train(fit, [len(row.ids) for row in rows], fitted.loss_of(fit, rows))
        return fitted

    @abstractmethod
    def read(self, rows: Sequence[Example]) -> list[R]:
        """The rows as the network reads them, in their order."""

    @abstractmethod
    def loss_of(self, fit: Fit, rows: Sequence[R]) -> LossOf:
        """What gives the mean loss of some of the training ``rows``."""

    @abstractmethod
    def logits(self, rows: Sequence[R]) -> Tensor:
        """Logits ``[n, outputs]`` of rows, fp32."""

    def parts(self, numbers: Sequence[int], lengths: Sequence[int]) -> Iterable[Sequence[int]]:
        """The rows of a batch that go through the network at a time."""
        return cuts(numbers, lengths, self.cut) if self.cut else [numbers]

    def weight(self, numbers: Sequence[int], epoch: int) -> float:
        """What the loss of these training rows weighs in that of a batch of which they are a part, in this epoch."""
        return len(numbers)

    def batch_of(self, texts: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        """``input_ids`` and ``attention_mask`` of texts, of one of the few lengths that batches have."""
        length = padded(max(map(len, texts)), self.backbone.max_tokens)
        return padded_batch(texts, self.tokenizer.padding, self.device, length)

    def most_rows(self, tokens: int) -> int:
        """How many rows of so many tokens are predicted at a time at most."""
        return EVALUATION_BATCH

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """Logits, and which rows were read in part."""
        self.network.eval()
        read = self.read(rows)
        return Predicted(self.every_logit(read), is_cut=np.array([row.is_cut for row in read], dtype=bool))

    def every_logit(self, rows: Sequence[R]) -> NDArray[np.float32]:
        """Logits ``[n, outputs]`` of rows, a batch at a time."""
        lengths = [len(row.ids) for row in rows]
        return in_batches(lengths, self.outputs, lambda some: self.logits([rows[row] for row in some]), self.most_rows)

    def will_train(self, is_trained: Callable[[str], bool]) -> None:
        """Let the network's parameters be trained whose names say so, and no pooler: no system here reads it."""
        for name, parameter in self.network.named_parameters():
            parameter.requires_grad_(".pooler." not in name and is_trained(name))
        self.weights = {name: value for name, value in self.network.named_parameters() if value.requires_grad}

    def train(self, fit: Fit, lengths: Sequence[int], loss_of: LossOf) -> None:
        """Train on the rows of these ``lengths`` (in tokens), from the last epoch that ``fit.checkpoint`` has."""
        epochs, patience, rate = self.config.epochs, getattr(self.config, "patience", 0), self.config.learning_rate
        optimizer = torch.optim.AdamW(self.weights.values(), lr=rate, eps=EPSILON, weight_decay=0.0, fused=True)
        checkpoint = EpochCheckpoint(fit)
        best = checkpoint.read(self, optimizer)
        gold = [row.label for row in fit.validation]
        for epoch in range(len(self.history) + 1, epochs + 1):
            no_better = len(self._scores) - best_epoch(self._scores) if self._scores else 0
            if patience and no_better >= patience:
                break
            loss = self._epoch(fit, epoch, lengths, loss_of, optimizer)
            score = metrics.score(fit.metric, gold, self.predict(fit.validation).logits)
            self.history.append({"epoch": epoch, "train_loss": finite(loss), "validation": finite(score)})
            if patience and best_epoch(self._scores) == epoch:
                best = {name: value.detach().clone() for name, value in self.weights.items()}
            checkpoint.write(self, optimizer, best)
            fit.watch(epoch, epochs)
        self.best_epoch = best_epoch(self._scores) if patience else epochs
        if best is not None:
            self.put(best)

    @property
    def _scores(self) -> list[float]:
        """Validation scores of the epochs so far; minus infinity where there was none."""
        return [-math.inf if step["validation"] is None else float(step["validation"]) for step in self.history]

    def _epoch(
        self, fit: Fit, epoch: int, lengths: Sequence[int], loss_of: LossOf, optimizer: torch.optim.Optimizer
    ) -> float:
        """Train an epoch; the mean loss of its rows."""
        self.network.train()
        config, of_epoch = self.config, math.ceil(len(lengths) / self.config.batch_size)
        total, step = 0.0, (epoch - 1) * of_epoch
        for numbers in training_batches(lengths, config.batch_size, seed=fit.seed, target="pairs", epoch=epoch):
            torch.manual_seed(seed_of(fit.seed, "dropout", step))
            if self.decays:
                optimizer.param_groups[0]["lr"] = config.learning_rate * (1 - step / (of_epoch * config.epochs))
            optimizer.zero_grad(set_to_none=True)
            for cut in self.parts(numbers, lengths):
                loss = loss_of(cut, epoch) * (self.weight(cut, epoch) / self.weight(numbers, epoch))
                loss.backward()  # type: ignore[no-untyped-call]
                total += float(loss.detach()) * len(numbers)
            nn.utils.clip_grad_norm_(self.weights.values(), CLIP)
            optimizer.step()
            step += 1
        return total / len(lengths)

    @contextmanager
    def in_precision(self) -> Iterator[None]:
        """A context in which products are computed as the settings say."""
        is_bf16 = self.config.precision == "bf16"
        once = Widened() if is_bf16 and is_widened(BF16, self.device) else nullcontext()
        with torch.autocast(self.device.type, BF16, enabled=is_bf16), once:
            yield

    def save(self, folder: Path) -> None:
        """Write what was trained, the settings, and which weights the network began with, which keep the others."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: value.detach().cpu().contiguous() for name, value in self.weights.items()}
        save_file(weights, folder / "model.safetensors")
        facts = {"config": asdict(self.config), **self.facts, self.stands_on: self.backbone.identity()}
        (folder / "config.json").write_text(json.dumps(facts), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, place: Place, configured: Callable[[Mapping[str, Any]], Any]) -> Self:
        """What ``save`` has written, its settings read by ``configured``; BadInput for another backbone, or none."""
        facts: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config, identity = configured(facts.pop("config")), facts.pop(cls.stands_on)
        backbone = cls.backbone_of(config, place)
        if odd := backbone.unlike(identity) if backbone else "none is given":
            raise BadInput(f"{folder}: trained from other weights ({odd}); load it with its own {cls.stands_on}")
        fitted = cls(config, place, seed=0, **facts)
        fitted.put(load_file(folder / "model.safetensors"))
        return fitted

    def put(self, weights: Mapping[str, Tensor]) -> None:
        """Replace every trained weight by that of its name."""
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(weights[name])


def best_epoch(scores: Sequence[float]) -> int:
    """The epoch, from 1, whose validation score is highest, the earliest of equals."""
    return scores.index(max(scores)) + 1


class EpochCheckpoint:
    """What a training needs to go on after an epoch: weights, AdamW's moments of them, and the history, in a file."""

    def __init__(self, fit: Fit) -> None:
        """The checkpoint of a fit, which only one of equal settings on equal rows, by the same torch, goes on from."""
        learned = [fit.train, *(sibling.train for sibling in fit.siblings.values())]
        rows = repr([[(row.id, row.label, row.rationale) for row in part] for part in learned])
        digest = hashlib.sha256(rows.encode()).hexdigest()
        self.path = fit.checkpoint / CHECKPOINT
        self.identity = {"torch": torch.__version__, "seed": fit.seed, "rows": digest, **asdict(fit.config)}

    def write(
        self, fitted: EpochTrained[Any], optimizer: torch.optim.Optimizer, best: Mapping[str, Tensor] | None = None
    ) -> None:
        """Replace the checkpoint; where that cannot be written, training goes on, and a warning says so."""
        tensors = {f"{WEIGHT}/{name}": value for name, value in fitted.weights.items()}
        tensors |= {f"{BEST}/{name}": value for name, value in (best or {}).items()}
        for name, value in fitted.weights.items():
            tensors |= {f"{moment}/{name}": optimizer.state[value][moment] for moment in MOMENTS}
        step = float(next(iter(optimizer.state.values()))["step"])
        facts = json.dumps({"identity": self.identity, "history": fitted.history, "step": step})
        host = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        put(self.path, save(host, {"facts": facts}))

    def read(self, fitted: EpochTrained[Any], optimizer: torch.optim.Optimizer) -> dict[str, Tensor] | None:
        """Put a checkpoint back, if there is one, and return the best epoch's weights where it has any.

        One that is damaged or another's is passed over, and named.
        """
        if not self.path.exists():
            return None
        try:
            disk.must_be_plain(self.path)
            with safe_open(self.path, "pt") as file:
                facts = json.loads(file.metadata()["facts"])
                tensors: dict[str, Any] = {name: file.get_tensor(name) for name in file.keys()}
            if facts["identity"] != json.loads(json.dumps(self.identity)):
                raise ValueError("another training")
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            log.warning("%s: not a checkpoint of this training (%s); it is ignored", self.path, type(error).__name__)
            return None
        fitted.put({name: tensors[f"{WEIGHT}/{name}"] for name in fitted.weights})
        fitted.history = facts["history"]
        for name, value in fitted.weights.items():
            moments = {moment: tensors[f"{moment}/{name}"].to(value.device) for moment in MOMENTS}
            optimizer.state[value] = {"step": torch.tensor(facts["step"]), **moments}
        of_best = {name: tensors[place] for name in fitted.weights if (place := f"{BEST}/{name}") in tensors}
        return of_best or None
