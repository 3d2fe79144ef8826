"""A sequence-to-sequence model that reads an instruction and ranks the answers that it names."""
