"""New texts through the adapters of a finished study."""
