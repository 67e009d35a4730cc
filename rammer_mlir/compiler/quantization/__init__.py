"""Quantizes regions to 8 or 16 bits, by calibration runs and selection by noise."""
