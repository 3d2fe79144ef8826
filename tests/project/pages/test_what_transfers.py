"""The page about the reference study is its text with the numbers of the results that come with the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.manuscript.latex import NUMBER
from harness.cli.main import main

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT, PAGE = DOCS / "texts" / "what-transfers.md", DOCS / "what-transfers.md"
SETTINGS = {"6", "384", "24", "16", "128", "400", "100", "500", "4", "2e-3", "95", ".05", "0"}  # and of tests


def test_every_number_of_the_text_is_a_macro_or_a_setting_of_the_study():
    words = NUMBER.sub("", TEXT.read_text(encoding="utf-8"))
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", words, flags=re.DOTALL)
    assert set(re.findall(r"(?<![\w.])\.?\d(?:[\w.]|(?<=e)-)*\b", prose)) <= SETTINGS
    assert len(NUMBER.findall(TEXT.read_text(encoding="utf-8"))) > 100


@pytest.mark.slow
def test_the_page_is_the_text_filled_with_the_shipped_results(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert main(["paper", "reference", "--text", str(TEXT), "--out", str(tmp_path / "paper"), "--quiet"]) == 0
    assert (tmp_path / "paper" / "texts" / TEXT.name).read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
