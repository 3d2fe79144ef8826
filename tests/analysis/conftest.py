"""What several tests of the analysis read and none changes."""

from __future__ import annotations

import pytest

from analysis.results.published import results
from analysis.results.results import Results


@pytest.fixture(scope="session")
def published() -> Results:
    """The paper's printed scores as results."""
    return results()
