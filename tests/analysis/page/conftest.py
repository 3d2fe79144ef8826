"""The browser that the tests of a page drive."""

import os
import shutil

import pytest

from tests.support.studies.page_study import page_of_every_kind

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium; CI must have it and Playwright."""
    if CHROMIUM is None:
        assert not os.environ.get("CI"), "CI must have Debian's package chromium"
        pytest.skip("needs Debian's package chromium")
    if not os.environ.get("CI"):
        pytest.importorskip("playwright", reason="needs the extra `browser`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        instance = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield instance
        instance.close()


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    """Where a page with something of every kind is."""
    return page_of_every_kind(tmp_path_factory.mktemp("page")).as_uri()
