"""A second route to the same predictions: cells trained with the plain adapters library, by the documented recipe.

Nothing of ours is imported but the row loader; the recipe is docs/training.md, "Seeding". Dropout is on, but for lanes,
which draw it otherwise.
"""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from adapters import RobertaAdapterModel, SeqBnConfig
from adapters.composition import Stack
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoTokenizer, RobertaConfig, RobertaTokenizerFast, get_linear_schedule_with_warmup

from tasks.registry import Registry
from tasks.splits.loading import load

pytestmark = pytest.mark.slow  # the harness trains in a process of its own for each trainer
SEED, EPOCHS, BATCH, RATE, WARMUP = 3, 2, 16, 2e-3, 0.1
DROPOUT = {"library": 0.1, "lanes": 0.0}
STUDY = """
tasks = ["epitome_er", "news_empathy"]
backbone = "{backbone}"
data = "synthetic"
trainer = "{trainer}"
synthetic_rows = 300
max_tokens = 256
seeds = [3]
[training]
epochs = 2
batch_size = 16
learning_rate = 2e-3
weight_decay = 0.01
warmup = 0.1
{loss}
"""
LOSSES = {
    "": "",
    "focal": '[loss]\nkind = "focal"\ngamma = 3.0\ntasks = ["epitome_er"]',
    "ldam": '[loss]\nkind = "ldam"\nscale = 5.0\ndeferred_from = 2\nbeta = 0.9\ntasks = ["epitome_er"]',
}
RUN = """
import sys
from harness.cli.main import main
sys.exit(max(main(["run", *sys.argv[1:4], study]) for study in sys.argv[4:]))
"""


def seed_of(*parts):
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@pytest.fixture(scope="module", params=DROPOUT)
def trainer(request):
    """A way of training."""
    return request.param


@pytest.fixture(scope="module")
def folder(trainer, tmp_path_factory):
    """A tiny random RoBERTa and a small byte-level BPE of our own, saved as a local folder."""
    folder = tmp_path_factory.mktemp("by_hand") / "tiny-roberta"
    words = ["the report said that a kind neighbour came back with warm bread and quiet words"] * 4
    raw = ByteLevelBPETokenizer()
    raw.train_from_iterator(
        words, vocab_size=320, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False
    )
    folder.mkdir()
    raw.save_model(str(folder))
    RobertaTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt")).save_pretrained(folder)
    torch.manual_seed(7)
    shape = dict(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=300,
        initializer_range=0.3,
        hidden_dropout_prob=DROPOUT[trainer],
        attention_probs_dropout_prob=DROPOUT[trainer],
    )
    config = RobertaConfig(vocab_size=320, pad_token_id=1, bos_token_id=0, eos_token_id=2, **shape)
    network = RobertaAdapterModel(config)
    network.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def store(trainer, folder):
    """The store after the harness has run the study with every loss, in a process of its own."""
    store = folder.parent / "runs"
    for loss, table in LOSSES.items():
        text = STUDY.format(backbone=folder, trainer=trainer, loss=table)
        (folder.parent / f"hand{loss}.toml").write_text(text, encoding="utf-8")
    studies = [str(folder.parent / f"hand{loss}.toml") for loss in LOSSES]
    command = [sys.executable, "-c", RUN, f"--store={store}", "--quiet", "--threads=1", *studies]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return store


def harness_logits(store, intermediate, target, loss=""):
    cells = json.loads((store / "studies" / f"hand{loss}.json").read_text())["cells"]
    trained = [c for c in cells if not c.get("system")]  # and no floor
    key = next(c["key"] for c in trained if (c["intermediate"], c["target"]) == (intermediate, target))
    frame = pd.read_parquet(store / "objects" / key / "test.parquet")
    return frame[[c for c in frame if c.startswith("logit_")]].to_numpy()


def rows_of(store, name):
    data = next(path for path in (store / "synthetic").iterdir())
    return load(Registry.load().task(name), data)


def padded(tokenizer, rows):
    """The pair format through the tokenizer's own pair call; a row without context is a single segment."""
    encoded = [
        tokenizer(" ".join(turn.text for turn in row.context), row.text) if row.context else tokenizer(row.text)
        for row in rows
    ]
    return tokenizer.pad([{k: e[k] for k in ("input_ids", "attention_mask")} for e in encoded], return_tensors="pt")


def loss_by_hand(logits, labels, kind, counts, epoch):
    """Mean loss of a batch by the formulas of docs/training.md; ``counts`` are of the training rows of every class."""
    rows = torch.arange(len(labels))
    if kind == "focal":
        shares = logits.softmax(dim=1)[rows, labels]
        return (-((1 - shares) ** 3) * shares.log()).mean()
    margins = torch.tensor([0.5 * (min(counts) / count) ** 0.25 for count in counts])
    moved = logits.clone()
    moved[rows, labels] -= margins[labels]
    losses = -(5 * moved).log_softmax(dim=1)[rows, labels]
    weights = torch.tensor([1 / (1 - 0.9**count) if epoch >= 2 else 1.0 for count in counts])[labels]
    return (losses * weights).sum() / weights.sum()


def train_by_hand(folder, splits, intermediate=None, loss=""):
    """Train one cell and return (model, test logits); ``intermediate`` is a saved adapter's folder."""
    torch.set_num_threads(1)
    name, outputs = splits.task.id, splits.task.label.n_outputs
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = RobertaAdapterModel.from_pretrained(folder)
    if intermediate:
        network.load_adapter(str(intermediate), load_as="first", with_head=False)
    torch.manual_seed(seed_of(SEED, name, "adapter"))
    network.add_adapter(name, config=SeqBnConfig(reduction_factor=16, non_linearity="relu"))
    torch.manual_seed(seed_of(SEED, name, "head"))
    network.add_classification_head(name, num_labels=outputs, layers=2, activation_function="tanh")
    network.train_adapter(name)
    network.set_active_adapters(Stack("first", name) if intermediate else name)
    network.active_head = name
    trained = [p for p in network.parameters() if p.requires_grad]
    steps = EPOCHS * -(-len(splits.train) // BATCH)
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, round(WARMUP * steps), steps)
    lengths = [int(padded(tokenizer, [row])["attention_mask"].sum()) for row in splits.train]
    kind, counts = loss if outputs > 1 else "", np.bincount([int(row.label) for row in splits.train]).tolist()
    best, kept, step = -np.inf, None, 0
    for epoch in range(1, EPOCHS + 1):
        network.train()
        order = np.random.default_rng(seed_of(SEED, name, "order", epoch)).permutation(len(lengths))
        for start in range(0, len(order), BATCH):
            numbers = sorted(order[start : start + BATCH].tolist(), key=lambda i: -lengths[i])
            labels = torch.tensor([splits.train[i].label for i in numbers])
            torch.manual_seed(seed_of(SEED, name, "dropout", step))
            given = network(**padded(tokenizer, [splits.train[i] for i in numbers]), labels=labels)
            mean = loss_by_hand(given.logits, labels, kind, counts, epoch) if kind else given.loss
            optimizer.zero_grad()
            mean.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            schedule.step()
            step += 1
        score = validation_score(network, tokenizer, splits)
        if score > best:
            best, kept = score, [p.detach().clone() for p in trained]
    with torch.no_grad():
        for parameter, value in zip(trained, kept, strict=True):
            parameter.copy_(value)
    return network, logits_of(network, tokenizer, splits.test)


def logits_of(network, tokenizer, rows):
    network.eval()
    with torch.no_grad():
        batches = [padded(tokenizer, rows[i : i + 10]) for i in range(0, len(rows), 10)]
        return np.concatenate([network(**batch).logits.numpy() for batch in batches])


def validation_score(network, tokenizer, splits):
    from scipy.stats import pearsonr
    from sklearn.metrics import f1_score

    logits, labels = logits_of(network, tokenizer, splits.validation), [row.label for row in splits.validation]
    if splits.task.label.kind == "continuous":
        return pearsonr(labels, logits[:, 0])[0]
    return f1_score(labels, logits.argmax(axis=1), average="macro", labels=sorted(set(labels)))


@pytest.mark.parametrize(("target", "loss"), [("news_empathy", ""), *(("epitome_er", loss) for loss in LOSSES)])
def test_a_baseline_trained_by_hand_gives_the_stored_predictions(folder, store, target, loss):
    _, logits = train_by_hand(folder, rows_of(store, target), loss=loss)
    np.testing.assert_allclose(harness_logits(store, None, target, loss), logits, atol=2e-5)
    assert np.ptp(logits) > 1e-2


@pytest.mark.parametrize("loss", LOSSES)
def test_a_transfer_trained_by_hand_gives_the_stored_predictions(folder, store, loss, tmp_path):
    intermediate, _ = train_by_hand(folder, rows_of(store, "news_empathy"))
    intermediate.save_adapter(str(tmp_path / "saved"), "news_empathy")
    _, logits = train_by_hand(folder, rows_of(store, "epitome_er"), tmp_path / "saved", loss)
    stored = harness_logits(store, "news_empathy", "epitome_er", loss)
    np.testing.assert_allclose(stored, logits, atol=2e-5)
    assert np.abs(stored - harness_logits(store, None, "epitome_er", loss)).max() > 1e-2
