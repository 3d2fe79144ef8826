"""The raw files: which exist and are right, how they are downloaded, and how archives are unpacked."""
