"""Reduction of the memory of intermediates: recomputation, and rOperators computed in chunks."""
