"""From a finished study to the parts of a manuscript: tables, numbers, figures, methods, references."""
