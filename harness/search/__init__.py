"""The search for a task's training settings, and the race for its intermediate."""
