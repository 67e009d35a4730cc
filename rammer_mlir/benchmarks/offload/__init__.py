"""Evaluation of code generators: what they take of models, and what that costs and gains."""
