"""Models behind a server: the call, its price, the answers that were paid for, and how a row is asked about."""
