"""The studies that are shipped, as TOML files."""
