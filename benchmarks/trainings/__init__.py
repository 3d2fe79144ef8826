"""Whole trainings, from loading to the record, in two or more ways of running the same ones."""
