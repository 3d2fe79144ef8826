"""Trained adapters for others, in the adapters library's own format."""
