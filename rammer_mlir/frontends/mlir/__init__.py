"""The MLIR front end: modules of other producers, and stages that the compiler printed."""
