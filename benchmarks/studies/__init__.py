"""Whole studies that were run to say what precision, seeds and planted effects do to gains."""
