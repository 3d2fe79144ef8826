"""The page as a file: it loads nothing, no text breaks out of it, it stays small, its library is the one noted."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.page.document import LIBRARY, SCRIPTS, assembled, document, embedded
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import HISTORY, SILENT, document_in, page_content

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "analysis" / "page" / "assets"
NASTY = "</script><script>alert(1)</script><!--\u2028\u2029&amp;"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page in which every text that a study provides tries to break out."""
    folder = tmp_path_factory.mktemp("page")
    tasks = (FakeTask("hope"), FakeTask("role"))
    store, manifest = fake_study(folder / "store", tasks, history=HISTORY, missing_tasks={NASTY: NASTY})
    manifest["study"]["title"] = f"<b>{NASTY}"
    for field in ("title", "dataset", "family", "theme"):
        manifest["tasks"]["hope"][field] = NASTY
    manifest["tasks"]["hope"]["classes"] = [NASTY, "<img src=x>", "high"]
    return assembled(document(*page_content(store, manifest, folder)))


def test_no_text_of_a_study_breaks_out_of_a_page(page):
    assert len(re.findall("<script", page)) == len(re.findall("</script", page)) == 3
    assert "<img" not in page and "<!--" not in page
    assert "<title>&lt;b&gt;&lt;/script&gt;" in page
    shown = document_in(page)
    assert shown["tasks"][0]["title"] == NASTY
    assert shown["missing"] == {NASTY: NASTY}


def test_embedded_texts_come_back_as_they_were():
    text = embedded({"text": NASTY, "others": "\u00e9 \U0001f600 \\u003c"})
    assert not set("<>&\u2028\u2029") & set(text)
    assert document_in(f'<script type="application/json" id="document">{text}</script>')["text"] == NASTY
    with pytest.raises(ValueError, match="Out of range"):
        embedded({"number": float("nan")})


def test_only_the_scripts_of_the_page_may_run(page):
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert rules["script-src"].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(digests) == 2
    assert "unsafe-eval" not in policy and "connect-src" not in policy


def test_a_page_refers_to_nothing_that_is_loaded(page):
    library = (FOLDER / "vendor" / LIBRARY).read_text(encoding="utf-8")
    own = page.replace(library, "")
    assert "http" not in own.replace("http-equiv", "")
    assert set(re.findall(r'\b(?:src|href|action)="([^"]*)"', own)) <= {"data:,", "#content"} | set(
        re.findall(r'href="(#/[a-z]*)"', own)
    )
    assert "@import" not in own and "url(" not in own


def test_own_scripts_never_make_html_or_code_from_texts():
    for name in SCRIPTS:
        text = (FOLDER / "scripts" / name).read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|fetch\(", text
        )
        assert len(text.splitlines()) < 300
    assert {str(path.relative_to(FOLDER / "scripts")) for path in (FOLDER / "scripts").rglob("*.js")} == set(SCRIPTS)


def test_what_explains_gains_is_the_headline_and_no_bars_where_none_are_drawn(tmp_path):
    study = fake_study(tmp_path / "store", (FakeTask("hope"), FakeTask("role")))
    results, shown = page_content(*study, tmp_path)
    shown = replace(shown, answer=replace(SILENT, facts={"headline": "it is so"}))
    assert document(results, shown)["importance"] == {"headline": "it is so", "paper": None}


def test_the_plotting_library_is_the_one_that_notice_names():
    digest = hashlib.sha256((FOLDER / "vendor" / LIBRARY).read_bytes()).hexdigest()
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    head = (FOLDER / "vendor" / LIBRARY).read_text(encoding="utf-8")[:200]
    (version,) = re.findall(r"v(\d+\.\d+\.\d+)", head)
    assert f"plotly.js-cartesian-dist-min {version}" in notice
    assert digest in notice
    assert "MIT License" in (FOLDER / "vendor" / "plotly-LICENSE.txt").read_text(encoding="utf-8")
