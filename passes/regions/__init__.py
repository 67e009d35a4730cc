"""Forms regions for foreign code generators: reads, matches, merges and splits operations."""
