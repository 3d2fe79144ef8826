"""Shared results computed again, and held against what was kept."""
