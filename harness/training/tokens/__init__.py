"""Texts as token ids: the backbone's tokenizer, and what is kept of its work beside the data."""
