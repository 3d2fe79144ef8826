"""Parts of the system ``micromodels``; harness.systems.kinds.micromodels is its contract."""
