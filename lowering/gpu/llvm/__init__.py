"""From the gpu dialect to LLVM's, as both GPU targets share it."""
