"""Quantizes regions to 8 or 16 bits: calibrates ranges, measures noise, and decides per region."""
