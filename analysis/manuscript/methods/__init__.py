"""What a manuscript says of how a study was done: the Methods paragraphs, and a checklist for reproducibility."""
