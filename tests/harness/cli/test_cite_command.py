"""``cite``: everything that a study used has an entry or is named as having none; licences say what may be shared."""

import json
import re
from importlib import resources

import pytest

from analysis.manuscript import references
from analysis.manuscript.references import PRIVATE, RULES, UNKNOWN, bibliography, entries, licences, sharing, uses_of
from harness.study.methods import METHODS
from tasks.registry import Registry
from tests.support.studies.manuscript_study import TASKS, small_subject

OURS = entries(resources.files("analysis.manuscript").joinpath("references.bib").read_text(encoding="utf-8"))
FIELD = re.compile(r"^\s*([a-zA-Z]+)\s*=\s*\{", re.M)


def test_the_published_tables_cite_every_data_set_and_method_as_text_files_and_json(printed, tmp_path):
    out = printed("study", "cite", "published", "--out", "-")
    for key in ("zhou-jurgens-2020-condolence", "liu-etal-2019-roberta", "pfeiffer-etal-2020-mad", "drucker-etal"):
        assert f"{{{key}" in out
    found = entries(out.split("# Licences")[0])
    assert len(found) == len(re.findall(r"^@", out, re.M))
    datasets = {task.dataset.id: task.dataset for task in Registry.load().tasks.values()}
    for name in ("condolence", "conv", "empdial", "empdial_ei", "empqt", "epitome", "empathy_hope", "mi", "news"):
        assert set(entries(datasets[name].citation)) <= set(found), name
        assert datasets[name].title in out
    out = printed("study", "cite", "published", "--out", tmp_path)
    assert out.split() == [str(tmp_path / "references.bib"), str(tmp_path / "licences.md")]
    assert "CC-BY-NC-SA-3.0" in (tmp_path / "licences.md").read_text()
    out = printed("study", "cite", "published", "--json")
    told = json.loads(out)
    assert {"kind": "backbone", "name": "roberta-base", "keys": ["liu-etal-2019-roberta"]} in told["used"]
    assert told["licences"][0]["data_set"] == "Condolence and empathy"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_subject(tmp_path_factory.mktemp("cited"), TASKS[2:])


def test_what_has_no_entry_is_named_and_private_data_are_never_to_be_shared(small):
    text = bibliography(uses_of(small))
    assert "% no entry is known for: data set mine" in text
    assert "holm-1979-simple" in text
    assert "akiba" not in text
    assert text.count("@inproceedings{reimers-gurevych-2019-sentence,") == 0
    rows = {one.data_set: one for one in licences(small)}
    assert rows["mine"].may_be_shared == PRIVATE
    assert rows["News stories"].may_be_shared.startswith("unstated for the shared task: nothing is granted")


@pytest.mark.parametrize(
    ("licence", "said"),
    [
        ("CC-BY-4.0", "yes, naming its authors"),
        ("CC-BY-NC-SA-3.0", RULES["cc-by-nc-sa"]),
        ("unstated; withdrawn from publication", "no: withdrawn by its author"),
        ("CC-BY-NC-4.0; academic research only", "academic research only: for academic research only"),
        ("GPL-9", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_licence_says_what_may_be_shared_and_an_unknown_one_is_to_be_read(licence, said):
    assert sharing(licence).endswith(said)


def test_every_entry_is_complete_and_used_and_every_method_and_licence_has_its_own():
    rules = [references.GAINS, references.RATINGS, references.EXPLAINED, references.SIMILARITIES, references.METHODS]
    rules += [references.MERGES, references.SYSTEMS]
    named = {key for rule in [*rules, references.BACKBONES] for keys in rule.values() for key in keys}
    named |= {key for _, keys in (*references.LOSSES.values(), references.DEFERRED) for key in keys}
    named |= {references.LIBRARY, references.ADAMW, references.OPTUNA, *references.THE_PAPER}
    assert named == set(OURS)
    for key, entry in OURS.items():
        assert {"title", "author", "year"} <= set(FIELD.findall(entry)), key
        assert entry.count("{") == entry.count("}"), key
    assert set(references.METHODS) == set(METHODS)
    for task in Registry.load().tasks.values():
        assert task.dataset.private or sharing(task.dataset.licence) != UNKNOWN, task.id
