"""How similar tasks are before any transfer, by their texts, the frozen encoder or trained adapters."""
