"""AMD GPUs: lowering from the gpu dialect to LLVM IR, objects and hsaco code objects."""
