"""Files of studies."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Write a file of a study; returns where it is, as a person would type it."""

    def write(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write
