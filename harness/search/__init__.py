"""The search for a task's training settings."""
