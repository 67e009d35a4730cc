"""IREE's compiler as a code generator: a region becomes an object, and a workgroup an rTask."""
