"""The frozen encoder of a study: where it comes from, and whether its weights and its tokenizer are sound."""
