"""The network of the system ``bi-encoder``, and how it is trained; harness.systems.kinds.bi_encoder is its contract."""
