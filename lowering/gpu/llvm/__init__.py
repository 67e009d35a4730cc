"""Converts the gpu dialect to the LLVM dialect, for NVIDIA and AMD GPUs."""
