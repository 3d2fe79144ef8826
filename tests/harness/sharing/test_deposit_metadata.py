"""What an archive says of itself: in the fields that Zenodo documents, and only what its makers have said."""

import json
import re

import pytest

from analysis.manuscript.references import licences_page
from analysis.sharing import study_file
from harness.sharing import outgoing as deposits
from harness.sharing.outgoing import BadMetadata, Deposit, creator, extra_files, lock, otherwise, zenodo_metadata
from harness.study.file import load_study
from tests.support.studies.fake_study import FakeTask, fake_study

WHO = "Bernard, Ada; Some University; 0000-0002-1825-0097"  # the number of ORCID's own example
GIVEN = Deposit([WHO], "CC-BY-4.0")


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    made = fake_study(tmp_path_factory.mktemp("made"), (FakeTask("hope"), FakeTask("distress", "continuous")))[1]
    made["tasks"]["hope"] |= {"licence": "CC-BY-NC-4.0"}
    made["tasks"]["distress"] |= {"licence": "on request; not to be passed on"}
    return made


def test_the_metadata_have_the_fields_that_zenodo_documents(manifest):
    """Of https://developers.zenodo.org: all that are mandatory for a data set, and keywords."""
    told = json.loads(extra_files(manifest, 4, GIVEN)[".zenodo.json"])
    assert all(isinstance(word, str) for word in told.pop("keywords"))
    assert "4 trainings" in told.pop("description")
    assert told == {
        "upload_type": "dataset",
        "title": "A made-up study",
        "creators": [{"name": "Bernard, Ada", "affiliation": "Some University", "orcid": "0000-0002-1825-0097"}],
        "access_right": "open",
        "license": "cc-by-4.0",
    }


def test_what_is_said_goes_before_what_the_study_says_and_is_no_markup():
    told = zenodo_metadata(Deposit([WHO], "cc0-1.0", "One <title>", "a < b"), "study", "what it is")
    assert told["title"] == "One <title>" and told["description"] == "<p>a &lt; b</p>"


@pytest.mark.parametrize(
    ("typed", "fields"),
    [
        ("Bernard, Ada", {"name": "Bernard, Ada"}),
        ("Doe, Adaeze", {"name": "Doe, Adaeze"}),
        ("Bernard ,  Ada;Some University", {"name": "Bernard, Ada", "affiliation": "Some University"}),
        (WHO, {"name": "Bernard, Ada", "affiliation": "Some University", "orcid": "0000-0002-1825-0097"}),
        (
            "Bernard, Ada; https://orcid.org/0000-0002-1694-233X",
            {"name": "Bernard, Ada", "orcid": "0000-0002-1694-233X"},
        ),
    ],
)
def test_a_creator_is_read_as_typed(typed, fields):
    assert creator(typed) == fields


@pytest.mark.parametrize(
    "typed", ["", "Ada Bernard", "Bernard,", ", Ada", "Bernard, Ada; a; b", "A, B; 0000-0002-1825-0097; a; b"]
)
def test_what_is_no_name_is_refused_in_one_line(typed):
    with pytest.raises(BadMetadata, match="--creator") as refused:
        creator(typed)
    assert "\n" not in str(refused.value)


def test_the_page_of_licences_has_every_data_set_with_what_may_be_shared(manifest):
    page = licences_page(manifest)
    assert "| hope | hope | CC-BY-NC-4.0 | yes, naming its authors, not commercially |" in page
    assert "| distress | distress | on request; not to be passed on | on request: no: ask its authors" in page
    assert "made up" not in page and "made up" in licences_page({**manifest, "synthetic": True})
    assert "of others" not in page
    brought = {**manifest, "study": {**manifest["study"], "imported": {"their_er": "f" * 64}}}
    assert "Cells stand on adapters of others: their_er. Their weights are not in" in licences_page(brought)
    assert "Their weights are in this archive" in licences_page(brought, has_weights=True)
    assert "| hope | hope | unstated | nothing is granted" in licences_page(
        {**manifest, "tasks": {"hope": {"dataset": "hope"}}}
    )


@pytest.mark.parametrize("name", ["tiny", "demo", "real-small", "real-12", "muddy-waters"])
def test_the_study_file_in_an_archive_is_the_study(name, tmp_path):
    study = load_study(name)
    (tmp_path / "study.toml").write_text(study_file(study.as_json()), encoding="utf-8")
    assert load_study(str(tmp_path / "study.toml")) == study


def test_ratings_of_ones_own_go_along_for_the_tasks_of_the_study_alone(manifest, tmp_path):
    rows = 'task,construct,rater,value\nhope,link,"Z, the third",4\nother,link,Z,3\n'
    (tmp_path / "ratings.csv").write_text(rows, encoding="utf-8")
    mine = {**manifest, "study": {**manifest["study"], "registry": [str(tmp_path)]}}
    assert extra_files(mine, 4)["registry/ratings.csv"].decode().splitlines() == [
        "task,construct,rater,value",
        'hope,link,"Z, the third",4.0',
    ]
    assert "registry/ratings.csv" not in extra_files(manifest, 4, GIVEN)


def test_the_lock_names_what_is_installed_and_what_differs_is_named(monkeypatch):
    text = lock()
    assert re.search(r"^# python 3\.\d+", text) and re.search(r"^numpy==\d", text, re.MULTILINE)
    assert otherwise(text) == []
    there = re.sub(r"^numpy==.*$", "numpy==0.1", text, flags=re.MULTILINE) + "gone==1\n"
    assert otherwise(there) == ["numpy==0.1", "gone==1"]
    monkeypatch.setattr(deposits, "lock", lambda: "a==1\n")
    assert otherwise("a==1\nb==2\n# c==3\n") == ["b==2"]
