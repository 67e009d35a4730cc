"""Reproduce RAMMER's evaluation (Ma et al., OSDI 2020): studies, figures and tables."""
