"""The two adapters that the paper's group published, on a roberta-base shape; skipped where they are not at hand."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import RobertaConfig, RobertaModel

from adapters_store import Store
from harness.scoring.scorer import Scorer
from harness.sharing.importing import import_adapter
from harness.sharing.incoming import source_of
from harness.study.backbone import resolve
from harness.training.model import load_backbone, stored_adapter
from harness.training.tokenizer import library_tokenizer
from tasks.task import Example
from tests.support.studies.old_adapters import own

SHARED = Path(os.environ.get("EMPATHY_SHARED", Path(__file__).parents[4] / "shared"))
ADAPTERS = SHARED / "paper/adapters"
PUBLISHED = {
    "their_polarity": ("conv_emopol", "conv_EmotionalPolarity", "continuous", []),
    "their_er": ("epitome_er", "epitome_ER_level", "multiclass", ["LABEL_0", "LABEL_1", "LABEL_2"]),
}
TEXTS = ["That sounds so hard.", "I am glad that it went well, and I was there once, too."]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.realdata,
    pytest.mark.skipif(
        not ADAPTERS.is_dir(), reason="no adapters; set EMPATHY_SHARED to the folder with paper/adapters"
    ),
]


@pytest.fixture(scope="module")
def shape(tmp_path_factory):
    """A backbone of roberta-base's layers and widths, drawn at random, with a small vocabulary."""
    folder = tmp_path_factory.mktemp("shape") / "roberta-base"
    tokenizer = library_tokenizer(resolve("random-tiny"))
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=514, type_vocab_size=1)
    assert (config.num_hidden_layers, config.hidden_size) == (12, 768)
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return resolve(str(folder))


@pytest.fixture(scope="module")
def shelf(shape, tmp_path_factory):
    """A store with both, and their records by name."""
    store = Store(tmp_path_factory.mktemp("published") / "runs")
    sources = {name: source_of(str(ADAPTERS / folder)) for name, (folder, *_) in PUBLISHED.items()}
    return store, {name: import_adapter(store, one, name, shape).record for name, one in sources.items()}


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_weight_is_used_and_none_is_missing(shelf, name):
    store, records = shelf
    folder, theirs, kind, classes = PUBLISHED[name]
    spec = records[name].spec
    assert spec["adapter"] == {"method": "seq_bn", "reduction_factor": 16, "non_linearity": "relu"}
    assert spec["label"] == {"kind": kind, "classes": classes}
    assert (spec["origin"]["name"], spec["origin"]["library"]) == (theirs, "0.1.0")
    at = stored_adapter(store, records[name].key)
    for pickled, safe, count in (("adapter", "adapter", 48), ("model_head", "model_head", 4)):
        file = ADAPTERS / folder / f"pytorch_{pickled}.bin"
        published = own(torch.load(file, weights_only=True, map_location="cpu"), theirs, name)
        kept = load_file(at / f"{safe}.safetensors")
        assert published.keys() == kept.keys()
        assert len(kept) == count
        assert all(torch.equal(published[tensor], kept[tensor]) for tensor in kept)


def test_lanes_say_what_the_library_says_of_the_published_folders(shelf, shape):
    store, _ = shelf
    study = {"backbone": str(shape.folder), "input_format": "pair", "max_tokens": 64}
    scorer = Scorer(store, {"name": "theirs", "tasks": {}, "study": study}, tasks=list(PUBLISHED))
    frame = scorer.score(TEXTS)
    (_,), (reading,) = scorer.packs, scorer.readings.values()  # lanes of one pass
    ids = [
        list(windows[0].ids) for windows in reading.encode([Example(text, text, text, (), text, 0) for text in TEXTS])
    ]
    batch = library_tokenizer(shape).pad({"input_ids": ids}, return_tensors="pt")
    network = load_backbone(shape)
    for name, (folder, *_) in PUBLISHED.items():
        loaded = network.load_adapter(str(ADAPTERS / folder))
        network.set_active_adapters(loaded)
        with torch.inference_mode():
            logits = network(**batch, head=loaded).logits
        found = frame[frame.task == name]
        if name == "their_polarity":
            torch.testing.assert_close(torch.tensor(found.value.to_numpy()).float(), logits[:, 0], atol=1e-5, rtol=0)
        else:
            shares = logits.softmax(dim=1)
            assert found.prediction.tolist() == [f"LABEL_{i}" for i in shares.argmax(dim=1).tolist()]
            best = torch.tensor(found.probability.to_numpy()).float()
            torch.testing.assert_close(best, shares.max(dim=1).values, atol=1e-5, rtol=0)
