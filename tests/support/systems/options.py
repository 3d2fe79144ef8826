"""What a model that answers by options says of each, by plain forward passes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def by_a_pass_per_option(
    network: Any, prompts: Sequence[Sequence[int]], options: Sequence[Sequence[int]], start: int | None = None
) -> np.ndarray:
    """Log-probabilities of options, each from a whole forward pass of one prompt; ``start`` opens what a T5 says."""
    expected = np.zeros((len(prompts), len(options)))
    with torch.inference_mode():
        for row, prompt in enumerate(prompts):
            for number, option in enumerate(options):
                if start is None:
                    logits = network(input_ids=torch.tensor([[*prompt, *option[:-1]]])).logits[0, len(prompt) - 1 :]
                else:
                    inputs = torch.tensor([[start, *option[:-1]]])
                    logits = network(input_ids=torch.tensor([prompt]), decoder_input_ids=inputs).logits[0]
                shares = logits.double().log_softmax(dim=-1)
                expected[row, number] = sum(float(shares[place, id]) for place, id in enumerate(option))
    return expected
