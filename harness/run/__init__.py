"""From packs to stored records: the loop over the grid, one pack, and the notes of work under way."""
