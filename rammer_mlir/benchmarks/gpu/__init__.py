"""Benchmarks of GPU programs: what the tools say of their code, and what a GPU measures."""
