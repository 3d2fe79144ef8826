"""The benchmark of resampling runs, on a few rows."""

from __future__ import annotations

import pytest

from benchmarks.grids import bootstrap


def test_the_benchmark_resamples_a_whole_grid(capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap.main(["--draws", "40", "--limit", "60"])
    printed = capsys.readouterr().out
    assert "306 gains, 40 draws, 1 seeds" in printed
    assert printed.count("since the start") == 18
