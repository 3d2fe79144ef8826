"""How rows are cut: clean splits, folds, the sets that a paper published, and what leaks between them."""
