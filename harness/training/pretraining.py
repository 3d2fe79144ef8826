"""Domain-adaptive pre-training: a backbone reads on in texts of a domain, by guessing words that are masked.

As Sharma et al. 2020 (EMNLP, section 5) did before their bi-encoder, after Gururangan et al. 2020 (ACL): 15 % of the
tokens are to be guessed, of which 80 % are masked, 10 % replaced by any token and 10 % left (Devlin et al. 2019,
section 3.1). What is written is a backbone like any other. Masks hang on seed, epoch and text, dropout on seed and
step, so that a training that goes on from a checkpoint comes to the same bytes on the same machine.

Texts of validation and test rows are left out of what is read, and counted.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adapters_store.disk import new_folder, write_text
from adapters_store.key import key_of
from adapters_store.store import Store
from harness.study.backbone import Backbone
from harness.training.checkpoint import Checkpoint, Checkpoints
from harness.training.tokenizer import Tokenizer, load_tokenizer
from tasks.errors import BadInput
from tasks.task import Example, Turn

FEWEST = 100  # texts that say anything of a domain, a few of which are held out
HELD_OUT = 0.05
MOST_HELD_OUT = 1000


@dataclass(frozen=True)
class Corpus:
    """Texts to train on and texts held out, each once; ``empty``, ``repeated`` and ``apart`` count what is neither."""

    train: tuple[str, ...]
    held_out: tuple[str, ...]
    empty: int = 0
    repeated: int = 0
    apart: int = 0

    def facts(self) -> dict[str, Any]:
        """Counts, and the sha256 of both parts: no text."""
        digests = {}
        for name in ("train", "held_out"):
            texts = [text.encode() for text in getattr(self, name)]
            joined = b"".join(len(text).to_bytes(8, "big") + text for text in texts)
            digests[name] = hashlib.sha256(joined).hexdigest()
        counts = {"train": len(self.train), "held_out": len(self.held_out)}
        left_out = {"empty": self.empty, "repeated": self.repeated, "apart": self.apart}
        return {"texts": counts, "sha256": digests, "left_out": left_out}


def corpus_of(texts: Iterable[str], *, apart: Iterable[str] = (), seed: int = 1) -> Corpus:
    """The corpus of these texts less those that stand in ``apart``, blind to case and white space.

    One text of twenty is held out, at most 1,000, drawn by ``seed``. BadInput below 100 texts.
    """
    unwanted, seen = {_plain(text) for text in apart}, set[str]()
    kept: list[str] = []
    counts = {"empty": 0, "repeated": 0, "apart": 0}
    for text in texts:
        plain = _plain(text)
        why = "empty" if not plain else "apart" if plain in unwanted else "repeated" if plain in seen else ""
        if why:
            counts[why] += 1
            continue
        seen.add(plain)
        kept.append(text)
    if len(kept) < FEWEST:
        left_out = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise BadInput(f"pretrain: {len(kept)} texts are left ({left_out}) where {FEWEST} are needed; give more")
    order = np.random.default_rng(seed).permutation(len(kept))
    held_out = set(order[: min(MOST_HELD_OUT, int(HELD_OUT * len(kept)))].tolist())
    parts = ([text for index, text in enumerate(kept) if (index in held_out) == is_held] for is_held in (False, True))
    train, rest = map(tuple, parts)
    return Corpus(train, rest, **counts)


def turns_of(rows: Iterable[Example]) -> list[str]:
    """Every turn of some rows, later ones too."""
    return [turn.text for row in rows for turn in (*row.context, Turn("", row.text), *row.after)]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


MASKED, REPLACED = 0.8, 0.1  # of the tokens that are to be guessed; the others stay as they are
CLIP = 1.0  # of the norm of a step's gradient
EVALUATION = 2**32 - 1  # the epoch by which held-out texts are masked, always alike
CHECKPOINTS = 20  # in a whole training
RUN = "pretraining"
OF_TOKENIZERS = ("tokenizer", "vocab", "merges", "special_tokens", "added_tokens", "sentencepiece")  # names of files
FACTS = "pretraining.json"  # beside the weights: what they have read, by hash
IGNORED = -100  # the label of a token that need not be guessed, in the library
Watch = Callable[[int, int], None]


@dataclass(frozen=True)
class Setting:
    """How a backbone reads on; the defaults of epochs and batches are those of Sharma et al. 2020, appendix B."""

    epochs: int = 3
    batch_size: int = 8
    learning_rate: float = 5e-5
    max_tokens: int = 128
    share: float = 0.15
    whole_words: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        """BadInput for a number that cannot be."""
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise BadInput(f"pretrain: {name} {getattr(self, name)} is not a whole number from 1")
        if self.max_tokens < 8 or not 0 < self.share < 1 or not self.learning_rate > 0 or self.seed < 0:
            raise BadInput("pretrain: max_tokens from 8, learning rate above 0, share between 0 and 1, seed from 0")


@dataclass(frozen=True)
class Pretrained:
    """The folder of the new backbone, and perplexities of masked tokens of held-out texts before and after."""

    folder: Path
    before: float
    after: float
    steps: int
    head_is_new: bool


@dataclass(frozen=True)
class Windows:
    """Texts as rows of ids with special tokens around, and of every token the number of its word (-1: special)."""

    ids: Sequence[np.ndarray]
    words: Sequence[np.ndarray]


def windows_of(texts: Iterable[str], tokenizer: Tokenizer, setting: Setting) -> Windows:
    """The windows of all texts, a long text in several; a word is a token unless whole words are to be masked."""
    ids, words = [], []
    room = setting.max_tokens - len(tokenizer.template.build_inputs_with_special_tokens([]))
    for text in texts:
        (pieces,) = tokenizer.ids([text])
        numbers = list(range(len(pieces)))  # of the word that each belongs to
        whole = tokenizer.backend.encode(text, add_special_tokens=False) if setting.whole_words else None
        if whole and whole.ids == pieces:  # else the text has words that are written like special tokens
            numbers = [len(pieces) + index if word is None else word for index, word in enumerate(whole.word_ids)]
        for start in range(0, len(pieces), room):
            row = tokenizer.template.build_inputs_with_special_tokens(pieces[start : start + room])
            of_word = np.full(len(row), -1)
            of_word[1 : 1 + len(pieces[start : start + room])] = numbers[start : start + room]
            ids.append(np.array(row))
            words.append(of_word)
    return Windows(ids, words)


def masked(
    ids: np.ndarray, words: np.ndarray, rng: np.random.Generator, setting: Setting, tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray]:
    """The row as the model reads it, and its labels: the ids that are to be guessed, ``IGNORED`` elsewhere."""
    numbers = np.unique(words[words >= 0])
    chosen = numbers[rng.random(len(numbers)) < setting.share]
    is_guessed = np.isin(words, chosen) & (words >= 0)
    fate, others = rng.random(len(ids)), rng.integers(0, tokenizer.backend.get_vocab_size(), len(ids))
    mask = tokenizer.backend.token_to_id(tokenizer.special["mask_token"])
    replaced = np.where(fate < MASKED, mask, np.where(fate < MASKED + REPLACED, others, ids))
    return np.where(is_guessed, replaced, ids), np.where(is_guessed, ids, IGNORED)


def pretrain(
    backbone: Backbone,
    corpus: Corpus,
    out: Path,
    setting: Setting,
    *,
    device: torch.device | None = None,
    watch: Watch = lambda done, of: None,
) -> Pretrained:
    """Train ``backbone`` on a corpus and write it as a new backbone into ``out``, whole or not at all.

    A training that was stopped goes on from its last checkpoint when the same is asked for again. BadInput for a
    backbone without files or without a token for masks, and for a folder that is there.
    """
    if backbone.folder is None:
        raise BadInput(f"pretrain: {backbone.name} is no folder of weights; name one, or minilm")
    if out.exists():
        raise BadInput(f"--out {out}: is there already; name a new folder")
    tokenizer = load_tokenizer(backbone)
    if "mask_token" not in tokenizer.special:
        raise BadInput(f"pretrain: the tokenizer of {backbone.name} has no token for masks; take another backbone")
    training = _Training(backbone, corpus, setting, tokenizer, device or torch.device("cpu"))
    unfinished = out.with_name(f".{out.name}.unfinished")
    before, after, steps = training.run(Checkpoints(Store(unfinished), RUN, 1, training.device), watch)
    facts = {**training.facts(), "perplexity_before": before, "perplexity_after": after, "steps": steps}
    # the weights, config and tokenizer of the new backbone, and what it has read
    assert backbone.folder is not None
    half = out.with_name(f".{out.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    new_folder(half)
    training.model.config._name_or_path = backbone.name  # never a path of this machine
    # the body alone, for the adapters library takes no half a head
    training.model.base_model.save_pretrained(str(half), safe_serialization=True)
    for file in sorted(backbone.folder.iterdir()):
        if file.name.startswith(OF_TOKENIZERS) and file.suffix in (".json", ".txt", ".model"):
            shutil.copyfile(file, half / file.name)
    write_text(half / FACTS, json.dumps(facts, indent=1) + "\n")
    half.rename(out)
    shutil.rmtree(unfinished, ignore_errors=True)
    return Pretrained(out, before, after, steps, training.head_is_new)


class _Training:
    """A model that learns from the windows of a corpus."""

    def __init__(
        self, backbone: Backbone, corpus: Corpus, setting: Setting, tokenizer: Tokenizer, device: torch.device
    ) -> None:
        self.backbone, self.corpus, self.setting, self.tokenizer = backbone, corpus, setting, tokenizer
        self.device = device
        self.train = windows_of(corpus.train, tokenizer, setting)
        self.held_out = windows_of(corpus.held_out, tokenizer, setting)
        self.of_epoch = -(-len(self.train.ids) // setting.batch_size)
        self.steps = setting.epochs * self.of_epoch
        # the backbone under a head that guesses words; without dropout of its own
        from transformers import AutoModelForMaskedLM
        from transformers.utils import logging

        logging.set_verbosity_error()  # a new head is said in our words
        torch.manual_seed(setting.seed)
        self.model, account = AutoModelForMaskedLM.from_pretrained(
            str(backbone.folder), local_files_only=True, use_safetensors=True, output_loading_info=True
        )
        self.head_is_new = any("transform" in name or "lm_head" in name for name in account["missing_keys"])
        self.model.to(device)
        self.head = self.model.cls if hasattr(self.model, "cls") else self.model.lm_head  # as BERT and RoBERTa name it
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=setting.learning_rate, weight_decay=0.01)

    def facts(self) -> dict[str, Any]:
        """What decides the result, without a text."""
        return {
            "backbone": self.backbone.identity(),
            "setting": asdict(self.setting),
            "corpus": self.corpus.facts(),
            "head_is_new": self.head_is_new,
            "torch": torch.__version__,
        }

    def run(self, checkpoints: Checkpoints, watch: Watch) -> tuple[float, float, int]:
        """Perplexities before and after, and the steps between; goes on from the last checkpoint."""
        key = key_of(self.facts())
        stages = checkpoints.stages(key)
        done = stages[-1] if stages else 0
        if done:
            checkpoint = checkpoints.read(key, done)
            self._restore(checkpoint)
            before = float(checkpoint.facts["before"])
        else:
            before = self.perplexity()
        every = -(-self.steps // CHECKPOINTS)
        for step in range(done, self.steps):
            # one update: the mean cross-entropy of the tokens to be guessed, its rate falling to 0 over all steps
            epoch, batch = divmod(step, self.of_epoch)
            order = np.random.default_rng((self.setting.seed, epoch)).permutation(len(self.train.ids))
            rows = order[batch * self.setting.batch_size : (batch + 1) * self.setting.batch_size]
            torch.manual_seed(int(np.random.SeedSequence((self.setting.seed, step)).generate_state(1)[0]))
            self.model.train()
            loss, count = self._loss(self.train, rows, epoch)
            self.optimizer.zero_grad(set_to_none=True)
            (loss / max(1, count)).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            for group in self.optimizer.param_groups:
                group["lr"] = self.setting.learning_rate * (1 - step / self.steps)
            self.optimizer.step()
            watch(step + 1, self.steps)
            if (step + 1) % every == 0 and step + 1 < self.steps:
                tensors = {f"weight {name}": value for name, value in self.model.named_parameters()}
                for number, state in self.optimizer.state_dict()["state"].items():
                    tensors |= {
                        f"state {number} {name}": value.reshape(value.shape or 1) for name, value in state.items()
                    }
                checkpoints.write(step + 1, {key: Checkpoint(tensors, {"before": before})})
        return before, self.perplexity(), self.steps

    def _loss(self, windows: Windows, rows: Sequence[int] | np.ndarray, epoch: int) -> tuple[Tensor, int]:
        """Summed cross-entropy of the tokens to be guessed in these rows, and how many they are."""
        pairs = []
        for row in rows:
            rng = np.random.default_rng((self.setting.seed, epoch, int(row)))
            pairs.append(masked(windows.ids[row], windows.words[row], rng, self.setting, self.tokenizer))
        longest = max(len(ids) for ids, _ in pairs)
        inputs = torch.full((len(pairs), longest), self.tokenizer.padding)
        labels, reads = torch.full_like(inputs, IGNORED), torch.zeros_like(inputs)
        for number, (ids, guessed) in enumerate(pairs):
            inputs[number, : len(ids)], labels[number, : len(ids)] = torch.from_numpy(ids), torch.from_numpy(guessed)
            reads[number, : len(ids)] = 1
        inputs, labels, reads = (part.to(self.device) for part in (inputs, labels, reads))
        is_guessed = labels != IGNORED
        vectors = self.model.base_model(input_ids=inputs, attention_mask=reads).last_hidden_state[is_guessed]
        logits = self.head(vectors)  # of a seventh of the tokens: the vocabulary is what costs
        loss = torch.nn.functional.cross_entropy(logits, labels[is_guessed], reduction="sum")
        return loss, int(is_guessed.sum())

    @torch.no_grad()
    def perplexity(self) -> float:
        """The exponential of the mean cross-entropy of masked tokens of held-out texts, whose masks never change."""
        self.model.eval()
        size, total, count = self.setting.batch_size, 0.0, 0
        for start in range(0, len(self.held_out.ids), size):
            rows = range(start, min(start + size, len(self.held_out.ids)))
            loss, guessed = self._loss(self.held_out, rows, EVALUATION)
            total, count = total + float(loss), count + guessed
        return math.exp(total / max(1, count))

    def _restore(self, checkpoint: Checkpoint) -> None:
        state: dict[int, dict[str, Tensor]] = {}
        with torch.no_grad():
            for name, value in self.model.named_parameters():
                value.copy_(checkpoint.tensors[f"weight {name}"])
        for name, value in checkpoint.tensors.items():
            kind, *rest = name.split(" ")
            if kind == "state":
                state.setdefault(int(rest[0]), {})[rest[1]] = value.reshape(()) if rest[1] == "step" else value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
