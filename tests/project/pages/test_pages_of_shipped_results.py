"""Pages about studies whose results come with the package quote the numbers of these results, and no others."""

import re
from pathlib import Path

import pytest

from adapters_store import Store
from analysis.gains.cells import Snapshot
from analysis.manuscript.frames import stored_study, write_data
from analysis.manuscript.paper import numbers
from analysis.results.study_results import StudyResults
from analysis.tables import bare
from harness.cli.main import main
from harness.sharing.stored import open_study, store_at

DOCS = Path(__file__).resolve().parents[3] / "docs"
QUOTED = Path(__file__).parent / "quoted"  # of a page, which number of its study stands where, in order
PAGES = {"wide": "what-transfers", "reference-systems": "systems-beside-adapters"}
SETTINGS = {  # of studies and of tests, by page
    "what-transfers": set(
        "0 6 384 24 16 128 800 200 2 000 1e-2 12 8 95 .05 2.8 4.2 4 2e-3 .17 .002 2211.00107 0.95 .030 1.5".split()
    ),
    "systems-beside-adapters": {"24", "400", "4", "10", "2e-3", "95"},
}
NUMBER = re.compile(r"(?<![\w.-])-?\.?\d(?:[\w.]|(?<=e)-)*\b")


def numbers_in(page):
    """The numbers of a page's first two parts or of all of it, code and links left out, as they stand."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8").split("\n## A study with systems\n")[0]
    return NUMBER.findall(re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL))


def numbers_of(study, folder):
    """Every number of a shipped study that a text can quote, printed, by its name."""
    store, manifest = open_study(Store(folder / "runs"), study)
    _, frames = write_data(stored_study(Snapshot.of(store), manifest), folder / "data")
    return {number.macro: number.printed for number in numbers(frames)}


@pytest.mark.slow
@pytest.mark.parametrize(("study", "page"), PAGES.items())
def test_every_number_of_a_page_is_one_of_its_study_or_a_setting(study, page, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    named = numbers_of(study, tmp_path)
    expected = [named[name] for name in (QUOTED / f"{page}.txt").read_text(encoding="utf-8").split()]
    assert len(expected) > 100
    for number in numbers_in(page):
        if expected and number == expected[0]:
            expected.pop(0)
        else:
            assert number in SETTINGS[page], f"{number} stands where {expected[:1]} is due"
    assert expected == []


@pytest.mark.slow
def test_the_scores_of_the_small_model_are_those_of_its_archive():
    with store_at(str(DOCS.parent / "benchmarks" / "studies" / "language_model-results.tar.xz")) as store:
        board = StudyResults.of(store, store.manifest("language_model")).leaderboard.board
    printed = board.set_index(["target", "system"])[["score", "low", "high"]].map(bare).apply(tuple, axis=1)
    text = (DOCS / "systems-beside-adapters.md").read_text(encoding="utf-8").partition("asks `smollm2` about")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text.partition("### A model")[0], re.MULTILINE)
    assert len(rows) == 5
    for task, cells in rows:
        stated = [printed.get((task, name)) for name in ("majority", "tfidf", "zero-shot", "few-shot", "finetuned")]
        assert cells.split(" | ") == ["{} ({} to {})".format(*part) if part else "-" for part in stated]


@pytest.mark.slow
@pytest.mark.parametrize("study", ["reference", *PAGES])
def test_a_shipped_archive_is_what_its_records_give_today_to_the_last_sentence_of_its_report(
    study, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert main(["store", "verify", study]) == 0
    assert "all equal" in capsys.readouterr().out
