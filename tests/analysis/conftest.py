"""What several tests of the analysis read and none changes."""

import pytest

from analysis.results.published import results


@pytest.fixture(scope="session")
def published():
    """The paper's printed scores as results."""
    return results()
