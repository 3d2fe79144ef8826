"""File formats: from bytes on a disk to rows of text cells."""
