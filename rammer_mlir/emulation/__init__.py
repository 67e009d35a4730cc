"""Emulates GPU kernels on the CPU: compiles them (``codegen``) and launches them (``device``)."""
