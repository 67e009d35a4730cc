"""Compilation of a ``gpu.func`` to native code of the CPU, with the emulator's runtime in it."""
