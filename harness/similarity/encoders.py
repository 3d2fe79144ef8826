"""Encoders of sentences: one of the sentence-transformers library, or for want of it the frozen backbone itself."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from adapters_store.measures import MINILM, POOLED
from harness.similarity.samples import Adapted, text_of
from harness.study.backbones.backbone import BadBackbone, resolve
from harness.study.backbones.tokenizer import BadTokenizer, check_ids
from harness.study.backbones.weights import PREFIXES, BadWeights, check_folder, check_shapes, shapes_in
from harness.study.device import Device
from harness.training.inputs import InputFormat
from harness.training.model import check_finite
from harness.training.tokens.tokenizer import load_tokenizer
from tasks.task import Example

FILES = ("*.json", "*.txt", "model.safetensors")


class Encoder(Protocol):
    """Turns a row's context and text into a vector; of what is too long, the left end is cut."""

    @property
    def weights_sha256(self) -> str:
        """Sha256 of its weights."""

    def load(self) -> None:
        """Read the weights, so that the first call takes no longer than the others."""

    def __call__(self, rows: Sequence[Example]) -> NDArray[np.float64]:
        """One vector per row ``[rows, width]``."""


@dataclass(frozen=True)
class Pooled:
    """The mean of the frozen backbone's token vectors, for machines without a sentence encoder."""

    adapted: Adapted
    max_tokens: int

    @property
    def weights_sha256(self) -> str:
        """Hash of the backbone's weights."""
        return self.adapted.backbone.weights_sha256

    def load(self) -> None:
        """Read the weights."""
        self.adapted.load()

    def __call__(self, rows: Sequence[Example]) -> NDArray[np.float64]:
        """One vector per row ``[rows, width]``."""
        form = InputFormat(load_tokenizer(self.adapted.backbone), "pair", "none", self.max_tokens, "tail")
        return self.adapted.mean_tokens([windows[0] for windows in form.encode_all(rows)])


@dataclass(frozen=True)
class Sentences:
    """An encoder of the sentence-transformers library in a local folder."""

    folder: Path
    device: Device

    @cached_property
    def weights_sha256(self) -> str:
        """Hash of the weights' file."""
        with (self.folder / "model.safetensors").open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def model(self) -> Any:  # noqa: ANN401
        """The loaded encoder, which keeps the right end of long texts, where the row's own text is."""
        from sentence_transformers import SentenceTransformer

        refuse_foreign_modules(self.folder)
        check_encoder(self.folder)
        torch_device = str(self.device.ready())
        try:
            loaded = SentenceTransformer(
                str(self.folder), device=torch_device, local_files_only=True, model_kwargs={"use_safetensors": True}
            )
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as problem:
            reason = " ".join(str(problem).split())
            raise BadBackbone(f"{self.folder}: cannot be loaded ({reason}); get the encoder again") from None
        check_whole(self.folder, loaded)
        loaded.tokenizer.truncation_side = "left"
        return loaded

    def load(self) -> None:
        """Read the weights."""
        _ = self.model

    def __call__(self, rows: Sequence[Example]) -> NDArray[np.float64]:
        """One vector per row ``[rows, width]``."""
        vectors = self.model.encode([text_of(row) for row in rows], show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, dtype=np.float64)


def encoder_of(name: str, adapted: Adapted, max_tokens: int) -> Encoder:
    """The encoder of this name (adapters_store.measures.encoders); BadBackbone if it cannot be had."""
    if name == POOLED:
        return Pooled(adapted, max_tokens)
    if name == MINILM:
        folder = resolve(MINILM).folder
        assert folder is not None
        return Sentences(folder, adapted.device)
    return Sentences(sentence_folder(name), adapted.device)


def refuse_foreign_modules(folder: Path) -> None:
    """BadBackbone if an encoder names a class that is not the library's: it would be imported, see SECURITY.md."""
    file = folder / "modules.json"
    try:
        classes = [str(module["type"]) for module in json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise BadBackbone(f"{file}: cannot be read ({type(problem).__name__}); get the encoder again") from None
    for name in classes:
        if not name.startswith("sentence_transformers."):
            raise BadBackbone(f"{file}: the class {name!r} is not the library's own; take another encoder")


def check_encoder(folder: Path) -> None:
    """BadBackbone unless the folder's weights are those of its config, by their header; nothing is loaded."""
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        kind = str(config["model_type"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise BadBackbone(f"{file}: cannot be read ({type(problem).__name__}); get the encoder again") from None
    try:
        if kind in PREFIXES:
            check_folder(folder, kind, config, is_read=False)
        else:
            shapes_in(folder)
    except BadWeights as problem:
        raise BadBackbone(str(problem)) from None


def check_whole(folder: Path, loaded: Any) -> None:  # noqa: ANN401
    """BadBackbone unless every weight of a loaded encoder is in the folder's file with its shape, and is finite."""
    network = loaded[0].auto_model
    shapes = ((name, tuple(tensor.shape)) for name, tensor in network.named_parameters() if "pooler." not in name)
    try:
        check_shapes(folder, shapes_in(folder), network.base_model_prefix, shapes)
        check_ids(folder, loaded.tokenizer.get_vocab(), 0, network.get_input_embeddings().num_embeddings)
    except (BadWeights, BadTokenizer) as problem:
        raise BadBackbone(str(problem)) from None
    check_finite(folder.name, loaded)


def sentence_folder(name: str) -> Path:
    """The folder of this sentence encoder in the hub's cache; BadBackbone if it cannot be had."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    is_offline = os.environ.get("HF_HUB_OFFLINE") == "1"
    try:
        folder = snapshot_download(
            f"sentence-transformers/{name}", allow_patterns=[*FILES, "1_Pooling/*"], local_files_only=is_offline
        )
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as problem:
        raise BadBackbone(
            f"sentence encoder {name!r} is not to be had from the hub ({type(problem).__name__}); "
            f"download it on a machine with internet, or take --encoder {MINILM} or --encoder {POOLED}"
        ) from None
    return Path(folder)
