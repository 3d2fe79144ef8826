"""Simulations of the tests that the analysis makes: size, power, coverage; ``make calibrate`` writes them into docs."""
