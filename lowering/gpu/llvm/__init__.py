"""Conversion from the gpu dialect to LLVM's, shared by both GPU targets."""
