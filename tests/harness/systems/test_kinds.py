"""What every system that is no adapter keeps of its contract, and what the contract refuses."""

import dataclasses
import json
import subprocess
import sys
from functools import cache
from types import ModuleType
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch

from harness.study.systems import SHIPPED, Kind, Place, Sibling, kind_in, kind_of
from harness.systems.epochs import CHECKPOINT
from tasks import metrics
from tasks.errors import BadInput, BadStudy
from tasks.fields import Range
from tasks.task import METRICS, Instruction, Turn
from tests.support.systems.fake_server import MODEL, fake_server
from tests.support.systems.trained import CLASSES, WORDS, handed, label_of, rows_of

SETTINGS = {  # where the defaults are no tiny random model, or train it for long
    "micromodels": {"encoder": "random-tiny", "bags": 2},
    "encoder": {"epochs": 2, "tokens": 64},
    "clsn": {"epochs": 2, "learning_rate": 1e-3, "tokens": 32, "width": 32},
    "bi-encoder": {"epochs": 2, "tokens": 32},
    "seq2seq": {"weights": "random-tiny", "epochs": 2, "tokens": 256},
    "prompted": {"model": MODEL},
    "decoder": {"weights": "random-tiny", "epochs": 2, "tokens": 256, "lora_rank": 2, "batch_size": 16},
}


class Killed(Exception):
    """The end of a process, between two epochs."""


def asked(name, kind, folder, place, seed=7, watch=lambda step, steps: None, **settings):
    """What a system is asked to fit; a sibling has the same rows."""
    system = kind_of(name)
    if not system.is_installed:
        pytest.skip(f"{name} needs its extra {system.reads.extra!r}")
    parts = rows_of(kind, 60, 1), rows_of(kind, 20, 2)
    options = tuple(f"level {number}" for number in range(CLASSES[kind]))
    return handed(
        system,
        folder / "checkpoint",
        {**SETTINGS.get(name, {}), **settings},
        label=kind,
        rows=60,
        validation=20,
        place=place,
        seed=seed,
        watch=watch,
        siblings={other: Sibling(label_of(kind), *parts) for other in settings.get("siblings", ())},
        instruction=Instruction("What is {text}?", options) if system.reads.instructions else None,
    )


def fit_of(name, kind, folder, place, **settings):
    return kind_of(name).fit(asked(name, kind, folder, place, **settings))


EVERY = [(name, kind) for name in SHIPPED for kind in kind_of(name).reads.labels]


@pytest.fixture(scope="module", autouse=True)
def server():
    """What systems ask that ask a server."""
    with fake_server("class 0", "class 1") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMPATHY_SERVER", server.url)
        yield server


@pytest.fixture(scope="module")
def place(tiny, tmp_path_factory):
    return Place(backbone=tiny, answers=tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="module")
def fitted_of(place, tmp_path_factory):
    """A system that learned a kind of label, by default the first that it reads; each is trained once."""

    @cache
    def fitted_of(name, kind=""):
        return fit_of(name, kind or kind_of(name).reads.labels[0], tmp_path_factory.mktemp("fit"), place)

    return fitted_of


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_a_system_predicts_what_it_predicts_after_it_was_saved_and_read_again(name, kind, tmp_path, place, fitted_of):
    fitted, rows = fitted_of(name, kind), rows_of(kind, 30, 3)
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
def test_what_a_system_saves_is_safetensors_and_json_without_a_word_of_the_rows(name, kind, tmp_path, fitted_of):
    fitted_of(name, kind).save(tmp_path / "model")
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".safetensors", ".json"}
    assert files
    for path in files:
        content = path.read_bytes()
        assert not [word for word in (*WORDS, "filler", "secret") if word.encode() in content]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_system_does_not_look_at_the_labels_and_rationales_of_what_it_predicts(name, fitted_of):
    fitted, rows = fitted_of(name), rows_of(kind_of(name).reads.labels[0], 12, 3)
    blank = [row._replace(label=rows[0].label, rationale=(), group="", block="", id="") for row in rows]
    np.testing.assert_array_equal(fitted.predict(blank).logits, fitted.predict(rows).logits)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_row_is_predicted_alike_beside_longer_ones(name, fitted_of):
    fitted, (short,) = fitted_of(name), rows_of(kind_of(name).reads.labels[0], 1, 3)
    long = short._replace(text="warm " * 9, context=(Turn("speaker", "calm " * 9), Turn("listener", "grey " * 9)))
    alone, beside = fitted.predict([short]).logits[0], fitted.predict([long, short]).logits[1]
    np.testing.assert_allclose(alone, beside, atol=1e-4)


@pytest.mark.parametrize("name", SHIPPED)
def test_equal_seeds_give_equal_predictions(name, tmp_path, place, fitted_of):
    kind = kind_of(name).reads.labels[0]
    rows, again = rows_of(kind, 9, 3), fit_of(name, kind, tmp_path, place)
    np.testing.assert_array_equal(again.predict(rows).logits, fitted_of(name).predict(rows).logits)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_system_s_settings_are_json(name):
    system = kind_of(name)
    settings = dataclasses.asdict(system.config())
    assert json.loads(json.dumps(settings)).keys() == settings.keys()
    assert system.configured(json.loads(json.dumps(settings)), "test") == system.config()


def test_asking_systems_for_settings_steps_and_costs_loads_no_torch():
    code = "import sys; from harness.study.systems import SHIPPED, kind_of; from harness.systems import system_of;"
    code += "[system_of({'trainer': name}) for name in ('lanes', 'library')];"
    code += "[(kind_of(name), system_of({'system': name})) for name in SHIPPED];"
    code += "asked = kind_of('prompted'); asked.identity(asked.configured({'weights': 'random-tiny'}, ''));"
    code += "assert not {'torch', 'transformers', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# What trains in epochs goes on after a kill.


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bi-encoder", {}),
        ("clsn", {"siblings": ["other"], "sibling_labels": "shuffled"}),
        ("clsn", {"patience": 3}),
        ("encoder", {"patience": 2}),
        ("seq2seq", {"patience": 2}),
        ("decoder", {"patience": 2}),
    ],
    ids=str,
)
def test_a_training_that_is_killed_after_an_epoch_ends_with_the_same_weights(name, settings, tmp_path, place):
    steps = []

    def dies(step, of):
        steps.append(step)
        if len(steps) == 2:
            raise Killed

    fit = asked(name, "multiclass", tmp_path / "killed", place, watch=dies, **{"epochs": 4, **settings})
    with pytest.raises(Killed):
        kind_of(name).fit(fit)
    assert (fit.checkpoint / CHECKPOINT).exists()
    again = kind_of(name).fit(fit)
    whole = kind_of(name).fit(dataclasses.replace(fit, checkpoint=tmp_path / "whole", watch=lambda step, of: None))
    assert steps == list(range(1, len(whole.history) + 1))
    assert (again.history, again.best_epoch) == (whole.history, whole.best_epoch)
    for part, value in whole.weights.items():
        assert torch.equal(value, again.weights[part]), part


# What is refused, each in one line.


@pytest.mark.parametrize("name", ["bi-encoder", "clsn", "encoder"])
def test_what_was_trained_on_a_backbone_is_read_again_with_that_backbone_alone(name, tmp_path, place, fitted_of):
    fitted_of(name, "multiclass").save(tmp_path / "model")
    other = dataclasses.replace(place.backbone, weights_sha256="0" * 64)
    with pytest.raises(BadInput, match=r"trained from other weights \(weights .* is not 000000000000\)"):
        kind_of(name).load(tmp_path / "model", Place(backbone=other))
    with pytest.raises(BadInput, match="none is given"):
        kind_of(name).load(tmp_path / "model", Place())


LOW_RANK = {"encoder": {"lora_rank": 8}, "seq2seq": {"lora_rank": 8, "weights": "random-tiny"}}


@pytest.mark.parametrize(("name", "settings"), [*LOW_RANK.items(), ("decoder", {"weights": "random-tiny"})])
def test_without_their_packages_products_of_low_rank_are_refused_with_the_command(name, settings, monkeypatch):
    monkeypatch.setattr("harness.systems.weights.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'empathy-transfer\[lora\]'"):
        kind_of(name).identity(kind_of(name).configured(settings, "test"))


REFUSED = [
    ("bi-encoder", {"joins": "both"}, "joins 'both' is not one of attention, concatenated, response"),
    ("clsn", {"siblings": ["a", "b"]}, r"siblings \['a', 'b'\] are 2 tasks; name one, or none"),
    ("clsn", {"sibling_labels": "shuffled"}, "sibling_labels 'shuffled' has no sibling to shuffle; name it in"),
    ("decoder", {"new_tokens": True}, "unknown field 'new_tokens'"),
    ("encoder", {"loss": "focall"}, "loss.kind 'focall' is not one of .*; did you mean 'focal'"),
    ("encoder", {"gamma": 9.0, "loss": "focal"}, "gamma 9.0 is not a number from 0 to 5"),
    ("encoder", {"loss": "ldam", "deferred_from": 31}, "deferred_from 31 is no epoch of 30"),
    ("encoder", {"window": [3]}, "window"),
    ("micromodels", {"thresholds": []}, "thresholds names no cosine"),
    ("micromodels", {"thresholds": [70.0]}, r"thresholds\[0\] 70.0 is not a number from -1 to 1"),
    ("prompted", {"templates": ["Label {options}"]}, "asks without the text"),
    ("prompted", {"url": "example.org"}, "is no address of a server"),
    ("prompted", {"most_cost": 3}, "most_cost needs price_in and price_out"),
    ("prompted", {"api_key": "x"}, "unknown field 'api_key'"),
    ("prompted", {"weights": "random-tiny", "model": "gpt-5"}, "model 'gpt-5' is of a server, and weights"),
    ("prompted", {"weights": "random-tiny", "repeats": 3}, "repeats 3 is of a server"),
    ("prompted", {"weights": "random-tiny", "url": "http://a/v1"}, "url 'http://a/v1' is of a server"),
    ("prompted", {"chat": False}, "chat False is of weights that answer here, and none are named"),
    ("prompted", {"ranking": "prior"}, "ranking 'prior' is of weights that answer here, and none are named"),
    ("seq2seq", {"lora_rank": 2, "epochs": 0}, "lora_rank 2 is to be trained in 0 epochs"),
]


DECLARED = {  # how many fields say a range or words, so that none is lost
    **{"bi-encoder": 9, "clsn": 14, "decoder": 7, "encoder": 8, "majority": 0, "micromodels": 2, "prompted": 12},
    **{"seq2seq": 7, "tfidf": 5},
}


@pytest.mark.parametrize("name", SHIPPED)
def test_values_outside_the_range_or_the_words_of_a_field_are_refused_by_its_name(name):
    kind, count = kind_of(name), 0
    for field, hint in get_type_hints(kind.config, include_extras=True).items():
        bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        odd = [f"no {words[0]}"] if get_origin(bare) is Literal and (words := get_args(bare)) else []
        for limit in (note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Range)):
            odd += [limit.least - 1, limit.most + 1]
        for value in odd:
            with pytest.raises(BadStudy, match=f"study.toml: {field} .* is not (one of|a number|a whole number)"):
                kind.configured({field: value}, "study.toml")
        count += bool(odd)
    assert count == DECLARED[name]


@pytest.mark.parametrize(("name", "settings", "refusal"), REFUSED, ids=str)
def test_settings_out_of_range_are_refused_by_name(name, settings, refusal):
    with pytest.raises(BadStudy, match=f"study.toml: .*{refusal}"):
        kind_of(name).configured(settings, "study.toml")


# The majority, and the contract's own checks.


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


def own_kind(**changes):
    module = ModuleType("own")
    module.__file__ = "own.py"
    parts = {"__module__": "own", "config": Config, "fit": print, "load": print} | changes
    module.OwnKind = type("OwnKind", (Kind,), {name: value for name, value in parts.items() if value != "absent"})
    return kind_in(module, "own")


def test_a_file_that_lacks_a_part_of_the_contract_is_refused_by_it():
    with pytest.raises(BadStudy, match=r"system 'own': own.py has no load, which every system declares"):
        own_kind(load="absent")
    with pytest.raises(BadStudy, match=r"a type of config of own.py is not there: name 'Absent' is not defined"):
        own_kind(config=dataclasses.make_dataclass("Config", [("rate", "Absent", 0)], frozen=True))
    with pytest.raises(BadStudy, match=r"system 'own': config of own.py is no frozen dataclass"):
        own_kind(config=dict)
    with pytest.raises(BadStudy, match="no system 'majorty' is known here; did you mean 'majority'"):
        kind_of("majorty")
