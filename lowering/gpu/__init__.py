"""Persistent GPU kernels from rPrograms: thread mapping, memory, barriers and dispatch."""
