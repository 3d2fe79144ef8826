"""Tiny random causal language models in folders of their own, with a token per word of what tests say."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<s>", "</s>", "<unk>"]
CHAT = """{% for turn in messages %}<s> x {{ turn['content'] }} <unk> {% endfor %}\
{% if add_generation_prompt %}<s> x{% endif %}"""
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 256}
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 64,
    "head_dim": 16,
    "max_position_embeddings": 256,
}


def tiny_decoder(folder, words, *, family="llama", opens=True, end="</s>", seed=5, spread=0.3, chat="", **shape):
    """Write config, weights and tokenizer of a causal model into ``folder``; ``opens`` puts <s> before every text.

    ``chat`` is the template of a chat, as CHAT, whose turns end by another token than texts.
    """
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *dict.fromkeys(words)])}
    backend = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    if opens:
        backend.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", 0)])
    special = {"bos_token": "<s>", "unk_token": "<unk>", **({"eos_token": end} if end else {})}
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    fast.chat_template = chat or None
    fast.save_pretrained(folder)
    torch.manual_seed(seed)
    numbers = {"vocab_size": len(vocabulary), "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}
    own = GPT2 if family == "gpt2" else SHAPE
    config = AutoConfig.for_model(family, **{**numbers, **own, **shape})
    network = AutoModelForCausalLM.from_config(config)
    for value in network.parameters():  # what is drawn is so small that every token is as likely
        torch.nn.init.normal_(value, std=spread)
    network.save_pretrained(folder)
    return folder
