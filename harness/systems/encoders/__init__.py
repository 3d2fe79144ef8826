"""Systems that train whole encoders: reading texts, and training epoch by epoch from a checkpoint."""
