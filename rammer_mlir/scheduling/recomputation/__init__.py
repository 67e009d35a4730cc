"""Which values are computed again rather than kept, so that fewer bytes are in use at once.

``steps`` says what operators read and write in their order, ``gaps`` where a value is kept only for
later, ``search`` which gaps it is cheapest to leave (checkpointing of Chen et al., 2016, for any
graph and any costs).
"""
