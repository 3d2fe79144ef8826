"""Cells one at a time through the adapters library: what lanes are held against, and what they do not serve."""
