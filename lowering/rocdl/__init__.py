"""Lowers the gpu dialect for AMD GPUs, to LLVM IR, objects and hsaco code objects."""
