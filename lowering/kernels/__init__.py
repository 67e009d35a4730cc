"""Building blocks of rKernels, for every target."""
