"""Figures that are drawn from a plan: every place, size, colour and text is computed once, for any printer."""
