"""Contains device descriptions, a TOML file for each device, and the code that reads them."""
