"""Results that are kept: given back exactly, for equal inputs only, and never to the one who checks."""

import ast
import hashlib
import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters_store import Store, key_of
from adapters_store.archive import archive
from adapters_store.listing import YOUNG, garbage
from adapters_store.measures import KEPT
from adapters_store.record import MARKER, seal, unseal
from adapters_store.restore import BadArchive, restore
from adapters_store.store import MEASURE
from analysis import kept as kept_module
from analysis.figures.drawing import figure_of, write_figure_files
from analysis.gains.cells import Snapshot
from analysis.gains.gains import gains, growths, with_growth
from analysis.importance.question import of_study
from analysis.kept import OURS, Kept, Unkept, packed_frame, unpacked_frame, version_of
from analysis.report import report
from analysis.results import study_results
from analysis.results.study_results import StudyResults
from analysis.sections import importance
from analysis.sections import importance as mixed_section
from analysis.sections.answers import silent
from analysis.sharing import recompute
from tests.support.studies.fake_study import FakeTask, fake_study, without_pictures

ROOT = Path(__file__).resolve().parents[2]
TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))
DRAWS = 100


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """A study with controls, a missing baseline and a setting beside the full one."""
    options = {"controls": ("self", "random"), "settings": ("full", "half"), "absent": [(None, "role")]}
    store, manifest = fake_study(tmp_path_factory.mktemp("origin"), TASKS, **options)
    return store, manifest


@pytest.fixture
def study(origin, tmp_path):
    store, manifest = origin
    shutil.copytree(store.root, tmp_path / "store")
    return Store(tmp_path / "store"), manifest


@pytest.fixture(scope="module")
def first_report(tmp_path_factory):
    """A small study that has been reported: its store, its manifest and the files of the report."""
    folder = tmp_path_factory.mktemp("first_report")
    store, manifest = fake_study(folder / "store", TASKS[:2])
    report(store, manifest, folder / "out", draws=DRAWS)
    return store, manifest, files_of(folder / "out")


@pytest.fixture
def reported(first_report, tmp_path):
    """The same with a store of one's own."""
    store, manifest, files = first_report
    shutil.copytree(store.root, tmp_path / "reported")
    return Store(tmp_path / "reported"), manifest, files


@pytest.fixture
def small(tmp_path):
    return fake_study(tmp_path / "small", TASKS[:2])


def frames_of(store, manifest, **options):
    return StudyResults.of(store, manifest, **{"draws": DRAWS} | options)


def gains_of(store, manifest, **options):
    return frames_of(store, manifest, **options).gains


def computed_gains(store, manifest):
    """What frames have of gains where nothing was kept, and no words were run."""
    return with_growth(gains(store, manifest, draws=DRAWS), growths(store, manifest))


def kept_files(store, what=""):
    """All files of kept results, or those of one frame: ``gains`` keeps ``learned`` and ``growth``, too."""
    paths = [path for path in sorted(store.root.glob(f"measures/*/{MEASURE}")) if KEPT in path.read_text()]
    return [path for path in paths if what in ("", unseal(path.read_bytes(), path)["inputs"]["what"])]


def counted(monkeypatch, module=study_results, name="gains"):
    """How often a function of a module is called from now on."""
    calls, real = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given, **options: calls.append(1) or real(*given, **options))
    return calls


def assert_same(first, other):
    """Equal to the last bit, with the same types, and None where None was."""
    pd.testing.assert_frame_equal(first, other, check_exact=True)
    for name in first:
        for one, two in zip(first[name].tolist(), other[name].tolist(), strict=True):
            assert type(one) is type(two), name
            assert one is two or one == two or (one != one and two != two), name


# Frames, exactly.

CELLS = {
    "float64": st.floats(),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "Int64": st.none() | st.integers(-(2**62), 2**62),
    "boolean": st.none() | st.booleans(),
    "str": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    "object": st.sampled_from([None, float("nan"), pd.NA, "", "None", "nan", 'a\n"é', 0, 1, 2**70, True, -0.0, 0.5]),
}


@st.composite
def frames(draw):
    rows = draw(st.integers(0, 5))
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=5))
    columns = {
        f"{kind} {place}": pd.Series(draw(st.lists(CELLS[kind], min_size=rows, max_size=rows)), dtype=kind)
        for place, kind in enumerate(kinds)
    }
    return pd.DataFrame(columns, index=pd.RangeIndex(rows))


@settings(max_examples=150, deadline=None)
@given(frame=frames())
def test_a_frame_comes_back_as_it_was_or_is_refused(frame):
    try:
        packed = packed_frame(frame)
    except Unkept:
        assert "object" in map(str, frame.dtypes)
    else:
        assert_same(frame, unpacked_frame(json.loads(json.dumps(packed))))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1, 2]}, index=[1, 2]),
        pd.DataFrame({"a": [1, 2]}).set_axis([3], axis=1),
        pd.DataFrame({"a": [object()]}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
    ],
)
def test_a_frame_that_would_not_come_back_is_refused(frame):
    with pytest.raises(Unkept):
        packed_frame(frame)


@pytest.mark.parametrize("part", [np.int64(1), float("nan"), (1, 2), {1: "a"}, object(), [{"a": {2}}]])
def test_a_part_that_json_would_not_give_back_is_computed_each_time(study, part):
    kept = Kept.of(*study)
    assert kept.parts("what", {}, lambda: {"part": part})["part"] is part
    assert kept_files(study[0]) == []


@pytest.mark.parametrize("what", ["gains", "learned", "baselines", "controls", "others"])
def test_every_frame_of_a_study_is_kept_and_read_as_it_was(study, what):
    first = getattr(frames_of(*study), what)
    kept = kept_files(study[0], "") if what == "others" else kept_files(study[0], what)
    assert len(kept) == 1
    assert len(first) > 2
    assert_same(first, getattr(frames_of(*study), what))


# What is read, and when.


def test_the_second_report_computes_nothing_and_has_the_same_bytes(reported, tmp_path, monkeypatch):
    store, manifest, first = reported
    for name in ("gains", "baselines", "controls", "other_gains"):
        monkeypatch.setattr(study_results, name, None)
    monkeypatch.setattr("analysis.figures.drawing.file_of", None)
    monkeypatch.setattr("analysis.sections.importance.mixed", None)
    for name in ("page.document._parts", "sections.reviewer._frames", "figures.forest._forest_frame"):
        monkeypatch.setattr(f"analysis.{name}", None)
    report(store, manifest, tmp_path / "again", draws=DRAWS)
    assert first == files_of(tmp_path / "again") and "tables/gains.csv" in first


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("change", ["curve", "time"])
def test_a_report_after_a_record_has_changed_is_that_of_a_store_that_keeps_nothing(reported, tmp_path, change):
    store, manifest, before = reported
    cell = next(cell for cell in manifest["cells"] if cell["intermediate"])
    path = store.root / "objects" / cell["key"] / MARKER
    body = unseal(path.read_bytes(), path)
    if change == "time":
        body["provenance"]["wall_seconds"] += 100
    else:
        history = path.with_name("history.json")
        history.write_text(json.dumps([{"epoch": 1, "train_loss": 7.25, "validation": 0.5}]))
        content = history.read_bytes()
        body["files"]["history.json"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_bytes(seal(body))
    with without_pictures():  # of what is drawn now: a picture that was kept would stand in one folder alone
        report(store, manifest, tmp_path / "after", draws=DRAWS)
        shutil.rmtree(store.root / "measures")
        report(store, manifest, tmp_path / "anew", draws=DRAWS)
    after, anew = (files_of(tmp_path / name) for name in ("after", "anew"))
    assert after == anew
    assert after["report.html"] != before["report.html"]
    assert not after["paper-figures/figure-3-themes.png"] and before["paper-figures/figure-3-themes.png"]


def test_a_report_of_kept_results_loads_no_drawing_library(reported, tmp_path):
    store, _, first = reported
    code = (
        "import sys; from pathlib import Path; from adapters_store import Store; from analysis.report import report\n"
        f"store = Store(Path({str(store.root)!r})); manifest = store.manifest(store.manifests()[0])\n"
        f"report(store, manifest, Path({str(tmp_path / 'again')!r}), draws={DRAWS})\n"
        "print(sorted({'matplotlib', 'seaborn', 'sklearn', 'scipy.stats', 'torch'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ended.stdout.strip() == "[]"
    assert first == files_of(tmp_path / "again")


def test_other_draws_seeds_and_contacts_are_other_results(study, monkeypatch):
    calls = counted(monkeypatch)
    for options in ({}, {"draws": 50}, {"seed": 7}, {}):
        gains_of(*study, **options)
    assert len(calls) == 3
    monkeypatch.setattr(study_results, "contamination", lambda *given: pd.DataFrame({"n_test": [1]}))
    gains_of(*study)
    assert len(calls) == 4


def test_another_version_of_the_analysis_computes_anew(study, monkeypatch):
    calls = counted(monkeypatch)
    gains_of(*study)
    monkeypatch.setattr(kept_module, "version_of_analysis", lambda: "f" * 64)
    gains_of(*study)
    assert len(calls) == 2


def test_a_changed_record_never_meets_an_old_result(study):
    store, manifest = study
    before = gains_of(store, manifest)
    cell = next(cell for cell in manifest["cells"] if cell["intermediate"] == "hope" and cell["target"] == "distress")
    path = store.root / "objects" / cell["key"] / MARKER
    body = unseal(path.read_bytes(), path)
    body["results"]["liveness"] = 0.875
    path.write_bytes(seal(body))
    after = gains_of(store, manifest)
    assert (after.liveness == 0.875).any()
    assert not (before.liveness == 0.875).any()
    assert_same(after, computed_gains(store, manifest))


def test_a_cell_that_is_finished_later_is_seen(study):
    store, manifest = study
    key = manifest["cells"][1]["key"]
    shutil.move(store.root / "objects" / key, store.root / "away")
    assert (gains_of(store, manifest).n_seeds == 0).any()
    shutil.move(store.root / "away", store.root / "objects" / key)
    assert_same(gains_of(store, manifest), computed_gains(store, manifest))


# What is wrong with a kept result, and who never asks for it.


@pytest.mark.parametrize("damage", ["changed", "cut short", "empty", "of another shape"])
def test_a_damaged_result_is_computed_anew_and_replaced(study, caplog, damage):
    first = gains_of(*study)
    (path,) = kept_files(study[0], "gains")
    raw = path.read_bytes()
    body = unseal(raw, path)
    body["result"]["frame"]["frame"] = body["result"]["frame"]["frame"][::-1]
    others = {"changed": raw.replace(b"A", b"B", 1), "cut short": raw[:-9], "empty": b""}
    path.write_bytes(others.get(damage, seal(body)))
    assert_same(first, gains_of(*study))
    assert "computed anew" in caplog.text
    assert unseal(path.read_bytes(), path)["result"] == unseal(raw, path)["result"]


def forge(store):
    """Put other points into the kept gains, with a seal that fits, as somebody may who writes into the store."""
    for path in kept_files(store):
        body = unseal(path.read_bytes(), path)
        if body["inputs"]["what"] == "gains":
            frame = unpacked_frame(body["result"]["frame"]["frame"])
            body["result"]["frame"] = {"frame": packed_frame(frame.assign(points=99.0))}
            path.write_bytes(seal(body))


def test_who_verifies_does_not_read_what_is_kept(small, tmp_path, monkeypatch):
    store, manifest = small
    monkeypatch.setattr("analysis.sharing.report", partial(report, draws=50))
    monkeypatch.setattr("analysis.figures.drawing.file_of", lambda *given, **options: b"")  # drawn from these tables
    recompute(store, manifest, tmp_path / "honest")
    honest = (tmp_path / "honest" / "report" / "tables" / "gains.csv").read_text()
    forge(store)
    assert (gains_of(store, manifest, draws=50).points == 99).all(), "what is forged with its seal is believed"
    before = [(path, path.read_bytes()) for path in kept_files(store)]
    recompute(Snapshot(store.root, keeps=False), manifest, tmp_path / "checked")
    assert (tmp_path / "checked" / "report" / "tables" / "gains.csv").read_text() == honest
    assert [(path, path.read_bytes()) for path in kept_files(store)] == before, "and nothing is kept either"


def test_verify_asks_for_nothing_kept():
    source = (ROOT / "harness" / "cli" / "store.py").read_text(encoding="utf-8")
    (compare,) = (node for node in ast.parse(source).body if getattr(node, "name", "") == "_compare")
    assert "from_records = Snapshot(store.root, keeps=False)" in ast.unparse(compare)
    assert "recompute(from_records, " in ast.unparse(compare)


def test_no_archive_carries_a_kept_result_and_none_is_taken_from_one(study, tmp_path):
    store, manifest = study
    gains_of(store, manifest)
    (path,) = kept_files(store, "gains")
    measure = unseal(path.read_bytes(), path)
    archive(store, "fake", [], tmp_path / "own.tar.gz")
    restore(tmp_path / "own.tar.gz", Store(tmp_path / "elsewhere"))
    assert kept_files(Store(tmp_path / "elsewhere")) == []
    archive(store, "fake", [(measure["kind"], measure["inputs"])], tmp_path / "forged.tar.gz")
    with pytest.raises(BadArchive, match="kept result"):
        restore(tmp_path / "forged.tar.gz", Store(tmp_path / "trusting"))
    assert kept_files(Store(tmp_path / "trusting")) == []


def test_a_store_that_cannot_be_written_to_goes_without(study, caplog):
    store, manifest = study
    (store.root / "staging").rmdir() if (store.root / "staging").exists() else None
    (store.root / "staging").write_text("no folder can be made in a file")
    assert_same(gains_of(store, manifest), computed_gains(store, manifest))
    assert kept_files(store) == []
    assert not [entry for entry in caplog.records if entry.levelname == "WARNING"]


def test_another_command_that_keeps_the_same_at_once_is_no_matter(study, monkeypatch, caplog):
    real = study_results.gains

    def meanwhile(*given, **options):
        monkeypatch.setattr(study_results, "gains", real)
        gains_of(*study)
        return real(*given, **options)

    monkeypatch.setattr(study_results, "gains", meanwhile)
    assert_same(gains_of(*study), with_growth(real(*study, draws=DRAWS), growths(*study)))
    assert len(kept_files(study[0], "gains")) == 1
    assert caplog.text == ""


# The guarded answer and figures.


def test_a_figure_is_drawn_once_for_a_frame_and_a_title(study, tmp_path):
    drawn = []

    def draw(frame, title):
        drawn.append(title)
        return figure_of(2, 2, title)

    kept = Kept.of(*study)
    for place, (title, value) in enumerate((("a", 1), ("a", 1), ("b", 1), ("a", 2), ("b", 1))):
        write_figure_files(pd.DataFrame({"x": [value]}), tmp_path / str(place) / "figure", title, draw, kept=kept)
    assert drawn == ["a", "b", "a"]
    for ending in ("png", "svg", "csv"):
        files = [(tmp_path / str(place) / f"figure.{ending}").read_bytes() for place in range(5)]
        assert files[0] == files[1]
        assert files[2] == files[4]
    assert (tmp_path / "0" / "figure.svg").read_bytes() != (tmp_path / "2" / "figure.svg").read_bytes()


def test_a_guarded_answer_is_read_for_the_same_results_alone(study, tmp_path, monkeypatch):
    calls = counted(monkeypatch, mixed_section, "mixed")
    question = of_study(frames_of(*study), tmp_path)
    first, again = (importance.guarded_answer(question, silent) for _ in range(2))
    assert (len(calls), first) == (1, again)
    other = of_study(frames_of(*study, draws=DRAWS + 1), tmp_path)
    importance.guarded_answer(other, silent)
    assert len(calls) == 2


# The version, and what is no longer needed.


def imported_packages(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)


def test_the_version_covers_all_of_ours_that_the_analysis_is_made_of():
    ours = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    used = {name for package in OURS for path in (ROOT / package).rglob("*.py") for name in imported_packages(path)}
    assert used & ours == set(OURS)


def test_the_version_changes_with_any_file_of_ours(tmp_path):
    for name in ("analysis/gains/a.py", "tasks/ratings/r.toml", "adapters_store/s.py", "harness/h.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x = 1")
    first = version_of(tmp_path)
    (tmp_path / "analysis" / "__pycache__").mkdir()
    (tmp_path / "analysis" / "__pycache__" / "a.pyc").write_text("compiled")
    (tmp_path / "harness" / "h.py").write_text("x = 2")
    assert version_of(tmp_path) == first
    for name in ("analysis/gains/a.py", "tasks/ratings/r.toml", "adapters_store/s.py"):
        (tmp_path / name).write_text("x = 2")
        assert version_of(tmp_path) != first
        (tmp_path / name).write_text("x = 1")
    assert version_of(tmp_path / "nowhere") == ""


def test_gc_lists_results_of_other_versions_and_of_studies_as_they_were(study):
    store, manifest = study
    gains_of(store, manifest)
    version = kept_module.version_of_analysis()

    def listed(young=-1.0, **options):
        return [leftover.why for leftover in garbage(store, young, **options).leftovers if leftover.kind == "results"]

    assert listed() == []
    assert listed(version=version) == []
    assert listed(version="another")[0].startswith("of another version")
    shutil.rmtree(store.root / "objects" / manifest["cells"][1]["key"])
    assert listed(version=version) == ["of a study as it was before, or of none"] * 3  # gains, and what they need
    assert listed(YOUNG, version=version) == []
    assert key_of({"kind": KEPT, "inputs": dict(next(store.measures()).inputs)}) in {
        path.parent.name for path in kept_files(store)
    }
