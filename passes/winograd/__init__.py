"""Computes convolutions by Winograd's minimal filtering."""
