"""Engines run packs; the store remembers."""
