"""Reduces the memory of intermediates, by recomputation or by computing rOperators in chunks."""
