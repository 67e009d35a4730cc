"""Experiments on the simulator that no paper has: policies on random modules, and large graphs."""
