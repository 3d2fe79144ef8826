"""What is drawn: heatmaps, the paper's figures, the specification curve and the figures of a scored corpus."""
