"""How alike tasks are before any transfer: what needs the texts, the frozen encoder or the trained adapters."""
