"""What tokens add to an answer: exact for a linear network, complete for those that are trained, and led by the cue."""

import numpy as np
import pytest
import torch
from torch import nn

from harness.study.systems import Place, kind_of
from harness.systems import attributions
from harness.systems.attributions import Attribution, Readable, Reading, advantage, attribution
from harness.systems.epochs import EncodedText
from tests.support.systems.trained import handed, rows_of

pytest.importorskip("captum", reason="explain needs its extra")
SMALL = {"epochs": 8, "batch_size": 16, "learning_rate": 3e-3, "tokens": 24}
KINDS = {
    "clsn": {"width": 16},
    "plain": {"network": "plain"},
    "bi-encoder": {"rationale_weight": 0.0},
    "encoder": {"window": [1, 0], "tokens": 64},
}


def fitted_of(folder, tiny, name):
    kind = kind_of("clsn" if name == "plain" else name)
    settings, place = {**SMALL, **KINDS[name]}, Place(backbone=tiny)
    return kind.fit(handed(kind, folder / "fit", settings, rows=96, validation=12, place=place))


def reading_of(logits, ids=(1, 5, 6, 7, 2)):
    torch.manual_seed(1)
    embeddings = nn.Embedding(9, 4)
    offsets = tuple((0, 0) if place in (0, len(ids) - 1) else (place, place + 1) for place in range(len(ids)))
    return Reading(EncodedText(ids, offsets), embeddings, 0, logits)


def test_of_a_linear_network_a_token_adds_its_own_product():
    torch.manual_seed(2)
    layer = nn.Linear(4, 3)
    reading = reading_of(lambda vectors: layer(vectors.sum(dim=1)))
    own = attribution(reading)
    table, weight = reading.embeddings.weight.detach().numpy(), layer.weight.detach().numpy()
    others = [place for place in range(3) if place != own.predicted]
    direction = weight[own.predicted] - weight[others].mean(axis=0)
    by_hand = [0, *((table[id] - table[0]) @ direction for id in (5, 6, 7)), 0]
    np.testing.assert_allclose(own.contributions, by_hand, atol=1e-5)
    assert own.contributions.sum() == pytest.approx(own.whole - own.empty, abs=1e-5)
    assert own.is_complete


def test_the_logit_is_held_against_the_mean_of_the_others():
    logits = torch.tensor([[1.0, 4.0, 2.0], [0.0, 3.0, 9.0]])
    assert advantage(logits, 1).tolist() == [2.5, -1.5]
    assert advantage(logits[:, :2], 1).tolist() == [3.0, 3.0]


def test_contributions_that_do_not_add_up_are_said_to_be_off(monkeypatch):
    own = Attribution(((0, 1),), np.array([1.9]), 0, whole=3.0, empty=1.0)
    assert own.gap == pytest.approx(0.05)
    assert not own.is_complete
    assert Attribution(((0, 1),), np.array([1.97]), 0, whole=3.0, empty=1.0).is_complete
    assert Attribution(((0, 1),), np.array([0.1]), 0, whole=1.0, empty=1.0).gap == np.inf
    monkeypatch.setattr(attributions, "STEPS", (2,))
    steep = attribution(reading_of(lambda vectors: torch.sigmoid(40 * vectors.sum(dim=1)[:, :2])))
    assert not steep.is_complete


@pytest.mark.parametrize("name", KINDS)
def test_contributions_of_a_trained_network_add_up_and_the_cue_has_most_of_them(name, tmp_path, tiny):
    fitted = fitted_of(tmp_path, tiny, name)
    assert isinstance(fitted, Readable)
    rows = [row for row in rows_of("multiclass", 24, 3) if row.rationale]
    logits = fitted.predict(rows).logits
    hits, complete = 0, 0
    for row, own_logits in zip(rows, logits, strict=True):
        reading = fitted.reading(row)
        own = attribution(reading)
        assert own.predicted == own_logits.argmax()
        assert own.whole == pytest.approx(float(advantage(torch.tensor(own_logits[None]), own.predicted)), abs=1e-4)
        assert len(own.contributions) == len(reading.text.ids)
        assert own.contributions[[0, -1]].tolist() == [0, 0]
        complete += own.is_complete
        start = row.text.index(row.rationale[0])
        is_cue = [start <= place[0] < start + len(row.rationale[0]) for place in own.offsets]
        hits += own.contributions[is_cue].sum() > own.contributions[~np.array(is_cue)].sum()
    assert complete >= 0.9 * len(rows)
    assert hits >= 0.75 * len(rows)
    np.testing.assert_array_equal(fitted.predict(rows).logits, logits)


def test_a_system_without_embeddings_is_not_readable(tmp_path):
    majority = kind_of("majority")
    assert not isinstance(majority.fit(handed(majority, tmp_path, {})), Readable)
