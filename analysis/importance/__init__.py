"""What explains the gains: features of pairs, both modes of the analysis, and rankings of intermediates."""
