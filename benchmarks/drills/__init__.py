"""Commands and readers against faults: a disk that fails at a random write, and inputs with random damage."""
