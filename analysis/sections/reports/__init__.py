"""Reports of their own: two studies side by side, and what a study could have seen."""
