"""What texts have to do with people: with those who wrote them, and with those who rate what was written to them."""
