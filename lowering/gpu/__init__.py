"""Lowers rPrograms to persistent GPU kernels: thread mapping, memory, barriers and dispatch."""
