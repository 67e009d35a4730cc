"""Lowers the gpu dialect for NVIDIA GPUs, to LLVM IR, PTX and cubin."""
