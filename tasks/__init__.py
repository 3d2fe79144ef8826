"""What is studied: the registry of tasks, and how raw files become rows and splits."""
