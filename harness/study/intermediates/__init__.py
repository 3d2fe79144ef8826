"""What cells stand on that no cell of a study trained as it is: adapters of others, and merges of several."""
