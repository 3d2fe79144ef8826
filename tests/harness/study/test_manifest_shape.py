"""Manifests that are none, in a store or an archive: one line that names the field, before anything is computed."""

import copy
import json
from functools import reduce

import pytest

from adapters_store import CorruptRecord, Store
from adapters_store.archive import archive
from harness.cli.main import main
from harness.study.manifest import check_manifest
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.forged import forged

ODD = [  # the place of a field, what stands there, and how the field is named
    ("tasks.aaa", [], "tasks.aaa"),
    ("tasks.aaa.classes", {"a": 1}, "tasks.aaa.classes"),
    ("tasks.aaa.metric", "none", "tasks.aaa.metric"),
    ("tasks.aaa.licence", ["MIT"], "tasks.aaa.licence"),
    ("study", "text", "study"),
    ("study.analysis", {"draws": 1}, "study.analysis.draws"),
    ("study.adapter", "seq_bn", "study.adapter"),
    ("synthetic", "no", "synthetic"),
    ("cells", {"a": 1}, "cells"),
    ("cells.0.target", "another", "cells[0].target"),
    ("cells.0.intermediate", 1, "cells[0].intermediate"),
    ("cells.0.seed", 1e300, "cells[0].seed"),
]
IDS = [f"{place} is {json.dumps(value)}" for place, value, _ in ODD]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return fake_study(tmp_path_factory.mktemp("store"), [FakeTask("aaa"), FakeTask("bbbb")])


@pytest.fixture(scope="module")
def packed(study, tmp_path_factory):
    """An archive with a report of nothing."""
    file = tmp_path_factory.mktemp("packed") / "fake.tar.gz"
    archive(study[0], "fake", [], file, is_light=True, extras={"report/report.csv": b"a\n1\n"})
    return file


def changed(manifest, place, value):
    made = copy.deepcopy(manifest)
    *above, last = (int(part) if part.isdecimal() else part for part in place.split("."))
    reduce(lambda table, name: table[name], above, made)[last] = value
    return made


def test_a_manifest_of_a_run_has_the_shape(study):
    check_manifest(study[1], "here")


@pytest.mark.parametrize(("place", "value", "field"), ODD, ids=IDS)
def test_an_odd_field_of_a_manifest_is_named(study, place, value, field):
    with pytest.raises(CorruptRecord, match=r"^here: the manifest's ") as caught:
        check_manifest(changed(study[1], place, value), "here")
    assert f"manifest's {field} " in str(caught.value)


@pytest.mark.parametrize("field", ["name", "tasks", "study", "cells", "missing", "synthetic"])
def test_a_field_that_a_manifest_lacks_is_named(study, field):
    with pytest.raises(CorruptRecord, match=f"here: the manifest's {field} is missing"):
        check_manifest({name: value for name, value in study[1].items() if name != field}, "here")


@pytest.mark.parametrize(("place", "value"), [odd[:2] for odd in ODD[::5]], ids=IDS[::5])
def test_an_archive_with_an_odd_manifest_is_no_traceback(study, packed, tmp_path, capsys, place, value):
    manifest = json.dumps(changed(study[1], place, value)).encode()
    file = forged(packed, tmp_path / "odd.tar.gz", {"studies/fake.json": manifest})
    assert main(["store", "verify", str(file), "--quiet"]) in (1, 2)
    said = capsys.readouterr()
    assert len((said.out + said.err).splitlines()) <= 2
    assert main(["store", "restore", str(file), "--store", str(tmp_path / "runs")]) in (0, 2)


@pytest.mark.parametrize(
    "command", ["report", "figures", "study analyze", "study cite", "study power", "study paper", "store archive"]
)
def test_a_stored_study_with_an_odd_manifest_is_one_line(study, tmp_path, capsys, command):
    store = Store(tmp_path / "runs")
    store.write_manifest("fake", changed(study[1], "tasks.aaa.classes", None))
    assert main([*command.split(), "fake", "--store", str(store.root), "--out", str(tmp_path / "out.tar.gz")]) == 2
    assert capsys.readouterr().err.startswith(
        "empathy-transfer: study fake: the manifest's tasks.aaa.classes None is not a list of texts;"
    )
