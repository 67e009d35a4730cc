"""The emulated device: launches, faults, traces; needs NumPy alone."""
