"""Pages about studies whose results come with the package are their texts with the numbers of these results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.manuscript.latex import NUMBER
from harness.cli.main import main

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = {"reference": "what-transfers.md", "reference-systems": "systems-beside-adapters.md"}
SETTINGS = {  # of studies and of tests, by page
    "what-transfers.md": {"6", "384", "24", "16", "128", "400", "100", "500", "4", "2e-3", "95", ".05", "0"},
    "systems-beside-adapters.md": {"24", "400", "4", "10", "2e-3", "95"},
}


@pytest.mark.parametrize("page", PAGES.values())
def test_every_number_of_a_text_is_a_macro_or_a_setting_of_its_study(page):
    text = (DOCS / "texts" / page).read_text(encoding="utf-8")
    words = NUMBER.sub("", text)
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", words, flags=re.DOTALL)
    assert set(re.findall(r"(?<![\w.])\.?\d(?:[\w.]|(?<=e)-)*\b", prose)) <= SETTINGS[page]
    assert len(NUMBER.findall(text)) > 100


@pytest.mark.slow
@pytest.mark.parametrize(("study", "page"), PAGES.items())
def test_a_page_is_its_text_filled_with_the_shipped_results(study, page, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert (
        main(
            ["study", "paper", study, "--text", str(DOCS / "texts" / page), "--out", str(tmp_path / "paper"), "--quiet"]
        )
        == 0
    )
    assert (tmp_path / "paper" / "texts" / page).read_text(encoding="utf-8") == (DOCS / page).read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
@pytest.mark.parametrize("study", PAGES)
def test_a_shipped_archive_is_what_its_records_give_today_to_the_last_sentence_of_its_report(
    study, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert main(["store", "verify", study]) == 0
    assert "all equal" in capsys.readouterr().out
