"""Contains helpers for all layers: files, folders, aligned memory, processor features."""
