"""Forms regions of operations for foreign code generators.

The modules recognize the meaning of operations, match composites, and combine operations into
regions.
"""
