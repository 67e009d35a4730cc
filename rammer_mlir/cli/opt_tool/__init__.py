"""The parts of ``rammer-opt``: its options, its input, its runs, and its diagnostics."""
