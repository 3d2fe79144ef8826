"""From a study file to cells and packs, without any training library."""
