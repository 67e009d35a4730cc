"""GPU kernels executed on the CPU: the very ``gpu.func``, as native code, with optional checks."""
