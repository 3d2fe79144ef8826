"""Benchmarks of the analysis, on grids of made-up predictions."""
