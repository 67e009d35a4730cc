"""Devices as data: a TOML file for each, and the code that reads them."""
