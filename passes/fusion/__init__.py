"""Fusion: groups of operations that become rOperators, and the placement of their results."""
