"""AMD GPUs: the gpu dialect to LLVM IR, objects and hsaco code objects."""
