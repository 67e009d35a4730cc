"""Runs models with open dimensions by specialisations, which artifacts can contain."""
