"""Tiny random BERT, RoBERTa, XLM-R and CamemBERT folders with a tokenizer of their own, for tests without downloads."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    BertTokenizerFast,
    CamembertTokenizerFast,
    PreTrainedTokenizerFast,
    RobertaTokenizerFast,
    XLMRobertaTokenizerFast,
)

SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "initializer_range": 0.3,
}
TEXTS = ["a kind neighbour came back with warm bread and quiet words", "我很难过 今天没有人和我说话 谢谢你听我说"] * 4
KINDS = ("bert", "roberta", "xlm-roberta", "camembert")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def tiny_backbone(folder: Path, kind: str, tokens: int = 128) -> Path:
    """Write config, weights and tokenizer of a tiny model of this kind, for so many tokens, and return its folder."""
    torch.manual_seed(7)
    makers = {"bert": _wordpiece, "roberta": _byte_pairs, "xlm-roberta": _unigram, "camembert": _camembert}
    tokenizer = makers[kind]()
    tokenizer.save_pretrained(folder)
    begins, ends = (5, 6) if kind == "camembert" else (0, 2)
    special = {"pad_token_id": 1, "bos_token_id": begins, "eos_token_id": ends, "type_vocab_size": 1}
    shape = SHAPE | ({} if kind == "bert" else special)
    positions = tokens if kind == "bert" else tokens + 2
    config = AutoConfig.for_model(kind, vocab_size=len(tokenizer), max_position_embeddings=positions, **shape)
    # CamemBERTs are published with the head that guesses words
    (AutoModelForMaskedLM if kind == "camembert" else AutoModel).from_config(config).save_pretrained(folder)
    return folder


def _wordpiece() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    raw = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer()
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    raw.train_from_iterator(TEXTS, trainer)
    return BertTokenizerFast(tokenizer_object=raw)


def _byte_pairs() -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE(unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=SPECIAL, initial_alphabet=letters, show_progress=False)
    raw.train_from_iterator(TEXTS, trainer)
    return RobertaTokenizerFast(tokenizer_object=raw)


def _camembert() -> PreTrainedTokenizerFast:
    unused = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"]
    return CamembertTokenizerFast(tokenizer_object=_pieces([*unused, "<s>", "</s>", "<mask>"]))


def _unigram() -> PreTrainedTokenizerFast:
    return XLMRobertaTokenizerFast(tokenizer_object=_pieces(SPECIAL))


def _pieces(special: list[str]) -> Tokenizer:
    raw = Tokenizer(models.Unigram())
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=special, unk_token="<unk>", show_progress=False)
    raw.train_from_iterator(TEXTS, trainer)
    return raw
