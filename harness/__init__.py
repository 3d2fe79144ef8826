"""What runs: studies, plans, the grid, training, engines and the command line."""
