"""Adapters that leave or enter a store, in the format of the adapters library, and what an archive says of itself."""
