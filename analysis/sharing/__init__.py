"""Reports for others: private tasks under pseudonyms, and shared results computed again."""
