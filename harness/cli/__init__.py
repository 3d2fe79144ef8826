"""The command line: one file per noun; the only place that prints."""
