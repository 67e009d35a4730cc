"""The emulated device: launches, faults and traces; needs NumPy and no compiler."""
