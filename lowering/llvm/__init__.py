"""Compiles, links and loads LLVM IR, for any target of llvmlite."""
