"""Regions that the host computes itself, so that passes can change what is inside of them."""
