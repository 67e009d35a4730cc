"""Benchmarks of GPU programs: reports of the assembling tools, and measurements on a GPU."""
