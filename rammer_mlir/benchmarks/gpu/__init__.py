"""Benchmark GPU programs: registers and spills of their code, and measurements on a GPU."""
