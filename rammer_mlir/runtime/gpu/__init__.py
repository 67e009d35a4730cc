"""Executes compiled programs on GPUs: drivers, device memory, launches."""
