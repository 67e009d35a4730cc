"""The MLIR front end: imports modules that other tools produced or that the compiler printed."""
