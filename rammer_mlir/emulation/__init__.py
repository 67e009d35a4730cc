"""Emulation of GPU kernels on the CPU: compilation (``codegen``) and launches (``device``)."""
