"""Compilation of a ``gpu.func`` to native code that calls the emulator."""
