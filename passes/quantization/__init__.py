"""Quantizes contractions in regions to 8 or 16 bits: ranges, scales, and the rewrite."""
