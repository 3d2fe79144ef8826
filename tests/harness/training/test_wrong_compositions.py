"""The ways of composing adapters that go wrong without a word, pinned: a change upstream must be noticed here."""

import torch
from adapters import RobertaAdapterModel, SeqBnConfig
from adapters.composition import Stack
from transformers import RobertaConfig

SHAPE = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
SHAPE |= dict(max_position_embeddings=64, initializer_range=0.2)
SHAPE |= dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # train_adapter switches dropout on
BATCH = {"input_ids": torch.arange(5, 65).view(5, 12), "attention_mask": torch.ones(5, 12, dtype=torch.long)}
BATCH["attention_mask"][0, 7:] = 0


def network():
    """Adapters a and b (the cell a -> b), and a head of b; every weight matters."""
    torch.manual_seed(0)
    made = RobertaAdapterModel(RobertaConfig(**SHAPE))
    for name in "ab":
        made.add_adapter(name, config=SeqBnConfig(reduction_factor=4))
    made.add_classification_head("b", num_labels=3, layers=2, activation_function="tanh")
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if ".a." in name or ".b." in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return made.eval()


def logits(made, composition=None):
    """Logits of a composition, by default of the active one."""
    if composition:
        made.set_active_adapters(composition)
    with torch.no_grad():
        return made(**BATCH, head="b").logits


def test_training_after_activating_drops_the_intermediate():
    made = network()
    stacked, alone = logits(made, Stack("a", "b")), logits(made, "b")
    made.set_active_adapters(Stack("a", "b"))
    made.train_adapter("b")
    assert torch.equal(logits(made), alone)
    assert float((logits(made) - stacked).abs().max()) > 1e-3


def test_training_before_activating_keeps_the_intermediate_in_the_forward_pass_and_frozen():
    made = network()
    stacked = logits(made, Stack("a", "b"))
    made.train_adapter("b")
    made.set_active_adapters(Stack("a", "b"))
    assert torch.equal(logits(made), stacked)
    trained = {name for name, parameter in made.named_parameters() if parameter.requires_grad and ".adapters." in name}
    assert trained
    assert all(".adapters.b." in name for name in trained)
