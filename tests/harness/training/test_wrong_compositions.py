"""The ways of composing adapters that go wrong without a word, pinned: a change upstream must be noticed here."""

from __future__ import annotations

import copy

import pytest
import torch
from adapters import (
    DoubleSeqBnConfig,
    LoRAConfig,
    ParBnConfig,
    PrefixTuningConfig,
    PromptTuningConfig,
    RobertaAdapterModel,
    SeqBnConfig,
)
from adapters.composition import Parallel, Stack
from transformers import RobertaConfig

SHAPE = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
SHAPE |= dict(max_position_embeddings=64, initializer_range=0.2)
SHAPE |= dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # train_adapter switches dropout on
SEQ_BN = SeqBnConfig(reduction_factor=4)
BATCH = {"input_ids": torch.arange(5, 65).view(5, 12), "attention_mask": torch.ones(5, 12, dtype=torch.long)}
BATCH["attention_mask"][0, 7:] = 0
LABELS = torch.tensor([0, 2, 1, 1, 0])


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


def of_each_cell(made):
    return logits(made, Stack("a", "b"), "b"), logits(made, Stack("c", "d"), "d")


def test_stacks_side_by_side_give_other_numbers_than_the_cells_alone():
    """In ``Parallel(Stack, Stack)`` the residual and the layer's norm are applied twice (seq_bn)."""
    made = network()
    alone = of_each_cell(made)
    together = logits(made, Parallel(Stack("a", "b"), Stack("c", "d")), ["b", "d"])
    assert all(apart(one, other) > 1e-3 for one, other in zip(alone, together, strict=True))


@pytest.mark.parametrize("config", [DoubleSeqBnConfig(reduction_factor=4), LoRAConfig(), PrefixTuningConfig()])
def test_stacks_side_by_side_are_right_for_methods_without_the_layer_s_norm(config):
    """So what the test above pins is a matter of seq_bn, and not of how these tests compare."""
    made = network(config)
    alone = of_each_cell(made)
    together = logits(made, Parallel(Stack("a", "b"), Stack("c", "d")), ["b", "d"])
    assert all(apart(one, other) < 1e-5 for one, other in zip(alone, together, strict=True))


def test_a_stack_of_parallels_gives_the_cells_own_numbers():
    made = network()
    alone = of_each_cell(made)
    together = logits(made, Stack(Parallel("a", "c"), Parallel("b", "d")), ["b", "d"])
    assert all(apart(one, other) < 1e-6 for one, other in zip(alone, together, strict=True))
    assert apart(*alone) > 1e-2


def gradients(made, trained, composition, head):
    made = copy.deepcopy(made)
    made.train_adapter(trained)
    made.set_active_adapters(composition)
    made.active_head = head
    made(**BATCH, labels=LABELS).loss.backward()
    return {name: parameter.grad for name, parameter in made.named_parameters() if parameter.grad is not None}


def test_a_stack_of_parallels_gives_the_cells_own_gradients_and_none_to_the_intermediates():
    made = network()
    together = gradients(made, Parallel("b", "d"), Stack(Parallel("a", "c"), Parallel("b", "d")), ["b", "d"])
    alone = gradients(made, "b", Stack("a", "b"), "b") | gradients(made, "d", Stack("c", "d"), "d")
    assert set(together) == set(alone)
    assert not any(f".adapters.{frozen}." in name for name in together for frozen in "ac")
    assert all(apart(together[name], alone[name]) < 1e-6 for name in alone)
    assert max(float(one.abs().max()) for one in alone.values()) > 1e-2


def test_a_parallel_of_stacks_cannot_be_trained_at_all():
    with pytest.raises(TypeError, match="unhashable"):
        network().train_adapter(Parallel(Stack("a", "b"), Stack("c", "d")))


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


def test_training_a_stack_trains_its_intermediate_too():
    made = network()
    made.train_adapter(Stack("a", "b"))
    trained = {name for name, parameter in made.named_parameters() if parameter.requires_grad}
    assert any(".adapters.a." in name for name in trained)


def test_activating_a_stack_chooses_its_last_head_and_training_chooses_none():
    made = network()
    made.active_head = "d"
    made.train_adapter("b")
    assert made.active_head == "d"
    made.set_active_adapters(Stack("a", "b"))
    assert made.active_head == "b"


@pytest.mark.parametrize(
    ("config", "alive"),
    [
        (SEQ_BN, True),
        (DoubleSeqBnConfig(reduction_factor=4), True),
        (LoRAConfig(), True),
        (PrefixTuningConfig(), True),
        (ParBnConfig(reduction_factor=4), False),
        (PromptTuningConfig(), False),
    ],
    ids=["seq_bn", "double_seq_bn", "lora", "prefix_tuning", "par_bn", "prompt_tuning"],
)
def test_a_stack_of_both_differs_from_either_alone_only_where_a_stack_is_a_stack(config, alive):
    """par_bn ignores the first of two, prompt_tuning the second; both must stay refused for transfers."""
    made = network(config)
    both = logits(made, Stack("a", "b"), "b")
    nearest = min(apart(both, logits(made, one, "b")) for one in "ab")
    assert apart(logits(made, "a", "b"), logits(made, "b", "b")) > 1e-3
    assert nearest > 1e-3 if alive else nearest == 0
