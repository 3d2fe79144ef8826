"""Optimizer steps of lanes beside those of what a user would write, on random rows and weights."""
