"""Folding of constants: which values decide about shapes, and the sweep that evaluates nodes."""
