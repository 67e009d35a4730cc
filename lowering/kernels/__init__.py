"""Contains building blocks of rKernels for every target."""
