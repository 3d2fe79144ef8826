"""Whether a folder's tokenizer can be read and every token has a row of the embedding; no model is loaded.

The library makes a tokenizer of ``tokenizer.json``, or of a vocabulary where there is none, and adds each special
token that the vocabulary lacks at its end. An id beyond the embedding would end a training in its first batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.study.backbones.identity import FURTHER
from tasks.errors import BadInput

WHOLE = "tokenizer.json"
VOCABULARIES = {"roberta": ("vocab.json", "merges.txt"), "bert": ("vocab.txt",), "xlm-roberta": (), "camembert": ()}
CURE = "put the tokenizer's files there, as they come with the weights"


class BadTokenizer(BadInput):
    """A tokenizer's files are missing, cannot be read, or know more tokens than the embedding has rows."""


def check_tokenizer(folder: Path, model_type: str, facts: Mapping[str, Any], rows: int) -> None:
    """BadTokenizer, one line, unless every token that the folder's files name has one of the embedding's ``rows``.

    ``facts`` are those of harness.study.backbones.identity: special tokens by their roles, and those added to them.
    """
    vocabulary, special = _vocabulary(folder, model_type), dict(facts["special"])
    tokens = {*special.pop(FURTHER), *special.values(), *(token["content"] for token in facts["more_tokens"])}
    check_ids(folder, vocabulary, len(tokens - vocabulary.keys() - {None}), rows)


def check_ids(folder: Path, vocabulary: Mapping[str, int], added: int, rows: int) -> None:
    """BadTokenizer if a token, or one of those that are ``added`` at the end, has no row of the embedding."""
    last = max(vocabulary.values(), default=-1) + added
    if last >= rows:
        raise BadTokenizer(
            f"{folder}: its tokenizer numbers tokens up to {last}, but the embedding has {rows} rows (vocab_size in "
            "config.json); take the tokenizer that belongs to the weights"
        )


def _vocabulary(folder: Path, model_type: str) -> dict[str, int]:
    """Every token and its id."""
    from tokenizers import Tokenizer, models

    files = [folder / name for name in VOCABULARIES[model_type]]
    try:
        if (folder / WHOLE).is_file():
            tokenizer = Tokenizer.from_file(str(folder / WHOLE))
        elif files and all(file.is_file() for file in files):
            kind = models.WordPiece if model_type == "bert" else models.BPE
            tokenizer = Tokenizer(kind.from_file(*map(str, files)))
        else:
            other = f" and no {' with '.join(VOCABULARIES[model_type])}" if files else ""
            raise BadTokenizer(f"{folder}: there is no {WHOLE}{other}; {CURE}")
    except BadTokenizer:
        raise
    except Exception as problem:  # the library raises nothing more special
        reason = " ".join(str(problem).split())
        raise BadTokenizer(f"{folder}: its tokenizer cannot be read ({reason}); {CURE}") from None
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    return vocabulary
