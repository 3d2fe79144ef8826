"""The backbone's tokenizer: ids of texts, and the special tokens around one text or two. No torch.

A folder's ``tokenizer.json`` is read by the tokenizers library alone, in a tenth of a second, wherever transformers
would make the same tokenizer of it; elsewhere transformers makes it, which takes seconds to load. A test holds both
against each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.study.backbone import Backbone, BadBackbone
from harness.study.backbone_files import (
    BERT,
    CURE,
    FURTHER,
    WHOLE,
    BadTokenizer,
    bert_settings,
    check_ids,
    kind_of,
    special_tokens,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend
    from transformers import PreTrainedTokenizerBase

LONGEST = 200  # characters of what a library says
ADDED = "added_tokens.json"  # of old folders: more tokens than the whole file has


class Template(Protocol):
    """The special tokens around one text or two, as ids, and which of the two every token belongs to (0 or 1)."""

    def build_inputs_with_special_tokens(self, first: list[int], second: list[int] | None = None) -> list[int]:
        """The ids of a sequence."""
        ...

    def create_token_type_ids_from_sequences(self, first: list[int], second: list[int] | None = None) -> list[int]:
        """A segment for each of them."""
        ...


@dataclass(frozen=True)
class Around:
    """``start A end`` around a text; around two, ``ends`` between them. Segments are 0 where a backbone has none."""

    start: int
    end: int
    ends: int
    has_segments: bool

    def build_inputs_with_special_tokens(self, first: list[int], second: list[int] | None = None) -> list[int]:
        """The ids of a sequence."""
        single = [self.start, *first, self.end]
        return single if second is None else [*single, *[self.end] * (self.ends - 1), *second, self.end]

    def create_token_type_ids_from_sequences(self, first: list[int], second: list[int] | None = None) -> list[int]:
        """A segment for each of them; all 0 where the backbone knows no segments."""
        tokens = len(self.build_inputs_with_special_tokens(first, second))
        ones = len(second) + 1 if second is not None and self.has_segments else 0
        return [0] * (tokens - ones) + [1] * ones


KINDS: Mapping[str, tuple[str, str, int, bool]] = {  # roles of start and end, ends between two texts, segments
    BERT: ("cls_token", "sep_token", 1, True),
    "RobertaTokenizer": ("bos_token", "eos_token", 2, False),
    "XLMRobertaTokenizer": ("cls_token", "sep_token", 2, False),
    "CamembertTokenizer": ("cls_token", "sep_token", 2, False),
}


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """Ids of texts by ``backend``; ``special`` are the special tokens in the order of their roles, by role.

    Words of a text that are written like a special token are cut into ordinary pieces.
    """

    backend: Backend
    special: Mapping[str, str]
    further: tuple[str, ...]
    template: Template

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Every special token as it is written, each once."""
        return tuple(dict.fromkeys((*self.special.values(), *self.further)))

    @cached_property
    def reserved(self) -> frozenset[int]:
        """Ids that only a format may insert; an unknown character of the data is allowed to be unknown."""
        unknown = self.special.get("unk_token")
        return frozenset(self._id(token) for token in self.words) - {unknown and self._id(unknown)}

    @cached_property
    def separator(self) -> int:
        """The id of the token that ends a text."""
        return self._id(self.special["sep_token"])

    @cached_property
    def padding(self) -> int:
        """The id that fills a shorter row of a batch."""
        return self._id(self.special["pad_token"])

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of every text, in one call, without special tokens."""
        every = [encoding.ids for encoding in self.backend.encode_batch_fast(texts, add_special_tokens=False)]
        for index, ids in enumerate(every):
            if not self.reserved.isdisjoint(ids):
                text = texts[index]
                for token in self.words:  # a unigram vocabulary holds these words as pieces
                    text = text.replace(token, f"{token[0]} {token[1:]}")
                every[index] = self.backend.encode_batch_fast([text], add_special_tokens=False)[0].ids
        return every

    def pieces(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """The id of every token of a text, and its first character and end (exclusive); no special tokens.

        Of an unigram vocabulary, words of the text that are written like a special token are left out.
        """
        encoding = self.backend.encode(text, add_special_tokens=False)
        pairs = zip(encoding.ids, encoding.offsets, strict=True)
        return [(id, offsets) for id, offsets in pairs if id not in self.reserved]

    def _id(self, token: str) -> int:
        """The id of a token, or that of the unknown where the vocabulary has it not."""
        number = self.backend.token_to_id(token)
        return int(self.backend.token_to_id(self.special["unk_token"]) if number is None else number)


class ByteTokenizer(Tokenizer):
    """A tokenizer of a token per byte, whose ids are looked up: its backend takes twenty times as long to say them."""

    @cached_property
    def of_byte(self) -> tuple[int, ...]:
        """The id of every byte, by the letter that stands for it in the vocabulary."""
        printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # as themselves, others from 0x100 on
        others = [byte for byte in range(0x100) if byte not in printed]
        letters = {byte: chr(byte) for byte in printed} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}
        return tuple(self._id(letters[byte]) for byte in range(0x100))

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of every text; no letters of one make a special token."""
        of_byte = self.of_byte
        return [[of_byte[byte] for byte in text.encode()] for text in texts]


@cache
def load_tokenizer(backbone: Backbone) -> Tokenizer:
    """The backbone's tokenizer; for ``random-tiny`` one token per byte. BadBackbone if its files make none."""
    if backbone.folder is None:
        return _bytes()
    tokenizer = _of_file(backbone.folder, backbone.model_type)
    if tokenizer is None:  # what transformers has made: its backend, its special tokens and its template
        loaded = library_tokenizer(backbone)
        _prepare(loaded.backend_tokenizer)
        special = {role: str(token) for role, token in loaded.special_tokens_map.items() if role != FURTHER}
        further = tuple(map(str, loaded.additional_special_tokens))
        tokenizer = Tokenizer(loaded.backend_tokenizer, special, further, loaded)
    try:
        check_ids(backbone.folder, tokenizer.backend.get_vocab(with_added_tokens=True), 0, backbone.vocabulary)
    except BadTokenizer as problem:
        raise BadBackbone(f"backbone {backbone.name!r}: {problem}") from None
    return tokenizer


@cache
def library_tokenizer(backbone: Backbone) -> PreTrainedTokenizerBase:
    """The fast tokenizer that transformers makes of the backbone's files. BadBackbone if it makes none."""
    if backbone.folder is None:
        from transformers import RobertaTokenizerFast

        return RobertaTokenizerFast(tokenizer_object=_bytes().backend)
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            str(backbone.folder), local_files_only=True, use_fast=True
        )
    except Exception as problem:  # the library has many ways to say that a file does not fit
        reason = " ".join(str(problem).split())[:LONGEST]
        raise BadBackbone(
            f"backbone {backbone.name!r}: no tokenizer can be made of the files in {backbone.folder} ({reason}); {CURE}"
        ) from None
    return tokenizer


def _of_file(folder: Path, model_type: str) -> Tokenizer | None:
    """The tokenizer of ``tokenizer.json``, or None unless transformers would take it as it is."""
    from tokenizers import Tokenizer as Backend

    if not (folder / WHOLE).is_file() or (folder / ADDED).exists():
        return None
    try:
        files = (folder / "tokenizer_config.json", folder / "config.json")
        settings, config = (json.loads(file.read_text("utf-8")) if file.is_file() else {} for file in files)
        kind = kind_of(model_type, settings, config)
        backend, roles = Backend.from_file(str(folder / WHOLE)), special_tokens(folder, kind, settings)
    except Exception:  # transformers says what is wrong with the files
        return None
    further = tuple(roles.pop(FURTHER))
    special = {role: token for role, token in roles.items() if token is not None}
    if kind not in KINDS or not _is_taken_as_it_is(backend, kind, settings, {*special.values(), *further}):
        return None
    _prepare(backend)
    return Tokenizer(backend, special, further, _around(backend, kind, special))


def _around(backend: Backend, kind: str, special: Mapping[str, str]) -> Around:
    start, end, ends, has_segments = KINDS[kind]
    return Around(backend.token_to_id(special[start]), backend.token_to_id(special[end]), ends, has_segments)


def _is_taken_as_it_is(backend: Backend, kind: str, settings: Mapping[str, Any], special: set[str]) -> bool:
    """Whether transformers changes nothing of a whole file: no new token, no other normaliser, no first space."""
    if "fast_tokenizer_files" in settings:  # another file for this version
        return False
    there = backend.get_added_tokens_decoder()
    if not special <= {token.content for token in there.values() if token.special}:
        return False
    for number, token in settings.get("added_tokens_decoder", {}).items():
        other = there.get(int(number))
        if other is None or any(getattr(other, name) != value for name, value in token.items() if name != "__type"):
            return False
    words = _state(backend.pre_tokenizer)
    first = bool(settings.get("add_prefix_space", False))
    if words.get("add_prefix_space", first) != first:
        return False
    normalizer = _state(backend.normalizer)
    return kind != BERT or all(normalizer.get(name, value) == value for name, value in bert_settings(settings).items())


def _state(part: Any) -> dict[str, Any]:  # noqa: ANN401 - the library's parts share no type
    """The settings of a part of a tokenizer; none where it lacks the part."""
    state: dict[str, Any] = {} if part is None else json.loads(part.__getstate__())
    return state


def _prepare(backend: Backend) -> None:
    """Whole texts, of whatever length, in which a special token is no more than its letters."""
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True


# The tokenizer of ``random-tiny``: every byte is a token.

BYTES = {
    **{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>"},
    **{"pad_token": "<pad>", "cls_token": "<s>", "mask_token": "<mask>"},
}


def byte_vocabulary() -> dict[str, int]:
    """The tokens of ``random-tiny`` and their ids."""
    from tokenizers.pre_tokenizers import ByteLevel

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    return {token: number for number, token in enumerate([*special, *sorted(ByteLevel.alphabet())])}


def _bytes() -> Tokenizer:
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    backend = Backend(models.BPE(vocab=byte_vocabulary(), merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True) for token in dict.fromkeys(BYTES.values())])
    _prepare(backend)
    return ByteTokenizer(backend, BYTES, (), _around(backend, "RobertaTokenizer", BYTES))
