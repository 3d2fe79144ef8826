"""How one cell is trained, with the adapters library's own modules."""
