"""Finished results in one form, whether from a store, from the paper's tables or from a table of one's own."""
