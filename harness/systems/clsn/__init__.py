"""The networks of the system ``clsn``, and how they are trained; harness.systems.kinds.clsn is their contract."""
