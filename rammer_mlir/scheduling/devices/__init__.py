"""Devices as data: a file for each, and what reads them."""
