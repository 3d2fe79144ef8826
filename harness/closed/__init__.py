"""Cells trained on a node that is closed: what goes there in a folder, what trains it there, and what comes back."""
