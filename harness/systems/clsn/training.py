"""Training of CLSN and of its plain controls, of a target alone or with a sibling, and its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from harness.study.cell import seed_of
from harness.study.systems import Fit, Place, Predicted
from harness.systems.clsn.network import Clsn, Plain
from harness.systems.encoders.attributions import Reading
from harness.systems.encoders.epochs import CUTS, EpochTrained, Schedule, facts_of, with_tuples
from harness.systems.encoders.foreign import load_encoder
from harness.systems.encoders.texts import Text, padded_batch, read_text
from harness.training.batches import evaluation_batches, padded
from harness.training.objective import cross_entropy, focal
from harness.training.tensors import to_device
from harness.training.tokens.tokenizer import load_tokenizer
from tasks.task import Example

if TYPE_CHECKING:
    from harness.systems.kinds.clsn import Config


class Trained(EpochTrained):
    """A network of a target, and of a sibling where it has one, with its weights."""

    def __init__(self, config: Config, place: Place, outputs: Sequence[int], seed: int) -> None:
        """An untrained network of tasks with so many ``outputs``, the target's first; fresh layers follow ``seed``."""
        super().__init__()
        assert place.backbone is not None
        self.config, self.backbone, self.outputs, self.seed = config, place.backbone, tuple(outputs), seed
        self.device, self.tokenizer = place.device.ready(), load_tokenizer(place.backbone)
        encoder = load_encoder(place.backbone)
        self.embeddings: torch.nn.Module = encoder.get_input_embeddings()
        torch.manual_seed(seed_of(seed, "heads"))
        self.network = self._network(encoder).to(self.device)
        self.head: torch.nn.Module = self.network.heads[0]
        self.will_train(lambda name: True)

    def _network(self, encoder: torch.nn.Module) -> Clsn | Plain:
        config, wide = self.config, self.backbone.width
        if config.network == "plain":
            return Plain(encoder, wide, self.outputs, dropout=config.dropout)
        parts = {"cascade": config.cascade, "label_signal": config.label_signal}
        return Clsn(encoder, wide, self.outputs, width=config.width, dropout=config.dropout, **parts)

    @staticmethod
    def outputs_of(fit: Fit) -> tuple[int, ...]:
        """How many classes each task has, the target first."""
        return (fit.label.n_outputs, *(sibling.label.n_outputs for sibling in fit.siblings.values()))

    # Training.

    def fit(self, fit: Fit) -> None:
        """Train for all epochs, or while validation rows are predicted better, as the settings say."""
        config, texts = self.config, [self._read(row) for row in fit.train]
        labels = [torch.from_numpy(of_task) for of_task in labels_of(fit)]
        schedule = Schedule(
            config.epochs,
            config.batch_size,
            config.learning_rate,
            decays=False,
            patience=config.patience,
            cut=CUTS[self.device.type],
        )
        self.train(fit, schedule, [len(text.ids) for text in texts], lambda rows, _: self._loss(texts, labels, rows))

    def _loss(self, texts: Sequence[Text], labels: Sequence[Tensor], rows: Sequence[int]) -> Tensor:
        """The weighted loss of the rows with these numbers (12), a mean over them."""
        config = self.config
        weights = (config.target_weight, config.sibling_weight)[: len(self.outputs)]
        loss = torch.zeros((), device=self.device)
        for logits, gold, weight in zip(self._logits([texts[row] for row in rows]), labels, weights, strict=True):
            answers = to_device(gold[rows], self.device)
            of_rows = focal(logits, answers, config.gamma) if config.loss == "focal" else cross_entropy(logits, answers)
            loss = loss + weight * of_rows.mean()
        return loss

    # Predicting.

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """Logits of the target's classes, and which texts were read in part."""
        self.network.eval()
        texts = [self._read(row) for row in rows]
        logits = np.zeros((len(rows), self.outputs[0]), dtype=np.float32)
        with torch.inference_mode():
            for numbers in evaluation_batches([len(text.ids) for text in texts]):
                logits[numbers] = self._logits([texts[number] for number in numbers])[0].cpu().numpy()
        return Predicted(logits, is_cut=np.array([text.is_cut for text in texts], dtype=bool))

    def _logits(self, texts: Sequence[Text]) -> list[Tensor]:
        """Logits in fp32 of every task, each ``[n, outputs]``."""
        length = padded(max(len(text.ids) for text in texts), self.backbone.max_tokens)
        batch = padded_batch([text.ids for text in texts], self.tokenizer.padding, self.device, length)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
            logits = self.network(batch)
        return [of_task.float() for of_task in logits]

    def _read(self, row: Example) -> Text:
        return read_text(self.tokenizer, row.text, self.config.tokens)

    def reading(self, row: Example) -> Reading:
        """How the target's logits follow from the embeddings of a row's text."""
        self.network.eval()
        return Reading(self._read(row), self.embeddings, self.tokenizer.padding, self._of)

    def _of(self, vectors: Tensor) -> Tensor:
        """The target's logits of embeddings ``[n, tokens, width]`` without padding."""
        mask = torch.ones(vectors.shape[:2], dtype=torch.int64, device=self.device)
        logits: Tensor = self.network({"inputs_embeds": vectors, "attention_mask": mask})[0]
        return logits

    # Keeping.

    def save(self, folder: Path) -> None:
        """Write what was trained, and the settings."""
        self.write(folder, {"outputs": self.outputs, "backbone": self.backbone.identity()})

    @classmethod
    def load(cls, folder: Path, place: Place, config: type[Config]) -> Trained:
        """What ``save`` has written; BadInput if the place has another backbone, or none."""
        facts = facts_of(folder, place, "clsn")
        fitted = cls(config(**with_tuples(facts["config"])), place, facts["outputs"], seed=0)
        fitted.put(load_file(folder / "model.safetensors"))
        return fitted


def labels_of(fit: Fit) -> list[NDArray[np.int64]]:
    """Training labels ``[rows]`` of every task, the target's first.

    A sibling's that are to be shuffled are permuted among rows by the fit's seed, the same in every epoch.
    """
    labels = [np.array([row.label for row in fit.train], dtype=np.int64)]
    for sibling in fit.siblings.values():
        own = np.array([row.label for row in sibling.train], dtype=np.int64)
        if fit.config.sibling_labels == "shuffled":
            own = np.random.default_rng(seed_of(fit.seed, "shuffled")).permutation(own)
        labels.append(own)
    return labels
