"""RAMMER's evaluation (Ma et al., OSDI 2020): its studies and its exhibits."""
