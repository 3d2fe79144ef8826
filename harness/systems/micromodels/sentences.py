"""Sentences of a text by a rule, and their vectors: means of an encoder's token vectors, of length 1.

The rule needs no model that would have to be downloaded. A sentence ends behind ``. ! ?`` or an ellipsis, closing
quotes and brackets included, where white space follows, and at a line end. It does not end behind the abbreviations
below, and a piece without a letter or digit ("... :)") belongs to the sentence before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.study.backbones.backbone import Backbone, BadBackbone, resolve
from harness.study.device import Device

END = re.compile("[.!?\u2026]+[\"'\u201d\u2019)\\]]*(?=\\s|$)|[\\r\\n]+")
ABBREVIATIONS = frozenset(("mr.", "mrs.", "ms.", "dr.", "prof.", "vs.", "e.g.", "i.e.", "approx."))
LONGEST = 256  # tokens that are read of a sentence
MOST_KEPT = 200_000  # sentences whose vectors a process keeps of an encoder
BATCH = 64
MEAN = "pooling_mode_mean_tokens"
MODULES = ("Transformer", "Pooling", "Normalize")  # of sentence-transformers; others change a vector's direction

Vectors = NDArray[np.float32]


def sentences_in(text: str) -> list[tuple[int, int]]:
    """Characters (first, and the one after the last) of every sentence, without white space around it."""
    places: list[tuple[int, int]] = []
    start = 0
    for match in END.finditer(text):
        words = text[start : match.end()].split()
        if words and words[-1].lower() not in ABBREVIATIONS:
            _add(places, text, start, match.end())
            start = match.end()
    _add(places, text, start, len(text))
    return places


def _add(places: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    if not piece.strip():
        return
    end = start + len(piece.rstrip())
    if places and not any(character.isalnum() for character in piece):
        places[-1] = (places[-1][0], end)
    else:
        places.append((start + len(piece) - len(piece.lstrip()), end))


@cache
def encoder_of(name: str) -> Backbone:
    """The encoder of this name, as a study names a backbone; BadBackbone unless it takes the mean of token vectors."""
    encoder = resolve(name)
    if encoder.folder is not None and (encoder.folder / "modules.json").is_file():
        _check_modules(encoder.folder)
    return encoder


def _check_modules(folder: Path) -> None:
    """BadBackbone unless a folder of sentence-transformers does nothing to token vectors but take their mean."""
    file = folder / "modules.json"
    try:
        modules = [(str(part["type"]).rpartition(".")[2], str(part["path"])) for part in _json(file)]
        poolings = [_json(file := folder / path / "config.json") for kind, path in modules if kind == "Pooling"]
        ways = [_ways(pooling) for pooling in poolings]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise BadBackbone(f"{file}: cannot be read ({type(problem).__name__}); get the encoder again") from None
    further = [kind for kind, _ in modules if kind not in MODULES]
    if further or ways != [{MEAN}]:
        what = f"has a module {further[0]!r}" if further else f"pools by {', '.join(sorted(set().union(*ways))) or '-'}"
        raise BadBackbone(f"encoder {folder.name!r} {what}; take one that takes the mean of token vectors, as minilm")


def _json(file: Path) -> Any:  # noqa: ANN401
    return json.loads(file.read_text(encoding="utf-8"))


def _ways(pooling: dict[str, object]) -> set[str]:
    """The ways of a pooling's file, which says them by switches, or in newer ones by a word."""
    if "pooling_mode" in pooling:
        return {f"pooling_mode_{pooling['pooling_mode']}_tokens"}
    return {name for name, is_on in pooling.items() if name.startswith("pooling_mode_") and is_on is True}


_kept: dict[tuple[str, ...], dict[str, Vectors]] = {}  # of a process alone; a text never leaves it


def vectors_of(texts: Sequence[str], encoder: Backbone, device: Device) -> Vectors:
    """A vector of length 1 per text ``[texts, width]``; a process encodes a text once."""
    kept = _kept.setdefault((encoder.weights_sha256, encoder.config_sha256, encoder.tokenizer_sha256), {})
    if len(kept) > MOST_KEPT:
        kept.clear()
    new = [text for text in dict.fromkeys(texts) if text not in kept]
    if new:
        kept.update(zip(new, _encoded(new, encoder, device), strict=True))
    return np.array([kept[text] for text in texts], dtype=np.float32).reshape(len(texts), encoder.width)


def _encoded(texts: Sequence[str], encoder: Backbone, device: Device) -> Vectors:
    """Means of token vectors, special tokens among them as in sentence-transformers, from long texts to short."""
    import torch

    from harness.training.model import load_backbone
    from harness.training.tensors import to_device
    from harness.training.tokens.tokenizer import load_tokenizer

    tokenizer, on = load_tokenizer(encoder), device.ready()
    most = min(LONGEST, encoder.max_tokens) - 2
    ids = [tokenizer.template.build_inputs_with_special_tokens(own[:most]) for own in tokenizer.ids(list(texts))]
    network = load_backbone(encoder).base_model.to(on)
    vectors = np.zeros((len(texts), encoder.width), dtype=np.float32)
    order = sorted(range(len(texts)), key=lambda number: -len(ids[number]))
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            numbers = order[start : start + BATCH]
            longest = len(ids[numbers[0]])
            rows = [[*ids[number], *[tokenizer.padding] * (longest - len(ids[number]))] for number in numbers]
            lengths = torch.tensor([len(ids[number]) for number in numbers])
            mask = to_device((torch.arange(longest) < lengths[:, None]).long(), on)
            states = network(input_ids=to_device(torch.tensor(rows), on), attention_mask=mask)[0].float()
            means = (states * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
            vectors[numbers] = torch.nn.functional.normalize(means, dim=1).cpu().numpy()
    return vectors
