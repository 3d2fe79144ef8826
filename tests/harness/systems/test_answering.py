"""Models that answer by options: the probability of a whole answer, however many are ranked at a time."""

import numpy as np
import pytest
import torch

from harness.systems.answering import Causal, EncoderDecoder, answering
from harness.systems.weights import resolve_answering
from tasks.errors import BadInput
from tests.support.systems.tiny_decoder import tiny_decoder
from tests.support.systems.tiny_t5 import tiny_t5
from tests.support.systems.trained import ASKS, WORDS

SPOKEN = ("x", "is", "no", "communication", "much", *WORDS)
NO, COMMUNICATION, STOP, LAST = 3, 4, 1, 0
AFTER = {LAST: {NO: 0.9, COMMUNICATION: 0.1}, NO: {COMMUNICATION: 0.8, STOP: 0.2}, COMMUNICATION: {STOP: 1.0}}
MAKERS = {"llama": tiny_decoder, "t5": tiny_t5}


@pytest.fixture(params=MAKERS)
def model(request, tmp_path):
    folder = MAKERS[request.param](tmp_path / request.param, SPOKEN)
    return answering(resolve_answering(str(folder)), torch.device("cpu"))


class Constructed:
    """A model that says what AFTER has after each token, whatever else it reads."""

    class Kept:
        def batch_repeat_interleave(self, count):
            pass

    def __call__(self, input_ids=None, decoder_input_ids=None, logits_to_keep=0, **rest):
        ids = input_ids if decoder_input_ids is None else decoder_input_ids
        logits = torch.full((*ids.shape, 5), -1e9)
        for row, tokens in enumerate(ids.tolist()):
            for place, id in enumerate(tokens):
                for token, share in AFTER.get(id, {}).items():
                    logits[row, place, token] = np.log(share)
        return type("Said", (), {"logits": logits[:, -logits_to_keep:], "past_key_values": self.Kept()})


@pytest.mark.parametrize("kind", [Causal, EncoderDecoder])
def test_no_does_not_beat_no_communication_because_it_begins_it(kind):
    model = kind.__new__(kind)
    model.network, model.device, model.end, model.padding, model.start = Constructed(), torch.device("cpu"), STOP, 0, 0
    prompts = [(4, LAST), (LAST,)]
    ranked = model.scores(prompts, [(NO, STOP), (NO, COMMUNICATION, STOP)])
    torch.testing.assert_close(ranked, torch.tensor([[0.9 * 0.2, 0.9 * 0.8]] * 2).log())
    without = model.scores(prompts, [(NO,), (NO, COMMUNICATION)])
    assert (without[:, 0] > without[:, 1]).all(), "without its end the shorter would win"


def test_an_option_is_what_goes_on_with_the_last_words_and_ends(model):
    no, communication, much = model.tokenizer.ids(["no communication much"])[0]
    assert model.options(ASKS.options, "is") == ((no, 1), (no, communication, 1), (much, 1))
    for options, refusal in (
        (["yes", "nay"], "options 'yes' and 'nay' are the same tokens of these weights; rename one"),
        (["no", " "], "option ' ' has no token of these weights"),
    ):
        with pytest.raises(BadInput, match=refusal):
            model.options(options, "")


def test_few_prompts_at_a_time_are_asked_where_memory_is_short(model, monkeypatch):
    options = model.options(ASKS.options, "is")
    assert model.most_rows(9, options) > 1
    monkeypatch.setattr("harness.systems.answering.MOST_LOGITS", 1)
    assert model.most_rows(9, options) == 1
