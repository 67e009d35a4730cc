"""The MLIR front end: modules of other producers, and stages printed by the compiler."""
