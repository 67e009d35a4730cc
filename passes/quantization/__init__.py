"""Contractions of regions in 8 or 16 bits: ranges of values, scales, and the rewrite."""
