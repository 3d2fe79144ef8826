"""All cells of a pack as lanes of one training: the frozen encoder once, adapters and heads stacked ``[K, ...]``."""
