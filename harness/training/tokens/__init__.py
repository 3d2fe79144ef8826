"""Texts as token ids: the backbone's tokenizer, lengths of rows in its tokens, and texts of a domain to read on in."""
