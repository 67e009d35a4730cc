"""Converts the gpu dialect to LLVM's, for both GPU targets."""
