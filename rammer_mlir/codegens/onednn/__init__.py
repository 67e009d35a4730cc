"""oneDNN as a code generator: regions become C that calls its primitives."""
