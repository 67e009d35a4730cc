"""Compiles a ``gpu.func`` to native code of the CPU that includes the emulator's runtime."""
