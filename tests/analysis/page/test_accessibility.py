"""What axe-core says of the page in two browsers, on a light desk and a dark phone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.firefox import PROGRAM, firefox

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SIGHTS = pytest.mark.parametrize(
    ("size", "scheme"), [((1400, 900), "light"), ((390, 844), "dark")], ids=["1400-light", "390-dark"]
)
CELLS = (
    "transfer/empathy_hope/empdial_role/full",
    "transfer/news_empathy/news_distress/full",
    "transfer/empdial_role/felt/full",
    "transfer/empathy_hope/epitome_er/full",
    "baseline/-/epitome_er/full",
)
PLACES = ("", "#/target/empathy_hope", "#/target/news_empathy", "#/curves", *(f"#/cell/{cell}" for cell in CELLS))
UNFOLDED = "document.querySelectorAll('details').forEach((fold) => { fold.open = true; });"
ASKED = "axe.run(document, { resultTypes: ['violations', 'passes'] })"
FITS = "document.documentElement.scrollWidth <= window.innerWidth"


@pytest.fixture(scope="module")
def axe():
    """The script of axe-core."""
    script = os.environ.get("EMPATHY_AXE")
    if not script:
        pytest.skip("EMPATHY_AXE has to name axe.min.js of axe-core; .ci/browser fetches it")
    return Path(script).read_text(encoding="utf-8")


def judge(results):
    """Rules that are broken, each with the first place, and how many rules held."""
    return [(rule["id"], rule["nodes"][0]["html"]) for rule in results["violations"]], len(results["passes"])


@SIGHTS
def test_axe_finds_no_violation_on_any_kind_of_page_in_chromium(browser, address, axe, size, scheme):
    context = browser.new_context(viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme)
    page, passed = context.new_page(), 0
    for at in PLACES:
        page.goto("about:blank")
        page.goto(address + at)
        page.evaluate(axe)
        page.evaluate(UNFOLDED)
        violations, held = judge(page.evaluate(ASKED))
        assert (at, violations) == (at, [])
        passed += held
    context.close()
    assert passed > 100


@SIGHTS
def test_axe_finds_no_violation_on_any_kind_of_page_in_firefox(address, axe, size, scheme, tmp_path):
    if PROGRAM is None:
        pytest.skip("needs Debian's package firefox-esr")
    passed = 0
    with firefox(tmp_path, scheme) as window:
        window.resize(*size)
        for at in PLACES:
            window.show(address + at)
            assert window.run("return [innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]") == [
                size[0],
                scheme == "dark",
            ]
            violations, held = judge(window.run(f"{axe}; {UNFOLDED} return {ASKED}"))
            assert (at, violations) == (at, [])
            assert window.run(f"return {FITS}"), at
            passed += held
        assert window.complaints(address) == []
    assert passed > 100


def test_the_console_of_firefox_is_heard(address, tmp_path):
    if PROGRAM is None:
        pytest.skip("needs Debian's package firefox-esr")
    with firefox(tmp_path, "light") as window:
        window.show(address)
        window.run("return new Promise((done) => setTimeout(() => { setTimeout(done, 50); throw Error('heard'); }))")
        assert window.complaints(address) == ["Error: heard"]
