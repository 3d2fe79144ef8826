"""Parts of micromodels: sentences and their vectors, how near these come to rationales of others, and a machine on top.

The rule for sentences needs no model that would have to be downloaded. A sentence ends behind ``. ! ?`` or an ellipsis,
closing quotes and brackets included, where white space follows, and at a line end. It does not end behind the
abbreviations below, and a piece without a letter or digit ("... :)") belongs to the sentence before it. Vectors are
means of an encoder's token vectors, of length 1.

The machine is an explainable boosting machine (Lou, Caruana and Gehrke 2012; Nori et al. 2019): a sum of step
functions, one per feature, as JSON and without its library. The library ``interpret-core`` finds the steps; what it has
found are cuts of every feature and a score per step and class, which are all that a prediction needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.study.backbone import Backbone, BadBackbone, resolve
from harness.study.device import Device
from tasks.errors import BadInput
from tasks.rationales import marked, placed, token_f1
from tasks.task import Example

END = re.compile("[.!?\u2026]+[\"'\u201d\u2019)\\]]*(?=\\s|$)|[\\r\\n]+")
ABBREVIATIONS = frozenset(("mr.", "mrs.", "ms.", "dr.", "prof.", "vs.", "e.g.", "i.e.", "approx."))
LONGEST = 256  # tokens that are read of a sentence
MOST_KEPT = 200_000  # sentences whose vectors a process keeps of an encoder
MODE = "pooling_mode_"
MEAN = f"{MODE}mean_tokens"
MODULES = ("Transformer", "Pooling", "Normalize")  # of sentence-transformers; others change a vector's direction

Vectors = NDArray[np.float32]


def sentences_in(text: str) -> list[tuple[int, int]]:
    """Characters (first, and the one after the last) of every sentence, without white space around it."""
    places: list[tuple[int, int]] = []
    start = 0
    for end in (*(match.end() for match in END.finditer(text)), len(text)):
        piece = text[start:end]
        words = piece.split()
        if not words or (end < len(text) and words[-1].lower() in ABBREVIATIONS):
            continue
        last = start + len(piece.rstrip())
        if places and not any(character.isalnum() for character in piece):
            places[-1] = (places[-1][0], last)
        else:
            places.append((last - len(piece.strip()), last))
        start = end
    return places


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
        # by a word, or in older files by switches
        ways = [
            {f"{MODE}{pooling['pooling_mode']}_tokens"}
            if "pooling_mode" in pooling
            else {name for name, is_on in pooling.items() if name.startswith(MODE) and is_on is True}
            for pooling in poolings
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise BadBackbone(f"{file}: cannot be read ({type(problem).__name__}); get the encoder again") from None
    further = [kind for kind, _ in modules if kind not in MODULES]
    if further or ways != [{MEAN}]:
        what = f"has a module {further[0]!r}" if further else f"pools by {', '.join(sorted(set().union(*ways))) or '-'}"
        raise BadBackbone(f"encoder {folder.name!r} {what}; take one that takes the mean of token vectors, as minilm")


def _json(file: Path) -> Any:  # noqa: ANN401
    return json.loads(file.read_text(encoding="utf-8"))


_kept: dict[tuple[str, ...], dict[str, Vectors]] = {}  # of a process alone; a text never leaves it


def vectors_of(texts: Sequence[str], encoder: Backbone, device: Device) -> Vectors:
    """A vector of length 1 per text ``[texts, width]``; a process encodes a text once."""
    kept = _kept.setdefault((encoder.weights_sha256, encoder.config_sha256, encoder.tokenizer_sha256), {})
    if len(kept) > MOST_KEPT:
        kept.clear()
    if new := [text for text in dict.fromkeys(texts) if text not in kept]:
        kept.update(zip(new, _encoded(new, encoder, device), strict=True))
    return np.array([kept[text] for text in texts], dtype=np.float32).reshape(len(texts), encoder.width)


def _encoded(texts: Sequence[str], encoder: Backbone, device: Device) -> Vectors:
    """Means of token vectors, special tokens among them as in sentence-transformers, from long texts to short."""
    import torch

    from harness.systems.epochs import padded_batch
    from harness.training.batches import evaluation_batches
    from harness.training.model import load_backbone
    from harness.training.tokenizer import load_tokenizer

    tokenizer, on = load_tokenizer(encoder), device.ready()
    most = min(LONGEST, encoder.max_tokens) - 2
    ids = [tokenizer.template.build_inputs_with_special_tokens(own[:most]) for own in tokenizer.ids(list(texts))]
    network = load_backbone(encoder).base_model.to(on)
    vectors = np.zeros((len(texts), encoder.width), dtype=np.float32)
    with torch.inference_mode():
        for numbers in evaluation_batches([len(own) for own in ids]):
            batch = padded_batch([ids[number] for number in numbers], tokenizer.padding, on)
            states, mask = network(**batch)[0].float(), batch["attention_mask"]
            means = (states * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
            vectors[numbers] = torch.nn.functional.normalize(means, dim=1).cpu().numpy()
    return vectors


FARTHEST = -1.0  # the cosine where there is no sentence, or no seed
DECIMALS = 5  # of a cosine; more of them depend on which texts were encoded together
WORD = re.compile(r"\S+")
FORM = "micromodels"  # of T-F1, by which a threshold is chosen

Floats = NDArray[np.float64]


class Seeds(NamedTuple):
    """Rationales of rows: their vectors ``[seeds, width]``, and the row and characters ``[seeds, 2]`` of each.

    The characters of one that is not found in its row's text are -1.
    """

    vectors: Vectors
    ids: tuple[str, ...]
    places: NDArray[np.int64]


class SentenceVectors(NamedTuple):
    """Of every sentence the number of its row, its characters, and its vector ``[sentences, width]``."""

    rows: NDArray[np.int64]
    places: Sequence[tuple[int, int]]
    vectors: Vectors


class Nearest(NamedTuple):
    """Of every sentence the cosine to the nearest seed, and which that is."""

    cosines: Floats
    seeds: NDArray[np.int64]


def nearest(sentences: SentenceVectors, seeds: Seeds, left_out: Sequence[str] = ()) -> Nearest:
    """The nearest seed of every sentence; with ``left_out``, the ids of the rows, none of a sentence's own row."""
    if not len(sentences.rows) or not len(seeds.ids):
        count = len(sentences.rows)
        return Nearest(np.full(count, FARTHEST), np.zeros(count, dtype=np.int64))
    cosines = sentences.vectors @ seeds.vectors.T
    if left_out:
        own = np.array(left_out)[sentences.rows]
        cosines[own[:, None] == np.array(seeds.ids)[None, :]] = FARTHEST
    best = cosines.argmax(axis=1)
    values = np.round(cosines[np.arange(len(best)), best].astype(np.float64), DECIMALS)
    return Nearest(np.clip(values, FARTHEST, 1.0), best)


def feature(sentences: SentenceVectors, cosines: Floats, rows: int) -> Floats:
    """The largest cosine of the sentences of each row ``[rows]``."""
    largest = np.full(rows, FARTHEST)
    np.maximum.at(largest, sentences.rows, cosines)
    return largest


def read(rows: Sequence[Example], encoder: Backbone, device: Device) -> SentenceVectors:
    """The sentences of rows and their vectors."""
    places = [(number, place) for number, row in enumerate(rows) for place in sentences_in(row.text)]
    texts = [rows[number].text[start:end] for number, (start, end) in places]
    numbers = np.array([number for number, _ in places], dtype=np.int64)
    return SentenceVectors(numbers, [place for _, place in places], vectors_of(texts, encoder, device))


def seeds_of(rows: Sequence[Example], encoder: Backbone, device: Device) -> Seeds:
    """Every rationale of the rows that has a letter or digit."""
    seeds = [(row, text) for row in rows for text in row.rationale if any(map(str.isalnum, text))]
    places = [next(iter(placed(row.text, [text]).spans), (-1, -1)) for row, text in seeds]
    return Seeds(
        vectors_of([text.strip() for _, text in seeds], encoder, device),
        tuple(row.id for row, _ in seeds),
        np.array(places, dtype=np.int64).reshape(len(seeds), 2),
    )


def chosen_threshold(
    thresholds: Sequence[float], rows: Sequence[Example], sentences: SentenceVectors, cosines: Floats
) -> float:
    """The threshold of the highest T-F1 of words on these rows, the lowest of equals; BadInput if none marks any.

    One that marks no sentence of the rows is not asked: it would mark nothing for good.
    """
    highest = float(cosines.max(initial=FARTHEST))
    firing = sorted(threshold for threshold in thresholds if threshold <= highest)
    if not firing:
        raise BadInput(
            f"micromodels: no sentence of the {len(rows)} validation rows is as near to a seed as thresholds"
            f" {', '.join(f'{threshold:g}' for threshold in sorted(thresholds))} ask; the nearest has {highest:.3f};"
            " set lower ones"
        )
    words = [[match.span() for match in WORD.finditer(row.text)] for row in rows]
    gold = [marked(of_row, placed(row.text, row.rationale).spans) for of_row, row in zip(words, rows, strict=True)]

    def score(threshold: float) -> float:
        spans: list[list[tuple[int, int]]] = [[] for _ in rows]
        for number in np.flatnonzero(cosines >= threshold).tolist():
            spans[sentences.rows[number]].append(sentences.places[number])
        predicted = [marked(of_row, own) for of_row, own in zip(words, spans, strict=True)]
        return token_f1(gold, predicted, FORM)

    return max(firing, key=score)


LARGEST_SEED = 2**31  # that the library takes


@dataclass(frozen=True)
class Machine:
    """``cuts`` of every feature in rising order, ``scores`` of its steps ``[cuts + 1, classes]``, ``intercept``.

    Of two classes the library keeps a single column, the log odds of the second.
    """

    cuts: Sequence[Floats]
    scores: Sequence[Floats]
    intercept: Floats

    @classmethod
    def fitted(cls, features: Floats, levels: NDArray[np.int64], *, bags: int, seed: int) -> Machine:
        """The machine that the library learns from ``features [rows, features]``; every class needs a row."""
        from interpret.glassbox import ExplainableBoostingClassifier

        names = [f"feature {number}" for number in range(features.shape[1])]
        learned = ExplainableBoostingClassifier(
            feature_names=names,
            feature_types=["continuous"] * len(names),
            interactions=0,  # of more than two classes the library has none
            outer_bags=bags,
            random_state=seed % LARGEST_SEED,
            n_jobs=1,
        ).fit(features, levels)
        return cls.of_library(learned)

    @classmethod
    def of_library(cls, learned: Any) -> Machine:  # noqa: ANN401 - the library has no types
        """What a trained machine of the library holds; its first step is of missing values, its last of unknown."""
        cuts = [np.asarray(of_feature[0], dtype=np.float64) for of_feature in learned.bins_]
        scores = [np.asarray(term, dtype=np.float64)[1:-1] for term in learned.term_scores_]
        intercept = np.atleast_1d(np.asarray(learned.intercept_, dtype=np.float64))
        return cls(cuts, [own.reshape(len(own), -1) for own in scores], intercept)

    def logits(self, features: Floats) -> Floats:
        """A logit per class ``[rows, classes]``: the intercept and the scores of the steps that a row stands on."""
        total = np.tile(self.intercept, (len(features), 1))
        for cuts, scores, values in zip(self.cuts, self.scores, features.T, strict=True):
            total += scores[np.searchsorted(cuts, values, side="right")]
        return np.concatenate([-total, total], axis=1) / 2 if total.shape[1] == 1 else total

    def as_json(self) -> dict[str, Any]:
        """Numbers in lists, of which ``of_json`` makes an equal machine."""
        return {
            "cuts": [cuts.tolist() for cuts in self.cuts],
            "scores": [scores.tolist() for scores in self.scores],
            "intercept": self.intercept.tolist(),
        }

    @classmethod
    def of_json(cls, facts: Mapping[str, Any]) -> Machine:
        """The machine whose ``as_json`` this is."""
        cuts, scores = ([np.array(part, dtype=np.float64) for part in facts[name]] for name in ("cuts", "scores"))
        return cls(cuts, scores, np.array(facts["intercept"], dtype=np.float64))
