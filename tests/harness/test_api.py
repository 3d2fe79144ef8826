"""The Python face: fields by their names, and everything that the command line says of a finished study."""

import base64
import re
from xml.etree import ElementTree

import pandas as pd
import pytest

from analysis.figures.uncertainty_map import maps
from analysis.results.study_results import StudyResults
from analysis.sections.compare import COMPARED
from harness.api import Study
from harness.study.file import load_study, overrides_of
from tasks.errors import BadInput, BadStudy
from tests.support.studies.small_study import ONE, OVERRIDES, TWO


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A finished study of two tasks on 16 rows of each split."""
    study = Study("tiny", store=tmp_path_factory.mktemp("face") / "runs", overrides=OVERRIDES)
    assert not study.run(device="cpu").failed
    return study


def test_fields_are_given_by_their_own_names_a_tuple_as_a_list_and_a_table_in_part():
    config = Study("tiny", epochs=3, seeds=[1, 2], reduction_factor=8, task={ONE: {"learning_rate": 1e-3}}).config
    assert config == load_study(
        "tiny", ["training.epochs=3", "seeds=[1, 2]", "adapter.reduction_factor=8", f"task.{ONE}.learning_rate=1e-3"]
    )
    assert Study("tiny", seeds=(4, 5)).config.seeds == (4, 5)
    assert Study("tiny", training={"epochs": 7}).config == load_study("tiny", ["training.epochs=7"])


@pytest.mark.parametrize("value", [None, {1, 2}, float("nan"), [object()]])
def test_what_a_study_file_cannot_hold_is_refused_by_name(value):
    with pytest.raises(BadStudy, match=r"^epochs="):
        overrides_of({"epochs": value})


def test_an_unknown_field_is_refused_with_the_nearest():
    with pytest.raises(BadStudy, match=r"unknown field 'epoch'; did you mean 'training\.epochs'"):
        Study("tiny", epoch=3)


def test_status_counts_what_is_stored(study):
    status = study.status()
    assert (status.counts["done"], len(status.cells)) == (4, 4)
    assert repr(study) == f"Study('tiny', store={str(study.store.root)!r})"


def test_a_notebook_shows_cells_and_map(study, tmp_path):
    shown = study._repr_html_()
    assert "<b>tiny</b>: 4 cells (4 done)" in shown
    parts = re.fullmatch(r'.*alt="([^"]+)" src="data:image/svg\+xml;base64,([^"]+)"></div>', shown, re.DOTALL)
    picture = base64.b64decode(parts[2])
    assert ElementTree.fromstring(picture).tag.endswith("svg") and "2 intermediates by 2 targets" in parts[1]
    (figure,) = maps(StudyResults.of(*study.results()))
    assert picture == figure.write(tmp_path)[0].svg.read_bytes()


def test_a_notebook_says_what_to_do_before_a_run(tmp_path):
    shown = Study("tiny", store=tmp_path / "<i>none")._repr_html_()
    assert "start it with: empathy-transfer run tiny" in shown and "<i>" not in shown


def test_a_study_compared_with_itself_differs_nowhere(study):
    by_name, by_study = study.compare("tiny"), study.compare(study)
    assert list(by_name) == list(COMPARED)
    pd.testing.assert_frame_equal(by_name, by_study)
    assert len(by_name) == 2 and (by_name.difference == 0).all()


def test_suggestions_for_another_task_leave_the_study_as_it_is(study):
    advice = study.suggest("epitome_er")
    assert set(advice.intermediates.intermediate) == {ONE, TWO}
    assert "epitome_er" in advice.missing["task"]
    assert study.config.tasks == (ONE, TWO)
    with pytest.raises(BadInput, match="did you mean 'epitome_ex'"):
        study.suggest("epitome_e")


def test_texts_are_scored_by_what_was_loaded_once(study):
    first = study.score(["That sounds hard.", "Well done!"], tasks=[ONE])
    assert list(first.task) == [ONE, ONE]
    pd.testing.assert_frame_equal(first, study.score(["That sounds hard.", "Well done!"], tasks=[ONE]))
    assert len(study._scorers) == 1
    with pytest.raises(BadInput, match="1 contexts for 2 texts"):
        study.score(["That sounds hard.", "Well done!"], ["How are you?"], tasks=[ONE])


def test_a_report_without_private_tasks_is_written_into_an_empty_folder(study, tmp_path):
    page = study.report(tmp_path / "public", public=True)
    assert "No task is private: all are here." in page.read_text(encoding="utf-8")
    with pytest.raises(BadInput, match="is not an empty folder"):
        study.report(tmp_path / "public", public=True)
