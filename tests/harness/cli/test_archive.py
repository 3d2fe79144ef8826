"""``store archive``, ``verify`` and ``restore`` as typed: what is packed is found again, what was changed is named."""

import gzip
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from functools import partial

import pandas as pd
import pytest

from adapters_store import Store
from adapters_store.archive import archive
from adapters_store.measures import DATA_EMBEDDING, POOLED, data_embedding_inputs
from analysis import sharing
from analysis.report import report
from harness.cli.main import main
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.forged import forged, members, repacked, with_predictions

WHO = ["--creator", "Bernard, Ada; Some University", "--licence", "cc-by-4.0"]
FEW_DRAWS = (
    "import sys; from functools import partial; from analysis.report import report; "
    "import analysis.sharing as sharing; sharing.report = partial(report, draws=300); "
)
TASKS = (FakeTask("epitome_er"), FakeTask("role"), FakeTask("distress", "continuous"))


@pytest.fixture(scope="module", autouse=True)
def fewer_draws():
    """Reports from 300 draws; how many does not matter to what is tested here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sharing, "report", partial(report, draws=300))
        yield


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """A folder with ratings of one's own, of which one belongs to another study."""
    folder = tmp_path_factory.mktemp("mine") / "registry"
    folder.mkdir()
    rows = ["role,link,A,2", "role,link,B,4", "distress,link,A,5", "distress,link,B,5", "elsewhere,link,A,1"]
    (folder / "ratings.csv").write_text("\n".join(["task,construct,rater,value", *rows]) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def stored(registry, tmp_path_factory):
    store, manifest = fake_study(tmp_path_factory.mktemp("store"), TASKS, absent=[("role", "distress")])
    manifest["study"]["registry"] = [str(registry)]
    for name, task in manifest["tasks"].items():
        task |= {"splits_hash": f"{len(name):064x}", "licence": "CC BY 4.0"}
        inputs = data_embedding_inputs(task["splits_hash"], POOLED, "random-tiny")
        store.put_measure(DATA_EMBEDDING, inputs, {"vector": [float(len(name)), 1.0]}, 1.0)
    store.write_manifest("fake", manifest)
    return store


@pytest.fixture(scope="module")
def packed(stored, tmp_path_factory):
    file = tmp_path_factory.mktemp("packed") / "fake.tar.gz"
    assert main(["store", "archive", "fake", "--store", str(stored.root), "--out", str(file), "--quiet", *WHO]) == 0
    return file


@pytest.fixture(scope="module")
def made(packed, tmp_path_factory):
    """What is in the archive, unpacked."""
    folder = tmp_path_factory.mktemp("made")
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture
def quick(monkeypatch, made):
    """A report that was made once: for tests in which the records are those of the archive."""
    monkeypatch.setattr(sharing, "report", lambda *_, **options: shutil.copytree(made / "report", _[2]))


def typed(capsys, *words):
    """Exit code, standard output, and standard error without its lines of progress."""
    code = main([*map(str, words)])
    said = capsys.readouterr()
    return code, said.out, re.sub(r"(?m)^\d+ of \d+: .*\n", "", said.err)


@pytest.fixture
def elsewhere(registry, tmp_path, monkeypatch):
    """Another folder to work in, and none of one's own entries and ratings."""
    monkeypatch.chdir(tmp_path)
    registry.rename(registry.with_name("gone"))
    yield tmp_path
    registry.with_name("gone").rename(registry)


def test_every_table_is_computed_anew_elsewhere_and_is_equal(packed, elsewhere, tmp_path, capsys):
    shutil.copy(packed, tmp_path / "other-name.tar.gz")
    code, out, _ = typed(capsys, "store", "verify", "other-name.tar.gz", "--json")
    assert b"role,link,B,4.0\n" in members(packed)["registry/ratings.csv"]
    assert b"role" in members(packed)["report/tables/table-2-ratings.csv"]
    told = json.loads(out)
    assert (code, told["study"], told["records"], told["differences"], told["versions"]) == (0, "fake", 8, [], [])
    tables = [name for name in members(packed) if name.startswith("report/") and name.endswith(".csv")]
    assert told["tables"] == len(tables) > 10 and told["numbers"] > 400
    assert [path.name for path in tmp_path.iterdir()] == ["other-name.tar.gz"]


def test_an_archive_has_all_that_is_needed_and_no_weights(packed):
    found = members(packed)
    assert {".zenodo.json", "LICENCES.md", "README.md", "environment.txt", "study.toml", "archive.json"} <= set(found)
    assert {"report/report.md", "report/tables/gains.csv", "report/figures/heatmap-macro-f1-full.csv"} <= set(found)
    assert not any(
        name.endswith((".safetensors", ".parquet", ".png", ".svg", ".html"))
        for name in found
        if not name.endswith("test.parquet")
    )
    assert sum(name.endswith("test.parquet") for name in found) == 8 and b"without weights" in found["README.md"]
    listed = json.loads(found["archive.json"])["members"]
    assert set(listed) == set(found) - {"archive.json"}
    assert json.loads(found[".zenodo.json"])["creators"] == [{"name": "Bernard, Ada", "affiliation": "Some University"}]


def test_a_store_takes_the_records_alone_and_an_equal_store_gives_equal_bytes(stored, packed, tmp_path, capsys):
    code, out, _ = typed(capsys, "store", "restore", packed, "--store", tmp_path / "there")
    assert code == 0 and "11 records and measures restored" in out
    assert Store(tmp_path / "there").keys() == stored.keys()
    assert sorted(path.name for path in (tmp_path / "there").iterdir() if any(path.iterdir())) == [
        *("measures", "objects", "studies")
    ]
    out = tmp_path / "again.tar.gz"
    assert typed(capsys, "store", "archive", "fake", "--store", tmp_path / "there", "--out", out, *WHO)[0] == 0
    assert out.read_bytes() == packed.read_bytes()


KINDS = {
    "record": lambda name: name.endswith("record.json"),
    "prediction": lambda name: name.endswith("test.parquet"),
    "history": lambda name: name.endswith("history.json"),
    "measure": lambda name: name.endswith("measure.json"),
    "manifest": lambda name: name == "studies/fake.json",
    "table": lambda name: name == "report/tables/gains.csv",
    "page": lambda name: name == "report/report.md",
    "figure": lambda name: name.startswith("report/figures/"),
    "licences": lambda name: name == "LICENCES.md",
    "metadata": lambda name: name == ".zenodo.json",
    "lock": lambda name: name == "environment.txt",
    "study": lambda name: name == "study.toml",
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_altered_byte_of_any_kind_of_file_is_found_and_named(packed, tmp_path, capsys, quick, kind):
    found = members(packed)
    name = next(name for name in sorted(found) if KINDS[kind](name))
    content = bytearray(found[name])
    content[len(content) // 2] ^= 1
    file = repacked(tmp_path / "altered.tar.gz", found | {name: bytes(content)})
    code, out, _ = typed(capsys, "store", "verify", file)
    [first, *_] = out.splitlines()
    assert code == 1
    assert first.startswith(f"differs  {name}") and first.count("sha256 ") == 2


def test_a_changed_number_and_a_table_that_is_gone_or_added_are_named_with_both_values(packed, tmp_path, capsys, quick):
    table = pd.read_csv(io.BytesIO(members(packed)["report/tables/gains.csv"]), dtype=str, keep_default_na=False)
    before = table.loc[2, "points"]
    table.loc[2, "points"] = after = f"{float(before) + 0.5:.10g}"
    file = forged(packed, tmp_path / "forged.tar.gz", {"report/tables/gains.csv": table.to_csv(index=False).encode()})
    code, out, _ = typed(capsys, "store", "verify", file)
    assert code == 1
    assert f"differs  report/tables/gains.csv, line 4, column points: archive '{after}', found '{before}'\n" in out
    assert out.count("differs  ") == 1
    file = forged(packed, tmp_path / "a.tar.gz", {"report/tables/gains.csv": None, "report/extra.csv": b"a\n1\n"})
    code, out, _ = typed(capsys, "store", "verify", file)
    assert code == 1
    assert "differs  report/tables/gains.csv: archive 'is not there', found 'is there'\n" in out
    assert "differs  report/extra.csv: archive 'is there', found 'is not there'\n" in out


def test_an_altered_prediction_names_its_cell(packed, tmp_path, capsys, quick):
    found = members(packed)
    name = next(name for name in found if name.endswith("test.parquet"))
    file = repacked(tmp_path / "altered.tar.gz", found | {name: found[name][:-1] + b"?"})
    code, out, _ = typed(capsys, "store", "verify", file)
    assert code == 1 and "no table was computed anew" in out
    [line] = [line for line in out.splitlines() if line.startswith("differs")]
    cells = json.loads(found["studies/fake.json"])["cells"]
    [cell] = [one for one in cells if one["key"] in name]
    on = f"{cell['intermediate']} -> " if cell["intermediate"] else ""
    assert f"({on}{cell['target']}, seed 1, full)" in line


@pytest.mark.parametrize("is_scored", [False, True])
def test_other_predictions_with_fitting_checksums_show_in_what_follows_from_them(packed, tmp_path, capsys, is_scored):
    changed, key = with_predictions(members(packed), is_scored=is_scored)
    code, out, _ = typed(capsys, "store", "verify", forged(packed, tmp_path / "forged.tar.gz", changed))
    assert code == 1
    if is_scored:
        assert "differs  report/tables/cells.csv, line " in out and "column score: archive " in out
    else:
        assert f"differs  objects/{key}/test.parquet: its predictions score " in out
        assert "the record says " in out and str(tmp_path) not in out


@pytest.mark.parametrize("name", ["report/tables/gains.csv", ".zenodo.json", "studies/fake.json"])
def test_what_was_taken_out_or_renamed_or_added_is_named(packed, tmp_path, capsys, name):
    found = members(packed)
    gone = {one: content for one, content in found.items() if one != name}
    renamed = {("zz" if one == name else one): content for one, content in found.items()}
    longer = {one: content + b" " * (one == name) for one, content in found.items()}
    for place, (other, said) in enumerate(
        [(gone, name), (renamed, name), (longer, name), (found | {"zz": b""}, "holds more than its list")]
    ):
        code, out, err = typed(capsys, "store", "verify", repacked(tmp_path / f"{place}.tar.gz", other))
        assert (code, err) == (1, "")
        assert out.startswith("differs  ") and said in out.splitlines()[0]


def test_a_file_that_is_no_such_archive_is_one_line_and_exit_code_2(stored, packed, tmp_path, capsys):
    (tmp_path / "text.tar.gz").write_text("no archive")
    (tmp_path / "cut.tar.gz").write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    out_of_it = forged(packed, tmp_path / "leaves.tar.gz", {"../report.csv": b"a\n"})
    for file, said in [
        (tmp_path / "nowhere.tar.gz", "cannot be read"),
        (tmp_path / "text.tar.gz", "not a readable archive"),
        (tmp_path / "cut.tar.gz", "not a readable archive"),
        (repacked(tmp_path / "any.tar.gz", {"a.csv": b"a"}), "where 'archive.json' is due stands 'a.csv'"),
        (out_of_it, "'../report.csv' has no place in a store"),
    ]:
        for verb in ("verify", "restore"):
            code, out, err = typed(capsys, "store", verb, file, "--store", tmp_path / "there")
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert said in err
    assert not (tmp_path / "there").exists()
    assert not (tmp_path / "report.csv").exists() and not (tmp_path.parent / "report.csv").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--licence", "mit"], "nobody is named"),
        (["--creator", "Bernard, Ada"], "SPDX"),
        (["--creator", "Bernard, Ada", "--licence", "see the file"], "SPDX"),
        (["--creator", "Ada Bernard", "--licence", "mit"], "is not a name"),
        ([*WHO, "--out", "a.zip"], r"a\.zip: the name of an archive ends in \.tar\.gz"),
    ],
)
def test_nothing_is_packed_for_others_without_maker_licence_or_name(stored, tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = typed(capsys, "store", "archive", "fake", "--store", stored.root, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(said, err)
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_written_over_and_nothing_is_packed_of_a_study_without_a_run(stored, packed, capsys):
    before = packed.read_bytes()
    code, out, err = typed(capsys, "store", "archive", "fake", "--store", stored.root, "--out", packed, *WHO)
    assert (code, out, err.count("\n")) == (2, "", 1) and "is not replaced; move it away" in err
    assert packed.read_bytes() == before
    code, out, err = typed(capsys, "store", "verify", "fake", "--store", stored.root)
    assert (code, out, err.count("\n")) == (2, "", 1) and "`store archive fake` writes the study's archive" in err
    code, out, err = typed(capsys, "store", "archive", "nothing", "--store", stored.root)
    assert (code, out, err.count("\n")) == (2, "", 1) and "no run of study 'nothing'" in err


@pytest.mark.slow
def test_archiving_and_verifying_in_processes_of_their_own_load_no_training_library(stored, tmp_path):
    packed = str(tmp_path / "fake.tar.gz")
    for words in (["archive", "fake", "--store", str(stored.root), "--out", packed, *WHO], ["verify", packed]):
        code = FEW_DRAWS + f"from harness.cli.main import main; done = main(['store', *{words!r}, '--quiet'])"
        code += "; print(done, *sorted({'torch', 'transformers', 'adapters'} & set(sys.modules)), 'loaded')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "0 loaded"


def test_an_archive_packed_otherwise_is_the_same_and_one_without_tables_is_held_to_its_list(
    packed, tmp_path, capsys, quick, stored
):
    file = tmp_path / "other.tar.gz"
    file.write_bytes(gzip.compress(gzip.decompress(packed.read_bytes()), 1))
    code, out, _ = typed(capsys, "store", "verify", file)
    assert code == 0
    assert "computed anew from 8 records" in out and "all equal after their printed rounding" in out
    archive(stored, "fake", [], tmp_path / "records.tar.gz")
    code, out, _ = typed(capsys, "store", "verify", tmp_path / "records.tar.gz")
    assert code == 0 and "every byte of 8 records as listed; it has no tables" in out


# What belongs to oneself: with weights, of a private study, unfinished, between stores.


def test_with_weights_everything_goes_from_store_to_store(stored, tmp_path, capsys):
    heavy, key = Store(tmp_path / "heavy"), min(stored.keys())
    record = stored.get(key)
    with heavy.staging() as folder:
        (folder / "adapter").mkdir()
        (folder / "adapter" / "adapter.safetensors").write_bytes(b"weights")
        for name in record.files:
            shutil.copyfile(stored.open(key, name), folder / name)
        heavy.put(key, record.spec, record.results, record.provenance, folder)
    manifest = stored.manifest("fake")
    manifest["tasks"]["role"]["private"] = True
    heavy.write_manifest("fake", {**manifest, "study": {**manifest["study"], "imported": {"theirs": key}}})
    words = ["store", "archive", "fake", "--store", heavy.root]
    assert "task role is private" in typed(capsys, *words, *WHO, "--out", tmp_path / "no.tar.gz")[2]
    _, out, _ = typed(capsys, *words, "--weights", "--out", tmp_path / "a.tar.gz", "--json")
    summary = json.loads(out)
    assert (summary["records"], len(summary["missing"]), summary["is_light"]) == (1, 8, False)
    assert summary["bytes"] == (tmp_path / "a.tar.gz").stat().st_size
    assert ".zenodo.json" not in members(tmp_path / "a.tar.gz")
    assert typed(capsys, "store", "verify", tmp_path / "a.tar.gz")[0] == 0
    assert typed(capsys, "store", "restore", tmp_path / "a.tar.gz", "--store", tmp_path / "there")[0] == 0
    assert Store(tmp_path / "there").open(key, "adapter/adapter.safetensors").read_bytes() == b"weights"
    _, out, _ = typed(capsys, *words, "--out", tmp_path / "light.tar.xz")
    assert "1 records without weights" in out and "8 cells of the study have no record and are not in it" in out
    assert "not for others: the data of role are private" in out
    code, out, _ = typed(capsys, "store", "restore", tmp_path / "light.tar.xz", "--store", tmp_path / "light", "--json")
    assert (code, json.loads(out)["new"], json.loads(out)["is_light"]) == (0, 1, True)
    _, out, _ = typed(capsys, "store", "restore", tmp_path / "light.tar.xz", "--store", tmp_path / "light")
    assert f"0 records and measures restored, 1 were in {tmp_path / 'light'} before" in out
    assert "cells that new ones stand on will be trained again" in out


def test_what_differs_is_named_and_ends_in_exit_code_1(stored, packed, tmp_path, capsys):
    other, record = Store(tmp_path / "other"), stored.get(min(stored.keys()))
    with other.staging() as folder:
        other.put(record.key, record.spec, {**record.results, "test": 0.125}, record.provenance, folder)
    code, out, _ = typed(capsys, "store", "restore", packed, "--store", other.root)
    assert code == 1
    assert f"differs  record {record.key}: file history.json, file test.parquet, test; what was there stays" in out
    assert other.get(record.key).results["test"] == 0.125
