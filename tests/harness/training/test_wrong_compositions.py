"""The ways of composing adapters that go wrong without a word, pinned: a change upstream must be noticed here."""

from __future__ import annotations

import torch
from adapters import (
    RobertaAdapterModel,
    SeqBnConfig,
)
from adapters.composition import Stack
from transformers import RobertaConfig

SHAPE = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
SHAPE |= dict(max_position_embeddings=64, initializer_range=0.2)
SHAPE |= dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # train_adapter switches dropout on
SEQ_BN = SeqBnConfig(reduction_factor=4)
BATCH = {"input_ids": torch.arange(5, 65).view(5, 12), "attention_mask": torch.ones(5, 12, dtype=torch.long)}
BATCH["attention_mask"][0, 7:] = 0


def network(config=SEQ_BN, heads=("b", "d")):
    """Adapters a and b (the cell a -> b), c and d (the cell c -> d), a head of each target; every weight matters."""
    torch.manual_seed(0)
    made = RobertaAdapterModel(RobertaConfig(**SHAPE))
    for name in "abcd":
        made.add_adapter(name, config=config)
    for name in heads:
        made.add_classification_head(name, num_labels=3, layers=2, activation_function="tanh")
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if any(f".{adapter}." in name or name.endswith(f".{adapter}") for adapter in "abcd"):
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return made.eval()


def logits(made, composition, head):
    """Logits of a composition: one tensor, or with several heads one for each."""
    made.set_active_adapters(composition)
    made.active_head = head
    with torch.no_grad():
        out = made(**BATCH)
    return out.logits if isinstance(head, str) else [out[i].logits for i in range(len(head))]


def apart(one, other):
    return float((one - other).abs().max())


def test_training_after_activating_drops_the_intermediate():
    made = network()
    stacked, alone = logits(made, Stack("a", "b"), "b"), logits(made, "b", "b")
    made.set_active_adapters(Stack("a", "b"))
    made.train_adapter("b")
    with torch.no_grad():
        left = made(**BATCH, head="b").logits
    assert apart(left, alone) == 0
    assert apart(left, stacked) > 1e-3


def test_training_before_activating_keeps_the_intermediate_in_the_forward_pass_and_frozen():
    made = network()
    stacked = logits(made, Stack("a", "b"), "b")
    made.train_adapter("b")
    made.set_active_adapters(Stack("a", "b"))
    with torch.no_grad():
        kept = made(**BATCH, head="b").logits
    assert apart(kept, stacked) == 0
    trained = {name for name, parameter in made.named_parameters() if parameter.requires_grad and ".adapters." in name}
    assert trained
    assert all(".adapters.b." in name for name in trained)
