"""Forms regions that quantization can rewrite, and for which no foreign code is generated."""
