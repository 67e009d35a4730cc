"""LLVM IR, native objects, shared libraries and in-process loading, for any target of llvmlite."""
