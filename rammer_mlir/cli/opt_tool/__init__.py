"""Parts of ``rammer-opt``: options, inputs, runs, and diagnostics."""
