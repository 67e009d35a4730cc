"""NVIDIA GPUs: lowering from the gpu dialect to LLVM IR, PTX and cubin."""
