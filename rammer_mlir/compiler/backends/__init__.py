"""Targets: each is a ``Backend``, the only module that knows the target's name and tools."""
