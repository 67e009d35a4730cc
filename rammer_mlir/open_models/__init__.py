"""Runs models with open dimensions, by specializations that are compiled or read from artifacts."""
