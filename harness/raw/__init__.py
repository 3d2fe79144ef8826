"""The raw files: which are here and right, how they are fetched, and what comes out of archives."""
