"""``flips``: counts for everybody, texts only for who asks and has them, and nothing of them kept anywhere."""

import json

import pandas as pd
import pytest

from harness.api import Study
from tests.support.studies.secret_study import CLASSES, SECRET, TEXT, secret_study

PAIR = ("systems", "flips", "fake", "epitome_er", SECRET)


@pytest.fixture(params=[False, True], ids=["open", "private"])
def place(request, tmp_path):
    secret_study(tmp_path, private=request.param, seeds=(1, 2))
    return tmp_path


@pytest.fixture
def flips(place, command):
    """Run ``flips`` on the store with the raw files; exit code, output and errors."""

    def flips(*arguments, data=place):
        return command(*PAIR, "--store", place / "runs", "--data", data, *arguments)

    return flips


def files_of(folder):
    return {file: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_counts_come_by_seed_class_length_and_group_and_without_a_text_in_json_too(flips):
    code, out, err = flips()
    assert (code, err) == (0, "")
    for part in ("by seed:", "by class:", "by length in words:", "by dialogue or other group", "corrected"):
        assert part in out
    assert CLASSES[0] in out
    assert TEXT not in out
    assert "ids and numbers only" not in out
    told = json.loads(flips("--json")[1])
    assert TEXT not in json.dumps(told)
    changed = {(one["better"] > 0, one["worse"] > 0) for one in told["items"]}
    assert (False, False) not in changed
    assert sum(one["better"] for one in told["items"]) == sum(one["better"] for one in told["by_seed"])
    assert sum(one["n"] for one in told["by_length"]) == sum(one["n"] for one in told["by_seed"])


def test_texts_are_shown_to_who_asks_and_kept_nowhere(flips, place):
    before = files_of(place)
    _, out, _ = flips("--show", "2")
    assert out.count("\n    > ") == out.count(f"{TEXT} words") == 4
    assert "speaker: well " in out
    told = json.loads(flips("--json", "--show", "2")[1])
    assert len(told["items"]) == 4
    assert all(TEXT in one["texts"][-1] for one in told["items"])
    assert files_of(place) == before


def test_out_gets_every_table_whole_and_no_text(flips, place):
    told = json.loads(flips("--json")[1])
    assert flips("--out", place / "flips")[0] == 0
    tables = {path.stem: pd.read_csv(path) for path in sorted((place / "flips").iterdir())}
    assert set(tables) == {f"flips-{by}" for by in ("answers", "by-class", "by-group", "by-length", "by-seed", "items")}
    assert list(tables["flips-items"].id) == [one["id"] for one in told["items"]]
    assert list(tables["flips-by-seed"].seed.astype(str)) == [str(one["seed"]) for one in told["by_seed"]]
    assert "->" not in str(tables["flips-items"].before[0])
    assert TEXT not in "".join(path.read_text() for path in (place / "flips").iterdir())


def test_without_the_raw_files_there_are_ids_and_numbers(flips, place):
    code, out, _ = flips("--show", "2", data=place / "elsewhere")
    assert code == 0
    assert "by length" not in out
    assert TEXT not in out
    assert "ids and numbers only, no lengths and no texts: " in out
    told = json.loads(flips("--json", "--show", "2", data=place / "elsewhere")[1])
    assert told["by_length"] is None
    assert {one["texts"] for one in told["items"]} == {None}
    assert "secret.csv" in told["texts"]


def test_other_raw_files_than_the_study_had_give_no_texts(flips, place):
    file = place / "secret.csv"
    file.write_text(file.read_text().replace("words 1", "phrases 1"), encoding="utf-8")
    assert "are not those that the study was run on" in flips("--show", "2")[1]


def test_what_would_command_a_terminal_is_not_printed(place, printed):
    file = place / "secret.csv"
    file.write_text(file.read_text().replace(TEXT, f"{TEXT}\x1b[2J"), encoding="utf-8")
    from adapters_store import Store
    from tasks.registry import Registry
    from tasks.splits.loading import load

    store = Store(place / "runs")
    manifest = store.manifest("fake")
    splits = load(Registry.load([place / "entries"]).task(SECRET), place)
    manifest["tasks"][SECRET]["splits_hash"] = splits.content_hash
    store.write_manifest("fake", manifest)
    out = printed(*PAIR, "--store", place / "runs", "--data", place, "--show", "1")
    assert f"{TEXT}?[2J" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("number", ["0", "-1"])
def test_a_number_of_items_is_from_one(flips, number):
    code, _, err = flips("--show", number)
    assert code == 2
    assert "not a number of items from 1" in err


def test_from_python_they_are_what_the_command_tells(flips, place):
    (place / "fake.toml").write_text('extends = "tiny"\n')
    found = Study(place / "fake.toml", store=place / "runs").flips("epitome_er", SECRET, seeds=[2])
    assert set(found.items.seed) == {2}
    told = json.loads(flips("--json", "--seed", "2")[1])
    assert (found.items.change == "better").sum() == sum(one["better"] for one in told["items"])
