"""All cells of a pack as lanes of one training."""
