"""Quantizes contractions in regions to 8 or 16 bits, by the value ranges of their operands."""
