"""Which intermediate to choose before any transfer is run, how right such advice was, and how often by chance."""
