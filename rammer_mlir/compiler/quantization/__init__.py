"""Quantization of regions to 8 or 16 bits: calibration runs, and selection by noise."""
