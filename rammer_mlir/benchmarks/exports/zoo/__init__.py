"""Small models of each architecture with random weights, and their exporters."""
