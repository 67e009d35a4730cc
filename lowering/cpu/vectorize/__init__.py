"""From an rKernel's loops to vector operations."""
