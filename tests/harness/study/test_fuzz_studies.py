"""Study files of any content: only our own errors come out, one line each."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters_store.key import plain_data
from harness.cli.main import main
from harness.study.backbone import BadBackbone, resolve
from harness.study.config import Analysis, StudyConfig, Training
from harness.study.file import load_study
from harness.study.methods import Adapter
from tasks.errors import BadEntry, BadInput, BadStudy
from tasks.registry import Registry
from tests.support.studies.toml_values import TEXT, VALUES, toml, toml_value

GOOD = {"tasks": ["epitome_er", "epitome_ex"], "backbone": "random-tiny", "data": "synthetic"}
TABLES = {"adapter": Adapter, "training": Training, "task.epitome_er": Training, "analysis": Analysis}
FIELDS = [one.name for one in dataclasses.fields(StudyConfig)] + ["extends"]
FIELDS += [f"{table}.{one.name}" for table, record in TABLES.items() for one in dataclasses.fields(record)]
ANY_FILE = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def tried(path):
    """Read the study as a run does; it is refused by an error of ours in a line, or a manifest can hold all of it."""
    try:
        study = load_study(str(path))
    except BadInput as problem:
        assert len(str(problem).splitlines()) == 1
    else:
        assert plain_data(study.as_json()).keys() == study.as_json().keys()


@ANY_FILE
@given(fields=st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=3))
def test_any_values_in_any_fields_are_used_or_refused_in_one_line(tmp_path, fields):
    path = tmp_path / "any.toml"
    path.write_text(toml(GOOD | fields), encoding="utf-8")
    tried(path)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(override=st.builds("{}={}".format, st.sampled_from(FIELDS) | TEXT, VALUES.map(toml_value) | TEXT))
def test_any_override_is_used_or_refused_in_one_line(capsys, override):
    code, said = main(["study", "show", "tiny", f"--set={override}"]), capsys.readouterr()
    assert (code, said.err.count("\n")) in ((0, 0), (2, 1))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60) | st.text(st.sampled_from('tasks=["a"]\n[]{},.=\'#\\ \t\x00'), max_size=60))
def test_any_text_is_refused(tmp_path, text):
    (tmp_path / "any.toml").write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(BadStudy):
        load_study(str(tmp_path / "any.toml"))


@pytest.mark.parametrize("name", ["~nobody-of-this-name", "a" * 300, "\0"])
def test_a_backbone_that_can_be_no_folder_is_refused(name):
    with pytest.raises(BadBackbone):
        resolve(name)


@pytest.mark.parametrize("folder", ["a" * 300, "\0"])
def test_a_registry_that_can_be_no_folder_is_refused(folder):
    with pytest.raises(BadEntry, match="not a folder"):
        Registry.load([Path(folder)])


@pytest.mark.parametrize(
    "text", ["extends = 3", f"extends = '{'x' * 300}.toml'", "x = " + "9" * 5000, "x = " + "[" * 100_000, "x = 1e400\n"]
)
def test_toml_that_only_a_machine_writes_is_refused(tmp_path, text):
    (tmp_path / "any.toml").write_text(text, encoding="utf-8")
    with pytest.raises(BadStudy):
        load_study(str(tmp_path / "any.toml"))
