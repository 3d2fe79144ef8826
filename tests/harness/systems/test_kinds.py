"""What every system that is no adapter keeps of its contract, and what the contract refuses."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from harness.study.systems import Fit, Kind, Place, Predicted, kind_names, kind_of
from tasks import metrics
from tasks.errors import BadStudy
from tasks.task import METRICS, Example, Instruction, Label, Turn
from tests.support.systems.fake_server import MODEL, fake_server

WORDS = ("calm", "warm", "cold", "harsh", "grey", "loud")
SETTINGS = {  # where the defaults are no tiny random model, or train it for long
    "micromodels": {"encoder": "random-tiny", "bags": 2},
    "encoder": {"epochs": 2, "tokens": 64},
    "clsn": {"epochs": 2, "learning_rate": 1e-3},
    "seq2seq": {"weights": "random-tiny", "epochs": 2, "tokens": 256},
    "prompted": {"model": MODEL},
    "decoder": {"weights": "random-tiny", "epochs": 2, "tokens": 256, "lora_rank": 2, "batch_size": 16},
}
CLASSES = {"binary": 2, "multiclass": 3, "multilabel": 3, "ordinal": 3, "continuous": 0}


def label_of(kind):
    classes = tuple(f"class {number}" for number in range(CLASSES[kind]))
    return Label("label", kind, classes, separator="," if kind == "multilabel" else "")


def rows_of(kind, count, seed):
    """Rows whose text tells their label: a word per class, or a number that grows with the word."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(count):
        place = int(rng.integers(max(CLASSES[kind], 2)))
        answer = place
        if kind == "continuous":
            answer = place + float(rng.normal(0, 0.1))
        elif kind == "multilabel":
            answer = tuple(int(other in (place, 0)) for other in range(3))
        text = f"filler{number} {WORDS[place]} words{int(rng.integers(5))}"
        context = (Turn("speaker", f"secret{number} question"),)
        rationale = (WORDS[place],) if place else ()
        rows.append(Example(f"r{number}", f"g{number}", f"g{number}", context, text, answer, rationale))
    return tuple(rows)


def fit_of(name, kind, tmp_path, place, seed=7, **settings):
    system = kind_of(name)
    train, validation = rows_of(kind, 60, 1), rows_of(kind, 20, 2)
    if not system.is_installed:
        pytest.skip(f"{name} needs its extra {system.reads.extra!r}")
    config = system.configured({**SETTINGS.get(name, {}), **settings}, "test")
    fit = Fit(train, validation, label_of(kind), METRICS[kind], seed, config, tmp_path / "checkpoint", place)
    if system.reads.instructions:
        options = tuple(f"level {number}" for number in range(CLASSES[kind]))
        fit = dataclasses.replace(fit, instruction=Instruction("What is {text}?", options))
    return system.fit(fit)


EVERY = [(name, kind) for name in kind_names() for kind in kind_of(name).reads.labels]


@pytest.fixture(autouse=True)
def server(monkeypatch):
    """What systems ask that ask a server."""
    with fake_server("class 0", "class 1") as server:
        monkeypatch.setenv("EMPATHY_SERVER", server.url)
        yield server


@pytest.fixture
def place(tiny, tmp_path):
    return Place(backbone=tiny, answers=tmp_path / "answers")


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_a_system_predicts_what_it_predicts_after_it_was_saved_and_read_again(name, kind, tmp_path, place):
    fitted, rows = fit_of(name, kind, tmp_path, place), rows_of(kind, 30, 3)
    predicted = fitted.predict(rows)
    assert predicted.logits.dtype == np.float32
    assert predicted.logits.shape == (30, label_of(kind).n_outputs)
    assert np.isfinite(predicted.logits).all()
    for span in predicted.spans or ():
        assert 0 <= span.start < span.end <= len(rows[span.row].text)
    fitted.save(tmp_path / "model")
    again = kind_of(name).load(tmp_path / "model", place).predict(rows)
    np.testing.assert_array_equal(again.logits, predicted.logits)
    assert list(again.spans or ()) == list(predicted.spans or ())


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_what_a_system_saves_is_safetensors_and_json_without_a_word_of_the_rows(name, kind, tmp_path, place):
    fit_of(name, kind, tmp_path, place).save(tmp_path / "model")
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".safetensors", ".json"}
    assert files
    for path in files:
        content = path.read_bytes()
        assert not [word for word in (*WORDS, "filler", "secret") if word.encode() in content]


@pytest.mark.parametrize("name", kind_names())
def test_a_system_does_not_look_at_the_labels_and_rationales_of_what_it_predicts(name, tmp_path, place):
    kind = kind_of(name).reads.labels[0]
    fitted, rows = fit_of(name, kind, tmp_path, place), rows_of(kind, 12, 3)
    blank = [row._replace(label=rows[0].label, rationale=(), group="", block="", id="") for row in rows]
    np.testing.assert_array_equal(fitted.predict(blank).logits, fitted.predict(rows).logits)


@pytest.mark.parametrize("name", kind_names())
def test_equal_seeds_give_equal_predictions(name, tmp_path, place):
    kind = kind_of(name).reads.labels[0]
    first, second = (fit_of(name, kind, tmp_path / part, place) for part in "ab")
    np.testing.assert_array_equal(*(fitted.predict(rows_of(kind, 9, 3)).logits for fitted in (first, second)))


@pytest.mark.parametrize("name", kind_names())
def test_a_system_s_settings_are_json_and_its_file_loads_no_torch(name):
    system = kind_of(name)
    settings = dataclasses.asdict(system.config())
    assert json.loads(json.dumps(settings)).keys() == settings.keys()
    assert system.configured(json.loads(json.dumps(settings)), "test") == system.config()
    code = "import sys; from harness.study.systems import kind_of;"
    code += f"kind_of({name!r}); assert not {{'torch', 'transformers', 'sklearn'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_majority_scores_the_floor_and_its_logits_are_frequencies(kind, tmp_path):
    predicted = fit_of("majority", kind, tmp_path, Place()).predict(rows_of(kind, 40, 3))
    train, test = (np.array([row.label for row in rows_of(kind, count, seed)]) for count, seed in ((60, 1), (40, 3)))
    metric = METRICS[kind]
    if kind == "continuous":
        np.testing.assert_allclose(predicted.logits, train.mean(), rtol=1e-6)
        return
    answer = metrics.commonest(metric, train)
    assert metrics.score(metric, test, predicted.logits) == metrics.floor(metric, test, answer)
    if kind == "multilabel":
        share = (train.sum(axis=0) + 0.5) / 61
        np.testing.assert_allclose(1 / (1 + np.exp(-predicted.logits[0])), share, rtol=1e-5)
    else:
        shares = [(np.sum(train == number) + 0.5) / (60 + CLASSES[kind] / 2) for number in range(CLASSES[kind])]
        np.testing.assert_allclose(np.exp(predicted.logits[0]), shares, rtol=1e-5)


@dataclasses.dataclass(frozen=True)
class Config:
    rate: float = 0.1
    layers: int = 2
    reads: str = "both"
    siblings: tuple[str, ...] = ("",)
    is_frozen: bool = True

    def __post_init__(self):
        if self.reads not in ("both", "text"):
            raise ValueError(f"reads {self.reads!r} is not one of both, text")


def own_kind(**changes):
    module = ModuleType("own")
    parts = {"VERSION": 1, "READS": kind_of("majority").reads, "Config": Config, "fit": None, "load": None}
    for name, value in (parts | changes).items():
        if value != "absent":
            setattr(module, name, value)
    module.__file__ = "own.py"
    return Kind.of("own", module)


def test_settings_take_the_kinds_of_their_defaults():
    config = own_kind().configured({"rate": 1, "siblings": ["a", "b"]}, "study.toml")
    assert config == Config(rate=1.0, siblings=("a", "b"))
    assert type(config.rate) is float


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"rat": 1.0}, "study.toml: system 'own' has no setting 'rat'; did you mean 'rate'?"),
        ({"layers": 2.5}, "study.toml: layers 2.5 is not of the kind of its default, 2"),
        ({"layers": True}, "study.toml: layers True is not of the kind of its default, 2"),
        ({"is_frozen": 1}, "study.toml: is_frozen 1 is not of the kind of its default, True"),
        ({"siblings": [1]}, r"study.toml: siblings \[1\] is not of the kind of its default, \('',\)"),
        ({"reads": "context"}, "study.toml: reads 'context' is not one of both, text"),
    ],
)
def test_settings_that_a_system_has_not_are_refused_by_name(values, refusal):
    with pytest.raises(BadStudy, match=refusal):
        own_kind().configured(values, "study.toml")


def test_a_file_that_lacks_a_part_of_the_contract_is_refused_by_it():
    with pytest.raises(BadStudy, match=r"system 'own': own.py has no load, which every system declares"):
        own_kind(load="absent")
    with pytest.raises(BadStudy, match=r"system 'own': Config of own.py is no frozen dataclass"):
        own_kind(Config=dict)
    with pytest.raises(BadStudy, match="no system 'majorty' is known here; did you mean 'majority'"):
        kind_of("majorty")


def test_a_fit_has_no_place_for_a_test_row():
    assert "test" not in {field.name for field in dataclasses.fields(Fit)}
    assert Predicted(np.zeros((1, 2), np.float32)).spans is None
