"""From rows to trained cells: the recipe of a pack, its inputs, model, objective and batches, and two ways to train.

``library`` trains one cell through the adapters library's own modules; ``lanes`` many at once, to the same mathematics.
"""
