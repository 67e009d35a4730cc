"""NVIDIA GPUs: the gpu dialect to LLVM IR, PTX and cubin."""
