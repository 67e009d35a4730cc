"""Models with open dimensions: their specializations, in memory and in files."""
