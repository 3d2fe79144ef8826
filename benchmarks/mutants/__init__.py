"""Small wrong changes to the product, and whether the tests notice them."""
