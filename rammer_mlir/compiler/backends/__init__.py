"""Contains a ``Backend`` for each target; no other module knows the target's name and tools."""
