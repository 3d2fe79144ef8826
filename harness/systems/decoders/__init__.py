"""Causal language models that rank the answers an instruction names, as they are or after a training of products."""
