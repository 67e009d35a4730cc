"""Models with open dimensions: their specialisations, in memory and in artifacts."""
