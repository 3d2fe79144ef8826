"""The command line: a file a noun, with its parser; the only place that prints."""
