"""Tiny random T5s in folders of their own, encoder and decoder, with a token per word of what tests say."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration, T5TokenizerFast

SPECIAL = ["<pad>", "</s>", "<unk>"]
SHAPE = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "n_positions": 256}


def tiny_t5(folder, words, *, is_gated=True, is_of_pieces=False, **shape):
    """Write config, weights and tokenizer of a T5 into ``folder``; ``is_gated`` as Flan-T5's, whose head is its own.

    ``is_of_pieces`` makes a tokenizer of T5's own kind, with more rows of weights than tokens, as published ones have.
    """
    tokenizer = _of_pieces(words) if is_of_pieces else _of_words(words)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(5)
    config = T5Config(
        vocab_size=len(tokenizer) + 18 * is_of_pieces,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        feed_forward_proj="gated-gelu" if is_gated else "relu",
        tie_word_embeddings=not is_gated,
        **{**SHAPE, **shape},
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def _of_words(words):
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *dict.fromkeys(words)])}
    backend = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", pad_token="<pad>", unk_token="<unk>")


def _of_pieces(words):
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=150, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    backend.train_from_iterator([" ".join(words)] * 4, trainer)
    return T5TokenizerFast(tokenizer_object=backend, extra_ids=10)
