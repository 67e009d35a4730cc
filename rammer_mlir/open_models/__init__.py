"""Runs models with open dimensions, by specialisations that are compiled or read from artifacts."""
