"""What rKernels are made of, for every target."""
